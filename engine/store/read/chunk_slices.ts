/** Chunks of a series by slices of time, for who goes through many rows of it. */
import { chunkHeaders, kindsAll } from '../../codec/chunk.ts';

/** Rows of the chunks that a slice begins with, and bytes of them; it has more only where chunks overlap. */
export interface SliceLimits {
  readonly rowsMax: number;
  readonly bytesMax: number;
}

/** All chunks that have rows in [from, to); they may have others, too. */
export interface ChunkSlice {
  readonly parts: readonly Uint8Array[];
  readonly from: bigint;
  readonly to: bigint;
}

const int64Max = 2n ** 63n - 1n;

/** A chunk, and the times that it has. */
interface Part {
  readonly bytes: Uint8Array;
  readonly rowCount: number;
  readonly firstNanos: bigint;
  readonly lastNanos: bigint;
}

/**
 * @param chunks of any kinds, one after the other
 * @param unitNanos rows of one such unit of time are in one slice
 * @returns in ascending time; together they have all rows of the range
 */
export function* chunkSlices(
  chunks: Uint8Array,
  { startNanos, endNanos }: { readonly startNanos: bigint; readonly endNanos: bigint },
  unitNanos: bigint,
  { rowsMax, bytesMax }: SliceLimits,
): Generator<ChunkSlice> {
  const end = clamped(endNanos);
  const parts = partsOf(chunks).filter(
    ({ firstNanos, lastNanos }) => firstNanos < end && lastNanos >= startNanos,
  );
  let from = clamped(startNanos);
  let open: Part[] = [];
  for (let next = 0; next < parts.length; ) {
    let rowCount = 0;
    let byteCount = 0;
    let to = end;
    for (; next < parts.length; next++) {
      const part = parts[next]!;
      const begin = unitBegin(part.firstNanos, unitNanos);
      // A slice ends where a chunk begins, so that few are read twice.
      if ((rowCount >= rowsMax || byteCount >= bytesMax) && begin > from) {
        to = begin;
        break;
      }
      open.push(part);
      rowCount += part.rowCount;
      byteCount += part.bytes.length;
    }
    yield { parts: open.map(({ bytes }) => bytes), from, to };
    open = open.filter(({ lastNanos }) => lastNanos >= to);
    from = to;
  }
}

/** In the order of their first rows. */
function partsOf(chunks: Uint8Array): Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (const { rowCount, firstNanos, lastNanos, end } of chunkHeaders(
    chunks,
    0,
    chunks.length,
    kindsAll,
  )) {
    parts.push({ bytes: chunks.subarray(at, end), rowCount, firstNanos, lastNanos });
    at = end;
  }
  return parts.sort((a, b) => (a.firstNanos < b.firstNanos ? -1 : 1));
}

/** Where the unit of a time begins. */
export function unitBegin(nanos: bigint, unitNanos: bigint): bigint {
  const rest = nanos % unitNanos;
  return nanos - (rest < 0n ? rest + unitNanos : rest);
}

function clamped(nanos: bigint): bigint {
  return nanos > int64Max ? int64Max : nanos < -int64Max ? -int64Max : nanos;
}
