/** The rows of one chunk, whatever their kind: for who goes through them one by one. */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { decodeChunk } from '../chunk_merge.ts';
import { chunkHeaders, kindsAll } from '../../codec/chunk.ts';
import { pickRows, resultOf, type RowsOfKind } from '../rows.ts';
import { appendRows, type SampleStore } from '../sample_store.ts';
import { hasTyped, readTyped } from '../typed_chunks.ts';
import { allTimes } from '../workshop.ts';

/** Rows in strictly ascending time, in nanoseconds, as columns of their own. */
export interface ChunkContents {
  readonly rows: RowsOfKind;
  readonly rowVersions: Float64Array;
}

/**
 * @param slot of the series, with its generation; of all rows
 * @throws {TsdbError} BAD_REQUEST when the chunk is malformed, RESOURCE_EXHAUSTED when it stands for more than is read
 *   at once
 */
export function contentsOf(
  chunk: Uint8Array,
  slot: number = 0,
  generation: number = 0,
): ChunkContents {
  const common = (rowCount: number) => ({
    rowCount,
    slots: new Uint32Array(rowCount).fill(slot),
    generations: new Uint32Array(rowCount).fill(generation),
    timeUnitNanos: 1,
  });
  if (hasTyped([chunk])) {
    const { timestampNanos: timestamps, lags, startNanos, values } = readTyped([chunk], allTimes);
    const rowVersions = Float64Array.from(timestamps, (nanos, row) =>
      Number(versionAtNanos(nanos) + lags[row]!),
    );
    let length = 0;
    const valueEnds = Uint32Array.from(values, (value) => (length += value.length));
    const valueBytes = new Uint8Array(Buffer.concat(values));
    const rows = { ...common(values.length), timestamps, startNanos, valueEnds, valueBytes };
    return { rows: { kind: 'typed', rows }, rowVersions };
  }
  const { timestampNanos: timestamps, values, rowVersions, startNanos } = decodeChunk(chunk);
  const rows = { ...common(values.length), timestamps, values };
  return {
    rows: { kind: 'float', rows: startNanos === null ? rows : { ...rows, startNanos } },
    rowVersions,
  };
}

/**
 * Appends the rows of chunks one by one, when the store does not take the chunks as they are: rows that were admitted
 * once are taken by the reserve, however many values their block has.
 * @param chunks of one series
 * @throws {TsdbError} as `contentsOf`
 */
export function appendChunks(store: SampleStore, slot: number, chunks: Uint8Array): void {
  const outcomes = new Uint8Array(1);
  let start = 0;
  for (const { end } of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
    const chunk = chunks.subarray(start, end);
    start = end;
    const { rows, rowVersions } = contentsOf(chunk, slot, store.generation[slot]);
    for (const [row, version] of rowVersions.entries()) {
      resultOf(
        appendRows(store, pickRows(rows, Uint32Array.of(row)), version, outcomes.fill(0), false),
      );
    }
  }
}
