// Window functions over encoded series: chunks → rows → one row of a step grid. All memory is the
// caller's: it lays out regions and passes their addresses. The facade is
// engine/window_functions/kernel.ts, the twin engine/window_functions/windows_twin.ts.

import { Chunk } from '../../codec/kernel/codec';
import { Columns, decodeListed, Found, listChunks } from './merge';

export {
  counterRow,
  countRow,
  deltaRow,
  extremeRow,
  instantRow,
  rateConstants,
  sumRow,
} from './functions';
export { printPoints, printRow } from './json';
export { listedBytes } from './merge';
export { chunkStructBytes, columnSlackBytes } from '../../codec/kernel/codec';

const staleBits: u64 = 0x7ff0000000000002;

/** Lists the chunks in the range; rows to make room for, or -1 when one is malformed. */
export function list(
  chunk: usize,
  start: usize,
  end: usize,
  from: i64,
  past: i64,
  entries: usize,
  found: usize,
): f64 {
  const result = changetype<Found>(found);
  return listChunks(changetype<Chunk>(chunk), start, end, from, past, entries, result)
    ? result.rows
    : -1;
}

/** Rows decoded of the listed chunks, or -1. */
export function decode(
  chunk: usize,
  tables: usize,
  entries: usize,
  found: usize,
  from: i64,
  past: i64,
  columns: usize,
  spare: usize,
): i32 {
  return decodeListed(
    changetype<Chunk>(chunk),
    tables,
    entries,
    changetype<Found>(found),
    from,
    past,
    changetype<Columns>(columns),
    changetype<Columns>(spare),
  );
}

/** Takes the stale markers out of the columns; returns the rows that stay. */
export function dropStale(times: usize, values: usize, rows: u32): u32 {
  const end = values + (<usize>rows << 3);
  let p = values;
  // Nearly always there is none: NaNs are looked for two at a time first.
  let nan = i64x2.splat(0);
  for (; p + 16 <= end; p += 16) {
    const pair = v128.load(p);
    nan = v128.or(nan, f64x2.ne(pair, pair));
  }
  if (p < end) nan = v128.or(nan, f64x2.ne(v128.load64_zero(p), v128.load64_zero(p)));
  if (!v128.any_true(nan)) return rows;
  let kept: usize = 0;
  for (let i: usize = 0; i < <usize>rows; i++) {
    const bits = load<u64>(values + (i << 3));
    if (bits == staleBits) continue;
    store<u64>(values + (kept << 3), bits);
    store<u64>(times + (kept << 3), load<u64>(times + (i << 3)));
    kept++;
  }
  return <u32>kept;
}

export function sameTimes(a: usize, b: usize, rows: u32): bool {
  const bytes = <usize>rows << 3;
  let i: usize = 0;
  for (; i + 16 <= bytes; i += 16) {
    if (!i64x2.all_true(i64x2.eq(v128.load(a + i), v128.load(b + i)))) return false;
  }
  return i == bytes || load<u64>(a + i) == load<u64>(b + i);
}

/** Floor of Unix milliseconds as f64. */
export function toMillis(times: usize, rows: u32, millis: usize): void {
  if (rows == 0) return;
  const first = load<i64>(times);
  let base = first / 1000000;
  if (base * 1000000 > first) base--;
  const baseNanos = base * 1000000;
  const baseMillis = <f64>base;
  const last = load<i64>(times + ((<usize>rows - 1) << 3));
  if (last - baseNanos < 9007199254740992 && last >= baseNanos) {
    for (let i: usize = 0; i < <usize>rows; i++) {
      const delta = <f64>(load<i64>(times + (i << 3)) - baseNanos);
      let quotient = floor(delta / 1000000);
      // The quotient of numbers this large may have been rounded up to the next whole one.
      if (quotient * 1000000 > delta) quotient -= 1;
      store<f64>(millis + (i << 3), baseMillis + quotient);
    }
    return;
  }
  for (let i: usize = 0; i < <usize>rows; i++) {
    const nanos = load<i64>(times + (i << 3));
    let quotient = nanos / 1000000;
    if (quotient * 1000000 > nanos) quotient--;
    store<f64>(millis + (i << 3), <f64>quotient);
  }
}

/** First and past-the-last row of the window (reference - range, reference] of every step. */
export function locate(
  millis: usize,
  rows: u32,
  referenceStart: f64,
  referenceStep: f64,
  range: f64,
  steps: u32,
  starts: usize,
  ends: usize,
): void {
  let start: usize = 0;
  let end: usize = 0;
  for (let step: usize = 0; step < <usize>steps; step++) {
    const reference = referenceStart + <f64>step * referenceStep;
    const opening = reference - range;
    while (end < <usize>rows && load<f64>(millis + (end << 3)) <= reference) end++;
    while (start < end && load<f64>(millis + (start << 3)) <= opening) start++;
    store<u32>(starts + (step << 2), <u32>start);
    store<u32>(ends + (step << 2), <u32>end);
  }
}
