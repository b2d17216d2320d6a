import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lookBackNanos } from '../../aggregation_rules/rollups/map.ts';
import { ruleSetsOf } from '../../aggregation_rules/sets/sets_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { type SeriesRows, StoredParts } from './parts.ts';
import type { RowsRange } from './rows.ts';

const minute = 60_000_000_000n;
const start = 28_333_333n * minute;
const policy = { resolutionNanos: minute, retentionNanos: 2_400n * minute };
const storagePolicies = [{ resolution: '1m', retention: '40h' }];
const sum = { rollup: { metricName: 'sum', groupBy: [], aggregations: ['Sum'] } };
const increase = { transform: { type: 'Increase' } };

/** What is read for two windows, by a rule with these transforms. */
async function rangeRead(...transforms: readonly object[]): Promise<RowsRange> {
  const rule = { name: 'one', filter: '__name__:m', transforms, storagePolicies };
  const sets = ruleSetsOf([start, { rollupRules: [rule] }]);
  const ranges: RowsRange[] = [];
  const rows: SeriesRows = { each: async (_, range) => void ranges.push(range) };
  const parts = new StoredParts(policy, rows, realEnv.random);
  const windows = { resolutionNanos: minute, firstEndNanos: start + 9n * minute, windowCount: 2 };
  await parts.of({ windows, sets, isFinal: true }, new AbortController().signal);
  assert.equal(ranges.length, 1);
  return ranges[0]!;
}

test('rows of before the windows are read for what has changed alone: whatever is lost of them costs no other window', async () => {
  const own = { startNanos: start + 8n * minute + 1n, endNanos: start + 10n * minute + 1n };
  assert.deepEqual(await rangeRead(sum), own);
  assert.deepEqual(await rangeRead(sum, { transform: { type: 'Add' } }), own);
  const back = { ...own, startNanos: own.startNanos - lookBackNanos(minute) };
  assert.deepEqual(await rangeRead(increase, sum), back);
});
