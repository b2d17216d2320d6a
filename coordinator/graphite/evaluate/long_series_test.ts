/** Series of many rows: memory comes first, and what is done with them gives way. */
import assert from 'node:assert/strict';
import { memoryUsage } from 'node:process';
import { test } from 'node:test';
import { madeRowsMax, rowsAtOnce } from '../series/making.ts';
import { partsOf } from '../series/making_testing.ts';
import { rowOf, type Series } from '../series/series.ts';
import { fromSeconds, testingContext } from './context_testing.ts';
import { evaluate } from './evaluate.ts';

const limits = { seriesMax: 10, rowsMax: 100_000_000 };
const rowCount = 100_000;
/** Parts of a series of so many rows. */
const partCount = Math.floor(rowCount / rowsAtOnce);

interface Evaluated {
  readonly series: Series;
  readonly pauses: number;
}

/** Over so many seconds, of which each is a row of `time("t",1)`. */
async function evaluated(target: string, rows = rowCount): Promise<Evaluated> {
  const { work, pauses } = partsOf();
  const untilSeconds = fromSeconds + rows;
  const context = testingContext({}, 0, { work, limits, untilSeconds });
  const [list] = await evaluate([target], context);
  return { series: list![0]!, pauses: pauses() };
}

const secondsOf = (row: number) => fromSeconds + row;

test('memory of a series is taken before the series is there', async () => {
  const rows = 4_000_000;
  const before = memoryUsage().arrayBuffers;
  let grown = 0;
  const memory = {
    take: async (asked: number) => {
      if (asked === 0) return;
      assert.equal(asked, rows);
      grown = memoryUsage().arrayBuffers - before;
      throw new Error('there is no room');
    },
    give: () => {},
  };
  const untilSeconds = fromSeconds + rows;
  const context = testingContext({}, 0, { limits, memory, untilSeconds });
  await assert.rejects(evaluate(['time("t",1)'], context), /there is no room/);
  assert.ok(grown < rows, `${grown} bytes were there before`);
});

test('a series that is made has a limit', async () => {
  const untilSeconds = fromSeconds + 5_000_000;
  const context = testingContext({}, 0, { limits, untilSeconds });
  for (const target of ['time("t",1)', 'events("x")', 'hitcount(constantLine(1),"1s")']) {
    await assert.rejects(
      evaluate([target], context),
      new RegExp(`makes a series of more than ${madeRowsMax} rows: 5000000; ask for less time`),
      target,
    );
  }
});

test('whatever is done with a long series gives way between parts of it', async () => {
  const made = 'time("t",1)';
  const alone = (await evaluated(made)).pauses;
  assert.ok(alone >= partCount, `made in ${alone} parts`);
  for (const target of [
    `scale(${made},2)`,
    `derivative(${made})`,
    `perSecond(${made})`,
    `integral(${made})`,
    `integralByInterval(${made},"1h")`,
    `delay(${made},5)`,
    `keepLastValue(${made})`,
    `interpolate(removeBelowValue(${made},${secondsOf(rowCount - 1)}))`,
    `transformNull(removeAboveValue(${made},0),7)`,
    `isNonNull(${made})`,
    `changed(${made})`,
    `timeSlice(${made},"00:00_20240101","now")`,
    `offsetToZero(${made})`,
    `legendValue(${made},"median")`,
    `legendValue(${made},"stddev")`,
    `nPercentile(${made},50)`,
    `removeAbovePercentile(${made},50)`,
    `sustainedAbove(${made},1,"1min")`,
    `stdev(${made},100)`,
    `aggregateLine(${made},"max",true)`,
    `removeEmptySeries(${made})`,
    `summarize(${made},"1d","median")`,
    `summarize(${made},"2s","sum")`,
    `hitcount(${made},"1s")`,
    `sumSeries(${made},${made})`,
    `countSeries(${made})`,
    `percentileOfSeries(${made},50)`,
    `divideSeries(${made},${made})`,
    `asPercent(${made},100)`,
    `powSeries(${made},${made})`,
    `stacked(${made})`,
    `compressPeriodicGaps(removeAboveValue(${made},0))`,
    `linearRegression(${made})`,
    `movingAverage(time("t",1),"10min")`,
    `movingMax(${made},"10min")`,
    `movingMedian(${made},"1min")`,
    `exponentialMovingAverage(${made},"1min")`,
    `holtWintersConfidenceBands(${made},3,"1min","10s")`,
    `sumSeries(${made},time("u",2))`,
  ]) {
    const { pauses } = await evaluated(target);
    assert.ok(pauses >= alone + partCount - 1, `${target} has given way ${pauses} times`);
  }
});

test('what is made of a long series in parts is what it would be in one go', async () => {
  const rows = 50_000;
  const rowsOf = async (target: string) => {
    const { series } = await evaluated(target, rows);
    return { series, at: (row: number) => rowOf(series, row) };
  };
  const sampled = Array.from({ length: 500 }, (_, k) => (k * 9973) % rows);
  const same = async (target: string, should: (row: number) => number | null): Promise<void> => {
    const { at } = await rowsOf(target);
    for (const row of [...sampled, rowsAtOnce - 1, rowsAtOnce, rows - 1]) {
      assert.equal(at(row), should(row), `${target}, row ${row}`);
    }
  };
  const early = secondsOf(20_000);
  await same('time("t",1)', secondsOf);
  await same('derivative(time("t",1))', (row) => (row === 0 ? null : 1));
  await same('integral(isNonNull(time("t",1)))', (row) => row + 1);
  await same('delay(time("t",1),20000)', (row) => (row < 20_000 ? null : secondsOf(row - 20_000)));
  await same('delay(time("t",1),-20000)', (row) =>
    row >= 30_000 ? null : secondsOf(row + 20_000),
  );
  const late = secondsOf(45_000);
  // Two values, with a gap of tens of thousands of rows between them.
  const ends = `removeBelowValue(time("t",1),${late})`;
  await same(`keepLastValue(removeAboveValue(time("t",1),${early}))`, (row) =>
    secondsOf(Math.min(row, 20_000)),
  );
  await same(`transformNull(${ends},3)`, (row) => (row < 45_000 ? 3 : secondsOf(row)));
  await same('changed(time("t",1))', (row) => (row === 0 ? 0 : 1));
  await same('movingMax(time("t",1),"10min")', (row) => secondsOf(row));
  await same('movingSum(isNonNull(time("t",1)),"10h")', () => 36_000);
  const { series: line } = await rowsOf('nPercentile(time("t",1),50)');
  assert.equal(rowOf(line, 0), secondsOf(25_000));
  const { series: named } = await rowsOf('legendValue(time("t",1),"median","max","min","count")');
  assert.equal(
    named.name,
    `t (median: ${secondsOf(24_999.5)}) (max: ${secondsOf(49_999)}.0) (min: ${secondsOf(0)}.0) (count: 50000)`,
  );
  const { at: sums } = await rowsOf('smartSummarize(isNonNull(time("t",1)),"30000s","sum")');
  assert.deepEqual([sums(0), sums(1)], [30_000, 20_000]);
  const { at: medians } = await rowsOf('smartSummarize(time("t",1),"30000s","median")');
  assert.deepEqual([medians(0), medians(1)], [secondsOf(14_999.5), secondsOf(39_999.5)]);
});
