import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { reducerNamed } from '../math/reducers.ts';
import { rowsAtOnce } from './making.ts';
import { makerOf, partsOf } from './making_testing.ts';
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
  const maker = makerOf(partsOf().work);
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
      const result = await reduceSliding(columns, name, rows, first, factor, maker);
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

test('reduceSliding() gives the same where windows and series are longer than a part', async () => {
  const random = new SeededRandom(2);
  const columns = newColumns(3 * rowsAtOnce + 100);
  for (let i = 0; i < columns.values.length; i++) {
    if (random.below(3) === 0) continue;
    columns.values[i] = random.below(1000);
    columns.present[i] = 1;
  }
  for (const rows of [5, 1000, rowsAtOnce + 7]) {
    for (const name of ['sum', 'average', 'min', 'max', 'median']) {
      const { work, pauses } = partsOf();
      const result = await reduceSliding(columns, name, rows, 3, 0.2, makerOf(work));
      assert.ok(pauses() >= 3, `${name}: ${pauses()} pauses`);
      for (let i = 0; i < result.values.length; i += 1009) {
        const window: number[] = [];
        for (let row = Math.max(0, 3 + i + 1 - rows); row <= 3 + i; row++) {
          if (columns.present[row] === 1) window.push(columns.values[row]!);
        }
        const isThere = isEnough(window.length, rows, 0.2);
        assert.equal(result.present[i], isThere ? 1 : 0, `${name}, row ${i}`);
        if (!isThere) continue;
        const should = reducerNamed(name)!(Float64Array.from(window), window.length, window.length);
        assert.equal(result.values[i], should, `${name}, row ${i}`);
      }
    }
  }
  const { work, pauses } = partsOf();
  const result = await reduceSliding(
    columns,
    'count',
    3 * rowsAtOnce,
    3 * rowsAtOnce,
    0,
    makerOf(work),
  );
  assert.equal(result.values.length, 100);
  assert.ok(pauses() >= 100, `${pauses()} pauses`);
});
