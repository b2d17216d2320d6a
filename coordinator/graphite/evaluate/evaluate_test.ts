import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { Turns } from '#lib/turns/turns.ts';
import { rowOf, type Series } from '../series/series.ts';
import { fromSeconds, type RowsOfPath, testingContext } from './context_testing.ts';
import type { FetchRequest } from './context.ts';
import { evaluate } from './evaluate.ts';

const series: RowsOfPath = {
  'a.one': [1, 2, null, 4, 5],
  'a.two': [10, null, null, 40, 50],
  'b.none': [null, null, null, null, null],
  'b.special': [NaN, Infinity, -Infinity, 0, null],
};

async function rowsOf(target: string, minutes = 5): Promise<(number | null)[][]> {
  const [list] = await evaluate([target], testingContext(series, minutes));
  return list!.map(rows);
}

const rows = (each: Series) => Array.from(each.values, (_value, index) => rowOf(each, index));

/** Paths with the minutes between the ends of the window and that of the evaluation. */
const windowsAsked = (asked: readonly FetchRequest[]) =>
  asked.map(({ pathExpression, ...window }) => {
    const from = (window.fromSeconds - fromSeconds) / 60;
    const until = (window.untilSeconds - fromSeconds) / 60 - 5;
    return `${pathExpression} ${from} ${until}`;
  });

test('all that targets read is asked for at once, each path and window once', async () => {
  const context = testingContext(series, 5);
  await evaluate(
    [
      'sumSeries(a.one, timeShift(a.one,"1h"), movingAverage(a.one,"10min"))',
      'a.one',
      'holtWintersAberration(a.two,3,"1d","1h")',
      'timeStack(a.two,"1d",0,3)',
      'delay(summarize(movingMax(a.two,"5min"),"1h"),2)',
    ],
    context,
  );
  assert.equal(context.asked.length, 1);
  assert.deepEqual(windowsAsked(context.asked[0]!), [
    'a.one 0 0',
    'a.one -60 -60',
    'a.one -10 0',
    'a.two 0 0',
    'a.two -1440 0',
    'a.two -1440 -1440',
    'a.two -2880 -2880',
    'a.two -5 0',
  ]);
});

test('memory is taken for rows of results until they are needed no more', async () => {
  const changes: number[] = [];
  const memory = {
    take: async (rows: number) => {
      changes.push(rows);
    },
    give: (rows: number) => {
      changes.push(-rows);
    },
  };
  const target = 'absolute(sumSeries(scale(a.*,2),scale(scale(a.*,3),4)))';
  await evaluate([target], testingContext(series, 5, { memory }));
  // Two series of five rows each, and names, nine characters a row. The rows that were read are the reader's. Each series is taken
  // before it is made.
  assert.deepEqual(
    changes.filter((rows) => rows !== 0),
    [...[5, 5, 3, 5, 5, 3, 5, 5, -8], ...[5, 5, -5, -19], ...[5, -4]],
  );
});

test('what is stacked takes memory until all targets are evaluated', async () => {
  let taken = 0;
  const memory = {
    take: async (rows: number) => {
      taken += rows;
    },
    give: (rows: number) => {
      taken -= rows;
    },
  };
  const targets = ['a', 'b', 'a'].map((name) => `limit(stacked(a.*,"${name}"),0)`);
  await evaluate(targets, testingContext(series, 5, { memory }));
  assert.equal(taken, 10);
});

test('names that functions make take memory, too', async () => {
  const lines = Array.from({ length: 300 }, () => 'constantLine(1)').join();
  let taken = 0;
  const memory = {
    take: async (rows: number) => {
      taken += rows;
      if (taken > 800_000) throw new TsdbError('RESOURCE_EXHAUSTED', 'there is no room');
    },
    give: (rows: number) => {
      taken -= rows;
    },
  };
  // Nine megabytes of names have room once, but not in several targets.
  const target = `upper(substr(alias(group(${lines}),"${'x'.repeat(10_000)}")))`;
  await evaluate([target], testingContext({}, 5, { memory }));
  taken = 0;
  const targets = [target, target, target];
  await assert.rejects(evaluate(targets, testingContext({}, 5, { memory })), /there is no room/);
});

test('windows inside of windows are put together', async () => {
  const context = testingContext(series, 5);
  await evaluate(['movingAverage(timeShift(movingSum(a.one,"1min"),"1h"),"10min")'], context);
  assert.equal(context.asked.length, 1);
  assert.deepEqual(windowsAsked(context.asked[0]!), ['a.one -11 0', 'a.one -71 -60']);
});

