// The rows of a typed head, appended one by one: time, lag and start as differences from the row before, and the value
// as the differences of its fields from the one before where both have the same fields, else whole. Rows come in any
// order. Nobody but the store reads this form, so it is in no format.
import {
  typeBytes,
  typeDouble,
  typeFloat,
  typeMessage,
  placed,
  varintAt,
  varintEnd,
} from '../../../typed/kernel/fields';
import { writeVarint } from '../../../codec/kernel/integers';
import { unzigzag, zigzag } from '../../../codec/kernel/codec';

const sameStep: u32 = 1;
const sameLag: u32 = 2;
const sameStart: u32 = 4;
const wholeValue: u32 = 8;

/** What a row of a head is written against: the row before. */
@unmanaged
export class TypedRow {
  nanos: i64;
  stepNanos: i64;
  lag: i64;
  start: i64;
  /** `placed`; 0 before the first row. */
  value: u64;
}
export const typedRowBytes: usize = 40;

/** More than a row takes beside its value. */
export const typedRowRoom: usize = 64;

/** Begins with a row before the first one of a head. */
export function beginTypedRows(row: TypedRow, blockStart: i64): void {
  row.nanos = blockStart;
  row.stepNanos = 0;
  row.lag = 0;
  row.start = 0;
  row.value = 0;
}

/**
 * Writes a row, which is `before` from then on but for its value. Gives its end.
 * @param o room for the value and `typedRowRoom`
 */
export function writeTypedRow(
  o: usize,
  before: TypedRow,
  nanos: i64,
  lag: i64,
  start: i64,
  value: u64,
): usize {
  const controlAt = o++;
  let control: u32 = 0;
  const step = nanos - before.nanos;
  if (step == before.stepNanos) control |= sameStep;
  else o = writeVarint(o, zigzag(step));
  if (lag == before.lag) control |= sameLag;
  else o = writeVarint(o, zigzag(lag - before.lag));
  if (start == before.start) control |= sameStart;
  else o = writeVarint(o, zigzag(start - before.start));
  const length = <usize>(value >> 32);
  let end: usize = 0;
  if (before.value != 0) end = writeDifferences(o, before.value, value);
  if (end != 0) o = end;
  else {
    control |= wholeValue;
    o = writeVarint(o, <u64>length);
    memory.copy(o, <usize>(value & 0xffffffff), length);
    o += length;
  }
  store<u8>(controlAt, <u8>control);
  before.nanos = nanos;
  before.stepNanos = step;
  before.lag = lag;
  before.start = start;
  return o;
}

/**
 * Reads a row over the one before it; its value is written to `out`, with as much room as it has. Gives the row's end.
 */
export function readTypedRow(at: usize, row: TypedRow, out: usize): usize {
  const control = <u32>load<u8>(at++);
  if (!(control & sameStep)) {
    row.stepNanos = unzigzag(varintAt(at));
    at = varintEnd(at);
  }
  row.nanos += row.stepNanos;
  if (!(control & sameLag)) {
    row.lag += unzigzag(varintAt(at));
    at = varintEnd(at);
  }
  if (!(control & sameStart)) {
    row.start += unzigzag(varintAt(at));
    at = varintEnd(at);
  }
  if (control & wholeValue) {
    const length = <usize>varintAt(at);
    at = varintEnd(at);
    memory.copy(out, at, length);
    row.value = placed(out, length);
    return at + length;
  }
  return readDifferences(at, row, out);
}

/**
 * Bits of a float as they differ from others: 0 when they do not, else a byte that tells the zero bytes at both ends of
 * the difference, and what is between.
 */
function writeXor(o: usize, xor: u64): usize {
  if (xor == 0) {
    store<u8>(o, 0);
    return o + 1;
  }
  const low = <usize>(ctz(xor) >> 3);
  const high = <usize>(clz(xor) >> 3);
  store<u8>(o, <u8>(1 + low + (high << 3)));
  store<u64>(o, xor >> (<u64>low << 3), 1);
  return o + 1 + (8 - low - high);
}

