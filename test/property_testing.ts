/**
 * Properties over generated values (fast-check), with the same values in every run: a test that was
 * green stays green until the code changes. Other values: `TSDB_TEST_SEED=7 npm test --
 * 'cluster/placement/algorithm_test.ts'`.
 */
import fc from 'fast-check';
import { assert } from '#lib/assert.ts';

const seed = Number(process.env['TSDB_TEST_SEED'] ?? 1);
assert(Number.isInteger(seed), 'TSDB_TEST_SEED is a whole number');
fc.configureGlobal({ seed });

export default fc;
