// The two compact column encodings of the batch layout; engine/batch/columns.ts has them in
// TypeScript. Encoders write to `target` and answer the bytes written, or 0 when raw would not be
// longer.

/** Differences and whole numbers must be smaller; a token then stays below 2^53. */
const MAGNITUDE_MAX: i64 = 1 << 50;
const FLAG_ZIGZAG: u8 = 1;

@inline
function zigzag(value: i64): u64 {
  return <u64>((value << 1) ^ (value >> 63));
}

@inline
function putVarint(target: usize, value: u64): usize {
  while (value >= 128) {
    store<u8>(target++, <u8>(value | 128));
    value >>= 7;
  }
  store<u8>(target, <u8>value);
  return target + 1;
}

function putRun(target: usize, delta: i64, length: u64): usize {
  const token = zigzag(delta) << 1;
  if (length == 1) return putVarint(target, token);
  return putVarint(putVarint(target, token + 1), length - 2);
}

/** Differences of u32 elements. */
export function encodeDelta32(from: usize, count: usize, target: usize): usize {
  const end = from + (count << 2);
  const limit = target + (count << 2);
  let o = target + 4;
  store<u32>(target, load<u32>(from));
  let runDelta: i64 = 0;
  let runLength: u64 = 0;
  let before = <i64>load<u32>(from);
  for (let p = from + 4; p < end; p += 4) {
    const value = <i64>load<u32>(p);
    const delta = value - before;
    before = value;
    if (delta == runDelta && runLength != 0) {
      runLength++;
      if (delta == 0) {
        // The rest of a run of equal elements, four at a time.
        const same = i32x4.splat(<i32>value);
        while (end - p > 16 && i32x4.all_true(i32x4.eq(v128.load(p + 4), same))) {
          p += 16;
          runLength += 4;
        }
      }
      continue;
    }
    if (runLength != 0) o = putRun(o, runDelta, runLength);
    if (o >= limit) return 0;
    runDelta = delta;
    runLength = 1;
  }
  if (runLength != 0) o = putRun(o, runDelta, runLength);
  return o < limit ? o - target : 0;
}

/** Differences of i64 elements. */
export function encodeDelta64(from: usize, count: usize, target: usize): usize {
  const end = from + (count << 3);
  const limit = target + (count << 3);
  let o = target + 8;
  store<u64>(target, load<u64>(from));
  let runDelta: i64 = 0;
  let runLength: u64 = 0;
  let before = load<i64>(from);
  for (let p = from + 8; p < end; p += 8) {
    const value = load<i64>(p);
    const delta = value - before;
    // The difference of far values wraps around; then its sign is not that of the order.
    if (delta >= MAGNITUDE_MAX || delta <= -MAGNITUDE_MAX || (delta < 0) != (value < before)) return 0;
    before = value;
    if (delta == runDelta && runLength != 0) {
      runLength++;
      if (delta == 0) {
        const same = i64x2.splat(value);
        while (end - p > 16 && i64x2.all_true(i64x2.eq(v128.load(p + 8), same))) {
          p += 16;
          runLength += 2;
        }
      }
      continue;
    }
    if (runLength != 0) o = putRun(o, runDelta, runLength);
    if (o >= limit) return 0;
    runDelta = delta;
    runLength = 1;
  }
  if (runLength != 0) o = putRun(o, runDelta, runLength);
  return o < limit ? o - target : 0;
}

/** float64 elements: whole numbers short, all others bit for bit. */
export function encodeWhole(from: usize, count: usize, target: usize): usize {
  const end = from + (count << 3);
  const limit = target + (count << 3);
  let signed = false;
  for (let p = from; p < end; p += 8) signed = signed || load<f64>(p) < 0;
  let o = target;
  store<u8>(o++, signed ? FLAG_ZIGZAG : 0);
  for (let p = from; p < end; p += 8) {
    const bits = load<u64>(p);
    const value = load<f64>(p);
    // Minus zero is no whole number here.
    if (
      bits != 0x8000_0000_0000_0000 &&
      abs(value) < <f64>MAGNITUDE_MAX &&
      Math.trunc(value) == value
    ) {
      const whole = <i64>value;
      o = putVarint(o, (signed ? zigzag(whole) : <u64>whole) + 1);
    } else {
      store<u8>(o, 0);
      store<u64>(o, bits, 1);
      o += 9;
    }
    if (o >= limit) return 0;
  }
  return o - target;
}