/** Differences of fields; gives their end, or 0 where fields are others or nothing is gained. */
function writeDifferences(o: usize, before: u64, value: u64): usize {
  let p = <usize>(value & 0xffffffff);
  const pEnd = p + <usize>(value >> 32);
  let q = <usize>(before & 0xffffffff);
  const qEnd = q + <usize>(before >> 32);
  const most = o + (pEnd - p);
  // Kind and layout.
  const head = varintEnd(p + 1) - p;
  if (q + head > qEnd || memory.compare(p, q, head) != 0) return 0;
  p += head;
  q += head;
  while (p < pEnd) {
    if (q >= qEnd || o >= most) return 0;
    const tag = varintAt(p);
    if (tag != varintAt(q)) return 0;
    p = varintEnd(p);
    q = varintEnd(q);
    const type = <u32>(tag & 7);
    if (type == typeDouble) {
      o = writeXor(o, load<u64>(p) ^ load<u64>(q));
      p += 8;
      q += 8;
    } else if (type == typeFloat) {
      o = writeXor(o, <u64>(load<u32>(p) ^ load<u32>(q)));
      p += 4;
      q += 4;
    } else if (type == typeBytes || type == typeMessage) {
      const length = <usize>varintAt(p);
      const other = <usize>varintAt(q);
      p = varintEnd(p);
      q = varintEnd(q);
      if (length == other && memory.compare(p, q, length) == 0) {
        store<u8>(o++, 0);
      } else {
        o = writeVarint(o, <u64>length + 1);
        if (o + length >= most) return 0;
        memory.copy(o, p, length);
        o += length;
      }
      p += length;
      q += other;
    } else {
      const difference = <i64>(varintAt(p) - varintAt(q));
      o = writeVarint(o, zigzag(difference));
      p = varintEnd(p);
      q = varintEnd(q);
    }
  }
  return q == qEnd && o < most ? o : 0;
}

function readDifferences(at: usize, row: TypedRow, out: usize): usize {
  let q = <usize>(row.value & 0xffffffff);
  const qEnd = q + <usize>(row.value >> 32);
  const head = varintEnd(q + 1) - q;
  memory.copy(out, q, head);
  let o = out + head;
  q += head;
  while (q < qEnd) {
    const tagEnd = varintEnd(q);
    const type = <u32>(load<u8>(q) & 7);
    memory.copy(o, q, tagEnd - q);
    o += tagEnd - q;
    q = tagEnd;
    if (type == typeDouble || type == typeFloat) {
      const control = <usize>load<u8>(at++);
      let xor: u64 = 0;
      if (control != 0) {
        const low = (control - 1) & 7;
        const high = (control - 1) >> 3;
        const bits: usize = (8 - low - high) << 3;
        xor = load<u64>(at);
        if (bits < 64) xor &= (<u64>1 << <u64>bits) - 1;
        xor <<= <u64>low << 3;
        at += bits >> 3;
      }
      if (type == typeDouble) {
        store<u64>(o, load<u64>(q) ^ xor);
        o += 8;
        q += 8;
      } else {
        store<u32>(o, load<u32>(q) ^ <u32>xor);
        o += 4;
        q += 4;
      }
    } else if (type == typeBytes || type == typeMessage) {
      const other = <usize>varintAt(q);
      const otherAt = varintEnd(q);
      const code = varintAt(at);
      at = varintEnd(at);
      if (code == 0) {
        memory.copy(o, q, otherAt + other - q);
        o += otherAt + other - q;
      } else {
        const length = <usize>code - 1;
        o = writeVarint(o, <u64>length);
        memory.copy(o, at, length);
        o += length;
        at += length;
      }
      q = otherAt + other;
    } else {
      // An int's own zigzag code is a number like another.
      o = writeVarint(o, varintAt(q) + <u64>unzigzag(varintAt(at)));
      at = varintEnd(at);
      q = varintEnd(q);
    }
  }
  row.value = placed(out, o - out);
  return at;
}
