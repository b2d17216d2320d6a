/** M3's encoding of rows, M3TSZ: for each one its time, then its value, as few bits as they need. */
import { badRequest } from '#lib/errors.ts';
import { BitReader } from './bits.ts';
import { TimeReader } from './times.ts';
import { ValueReader } from './values.ts';

/** In the order of the stream. */
export interface DecodedRows {
  readonly timestampNanos: BigInt64Array<ArrayBuffer>;
  readonly values: Float64Array<ArrayBuffer>;
  /** Whether each time is after the one before. */
  readonly ascends: boolean;
}

/** Two bits may be a row, so that a small stream may be many. */
const rowsMaxDefault = 1 << 25;

/** Places for rows that are made at first. */
const rowsFirst = 1024;

/**
 * Rows of a stream, bit for bit what M3 itself reads.
 * @param wholes whether it was written with whole numbers as such, which is M3's default
 * @throws {TsdbError} BAD_REQUEST when it is damaged, or has too many rows
 */
export function decodeM3tsz(
  stream: Uint8Array,
  wholes: boolean,
  rowsMax: number = rowsMaxDefault,
): DecodedRows {
  const bits = new BitReader(stream);
  const times = new TimeReader(bits);
  const valueReader = new ValueReader(bits, wholes);
  let timestampNanos = new BigInt64Array(Math.min(rowsFirst, 4 * stream.length));
  let values = new Float64Array(timestampNanos.length);
  let timeWords = new Int32Array(timestampNanos.buffer);
  let valueWords = new Uint32Array(values.buffer);
  let ascends = true;
  let count = 0;
  while (times.next()) {
    if (count === timestampNanos.length) {
      if (count >= rowsMax) throw badRequest(`stream has more than ${rowsMax} rows`);
      timestampNanos = grown(timestampNanos, new BigInt64Array(2 * count));
      values = grown(values, new Float64Array(2 * count));
      timeWords = new Int32Array(timestampNanos.buffer);
      valueWords = new Uint32Array(values.buffer);
    }
    timeWords[2 * count] = times.low;
    timeWords[2 * count + 1] = times.high;
    if (!times.ascends && count > 0) ascends = false;
    valueReader.next(values, valueWords, count);
    count += 1;
  }
  return {
    timestampNanos: timestampNanos.slice(0, count),
    values: values.slice(0, count),
    ascends,
  };
}

function grown<T extends { set(from: T): void }>(from: T, to: T): T {
  to.set(from);
  return to;
}