test('a window of rows is read when the step is known, and what functions make of names when they are', async () => {
  const context = testingContext(series, 5);
  await evaluate(['movingAverage(a.*,3)', 'applyByNode(a.*,0,"sumSeries(%.one,%.two)")'], context);
  assert.deepEqual(context.asked.map(windowsAsked), [
    ['a.* 0 0'],
    ['a.* -3 0'],
    ['a.one 0 0', 'a.two 0 0'],
  ]);
});

test('what is missing stays missing, and NaN and infinities are values', async () => {
  assert.deepEqual(await rowsOf('scale(b.special,2)'), [[NaN, Infinity, -Infinity, 0, null]]);
  assert.deepEqual(await rowsOf('sumSeries(a.*)'), [[11, 2, null, 44, 55]]);
  assert.deepEqual(await rowsOf('multiplySeries(a.*)'), [[10, null, null, 160, 250]]);
  assert.deepEqual(await rowsOf('divideSeries(a.two,b.special)'), [[NaN, null, null, null, null]]);
  assert.deepEqual(await rowsOf('isNonNull(b.special)'), [[1, 1, 1, 1, 0]]);
  assert.deepEqual(await rowsOf('derivative(a.one)'), [[null, 1, null, null, 1]]);
  assert.deepEqual(await rowsOf('removeEmptySeries(b.*)'), [[NaN, Infinity, -Infinity, 0, null]]);
  assert.deepEqual(await rowsOf('squareRoot(scale(a.one,-1))'), [[null, null, null, null, null]]);
});

test('an xFilesFactor holds for its target, from where it stands', async () => {
  const targets = ['sumSeries(setXFilesFactor(a.*,1))', 'sumSeries(a.*)'];
  const lists = await evaluate(targets, testingContext(series, 5));
  assert.deepEqual(rows(lists[0]![0]!), [11, null, null, 44, 55]);
  assert.deepEqual(rows(lists[1]![0]!), [11, 2, null, 44, 55]);
});

test('functions that suites have no cases of', async () => {
  assert.deepEqual(await rowsOf('abs(scale(a.one,-1))'), [[1, 2, null, 4, 5]]);
  assert.deepEqual(await rowsOf('sustainedAbove(a.one,4,"2min")'), [[0, 0, 0, 0, 5]]);
  assert.deepEqual(await rowsOf('sustainedBelow(a.one,2,"2min")'), [[4, 2, 4, 4, 4]]);
  assert.deepEqual(await rowsOf('keepLastValue(a.two,-1)'), [[10, 10, 10, 40, 50]]);
  assert.deepEqual(await rowsOf('delay(a.one,0)'), [[1, 2, null, 4, 5]]);
  assert.deepEqual(await rowsOf('delay(a.one,-2)'), [[null, 4, 5, null, null]]);
  assert.deepEqual(await rowsOf('delay(a.one,9)'), [[null, null, null, null, null]]);
  assert.deepEqual(await rowsOf('randomWalk("w")', 3), [[0, 0.25, 0.5]]);
  assert.deepEqual(await rowsOf('asPercent(a.one,200)'), [[0.5, 1, null, 2, 2.5]]);
  const options = 'lineWidth(alpha(drawAsInfinite(a.one),0.5),2)';
  const [[drawn]] = (await evaluate([options], testingContext(series, 5))) as [[Series]];
  assert.deepEqual(drawn.options, { drawAsInfinite: true, alpha: 0.5, lineWidth: 2 });
  assert.equal(drawn.name, 'drawAsInfinite(a.one)');
});

test('stacks go on from target to target', async () => {
  const targets = ['stacked(a.one)', 'stacked(a.two)'];
  const lists = await evaluate(targets, testingContext(series, 5));
  assert.deepEqual(rows(lists[1]![0]!), [11, null, null, 44, 55]);
});

