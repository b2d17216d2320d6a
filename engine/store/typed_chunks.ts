/**
 * Chunks of typed rows outside of a store: merged, cut and digested, beside those of floats. A time may have a float
 * and a typed value, both of which stay: which of them wins is for who reads both.
 */
import { type ChunkKind, parseChunkHeader } from '../codec/chunk.ts';
import { kindsAll, kindTyped } from '../codec/layout.ts';
import { TsdbError } from '#lib/errors.ts';
import {
  allTimes,
  ChunkWorkshop,
  chunksAt,
  malformedPart,
  type RowCut,
  type TakenTyped,
} from './workshop.ts';

const workshop = new ChunkWorkshop();

/** Whether one of the chunks is of typed rows. */
export function hasTyped(parts: readonly Uint8Array[]): boolean {
  return hasKind(kindTyped, parts);
}

/** Whether one of the chunks is of a kind. Walks over lengths alone: whoever reads the chunks checks them. */
export function hasKind(kind: ChunkKind, parts: readonly Uint8Array[]): boolean {
  return parts.some((part) => {
    // As `spansOf`, without an object for each chunk: every flush and every digest asks.
    for (let at = 0; at < part.length; ) {
      let length = 0;
      let scale = 1;
      for (let byte = 128; byte >= 128; scale *= 128) {
        byte = part[at++] ?? 0;
        length += (byte & 127) * scale;
      }
      if ((part[at]! & 15) === kind) return true;
      at += length;
    }
    return false;
  });
}

interface Span {
  readonly kind: number;
  readonly start: number;
  readonly end: number;
}

function* spansOf(part: Uint8Array): Generator<Span> {
  for (let at = 0; at < part.length; ) {
    const start = at;
    let length = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = part[at++] ?? 0;
      length += (byte & 127) * scale;
      if (byte < 128) break;
      if (scale > 2 ** 42) throw malformedPart();
    }
    const end = at + length;
    if (end > part.length) throw malformedPart();
    yield { kind: part[at]! & 15, start, end };
    at = end;
  }
}

/** Chunks of floats and of typed rows apart, each in their order. */
export function apart(parts: readonly Uint8Array[]): {
  readonly floats: Uint8Array[];
  readonly typed: Uint8Array[];
} {
  const floats: Uint8Array[] = [];
  const typed: Uint8Array[] = [];
  for (const part of parts) {
    for (const { kind, start, end } of spansOf(part)) {
      (kind === kindTyped ? typed : floats).push(part.subarray(start, end));
    }
  }
  return { floats, typed };
}

/**
 * Rows with a time in the range, as long chunks in ascending time, every time once.
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when there are more values than can be
 *   merged (64 MiB)
 */
export function mergeTyped(
  chunks: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): Uint8Array {
  const { kernel, end, rowCount, valueBytes, work, out } = takeIn(chunks, range, 0);
  const args = [chunksAt, end, ...range, rowCount, valueBytes, work, out] as const;
  return workshop.handOut(out, kernel.mergeTyped(...args) >>> 0);
}

/** So many chunks that overlap are merged at once, and those that reach into their times: they fit, and it is some milliseconds' work. */
const mergedChunksMost = 16;

/**
 * Typed chunks, one by one, in ascending time, every time once: as they are where they do not overlap, merged where they do.
 * Those without a row in the range are left out; of the others it may be that some rows are outside.
 * @throws {TsdbError} as `mergeTyped()`, of chunks that have rows of about the same time
 */
export function typedInOrder(
  chunks: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): Uint8Array[] {
  return [...eachTypedInOrder(chunks, range)];
}

interface ChunkSpan {
  readonly chunk: Uint8Array;
  readonly firstNanos: bigint;
  readonly lastNanos: bigint;
}

/** As `typedInOrder`, for who gives way between two of them. */
export function* eachTypedInOrder(
  chunks: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): Generator<Uint8Array> {
  const [startNanos, endNanos] = range;
  const spans = chunks
    .map((chunk) => ({ chunk, ...parseChunkHeader(chunk, 0, chunk.length, kindsAll) }))
    .filter(({ firstNanos, lastNanos }) => firstNanos < endNanos && lastNanos >= startNanos)
    .sort((a, b) => (a.firstNanos < b.firstNanos ? -1 : a.firstNanos > b.firstNanos ? 1 : 0));
  for (let at = 0, next = 0; at < spans.length; at = next) {
    let { lastNanos } = spans[at]!;
    for (next = at + 1; next < spans.length && spans[next]!.firstNanos <= lastNanos; next++) {
      if (spans[next]!.lastNanos > lastNanos) lastNanos = spans[next]!.lastNanos;
    }
    if (next === at + 1) yield spans[at]!.chunk;
    else yield* mergedInOrder(spans.slice(at, next), range);
  }
}

