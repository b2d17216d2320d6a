import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags } from '#lib/tags.ts';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { rowOf } from '../../graphite/series/series.ts';
import type { Steps, StoredRows } from '../../graphite/storage/rows.ts';
import type { GraphiteStorage } from '../../graphite/storage/reader.ts';
import { scriptReading } from './reading.ts';
import { type OlderRows, rowsAtSteps } from './rows.ts';

/** As the contract says it: for each step all rows are looked at. */
function rowsTwin(
  { count, timestampMillis, values }: StoredRows,
  { startSeconds, stepSeconds, length }: Steps,
  lookbackMillis: number,
  older: readonly OlderRows[],
): (number | null)[] {
  return Array.from({ length }, (_, step) => {
    const atMillis = 1_000 * (startSeconds + step * stepSeconds);
    let newest: number | null = null;
    for (let row = 0; row < count; row++) if (timestampMillis[row]! <= atMillis) newest = row;
    if (newest === null || Number.isNaN(values[newest])) return null;
    const millis = timestampMillis[newest]!;
    const ages = older.filter((each) => millis >= each.fromMillis && millis < each.beforeMillis);
    const ageMax = ages.length === 0 ? lookbackMillis : ages[0]!.lookbackMillis;
    return atMillis - millis < ageMax ? values[newest]! : null;
  });
}

test('rowsAtSteps() has the newest row of each step, as its definition has', () => {
  const random = new SeededNumbers(1);
  for (let run = 0; run < 2_000; run++) {
    const count = random.below(12);
    const times = Array.from({ length: count }, () => random.below(60) * 250).sort((a, b) => a - b);
    const stored = {
      count,
      timestampMillis: Float64Array.from(times),
      values: Float64Array.from(times, () => (random.below(5) === 0 ? NaN : random.below(100))),
    };
    const steps = {
      startSeconds: random.below(8) - 2,
      stepSeconds: 1 + random.below(4),
      length: 1 + random.below(8),
    };
    const lookbackMillis = 250 * (1 + random.below(20));
    const older = Array.from({ length: random.below(3) }, () => {
      const fromMillis = random.below(60) * 250;
      return {
        fromMillis,
        beforeMillis: fromMillis + random.below(30) * 250,
        lookbackMillis: lookbackMillis + 250 * random.below(20),
      };
    });
    const columns = rowsAtSteps(stored, steps, lookbackMillis, older);
    assert.deepEqual(
      Array.from(columns.values, (_, row) => rowOf(columns, row)),
      rowsTwin(stored, steps, lookbackMillis, older),
    );
  }
});

test('where samples are gone a row has the newest window, which may be as old as it is long', () => {
  const minute = 60;
  const start = 1_700_000_100;
  const fiveMinutes = {
    namespace: 'five',
    resolutionMillis: 300_000,
    fromMillis: 0,
    takesAll: true,
  };
  const storage = {
    timeline: () => ({
      samplesFromMillis: (start + 10 * minute) * 1_000,
      resolutions: [fiveMinutes],
      places: null,
    }),
  } as unknown as GraphiteStorage;
  const window = { fromSeconds: start - minute, untilSeconds: start + 14 * minute };
  const reading = scriptReading(minute, minute * 1_000);
  const { range, gridOfSeries } = reading.gridOf(storage, window, []);
  const named = { ...reading.named([]), index: 0, tagBytes: encodeTags([]) };
  const { steps, rowsOf } = gridOfSeries(named);
  assert.deepEqual(steps, { startSeconds: start, stepSeconds: minute, length: 15 });
  assert.equal(range.startNanos, BigInt(start - 5 * minute) * 1_000_000_000n + 1n);
  assert.equal(range.endNanos, BigInt(start + 14 * minute) * 1_000_000_000n + 1n);
  const times = [-1, 4, 9, 10, 13].map((at) => (start + at * minute) * 1_000);
  const values = [1, 2, 3, 4, 5];
  const columns = rowsOf({
    count: 5,
    timestampMillis: Float64Array.from(times),
    values: Float64Array.from(values),
  });
  const rows = Array.from(columns.values, (_, row) => rowOf(columns, row));
  assert.deepEqual(rows, [1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 4, null, null, 5, null]);
});
