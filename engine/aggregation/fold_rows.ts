/** Rows of a series to windows, from chunks as storage has them. */
import { TsdbError } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { readFloats } from '../store/chunk_merge.ts';
import { readMixedRows } from '../store/read/mixed_rows.ts';
import { hasTyped } from '../store/typed_chunks.ts';
import type { WindowFold } from './fold.ts';

type AddRows = (to: Folding, parts: readonly Uint8Array[], range: TimeRange) => void;
type TimeRange = readonly [startNanos: bigint, endNanos: bigint];

/** A series that is folded. */
export interface Folding {
  readonly fold: WindowFold;
  readonly resolutionNanos: bigint;
  /** By end: versions of windows, where they are later than those of their times; null for who does not ask. */
  readonly versions: Map<bigint, number> | null;
}

/**
 * Adds the floats of a series that have a time in the range.
 * @param parts chunks of floats and typed rows, in any order
 * @throws {TsdbError} BAD_REQUEST when one is malformed
 */
export function foldRows(folding: Folding, parts: readonly Uint8Array[], range: TimeRange): void {
  addDivided(hasTyped(parts) ? addFloatsOfMixed : addFloats, folding, parts, range);
}

/** Where there are more rows than can be decoded at once, one half of their time after the other. */
function addDivided(
  add: AddRows,
  folding: Folding,
  parts: readonly Uint8Array[],
  range: TimeRange,
): void {
  try {
    add(folding, parts, range);
  } catch (error) {
    const [from, to] = range;
    const isDivisible = error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED';
    if (!isDivisible || to - from < 2n) throw error;
    const middle = (from + to) / 2n;
    addDivided(add, folding, parts, [from, middle]);
    addDivided(add, folding, parts, [middle, to]);
  }
}

function addFloats(folding: Folding, parts: readonly Uint8Array[], range: TimeRange): void {
  const { timestampNanos, values, lags } = readFloats(parts, range);
  if (timestampNanos.length === 0) return;
  noteVersions(folding, timestampNanos, lags);
  folding.fold.add(timestampNanos, values);
}

/** Rows that are floats, where typed ones may have taken their place. */
function addFloatsOfMixed(folding: Folding, parts: readonly Uint8Array[], range: TimeRange): void {
  const { timestampNanos, values, lags, typed } = readMixedRows(parts, range);
  const places = typed.flatMap((value, i) => (value === null ? [i] : []));
  if (places.length === 0) return;
  const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
  const kept = BigUint64Array.from(places, (i) => bits[i]!);
  const times = BigInt64Array.from(places, (i) => timestampNanos[i]!);
  noteVersions(
    folding,
    times,
    BigInt64Array.from(places, (i) => lags[i]!),
  );
  folding.fold.add(times, new Float64Array(kept.buffer));
}

/**
 * Windows that have rows of later versions than those of their own times: else one that was made before a row was written
 * anew might stay, which has as many rows.
 */
function noteVersions(
  { resolutionNanos, versions }: Folding,
  timestampNanos: BigInt64Array,
  lags: BigInt64Array,
): void {
  if (versions === null) return;
  // Rows that are written as they come about have none.
  const words = new Int32Array(lags.buffer, lags.byteOffset, 2 * lags.length);
  let anyBits = 0;
  for (let i = 0; i < words.length; i++) anyBits |= words[i]!;
  if (anyBits === 0) return;
  for (let i = 0; i < lags.length; i++) {
    if (lags[i]! <= 0n) continue;
    const version = Number(versionAtNanos(timestampNanos[i]!) + lags[i]!);
    const end = windowEndOf(timestampNanos[i]!, resolutionNanos);
    if (version <= Math.max(Number(versionAtNanos(end)), versions.get(end) ?? 0)) continue;
    versions.set(end, version);
  }
}

/** The end of the window that a time is in. */
function windowEndOf(nanos: bigint, resolutionNanos: bigint): bigint {
  const rest = nanos % resolutionNanos;
  return rest === 0n ? nanos : nanos - rest + (rest < 0n ? 0n : resolutionNanos);
}
