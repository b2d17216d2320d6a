// Whether a typed value is canonical (docs/TYPED_ROWS.md), and the order of two: what typed_value.ts says at leisure.
import {
  fieldNumberMax,
  typedBytesMax,
  typedDepthMax,
  typedFieldsMax,
} from '../../codec/layout';
import {
  kindHistogram,
  kindLast,
  kindWindow,
  typeBits,
  typeBytes,
  typeDouble,
  typeFloat,
  typeMessage,
  typeUint,
  varintAt,
  varintEnd,
} from './fields';

/** What `fieldsOf` gives for a value that is not canonical. */
export const notCanonical: u32 = u32.MAX_VALUE;

/** Where a varint of the shortest form ends, or 0. */
@inline
function checkedVarintEnd(p: usize, end: usize): usize {
  // Most take a byte or two.
  if (p + 2 <= end) {
    if (load<u8>(p) < 128) return p + 1;
    const second = load<u8>(p, 1);
    if (second < 128) return second == 0 ? 0 : p + 2;
  }
  return checkedLongVarintEnd(p, end);
}

function checkedLongVarintEnd(p: usize, end: usize): usize {
  for (let length: usize = 1; length <= 10 && p < end; length++) {
    const byte = load<u8>(p++);
    if (byte >= 128) continue;
    if (byte == 0 && length > 1) return 0;
    return length == 10 && byte > 1 ? 0 : p;
  }
  return 0;
}

/** How many fields the value in [p, end) has, those in messages too; `notCanonical` when it is not. */
export function fieldsOf(p: usize, end: usize): u32 {
  if (p + 2 > end || end - p > <usize>typedBytesMax) return notCanonical;
  const kind = <u32>load<u8>(p);
  if (kind < kindHistogram || kind > kindLast) return notCanonical;
  const layoutEnd = checkedVarintEnd(p + 1, end);
  if (layoutEnd == 0 || varintAt(p + 1) > <u64>9007199254740991) return notCanonical;
  return fieldsWithin(layoutEnd, end, 0, 0);
}

/** @param count of fields before these */
function fieldsWithin(p: usize, end: usize, depth: u32, count: u32): u32 {
  let number: u64 = 0;
  while (p < end) {
    const tagEnd = checkedVarintEnd(p, end);
    if (tagEnd == 0) return notCanonical;
    const tag = varintAt(p);
    const type = <u32>(tag & 7);
    const next = tag >> typeBits;
    if (next <= number || next > <u64>fieldNumberMax || type > typeMessage) return notCanonical;
    number = next;
    if (++count > <u32>typedFieldsMax) return notCanonical;
    p = tagEnd;
    if (type == typeDouble) p += 8;
    else if (type == typeFloat) p += 4;
    else {
      const valueEnd = checkedVarintEnd(p, end);
      if (valueEnd == 0) return notCanonical;
      if (type >= typeBytes) {
        const length = varintAt(p);
        if (length > <u64>(end - valueEnd)) return notCanonical;
        p = valueEnd + <usize>length;
        if (type == typeMessage) {
          if (depth == <u32>typedDepthMax) return notCanonical;
          count = fieldsWithin(valueEnd, p, depth + 1, count);
          if (count == notCanonical) return notCanonical;
        }
      } else {
        p = valueEnd;
      }
    }
    if (p > end) return notCanonical;
  }
  return count;
}

/** Below 0, 0 or above, as the first of two values comes before the second, both `placed`. */
export function compareTyped(a: u64, b: u64): i32 {
  const aLength = <usize>(a >> 32);
  const bLength = <usize>(b >> 32);
  const order = memory.compare(
    <usize>(a & 0xffffffff),
    <usize>(b & 0xffffffff),
    min(aLength, bLength),
  );
  if (order != 0) return order;
  return aLength < bLength ? -1 : aLength > bLength ? 1 : 0;
}

/** Fields of a window that say which of two stays: `windowField` of engine/typed/window.ts up to lags. */
const windowOrderFields: u64 = 3;

@inline
function isWindow(value: u64): bool {
  return <u32>load<u8>(<usize>(value & 0xffffffff)) == kindWindow;
}

/** Of the uint fields from 1 on, one after the other; 0 for what is not there. */
function windowField(value: u64, number: u64): u64 {
  let p = <usize>(value & 0xffffffff);
  const end = p + <usize>(value >> 32);
  p = varintEnd(p + 1);
  for (let i: u64 = 1; i <= number && p < end; i++) {
    const tag = varintAt(p);
    if (tag != ((i << typeBits) | <u64>typeUint)) continue;
    p = varintEnd(p);
    if (i == number) return varintAt(p);
    p = varintEnd(p);
  }
  return 0;
}

/**
 * Above 0 when the first of two values of one time stays whatever their versions are, since one of them is a window or
 * both are (`windowField` of engine/typed/window.ts); 0 when versions decide.
 */
export function orderOfWindows(a: u64, b: u64): i32 {
  const aIs = isWindow(a);
  const bIs = isWindow(b);
  if (!aIs && !bIs) return 0;
  if (aIs != bIs) return aIs ? -1 : 1;
  for (let number: u64 = 1; number <= windowOrderFields; number++) {
    const left = windowField(a, number);
    const right = windowField(b, number);
    if (left != right) return left > right ? 1 : -1;
  }
  return 0;
}
