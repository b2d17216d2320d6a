// What reading and writing of typed chunks have in common (docs/formats/typed.md).

export const typeInt: u32 = 0;
export const typeUint: u32 = 1;
export const typeDouble: u32 = 2;
export const typeFloat: u32 = 3;
export const typeBytes: u32 = 4;
export const typeMessage: u32 = 5;
/** A field's tag is its number times this and its type. */
export const typeBits: u64 = 3;

export const presenceAll: u32 = 0;
export const presenceRuns: u32 = 1;
export const presenceZeros: u32 = 2;
/** Of byte strings: each is written, not a dictionary of them. */
export const formEach: u32 = 4;

export const kindHistogram: u32 = 1;
export const kindWindow: u32 = 3;
export const kindExemplar: u32 = 4;
export const kindLast: u32 = 5;

/** Rows with starts, in a chunk's control byte. */
export const startsFlag: u32 = 64;
export const irregularFlag: u32 = 128;

/** Where a byte string is: its address, and its length above 32 bits. */
@inline
export function placed(at: usize, length: usize): u64 {
  return <u64>at | (<u64>length << 32);
}

@inline
export function varintBytes(value: u64): u32 {
  return value == 0 ? 1 : (<u32>(64 - clz(value)) + 6) / 7;
}

/** The varint at p, of a value that was checked. */
@inline
export function varintAt(p: usize): u64 {
  // Most numbers take a byte or two.
  const first = <u64>load<u8>(p);
  if (first < 128) return first;
  const second = <u64>load<u8>(p, 1);
  if (second < 128) return (first & 127) | (second << 7);
  let value = (first & 127) | ((second & 127) << 7);
  let byte: u64 = 128;
  p += 2;
  for (let shift: u64 = 14; byte >= 128; shift += 7) {
    byte = <u64>load<u8>(p++);
    value |= (byte & 127) << shift;
  }
  return value;
}

/** Where it ends. */
@inline
export function varintEnd(p: usize): usize {
  while (load<u8>(p++) >= 128) {}
  return p;
}

const mantissaShift: u64 = 29;
const floatMantissa: u64 = 0x7fffff;

/** Of the float64 that a float32 is: bit by bit, since a machine may change a NaN on the way. */
export function doubleBitsOf(floatBits: u64): u64 {
  if (((floatBits >> 23) & 255) == 255) {
    return ((floatBits >> 31) << 63) | (<u64>2047 << 52) | ((floatBits & floatMantissa) << mantissaShift);
  }
  return reinterpret<u64>(<f64>reinterpret<f32>(<u32>floatBits));
}

/** The nearest float32 of these bits; theirs when there is one. */
export function floatBitsOf(doubleBits: u64): u64 {
  if (((doubleBits >> 52) & 2047) == 2047) {
    return (
      ((doubleBits >> 63) << 31) | (<u64>255 << 23) | ((doubleBits >> mantissaShift) & floatMantissa)
    );
  }
  return <u64>reinterpret<u32>(<f32>reinterpret<f64>(doubleBits));
}
