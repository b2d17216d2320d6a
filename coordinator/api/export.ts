/** Samples as they are stored, for who takes them elsewhere: lines of JSON, or CSV. */
import type { Turning } from '#engine/aside/aside.ts';
import { freeWhenSent } from '#lib/env/in_flight/freed_bytes.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { Turns } from '#lib/turns/turns.ts';
import { CsvLines } from '../export/csv.ts';
import { JsonLines } from '../export/json_lines.ts';
import { type ExportCounts, exportRows, pieceCharacters } from '../export/rows.ts';
import { withoutTags } from '../forced_tags/forced_tags.ts';
import type { ApiAnswer, ApiRequest } from '../http/http_api.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import {
  boundParameter,
  checkOrder,
  checkRange,
  ofParameter,
  selectorsOf,
} from '../http/parameters.ts';
import { type QuerySettings, rangeMillisMaxOf, readOptionsOf } from '../reads/options.ts';
import { Pacer } from '../promql/rows/pacer.ts';
import type { SelectRange, SelectResult, StorageFor } from '../select/storage.ts';
import type { ParseSelectors } from './labels.ts';
import type { Clock } from '#lib/env/env.ts';

export interface ExportSetup {
  readonly storageFor: StorageFor<ApiRequest>;
  readonly parseSelectors: ParseSelectors;
  readonly turningOf: (signal: AbortSignal) => Turning;
  readonly settings: QuerySettings;
  readonly clock: Clock;
}

type Lines = JsonLines | CsvLines;

export function exportSeries(
  setup: ExportSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const format = parameters.get('format') || 'json';
  if (format === 'json') return exported(setup, request, parameters, new JsonLines());
  if (format === 'csv') return exportColumns(setup, request, parameters, 'columns');
  throw badRequest(`format: neither json nor csv: ${shownText(format)}`);
}

/** As VictoriaMetrics has it: `format` are the columns. */
export function exportCsv(
  setup: ExportSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  return exportColumns(setup, request, parameters, 'format');
}

function exportColumns(
  setup: ExportSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
  name: string,
): Promise<ApiAnswer> {
  return exported(setup, request, parameters, new CsvLines(parameters.get(name) ?? '', name));
}

async function exported(
  { storageFor, parseSelectors, turningOf, settings, clock }: ExportSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
  lines: Lines,
): Promise<ApiAnswer> {
  const selectors = selectorsOf(parameters, 1);
  const now = clock.nowNanos();
  const startNanos = boundParameter(parameters, 'start', now, 0n);
  const lastNanos = boundParameter(parameters, 'end', now, startNanos > now ? startNanos : now);
  checkOrder(startNanos, lastNanos);
  if ((parameters.get('start') ?? '') !== '') {
    checkRange(startNanos, lastNanos, rangeMillisMaxOf(request, parameters, settings));
  }
  const { timeoutMillis, limits } = readOptionsOf(request, parameters, settings);
  const signal = clock.deadline(timeoutMillis, request.signal);
  const matcherLists = await ofParameter('match[]', parseSelectors(selectors, turningOf(signal)));
  // The end of such a request is inclusive.
  const range = { startNanos, endNanos: lastNanos + 1n };
  const work = Turns.of(clock).begin(signal);
  const storage = storageFor(request);
  const found = await work.outside(storage.selectAny(matcherLists, range, limits, signal));
  const { exhaustive, warnings } = found;
  const bundle = await withoutTags(found.bundle, storage.hidden, work);
  return {
    status: 200,
    headers: {
      'Content-Type': lines.contentType,
      ...answerHeaders({
        timeoutMillis,
        seriesLimited: !exhaustive,
        warnings,
        seriesCount: bundle.seriesCount,
        read: limits.read,
      }),
    },
    body: pieces(
      { ...found, bundle },
      range,
      lines,
      new Pacer(work, Number.POSITIVE_INFINITY, request.readMemory),
    ),
  };
}

/** Made as fast as they are taken. */
async function* pieces(
  { bundle }: SelectResult,
  range: SelectRange,
  lines: Lines,
  pacer: Pacer,
): AsyncIterable<Uint8Array> {
  const counts: ExportCounts = { series: 0, samples: 0, histogramsLeftOut: 0 };
  let text = '';
  for await (const rows of exportRows(bundle, range, counts, pacer)) {
    for (const more of lines.texts(rows)) {
      text += more;
      if (text.length < pieceCharacters) continue;
      // So long a text has memory of its own.
      yield freeWhenSent(Buffer.from(text));
      if (pacer.spend(text.length)) await pacer.pause();
      text = '';
    }
  }
  text += lines.end(counts);
  if (text.length > 0) yield Buffer.from(text);
}
