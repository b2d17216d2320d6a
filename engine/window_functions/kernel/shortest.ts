// The shortest decimal digits that read back as the same double, for numbers between 1e-6 and 1e15.
// A double is m * 2^e; times 10^q it is m * 5^q * 2^(e+q), and m * 5^q fits into 128 bits, so the
// nearest whole number and how far it is off are known exactly. It reads back when it is off by
// less than half of the last bit, which is 5^q / 2 in the same units.

const mantissaBits: u64 = 52;

/** 5^exponent, up to 27. */
export function powerOfFive(exponent: u32): u64 {
  switch (exponent) {
    case 0: return 1;
    case 1: return 5;
    case 2: return 25;
    case 3: return 125;
    case 4: return 625;
    case 5: return 3125;
    case 6: return 15625;
    case 7: return 78125;
    case 8: return 390625;
    case 9: return 1953125;
    case 10: return 9765625;
    case 11: return 48828125;
    case 12: return 244140625;
    case 13: return 1220703125;
    case 14: return 6103515625;
    case 15: return 30517578125;
    case 16: return 152587890625;
    case 17: return 762939453125;
    case 18: return 3814697265625;
    case 19: return 19073486328125;
    case 20: return 95367431640625;
    case 21: return 476837158203125;
    case 22: return 2384185791015625;
    case 23: return 11920928955078125;
    case 24: return 59604644775390625;
    case 25: return 298023223876953125;
    case 26: return 1490116119384765625;
    case 27: return 7450580596923828125;
    default: return 0;
  }
}

/** High word of a product; the low one is a * b. */
@inline
function highProduct(a: u64, b: u64): u64 {
  const aLow = a & 0xffffffff;
  const aHigh = a >> 32;
  const bLow = b & 0xffffffff;
  const bHigh = b >> 32;
  const cross = aHigh * bLow + ((aLow * bLow) >> 32);
  const carry = aLow * bHigh + (cross & 0xffffffff);
  return aHigh * bHigh + (cross >> 32) + (carry >> 32);
}

/**
 * The digits of the number as a whole number that is to be divided by 10^q; 0 when `q` decimals do
 * not read back.
 * @param m mantissa with its hidden bit, not a power of two
 */
function digitsWith(m: u64, e: i32, q: u32): u64 {
  const five = powerOfFive(q);
  const low = m * five;
  const high = highProduct(m, five);
  const shift = -(e + <i32>q);
  if (shift <= 0 || shift >= 126) return 0;
  let whole: u64;
  let restLow: u64;
  let restHigh: u64;
  let halfLow: u64;
  let halfHigh: u64;
  if (shift >= 64) {
    const s = <u64>(shift - 64);
    whole = high >> s;
    restHigh = s == 0 ? 0 : high & ((1 << s) - 1);
    restLow = low;
    halfHigh = s == 0 ? 0 : 1 << (s - 1);
    halfLow = s == 0 ? 1 << 63 : 0;
  } else {
    const s = <u64>shift;
    if (high >> s != 0) return 0;
    whole = (high << (64 - s)) | (low >> s);
    restHigh = 0;
    restLow = low & ((1 << s) - 1);
    halfHigh = 0;
    halfLow = 1 << (s - 1);
  }
  // To the nearest, an exact half to even.
  const isAbove = restHigh > halfHigh || (restHigh == halfHigh && restLow > halfLow);
  const isHalf = restHigh == halfHigh && restLow == halfLow;
  if (isAbove || (isHalf && (whole & 1) != 0)) {
    whole++;
    // Now it is off by 2^shift - rest: twice the half minus the rest.
    const twiceLow = halfLow << 1;
    const twiceHigh = (halfHigh << 1) | (halfLow >> 63);
    const borrow: u64 = twiceLow < restLow ? 1 : 0;
    restLow = twiceLow - restLow;
    restHigh = twiceHigh - restHigh - borrow;
  }
  if (restHigh != 0 || restLow > five >> 1) return 0;
  return whole;
}

/**
 * Digits as a whole number, and in the six highest bits how many of them are decimals; 0 when it is
 * not done here.
 */
export function shortestDigits(size: f64): u64 {
  if (!(size >= 1e-6 && size < 1e15)) return 0;
  const bits = reinterpret<u64>(size);
  const fraction = bits & ((1 << mantissaBits) - 1);
  // Below a power of two doubles lie closer: its interval is not even.
  if (fraction == 0) return 0;
  const m = fraction | (1 << mantissaBits);
  const e = <i32>(bits >> mantissaBits) - 1075;
  // Digits in front of the point, or minus the zeros after it.
  let magnitude: i32 = 0;
  let power: f64 = 1;
  if (size >= 1) {
    while (size >= power) {
      power *= 10;
      magnitude++;
    }
  } else {
    while (size * power < 0.1) {
      power *= 10;
      magnitude--;
    }
  }
  for (let digits: i32 = 15; digits <= 17; digits++) {
    const q = digits - magnitude;
    if (q < 0 || q > 27) continue;
    let whole = digitsWith(m, e, <u32>q);
    if (whole == 0) continue;
    let decimals = <u64>q;
    while (decimals > 0) {
      const tenth = whole / 10;
      if (tenth * 10 != whole) break;
      whole = tenth;
      decimals--;
    }
    if (whole >= 1 << 58) return 0;
    return whole | (decimals << 58);
  }
  return 0;
}
