import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import { functions, type ValueType } from '#coordinator/promql/functions/table.ts';
import { realEnv } from '#lib/env/real.ts';
import { MemoryStorage } from './memory_storage.ts';

const argumentOf: Readonly<Record<ValueType, string>> = {
  scalar: '0.5',
  string: '"a"',
  vector: 'm',
  matrix: 'm[5m]',
};
const options = {
  lookbackMillis: 300_000,
  samplesMax: 1_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};

test('every function of the table is carried out, with all its arguments and the fewest', async () => {
  const storage = new MemoryStorage();
  const engine = new PromqlEngine(storage, {
    clock: realEnv.clock,
    features: { experimentalFunctions: true },
  });
  const { signal } = new AbortController();
  for (const [name, { args, optional, result }] of functions) {
    for (const count of [args.length, args.length - Math.abs(optional)]) {
      const given = args.slice(0, count).map((type) => argumentOf[type]);
      if (name === 'info' && count > 1) given[1] = '{a="b"}';
      const text = `${name}(${given.join(', ')})`;
      const answer = await engine.instantQuery(text, 0, options, signal);
      assert.equal(answer.resultType, result, text);
    }
  }
});
