/**
 * Rows that clients send here, which are not kept as they come: they go where coordinators put what rules drop
 * (docs/AGGREGATION.md, Rules), and windows and rollups are made of them there.
 */
import type { Companion } from '#cluster/namespaces/companion.ts';
import { OneWriteSeries, type SeriesOfWrite, seriesOfTags } from '#cluster/session/one_write.ts';
import {
  describeOutcome,
  isRetryable,
  writeOutcome,
} from '#cluster/session/outcomes/write_result.ts';
import type { Session } from '#cluster/session/session.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { resolutionsFormatLevel } from '#lib/format_level.ts';
import type { CounterMetric, Metrics } from '#lib/metrics.ts';
import type { IdScheme } from '#lib/series_id/scheme.ts';
import { sortTags, type Tag, type TagRules, tagsProblem } from '#lib/tags.ts';
import { type RefusedSeries, rowsMax, type SeriesRows } from './write_wire.ts';

/** Until it is READY where it was not: nodes take a new namespace up within seconds. */
const readyMillisMax = 10_000;

export interface AsideRowsOptions {
  readonly session: Pick<Session, 'write' | 'formatLevel'>;
  /** `_dropped`. */
  readonly companion: Pick<Companion, 'name' | 'prepare' | 'becomesReady'>;
  readonly idScheme: IdScheme;
  readonly tagRules: TagRules;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

export class AsideRows {
  readonly #options: AsideRowsOptions;
  readonly #written: CounterMetric;
  readonly #refused: CounterMetric;

  constructor(options: AsideRowsOptions) {
    this.#options = options;
    const { metrics } = options;
    this.#written = metrics.counter(
      'tsdb_aggregator_written_rows_total',
      'Rows of clients that are kept for windows and rollups alone.',
    );
    this.#refused = metrics.counter(
      'tsdb_aggregator_refused_rows_total',
      'Rows of clients that are bad for good.',
    );
  }

  /** @throws {TsdbError} BAD_REQUEST, and what passes: all of them are to be sent again then */
  async write(list: readonly SeriesRows[], signal: AbortSignal): Promise<RefusedSeries[]> {
    const { session, companion, idScheme, tagRules } = this.#options;
    const rowCount = list.reduce((sum, { values }) => sum + values.length, 0);
    if (rowCount > rowsMax) {
      throw badRequest(`series: there are ${rowCount} rows of ${rowsMax} at most`);
    }
    await this.#ready();
    const refused: RefusedSeries[] = [];
    const series: SeriesOfWrite[] = [];
    /** Of each series that is written its place in the request. */
    const places: number[] = [];
    for (const [place, { tags, values }] of list.entries()) {
      const reason = tagsProblem(tags, tagRules);
      if (reason === null && values.length > 0) {
        places.push(place);
        series.push(seriesOfTags(sortTags(tags as Tag[]), idScheme));
      } else if (reason !== null) refused.push({ series: place, rows: values.length, reason });
    }
    const slots = places.flatMap((place, slot) =>
      Array.from({ length: list[place]!.values.length }, () => slot),
    );
    if (slots.length > 0) {
      const { outcomes } = await session.write(
        companion.name,
        {
          rowCount: slots.length,
          slots: Uint32Array.from(slots),
          generations: new Uint32Array(slots.length).fill(1),
          mayBeRefused: false,
          timestamps: joined(
            BigInt64Array,
            places.map((place) => list[place]!.timestampNanos),
          ),
          timeUnitNanos: 1,
          values: joined(
            Float64Array,
            places.map((place) => list[place]!.values),
          ),
          startNanos: null,
        },
        new OneWriteSeries(series),
        signal,
      );
      if (outcomes !== null) refused.push(...refusedOf(outcomes, slots, places));
    }
    const rows = refused.reduce((sum, one) => sum + one.rows, 0);
    this.#refused.increase(rows);
    this.#written.increase(rowCount - rows);
    return refused.sort((a, b) => a.series - b.series);
  }

  async #ready(): Promise<void> {
    const { session, companion } = this.#options;
    const text =
      session.formatLevel < resolutionsFormatLevel
        ? 'nodes of the release before make no windows: tsdbctl upgrade finish'
        : companion.prepare() || (await companion.becomesReady(readyMillisMax))
          ? null
          : `namespace ${companion.name} is not ready yet`;
    if (text !== null) throw new TsdbError('UNAVAILABLE', `rows are not taken now: ${text}`);
  }
}

/** @throws {TsdbError} when some may be written once more, which all are then */
function refusedOf(
  outcomes: ArrayLike<number>,
  slots: readonly number[],
  places: readonly number[],
): RefusedSeries[] {
  const bySlot = new Map<number, { series: number; rows: number; reason: string }>();
  for (const [row, slot] of slots.entries()) {
    const outcome = outcomes[row]!;
    if (outcome === writeOutcome.written) continue;
    if (isRetryable(outcome)) {
      const code =
        outcome === writeOutcome.resourceExhausted ? 'RESOURCE_EXHAUSTED' : 'UNAVAILABLE';
      throw new TsdbError(code, `rows are not all written: ${describeOutcome(outcome)}`);
    }
    const known = bySlot.get(slot);
    if (known !== undefined) known.rows += 1;
    else bySlot.set(slot, { series: places[slot]!, rows: 1, reason: describeOutcome(outcome) });
  }
  return [...bySlot.values()];
}

function joined<T extends BigInt64Array | Float64Array>(
  type: new (length: number) => T,
  parts: readonly T[],
): T {
  const all = new type(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part as never, at);
    at += part.length;
  }
  return all;
}