test('what is wrong is said with function, argument, reason and value', async () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['nope(a.one)', /no such function: nope/],
    ['scale(a.one)', /cannot evaluate scale: factor is missing/],
    ['scale(a.one,2,3)', /cannot evaluate scale: takes 2 arguments, not 3/],
    ['scale(a.one,"ten")', /cannot evaluate scale: factor has to be a number: ten/],
    ['scale(a.one,a.two)', /factor has to be a number, not an expression: a\.two/],
    ['scale(a.one,by=2)', /no argument is named by, but seriesList, factor/],
    ['scale(a.one,2,factor=2)', /factor is given twice/],
    ['limit(a.one,1.5)', /n has to be a whole number: 1\.5/],
    ['limit(a.one,99999999999999999999)', /n has to be a whole number/],
    ['scale("a.one",2)', /seriesList has to be series: a\.one/],
    ['sumSeries(mapSeries(a.*,0))', /takes series, not the lists that mapSeries gives/],
    ['movingAverage(a.one,"0min")', /windowSize has to be above 0: 0min/],
    ['summarize(a.one,"-5min")', /intervalString has to be above 0: -5min/],
    ['consolidateBy(a.one,"mean")', /consolidationFunc has to be one of sum, average/],
    ['aliasSub(a.one,"a","\\2")', /the pattern has no group 2/],
    ['aliasSub(a.one,"(?=a)","b")', /error parsing regexp/],
    [
      `aliasSub(alias(constantLine(1),"${'x'.repeat(15_000)}"),"(?s).*","${'\\0'.repeat(5)}")`,
      /cannot replace in names: the text becomes longer than 65535 characters: \\0/,
    ],
    [
      `aliasSub(alias(constantLine(1),"${'x'.repeat(15_000)}"),"(y?)","${'\\1'.repeat(100)}")`,
      /cannot replace in names: 100 references are too many for a name of 15000 characters/,
    ],
    [
      `seriesByTag(${Array.from({ length: 60 }, (_, k) => `"t${k}=~x{0,1000}x{0,1000}x{0,9${k}}"`).join()})`,
      /tagExpressions have regexps that take too long to compile together: x\{0,1000\}/,
    ],
    [`movingAverage(a.one,"${'1s'.repeat(101)}")`, /windowSize/],
    ['template($x, x=3)', /is a number or a string, not series/],
    ['groupByNode(a.*,0,"seriesByTag")', /callback has to name an aggregation/],
    ['reduceSeries(mapSeries(a.*,0),"seriesByTag",1,"one")', /cannot evaluate seriesByTag/],
    ['timeShift(a.one,"9000000000000s")', /has to be an interval/],
    ['movingAverage(a.one,9000000000000000)', /a window is out of all times/],
    ['smartSummarize(a.one,"1h","sum","fortnights")', /alignTo has to be a unit of time/],
  ];
  for (const [target, message] of cases) {
    await assert.rejects(
      evaluate([target], testingContext(series, 5)),
      (error) =>
        error instanceof TsdbError && error.code === 'BAD_REQUEST' && message.test(error.message),
      target,
    );
  }
});

test('limits hold for series, rows, and what functions make', async () => {
  const small = { limits: { seriesMax: 3, rowsMax: 50 } };
  const refused = async (targets: readonly string[], message: RegExp, minutes = 5) =>
    await assert.rejects(evaluate(targets, testingContext(series, minutes, small)), message);
  await refused(['a.*', 'b.*'], /reads more than 3 series/);
  await refused(['timeStack(a.one,"1h",0,20)'], /reads more than (3 series|50 rows)/);
  await refused(['summarize(a.one,"1s")'], /makes more than 50 rows/);
  await refused(['time("t",1)'], /makes more than 50 rows/);
  await refused(['timeStack(a.one,"1h",0,2000)'], /timeShiftEnd is more than 1000 behind/);
  const nested = `${'timeStack('.repeat(8)}a.one${',"1s",0,900)'.repeat(8)}`;
  await refused([nested], /looks at more than 100000 expressions and windows/);
});

test('names and targets that functions make have limits over all series', async () => {
  const lines = Array.from({ length: 300 }, () => 'constantLine(1)').join();
  const long = 'x'.repeat(60_000);
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, k) => [`n${k}.a`, [1]]));
  const cases: readonly (readonly [string, RegExp])[] = [
    [
      `aliasSub(group(${lines}),"^.*$","${long}")`,
      /300 names become longer by more than 16777216 characters: x/,
    ],
    [
      `applyByNode(*,0,"${long}")`,
      /templateFunction comes to more than 16777216 characters for 300 nodes: x/,
    ],
  ];
  for (const [target, message] of cases) {
    await assert.rejects(
      evaluate([target], testingContext(many, 5)),
      (error) =>
        error instanceof TsdbError && error.code === 'BAD_REQUEST' && message.test(error.message),
    );
  }
});

test('a cancelled evaluation ends, and a long one gives way', async () => {
  const stop = new AbortController();
  const work = Turns.of(realEnv.clock).begin(stop.signal);
  const many = Object.fromEntries(
    Array.from({ length: 400 }, (_, i) => [
      `many.s${i}`,
      Array.from({ length: 1000 }, (_, k) => k),
    ]),
  );
  const limits = { seriesMax: 10_000, rowsMax: 10_000_000 };
  let turns = 0;
  const count = () => {
    turns += 1;
    if (turns < 1000) setImmediate(count);
  };
  setImmediate(count);
  await evaluate(
    ['movingWindow(many.*,"2h","stddev")'],
    testingContext(many, 1000, { work, limits }),
  );
  assert.ok(turns > 5, `the loop turned ${turns} times`);
  const running = evaluate(
    ['movingWindow(many.*,"2h","stddev")'],
    testingContext(many, 1000, { work, limits }),
  );
  setImmediate(() => stop.abort(new Error('the client is gone')));
  await assert.rejects(running, /the client is gone/);
});
