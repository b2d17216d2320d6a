/** The answer of remote read as JSON, as M3 gives it to people. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { Tags } from '#lib/tags.ts';
import { exportRows } from '../export/rows.ts';
import type { Pacer } from '../promql/rows/pacer.ts';
import type { ReadRange } from '../remote/answer.ts';
import type { ReadQuery } from '../remote/messages.ts';

const typeOfKind = { '=': 'EQ', '!=': 'NEQ', '=~': 'RE', '!~': 'NRE' } as const;

/** Series of each query. */
export interface ReadFound {
  readonly query: ReadQuery;
  readonly range: ReadRange;
  readonly bundle: SeriesBundle;
}

/** Text that is handed to the connection at once. */
const pieceCharacters = 64 << 10;

/**
 * `{queries: [{query: {matchers}, start, end, series: [{start, end, tags, datapoints: [{val, ts}]}]}], warnings?}`.
 * @param warnings why it may be less than whole
 */
export async function* readJson(
  all: AsyncIterable<ReadFound>,
  warnings: readonly string[],
  pacer: Pacer,
): AsyncGenerator<Uint8Array> {
  let text = '{"queries":[';
  let isFirst = true;
  for await (const { query, range, bundle } of all) {
    const matchers = query.matchers.map(({ kind, name, value }) => ({
      type: typeOfKind[kind],
      name,
      value,
    }));
    const times = `"start":"${isoOf(query.startMillis)}","end":"${isoOf(query.endMillis)}"`;
    text += `${isFirst ? '' : ','}{"query":${JSON.stringify({ matchers })},${times},"series":[`;
    isFirst = false;
    let open: Tags | null = null;
    const counts = { series: 0, samples: 0, histogramsLeftOut: 0 };
    for await (const rows of exportRows(bundle, range, counts, pacer)) {
      if (rows.tags !== open) {
        const tags = rows.tags.map(({ name, value }) => [name, value]);
        const before = open === null ? '' : ']},';
        text += `${before}{${times},"tags":${JSON.stringify(tags)},"datapoints":[`;
      }
      for (let row = 0; row < rows.rowCount; row++) {
        const comma = row === 0 && rows.tags !== open ? '' : ',';
        text += `${comma}{"val":"${formatNumber(rows.values[row]!)}","ts":"${isoOf(rows.millis[row]!)}"}`;
      }
      open = rows.tags;
      if (text.length < pieceCharacters) continue;
      yield Buffer.from(text);
      text = '';
    }
    text += open === null ? ']}' : ']}]}';
  }
  const said = warnings.length === 0 ? '' : `,"warnings":${JSON.stringify(warnings)}`;
  yield Buffer.from(`${text}]${said}}\n`);
}

function isoOf(millis: number): string {
  const date = new Date(millis);
  return Number.isNaN(date.getTime()) ? String(millis) : date.toISOString();
}
