import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { reducerNamed } from '../math/reducers.ts';
import { isEnough, newColumns } from './series.ts';
import { reduceSliding } from './sliding.ts';

/** NaN and infinities are among the values. */
function valueOf(random: SeededRandom): number {
  const kind = random.below(40);
  if (kind === 0) return NaN;
  if (kind === 1) return Infinity;
  return random.below(1000) / 8;
}

test('reduceSliding() gives what the reducer gives of each window', async () => {
  const work = Turns.of(realEnv.clock).begin(new AbortController().signal);
  const random = new SeededRandom(1);
  for (let run = 0; run < 300; run++) {
    const columns = newColumns(random.below(60));
    for (let i = 0; i < columns.values.length; i++) {
      if (random.below(3) === 0) continue;
      columns.values[i] = run % 2 === 0 ? random.below(1000) / 8 : valueOf(random);
      columns.present[i] = 1;
    }
    const rows = 1 + random.below(20);
    const first = random.below(10);
    const factor = random.pick([0, 0.5, 1]);
    for (const name of [
      'sum',
      'average',
      'min',
      'max',
      'median',
      'count',
      'stddev',
      'diff',
      'last',
    ]) {
      const result = await reduceSliding(columns, name, rows, first, factor, work);
      assert.equal(result.values.length, Math.max(0, columns.values.length - first));
      for (let i = 0; i < result.values.length; i++) {
        const end = first + i + 1;
        const window: number[] = [];
        for (let row = Math.max(0, end - rows); row < end; row++) {
          if (columns.present[row] === 1) window.push(columns.values[row]!);
        }
        const isThere = isEnough(window.length, rows, factor);
        assert.equal(result.present[i], isThere ? 1 : 0, `${name}, window of ${rows}`);
        if (!isThere) continue;
        // What is least among numbers and NaN depends on the order in which they are compared.
        if (window.some(Number.isNaN) && (name === 'min' || name === 'max')) continue;
        const should = reducerNamed(name)!(Float64Array.from(window), window.length, window.length);
        assert.equal(result.values[i], should, `${name} of ${window.join()}`);
      }
    }
  }
});