/** @param spans in the order of their first rows; each overlaps one before */
function* mergedInOrder(
  spans: readonly ChunkSpan[],
  [startNanos, endNanos]: readonly [startNanos: bigint, endNanos: bigint],
): Generator<Uint8Array> {
  let open: ChunkSpan[] = [];
  let from = startNanos;
  for (let next = 0; next < spans.length; ) {
    let to = endNanos;
    for (let count = 0; next < spans.length; count++, next++) {
      const { firstNanos } = spans[next]!;
      if (count >= mergedChunksMost && firstNanos > from) {
        to = firstNanos;
        break;
      }
      open.push(spans[next]!);
    }
    const merged = mergeTyped(
      open.map(({ chunk }) => chunk),
      [from, to],
    );
    yield* apart([merged]).typed;
    open = open.filter(({ lastNanos }) => lastNanos >= to);
    from = to;
  }
}

/**
 * The rows of a chunk that no deletion covers, as chunks: the very bytes when these are all.
 * @throws {TsdbError} as `mergeTyped()`
 */
export function cutTyped(chunk: Uint8Array, cuts: readonly RowCut[]): Uint8Array {
  const taken = takeIn([chunk], allTimes, workshop.roomForCuts(cuts));
  const { kernel, end, rowCount, valueBytes, work } = taken;
  const { cutsAt, out } = workshop.putCuts(taken.out, cuts);
  const args = [chunksAt, end, cutsAt, cuts.length, rowCount, valueBytes, work, out] as const;
  const keptEnd = kernel.cutTyped(...args) >>> 0;
  const isWhole = kernel.answer() === 0;
  const kept = workshop.handOut(out, keptEnd);
  return isWhole ? chunk : kept;
}

/**
 * The digest of the rows with a time in the range; of the ID, and of time, start time, kind, layout and fields of each
 * row.
 * @param hashedId what `hashId` of the kernel gives
 * @throws {TsdbError} as `mergeTyped()`
 */
export function digestTyped(
  hashedId: readonly [low: bigint, high: bigint],
  chunks: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): { readonly low: bigint; readonly high: bigint } {
  const { kernel, end, rowCount, valueBytes, work, out } = takeIn(chunks, range, 32);
  new BigUint64Array(workshop.buffer, out, 2).set(hashedId);
  kernel.digestTyped(out, chunksAt, end, ...range, rowCount, valueBytes, work, out + 16);
  const [low, high] = new BigUint64Array(workshop.buffer, out + 16, 2);
  workshop.tidy();
  return { low: low!, high: high! };
}

/** Typed rows in ascending time, every time once, as columns of their own. */
export interface ReadTypedRows {
  readonly timestampNanos: BigInt64Array;
  /** From a row's time to its version, in 1/64 milliseconds. */
  readonly lags: BigInt64Array;
  /** Unix nanoseconds, 0 for none. */
  readonly startNanos: BigInt64Array;
  readonly values: readonly Uint8Array[];
}

/**
 * Rows with a time in the range.
 * @throws {TsdbError} as `mergeTyped()`
 */
export function readTyped(
  chunks: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): ReadTypedRows {
  const { kernel, end, rowCount, valueBytes, work, out } = takeIn(chunks, range, 64);
  const args = [chunksAt, end, ...range, rowCount, valueBytes, work, out] as const;
  const count = kernel.readTyped(...args);
  const { buffer } = workshop;
  const [times, lags, starts, places] = new Uint32Array(buffer, out, 4);
  const column = (at: number) => new BigInt64Array(buffer, at, count).slice();
  const words = new Uint32Array(buffer, places!, 2 * count);
  const values = Array.from({ length: count }, (_, row) =>
    new Uint8Array(buffer, words[2 * row]!, words[2 * row + 1]!).slice(),
  );
  const rows = {
    timestampNanos: column(times!),
    lags: column(lags!),
    startNanos: column(starts!),
    values,
  };
  workshop.tidy();
  return rows;
}

function takeIn(
  chunks: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
  outBytes: number,
): TakenTyped {
  const taken = workshop.takeInTyped(chunks, range, outBytes);
  if (taken !== null) return taken;
  throw new TsdbError(
    'RESOURCE_EXHAUSTED',
    'cannot merge, cut or read chunks: a series has more typed values than can be merged',
  );
}
