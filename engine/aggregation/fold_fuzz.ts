/** The fold beside its twin, over rows of all shapes that come in pieces, and what its chunks read as. */
import assert from 'node:assert/strict';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { codecSample, randomRows, SeededNumbers } from '../codec/samples_testing.ts';
import { readFloats } from '../store/chunk_merge.ts';
import { apart, readTyped } from '../store/typed_chunks.ts';
import { allTimes } from '../store/workshop.ts';
import { bitsOfDouble, doubleOf } from '../typed/typed_value.ts';
import { countOf, windowOfValue } from '../typed/window.ts';
import { floatsOfWindows, type ValueColumn } from './floats.ts';
import { type FoldedWindow, foldTwin } from './fold_twin.ts';
import { WindowFold } from './fold.ts';

const staleBits = 0x7ff0000000000002n;
const second = 1_000_000_000n;
const resolutions = [1n, 15n, 60n, 300n, 3600n, 86_400n].map((seconds) => seconds * second);

/** Values as they are in counters, gauges and nonsense; with stale markers among them. */
function someRows(numbers: SeededNumbers): {
  times: BigInt64Array;
  bits: BigUint64Array;
  lags: BigInt64Array | null;
} {
  const seed = numbers.below(1 << 30);
  const count = 1 + numbers.below(600);
  const { timestampNanos, values } = codecSample(seed, count).rows;
  // Of the bits of a sample, or any.
  const bits = new BigUint64Array(
    (numbers.below(4) === 0 ? randomRows(seed, count).values : values).slice().buffer,
  );
  const staleOf = numbers.below(3) === 0 ? 1 + numbers.below(20) : 0;
  for (let i = 0; i < bits.length; i++) {
    if (staleOf > 0 && numbers.below(staleOf) === 0) bits[i] = staleBits;
    else if (numbers.below(200) === 0) bits[i] = bitsOfDouble(Number.NaN);
  }
  const lateOf = numbers.below(40);
  const lags = timestampNanos.map(() =>
    numbers.below(lateOf + 1) === 0 ? BigInt(numbers.below(2 ** 40) - 2 ** 20) : 0n,
  );
  return { times: timestampNanos, bits, lags: numbers.below(2) === 0 ? null : lags };
}

/** Of numbers the bits: a NaN has one form here. */
function plain(window: FoldedWindow): object {
  const { min, max, sum, lastNumber, first } = window;
  const isNaN = window.lastBits !== staleBits && Number.isNaN(doubleOf(window.lastBits));
  const lastBits = isNaN ? bitsOfDouble(Number.NaN) : window.lastBits;
  const numbers = { min: `${min}`, max: `${max}`, sum: `${sum}`, lastNumber: `${lastNumber}` };
  return { ...window, ...numbers, first: `${first}`, lastBits };
}

/** What a window is where its value is asked for; null where it is left out. */
function valueOf(window: FoldedWindow, { value, ends }: ValueColumn): string | null {
  const { lastBits, min, max, sum } = window;
  const count = countOf(window);
  if (ends && lastBits === staleBits) return 'stale';
  if (count === 0) return null;
  return `${{ min, max, sum, count, mean: sum / count }[value]}`;
}

function checkValues(
  numbers: SeededNumbers,
  chunks: Uint8Array,
  wanted: readonly FoldedWindow[],
  resolution: bigint,
  label: string,
): void {
  const value = (['min', 'max', 'sum', 'count', 'mean'] as const)[numbers.below(5)]!;
  const column = { value, ends: numbers.below(2) === 0 };
  const end = (at: number): bigint => wanted[Math.min(at, wanted.length - 1)]!.endNanos;
  const first = numbers.below(wanted.length);
  const isPart = numbers.below(2) === 0;
  const range = isPart ? ([end(first), end(first + numbers.below(9)) + 1n] as const) : allTimes;
  const parts = floatsOfWindows(apart([chunks]).typed, column, resolution, range);
  const { timestampNanos, values } = readFloats(parts, allTimes);
  const bits = new BigUint64Array(values.slice().buffer);
  const got = Array.from(timestampNanos, (nanos, i) => {
    return `${nanos} ${bits[i] === staleBits ? 'stale' : values[i]}`;
  });
  const expected = wanted.flatMap((window) => {
    const text = valueOf(window, column);
    const isInside = window.endNanos >= range[0] && window.endNanos < range[1];
    return text === null || !isInside ? [] : [`${window.endNanos} ${text}`];
  });
  assert.deepEqual(got, expected, `${label}: ${value}, ends ${column.ends}`);
}

export function fuzz(seed: number, size: number): void {
  const numbers = new SeededNumbers(seed);
  const fold = new WindowFold();
  for (let round = 0; round < size; round++) {
    const label = `seed ${seed}, round ${round}`;
    const { times, bits, lags } = someRows(numbers);
    const resolution = resolutions[numbers.below(resolutions.length)]!;
    const wanted = foldTwin(
      Array.from(times, (nanos, i) => ({ nanos, bits: bits[i]!, lag: lags?.[i] ?? 0n })),
      resolution,
    );
    fold.begin(resolution, wanted.length + numbers.below(3));
    const values = new Float64Array(bits.buffer);
    for (let at = 0; at < times.length; ) {
      const end = Math.min(times.length, at + 1 + numbers.below(numbers.below(2) === 0 ? 9 : 999));
      fold.add(times.subarray(at, end), values.subarray(at, end), lags?.subarray(at, end) ?? null);
      at = end;
    }
    assert.equal(fold.end(), wanted.length, label);
    assert.deepEqual(
      [...fold.endNanos],
      wanted.map(({ endNanos }) => endNanos),
      label,
    );
    const deletions = Float64Array.from(wanted, () => {
      return numbers.below(2) * numbers.below(1 << 30) * 2 ** numbers.below(23);
    });
    const isWhole = numbers.below(2) === 0;
    const chunks = isWhole ? fold.chunks() : fold.chunks(deletions);
    checkValues(new SeededNumbers(seed ^ round), chunks, wanted, resolution, label);
    const read = readTyped([chunks], allTimes);
    const got = read.values.map((value, i): FoldedWindow => {
      const { deletions: of, last, ...window } = windowOfValue(value);
      assert.equal(Number(of), isWhole ? 0 : deletions[i], label);
      const endNanos = read.timestampNanos[i]!;
      assert.ok(versionAtNanos(endNanos) > 0n);
      return { endNanos, lag: read.lags[i]!, lastBits: lastBitsOf(value, last), ...window };
    });
    assert.deepEqual(got.map(plain), wanted.map(plain), label);
  }
}

/** A stale marker would be another NaN as a number. */
function lastBitsOf(value: Uint8Array, last: number): bigint {
  if (!Number.isNaN(last)) return bitsOfDouble(last);
  const at = Buffer.from(value).indexOf(Buffer.of(0x02, 0, 0, 0, 0, 0, 0xf0, 0x7f));
  return at >= 0 ? staleBits : bitsOfDouble(Number.NaN);
}
