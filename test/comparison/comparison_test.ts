/** Some hundreds of random queries beside Prometheus; run.ts asks as many as one likes. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { toolOrSkip } from '../tools.ts';
import { differenceOf } from './answers.ts';
import { compare, isExplained } from './compare.ts';

const prometheus = toolOrSkip('prometheus', 'queries are not compared with it');

if (prometheus !== null) {
  for (const hasFeatures of [false, true]) {
    const how = hasFeatures ? 'with all features' : 'as configured by default';
    test(`queries at random have the answers of Prometheus, ${how}`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tsdb-comparison-'));
      try {
        const found = await compare({
          folder,
          prometheus,
          hasFeatures,
          seriesSeed: 7,
          first: 100_001,
          last: 100_400,
        });
        const others = [...found.differences].filter(([kind]) => !isExplained(kind));
        assert.deepEqual(others, []);
        assert.ok(found.compared - found.refused - found.empty > 200);
        assert.ok(found.same > 380);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  }
}

test('answers that differ are told apart', () => {
  const vectorOf = (value: string, metric: Record<string, string> = { a: '1' }) => ({
    status: 'success' as const,
    data: { resultType: 'vector', result: [{ metric, value: [1, value] }] },
  });
  assert.equal(differenceOf(vectorOf('1'), vectorOf('1.0000000000001'), null), null);
  assert.equal(differenceOf(vectorOf('NaN'), vectorOf('NaN'), null), null);
  assert.equal(differenceOf(vectorOf('1'), vectorOf('2'), null)?.kind, 'values');
  assert.equal(differenceOf(vectorOf('1'), vectorOf('1', { a: '2' }), null)?.kind, 'labels');
  const refused = { status: 'error' as const, errorType: 'execution', error: 'no' };
  assert.equal(differenceOf(vectorOf('1'), refused, null)?.kind, 'success');
  const warned = { ...vectorOf('1'), warnings: ['PromQL warning: x (1:1)'] };
  assert.equal(differenceOf(warned, vectorOf('1'), null)?.kind, 'warnings only theirs');
});
