/** Rows of a series that has histograms, at the protocol's resolution: a slice of time after the other. */
import { chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import { readMixedRows } from '#engine/store/read/mixed_rows.ts';
import { type Histogram, histogramOfValue } from '#engine/typed/histogram.ts';
import { valueKind } from '#engine/typed/typed_value.ts';

/** What is neither a number nor a histogram has no place in the protocol. */
export type MixedRow =
  | { readonly millis: number; readonly valueBits: bigint }
  | { readonly millis: number; readonly histogram: Histogram };

/** Rows of the chunks that a slice begins with; it has more only where chunks overlap. Some milliseconds' work. */
const sliceRowsMax = 480;

const int64Max = 2n ** 63n - 1n;
const nanosPerMilli = 1_000_000n;

/** A chunk, and the times that it has. */
interface Part {
  readonly bytes: Uint8Array;
  readonly rowCount: number;
  readonly firstNanos: bigint;
  readonly lastNanos: bigint;
}

/**
 * @param chunks of both kinds, one after the other
 * @returns in ascending time; of several rows within a millisecond the last stays
 */
export function* mixedSlices(
  chunks: Uint8Array,
  { startNanos, endNanos }: { readonly startNanos: bigint; readonly endNanos: bigint },
): Generator<MixedRow[]> {
  const end = clamped(endNanos);
  const parts = partsOf(chunks).filter(
    ({ firstNanos, lastNanos }) => firstNanos < end && lastNanos >= startNanos,
  );
  let from = clamped(startNanos);
  let open: Part[] = [];
  for (let next = 0; next < parts.length; ) {
    let rowCount = 0;
    let to = end;
    for (; next < parts.length; next++) {
      const part = parts[next]!;
      const begin = millisBegin(part.firstNanos);
      // A slice ends where a chunk begins, so that few are read twice.
      if (rowCount >= sliceRowsMax && begin > from) {
        to = begin;
        break;
      }
      open.push(part);
      rowCount += part.rowCount;
    }
    const rows = rowsOf(
      open.map(({ bytes }) => bytes),
      [from, to],
    );
    if (rows.length > 0) yield rows;
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

function rowsOf(
  parts: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): MixedRow[] {
  const { timestampNanos, values, typed } = readMixedRows(parts, range);
  const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
  const rows: MixedRow[] = [];
  for (const [row, nanos] of timestampNanos.entries()) {
    const millis = Number(millisBegin(nanos) / nanosPerMilli);
    const value = typed[row] ?? null;
    if (value !== null && value[0] !== valueKind.histogram) continue;
    if (rows.at(-1)?.millis === millis) rows.pop();
    if (value === null) rows.push({ millis, valueBits: bits[row]! });
    else rows.push({ millis, histogram: histogramOfValue(value) });
  }
  return rows;
}

/** Where the millisecond of a time begins. */
function millisBegin(nanos: bigint): bigint {
  const rest = nanos % nanosPerMilli;
  return nanos - (rest < 0n ? rest + nanosPerMilli : rest);
}

function clamped(nanos: bigint): bigint {
  return nanos > int64Max ? int64Max : nanos < -int64Max ? -int64Max : nanos;
}
