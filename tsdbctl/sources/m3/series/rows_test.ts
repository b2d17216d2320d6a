import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { allTimes } from '../../source.ts';
import { rowsWithin, sortedRows } from './rows.ts';

const rowsOf = (times: readonly bigint[], bits: readonly bigint[]) => ({
  timestampNanos: BigInt64Array.from(times),
  values: new Float64Array(BigUint64Array.from(bits).buffer),
});

const pairsOf = ({ timestampNanos, values }: ReturnType<typeof sortedRows>) => {
  const bits = new BigUint64Array(values.buffer);
  return Array.from(timestampNanos, (nanos, row) => [nanos, bits[row]!] as const);
};

test('rows come by their times, of equal ones the last, with their bits', () => {
  const random = new SeededRandom(11);
  const end = 2n ** 63n - 1n;
  const bounds = [
    [-(2n ** 63n), end] as const,
    [0n, 40n] as const,
    [2n ** 40n, 2n ** 40n + 9n] as const,
  ];
  for (let run = 0; run < 500; run += 1) {
    const [low, high] = random.pick(bounds);
    const count = random.below(60);
    const word = () => (BigInt(random.u32()) << 32n) | BigInt(random.u32());
    const times = Array.from({ length: count }, () => low + (word() % (high - low)));
    // Most are late, or all but few are at their places.
    if (random.below(2) === 0) times.sort((a, b) => (a < b ? -1 : 1));
    if (count > 3) times[random.below(count)] = times[0]!;
    const bits = Array.from({ length: count }, word);
    const expected = new Map(times.map((nanos, row) => [nanos, bits[row]!]));
    const sorted = [...expected].sort(([a], [b]) => (a < b ? -1 : 1));
    assert.deepEqual(pairsOf(sortedRows(rowsOf(times, bits))), sorted);
  }
});

test('rows the other way round are sorted fast', () => {
  const count = 100_000;
  const times = Array.from({ length: count }, (_, row) => BigInt(count - row));
  const { timestampNanos } = sortedRows(rowsOf(times, times));
  assert.deepEqual([timestampNanos[0], timestampNanos.at(-1)], [1n, BigInt(count)]);
});

test('those of a range are its first and not its last nanosecond', () => {
  const rows = rowsOf([1n, 2n, 3n, 4n], [10n, 20n, 30n, 40n]);
  const within = (startNanos: bigint, endNanos: bigint) =>
    pairsOf(rowsWithin(rows, { startNanos, endNanos })).map(([nanos]) => nanos);
  assert.deepEqual(within(2n, 4n), [2n, 3n]);
  assert.deepEqual(within(0n, 1n), []);
  assert.deepEqual(within(5n, 9n), []);
  assert.equal(rowsWithin(rows, allTimes).values, rows.values);
});
