/** Windows of native histograms, from rows in filesets to those of the aggregated namespace. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { windowEndOf } from '#engine/aggregation/window_end.ts';
import { histogramOfValue, valueOfHistogram } from '#engine/typed/histogram.ts';
import { histogramWindowOfValue } from '#engine/typed/histogram_window.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import type { TestRow } from '../database_testing.ts';
import { day, hour, minute, rowsOf, second, World } from './aggregation_testing.ts';

/** A histogram every 30 s, of which the number says which it is. */
function histogramsOf(host: string, fromNanos: bigint, count: number): TestRow[] {
  return Array.from({ length: count }, (_, i) => ({
    series: { __name__: 'h', host },
    nanos: fromNanos + BigInt(i) * 30n * second,
    value: i,
    isTyped: true,
    message: valueOfHistogram({
      isFloat: false,
      schema: 0,
      hint: 0,
      zeroThreshold: 0,
      count: i + 1,
      zeroCount: 0,
      sumBits: bitsOfDouble(i),
      customBounds: new Float64Array(0),
      positive: { indexes: Int32Array.of(i % 4), counts: Float64Array.of(i + 1) },
      negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
    }),
  }));
}

interface Expected {
  readonly endNanos: bigint;
  readonly rows: number;
  readonly last: number;
  readonly sum: number;
}

function expectedOf(rows: readonly TestRow[]): Expected[] {
  const byEnd = Map.groupBy(rows, ({ nanos }) => windowEndOf(nanos, 5n * minute));
  return [...byEnd]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([endNanos, within]) => {
      const sorted = within.toSorted((a, b) => (a.nanos < b.nanos ? -1 : 1));
      return {
        endNanos,
        rows: within.length,
        last: sorted.at(-1)!.value + 1,
        sum: sorted.reduce((sum, { value }) => sum + value + 1, 0),
      };
    });
}

async function madeOf(world: World, host: string): Promise<Expected[]> {
  const rows = (await world.windowValues()).get(`h,${host}`) ?? [];
  return rows
    .filter(({ value }) => value[1] === 1)
    .map(({ endNanos, value }) => {
      const { rows: count, last, sum } = histogramWindowOfValue(value);
      return {
        endNanos,
        rows: count,
        last: histogramOfValue(last).count,
        sum: histogramOfValue(sum!).count,
      };
    });
}

test('histograms have windows beside those of floats, with rows that come late, and without what is deleted', async () => {
  const world = await World.open();
  const rows = histogramsOf('a', day + second, 2_000);
  await world.write([...rows, ...rowsOf('f', day + second, 2_000)]);
  await world.flush();
  await world.run();
  assert.deepEqual(await madeOf(world, 'a'), expectedOf(rows));
  assert.equal((await world.windowValues()).get('x,f')!.length, 200);
  const { slices } = world.aggregator.counts;
  await world.run();
  assert.equal(world.aggregator.counts.slices, slices, 'nothing is due any more');

  const late = histogramsOf('a', day + hour + 11n * second, 30);
  await world.start();
  await world.write(late);
  await world.flush();
  await world.run();
  assert.deepEqual(await madeOf(world, 'a'), expectedOf([...rows, ...late]));

  const [from, to] = [day + 2n * hour + minute, day + 3n * hour + minute];
  await world.delete('a', { startNanos: from, endNanos: to });
  await world.start();
  await world.flush();
  await world.clean();
  await world.run();
  const left = [...rows, ...late].filter(({ nanos }) => nanos < from || nanos >= to);
  assert.deepEqual(await madeOf(world, 'a'), expectedOf(left));
});
