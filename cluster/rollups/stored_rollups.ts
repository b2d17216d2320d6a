/** Rollups of a namespace as they are stored: rows of floats at the ends of windows, the last writing of which stays. */
import type { ReducedRow } from '../aggregation_rules/rollups/reduce.ts';
import type { Session } from '../session/session.ts';
import { isRetryable, describeOutcome, writeOutcome } from '../session/outcomes/write_result.ts';
import { readFloats } from '#engine/store/chunk_merge.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { shownText, TsdbError } from '#lib/errors.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { Log } from '#lib/log.ts';
import type { IdScheme } from '#lib/series_id/scheme.ts';
import type { Tags } from '#lib/tags.ts';
import { OneWriteSeries, type SeriesOfWrite, seriesOfTags } from '../session/one_write.ts';
import type { RowsRange } from './parts/rows.ts';

/** Rows of one write. */
const rowsAtOnce = 2_000;
/** Of series that cannot be stored, whatever their rows are. */
const seriesRefused: readonly number[] = [writeOutcome.badSeries, writeOutcome.otherTags];

export class StoredRollups {
  readonly #session: Pick<Session, 'fetch' | 'write'>;
  readonly #namespace: string;
  readonly #idScheme: IdScheme;
  readonly #log: Log;
  #hasToldRefused = false;

  constructor(
    session: Pick<Session, 'fetch' | 'write'>,
    namespace: string,
    idScheme: IdScheme,
    log: Log,
  ) {
    this.#session = session;
    this.#namespace = namespace;
    this.#idScheme = idScheme;
    this.#log = log;
  }

  /** The last row in a range of each series that has one. */
  async eachLast(
    query: IndexQuery,
    range: RowsRange,
    visit: (tags: Uint8Array, value: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { bundle } = await this.#session.fetch(
      {
        namespace: this.#namespace,
        query,
        ...range,
        seriesLimit: 0,
        requireExhaustive: true,
        fetchData: true,
        consistency: 'majority',
      },
      signal,
    );
    const { seriesCount, tagsData, tagsOffset, chunkData, chunkOffset } = bundle;
    for (let i = 0; i < seriesCount; i++) {
      const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
      const { values } = readFloats(apart([chunks]).floats, [range.startNanos, range.endNanos]);
      const last = values.at(-1);
      if (last !== undefined) visit(tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!), last);
    }
  }

  /**
   * What a client has named so that the rollup of it can be no series is left out: others do not wait for it.
   * @throws {TsdbError} UNAVAILABLE when some may be written once more, which all are then
   */
  async write(rows: readonly ReducedRow[], signal: AbortSignal): Promise<void> {
    for (let first = 0; first < rows.length; first += rowsAtOnce) {
      await this.#writeSome(rows.slice(first, first + rowsAtOnce), signal);
    }
  }

  async #writeSome(rows: readonly ReducedRow[], signal: AbortSignal): Promise<void> {
    const slotOf = new Map<Tags, number>();
    const series: SeriesOfWrite[] = [];
    const slots = Uint32Array.from(rows, ({ tags }) => {
      let slot = slotOf.get(tags);
      if (slot === undefined) {
        slotOf.set(tags, (slot = series.length));
        series.push(seriesOfTags(tags, this.#idScheme));
      }
      return slot;
    });
    const { outcomes } = await this.#session.write(
      this.#namespace,
      {
        rowCount: rows.length,
        slots,
        generations: new Uint32Array(rows.length).fill(1),
        mayBeRefused: false,
        timestamps: BigInt64Array.from(rows, ({ nanos }) => nanos),
        timeUnitNanos: 1,
        values: Float64Array.from(rows, ({ value }) => value),
        startNanos: null,
      },
      new OneWriteSeries(series),
      signal,
    );
    const refused = outcomes?.findIndex((outcome) => seriesRefused.includes(outcome)) ?? -1;
    if (refused >= 0) this.#tellRefused(rows[refused]!, outcomes![refused]!);
    const failed = outcomes?.find(
      (outcome) => outcome !== writeOutcome.written && !seriesRefused.includes(outcome),
    );
    if (failed === undefined) return;
    const text = `rollups were not written to namespace ${this.#namespace}: ${describeOutcome(failed)}`;
    throw new TsdbError(isRetryable(failed) ? 'UNAVAILABLE' : 'FAILED_PRECONDITION', text);
  }

  #tellRefused({ tags }: ReducedRow, outcome: number): void {
    if (this.#hasToldRefused) return;
    this.#hasToldRefused = true;
    const fields = {
      namespace: this.#namespace,
      series: shownText(JSON.stringify(tags)),
      reason: describeOutcome(outcome),
    };
    this.#log.warn(fields, 'some rollups cannot be stored, and are left out');
  }
}
