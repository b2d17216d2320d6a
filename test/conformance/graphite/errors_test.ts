/** Targets that graphite-web refuses are refused here with a 400 that says what is wrong. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { evaluate } from '#coordinator/graphite/evaluate/evaluate.ts';
import { TsdbError } from '#lib/errors.ts';
import { MemoryDataset } from './dataset.ts';
import { hasSuites, readSuite } from '../suites.ts';

interface ErrorCase {
  readonly target: string;
  readonly expect: 'client_error' | 'error' | 'lenient';
}

if (hasSuites('graphite')) {
  const { cases } = readSuite<{ cases: readonly ErrorCase[] }>('graphite/errors.json');

  test('what graphite-web refuses is a bad request', async () => {
    const wrong: string[] = [];
    for (const { target, expect } of cases) {
      const context = new MemoryDataset().context(1704110400, 1704111600, 1704117600);
      let outcome = 'answered';
      try {
        await evaluate([target], context);
      } catch (error) {
        outcome = error instanceof TsdbError ? error.code : `${error}`;
      }
      const isRight = outcome === 'BAD_REQUEST' || (expect === 'lenient' && outcome === 'answered');
      if (!isRight) wrong.push(`${target}: ${outcome}`);
    }
    assert.deepEqual(wrong, []);
  });
}
