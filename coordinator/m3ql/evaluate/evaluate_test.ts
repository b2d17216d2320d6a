import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import fc from '#test/property_testing.ts';
import { formatScript } from '../parse/format.ts';
import { garbage, generatedScript } from '../parse/generated_scripts_testing.ts';
import { parseScript } from '../parse/parser.ts';
import { refusedNames } from '../functions/table.ts';
import { knownScript } from './known_scripts_testing.ts';
import { ScriptData, startSeconds, stepSeconds } from './script_testing.ts';

const data = new ScriptData([
  'requests{dc="a",host="web1"} 4 | 10 20 40 . 80 100',
  'requests{dc="a",host="web2"} 5 | 5 10 15 20 25 30',
  'requests{dc="b",host="web3"} 70 | 60 50 40 30 20 10',
  'errors{dc="a",host="web1"} 0 | 1 2 4 . 8 10',
  'errors{dc="b"} 0 | . . . . . 7',
  'latency{bucketid="01",bucket="0-10ms"} 0 | 10 10 0 0 5 0',
  'latency{bucketid="02",bucket="10ms-infinity"} 0 | 0 10 10 0 5 0',
  'latency{bucketid="03",bucket="none"} 0 | 1 1 1 1 1 1',
  'took_bucket{le="0.1"} 0 | 5 5 5 5 5 5',
  'took_bucket{le="+Inf"} 0 | 10 20 10 10 . 30',
  'servers.web1.cpu 1 | 1 2 3 4 5 6',
  'servers.web2.cpu 6 | 6 5 4 3 2 1',
]);

async function errorOf(script: string): Promise<string> {
  try {
    await data.run(script);
  } catch (error) {
    if (error instanceof TsdbError && error.code === 'BAD_REQUEST') return error.message;
    throw error;
  }
  assert.fail(`no error: ${script}`);
}

/** What is told, without the script behind it. */
async function problemOf(script: string): Promise<string> {
  return (await errorOf(script)).replace(/^cannot evaluate script: /, '').replace(/: "[^]*$/, '');
}

test('all that a script reads is asked for at once, each window once', async () => {
  const { asked } = await data.run(
    `a = fetch name:requests | moving 5m max;
     a | divideSeries (fetch name:requests | sum) | timeshift 1h | diff (a) (fetch name:errors)`,
  );
  assert.equal(asked.length, 1);
  const windows = asked[0]!.map(({ pathExpression, fromSeconds, untilSeconds }) => {
    const from = (fromSeconds - startSeconds) / 60;
    return `${pathExpression} ${from} ${(untilSeconds - startSeconds) / 60}`;
  });
  assert.deepEqual(windows.sort(), [
    'fetch __name__:"errors" -1 5',
    'fetch __name__:"requests" -6 5',
    'fetch __name__:"requests" -61 -55',
    'fetch __name__:"requests" -66 -55',
  ]);
});

test('a macro that is used again and again is evaluated once', async () => {
  const uses = Array.from(
    { length: 40 },
    (_, index) => `m${index + 1} = m${index} | asPercent (m${index} | sum) | scale 1;`,
  );
  const script = `m0 = fetch name:requests host:web2 | scale 2;\n${uses.join('\n')}\nm40 | asPercent (sum)`;
  assert.deepEqual(await data.lines(script), [
    'requests{dc="a",host="web2"} 100 100 100 100 100 100',
  ]);
});

test('names that mean nothing are told with their place and what was likely meant', async () => {
  const cases: readonly (readonly [string, string])[] = [
    [
      'fetch name:a | summ',
      'no function or macro has the name "summ" at line 1, column 16 (did you mean "sum"?)',
    ],
    [
      'fetch name:a | Sum',
      'no function or macro has the name "Sum" at line 1, column 16 (did you mean "sum"?)',
    ],
    [
      'fetch name:a | somethingElse',
      'no function or macro has the name "somethingElse" at line 1, column 16',
    ],
    [
      'fetsh name:a',
      'no function or macro has the name "fetsh" at line 1, column 1 (did you mean "fetch"?)',
    ],
    [
      'busy = fetch name:a; bussy',
      'no function or macro has the name "bussy" at line 1, column 22 (did you mean "busy"?)',
    ],
    [
      'a = a; a',
      'macro "a" is not defined before it is used at line 1, column 5 (a macro may stand for those above it alone)',
    ],
    [
      'a = b; b = fetch name:x; a',
      'macro "b" is not defined before it is used at line 1, column 5 (a macro may stand for those above it alone)',
    ],
    ['a = fetch name:x; a = fetch name:y; a', 'macro "a" is defined twice at line 1, column 19'],
    ['sum = fetch name:x; sum', 'macro "sum" has the name of a function at line 1, column 1'],
    ['a = fetch name:x; a 5', 'macro "a" takes no arguments at line 1, column 21'],
    [
      'unused = summ; fetch name:x',
      'no function or macro has the name "summ" at line 1, column 10 (did you mean "sum"?)',
    ],
  ];
  for (const [script, problem] of cases) assert.equal(await problemOf(script), problem, script);
  for (const name of refusedNames.keys()) {
    const script = `fetch name:a\n| ${name} 5`;
    assert.match(await problemOf(script), /is not served: it .* at line 2, column 3$/);
  }
});

test('pipelines begin with series, and nothing else makes any', async () => {
  const cases: readonly (readonly [string, string])[] = [
    ['sum', '"sum" takes series, and nothing comes before it at line 1, column 1'],
    ['> 5', '">" takes series, and nothing comes before it at line 1, column 1'],
    ['t = sum; t', '"t" takes series, and nothing comes before it at line 1, column 10'],
    ['fetch name:a | fetch name:b', '"fetch" makes series and takes none at line 1, column 16'],
    [
      'fetch name:a | (constantLine 5)',
      '"constantLine" makes series and takes none at line 1, column 17',
    ],
    ['a = fetch name:a; a | a', '"a" makes series and takes none at line 1, column 23'],
  ];
  for (const [script, problem] of cases) {
    assert.ok((await problemOf(script)).startsWith(problem), script);
  }
  const sums = await data.lines('fetch name:requests | sum dc');
  assert.deepEqual(await data.lines('(fetch name:requests) | (sum dc)'), sums);
  assert.deepEqual(await data.lines('t = sum dc; u = t; (fetch name:requests | u)'), sums);
});

test('arguments that a function does not take are told with their place', async () => {
  const after = 'fetch name:a | ';
  const cases: readonly (readonly [string, string])[] = [
    ['scale', 'factor of scale is missing at column 16 (write "scale factor")'],
    ['scale 1 2', 'scale takes one argument at most at column 24 (write "scale factor")'],
    ['derivative 1', 'derivative takes no arguments at column 27 (write "derivative")'],
    ['scale x', 'factor of scale has to be a number, not "x" at column 22'],
    [
      'scale 1e3',
      'factor of scale has to be a number, not "1e3" at column 22 (write 1000: numbers have no exponent)',
    ],
    ['head 1.5', 'limit of head has to be a whole number, not "1.5" at column 21'],
    [
      'head 1 averag',
      'func of head has to name an aggregation, not "averag" at column 23 (did you mean "average"?)',
    ],
    ['head lmit:1', 'no argument of head has the name "lmit" at column 21 (did you mean "limit"?)'],
    ['head limit:1 limit:2', 'keyword "limit" stands twice at column 29'],
    ['head 1 limit:2', 'limit of head is given twice at column 23'],
    [
      'head (fetch name:b)',
      'head takes no pipeline as an argument at column 21 (write "head [limit] [func]")',
    ],
    [
      'head limit:(fetch name:b)',
      'limit of head takes no pipeline at column 27 (write "head [limit] [func]")',
    ],
    [
      'divideSeries (fetch name:b) (fetch name:c)',
      'divideSeries takes one pipeline alone as an argument at column 44 (write "divideSeries (divisor) [tags …]")',
    ],
    [
      'divideSeries dc',
      'divisor of divideSeries has to be a pipeline in parentheses, or a number, not "dc" at column 29',
    ],
    ['moving 5', ''],
    ['moving 0', 'interval of moving has to be a number of rows above 0, not "0" at column 23'],
    [
      'moving 5q',
      'interval of moving has to be an interval such as 5m or 1h, not "5q" at column 23',
    ],
    [
      'summarize -5m',
      'interval of summarize has to be an interval above 0, not "-5m" at column 26',
    ],
    [
      'nPercentile 0',
      'percentile of nPercentile has to be a number above 0, at most 100, not "0" at column 28',
    ],
    [
      'timeshift 5',
      'duration of timeshift has to be an interval such as 5m or 1h, not "5" at column 26 (write "5s" or "5m")',
    ],
    ['sort max yes', 'reverse of sort has to be true or false, not "yes" at column 25'],
    ['sum web*', 'tags of sum has to be the name of a tag, not "web*" at column 20'],
    [
      'excludeByTag host {a',
      'pattern of excludeByTag has a "{" without a "}", not "{a" at column 34',
    ],
    ['> (fetch name:b)', '> takes no pipeline as an argument at column 18 (write "> value")'],
  ];
  for (const [call, problem] of cases) {
    if (problem === '') await data.run(after + call);
    else assert.equal((await problemOf(after + call)).replace('line 1, ', ''), problem, call);
  }
});

test('a boolean that may be left out is passed over by what is none', async () => {
  const named = await data.lines('fetch name:requests | percentileOfSeries 50 tags:dc');
  assert.deepEqual(await data.lines('fetch name:requests | percentileOfSeries 50 dc'), named);
  assert.deepEqual(
    await data.lines('fetch name:requests host:web1 | showTags host'),
    await data.lines('fetch name:requests host:web1 | showTags true host'),
  );
});

test('fetch needs tags, each with one glob', async () => {
  const cases: readonly (readonly [string, string])[] = [
    [
      'fetch',
      'fetch needs a tag at line 1, column 1 (write "fetch name:foo", with a keyword for each tag)',
    ],
    [
      'fetch foo',
      'an argument of fetch has no tag at line 1, column 7 (write "fetch name:foo", with a keyword for each tag)',
    ],
    [
      'fetch name:a name:b',
      'tag "name" stands twice at line 1, column 14 (several globs of a tag are one, as in {a,b})',
    ],
    [
      'fetch name:a __name__:b',
      'tag "__name__" stands twice at line 1, column 14 (several globs of a tag are one, as in {a,b})',
    ],
    [
      'fetch host:""',
      'fetch needs a tag that is not empty at line 1, column 1 (write "fetch name:foo", with a keyword for each tag)',
    ],
    [
      'fetch name:(fetch name:b)',
      'fetch takes no pipeline at line 1, column 12 (write "fetch name:foo", with a keyword for each tag)',
    ],
    ['fetch name:a[', 'the glob of name has a "[" without a "]"'],
  ];
  for (const [script, problem] of cases) assert.equal(await problemOf(script), problem, script);
});

test('globs take whole values of tags that are there', async () => {
  const hosts = async (condition: string) =>
    (
      await data.lines(`fetch name:{requests,errors} ${condition} | aliasByTags host | count name`)
    ).map((line) => line.replace(/\{.*$/, ''));
  assert.deepEqual(await hosts('host:*'), ['web1', 'web2', 'web3']);
  assert.deepEqual(await hosts('host:""'), ['']);
  assert.deepEqual(await hosts('host:web'), []);
  assert.deepEqual(await hosts('host:[^x]*{1,[3-9]}'), ['web1', 'web3']);
  assert.deepEqual(await hosts('host:w?b2'), ['web2']);
  assert.deepEqual(await hosts('host:"web\\*"'), []);
});

test('a path of Carbon is found by its name and by its nodes', async () => {
  const names = async (condition: string) =>
    (await data.lines(`fetch ${condition} | count name`)).map((line) => line.replace(/\{.*$/, ''));
  assert.deepEqual(await names('name:servers.web1.cpu'), ['servers.web1.cpu']);
  assert.deepEqual(await names('name:servers.*'), []);
  assert.deepEqual(await names('name:servers.**'), ['servers.web1.cpu', 'servers.web2.cpu']);
  assert.deepEqual(await names('__g1__:web2'), ['servers.web2.cpu']);
  assert.deepEqual(await names('name:servers.*.* __g1__:web2'), ['servers.web2.cpu']);
  assert.deepEqual(await names('name:servers.*.* host:web2'), []);
});

test('rows of other steps stand in the rows of the answer until they are over', async () => {
  const grid = { startSeconds, stepSeconds, rowCount: 6 };
  const { lines } = await data.run(
    'fetch name:requests host:web2 | summarize 3m max | derivative',
    grid,
  );
  assert.deepEqual(lines, ['requests{dc="a",host="web2"} . . . 15 15 15']);
  const coarse = { startSeconds, stepSeconds: 120, rowCount: 3 };
  assert.deepEqual(
    (await data.run('fetch name:requests host:web2 | timeshift 90s', coarse)).lines,
    ['requests{dc="a",host="web2"} . 5 15'],
  );
});

test('an interval of moving is whole steps, however long the steps are', async () => {
  const coarse = { startSeconds: startSeconds + 120, stepSeconds: 120, rowCount: 2 };
  assert.deepEqual(
    (await data.run('fetch name:requests host:web2 | moving 3m sum', coarse)).lines,
    ['requests{dc="a",host="web2"} 20 40'],
  );
});

test('what is above the limits is refused', async () => {
  const nested = (count: number) => `fetch name:requests${' | scale 1'.repeat(count)}`;
  assert.match(await errorOf(nested(7_000)), /longer than 65536 characters/);
  assert.deepEqual(await data.lines(nested(900)), await data.lines('fetch name:requests'));
  const doubled = Array.from(
    { length: 20 },
    (_, index) => `t${index + 1} = t${index} | t${index};`,
  );
  const script = `t0 = abs;\n${doubled.join('\n')}\nfetch name:requests | t20`;
  assert.match(await errorOf(script), /more than 2000 calls and arguments, with those of macros/);
  const few = { seriesMax: 2, rowsMax: 1_000 };
  await assert.rejects(data.run('fetch name:requests', undefined, few), /reads more than 2 series/);
  const rows = { seriesMax: 100, rowsMax: 20 };
  await assert.rejects(
    data.run('a = fetch name:requests | abs; b = a | abs; a | diff (b)', undefined, rows),
    /keeps more than 20 rows/,
  );
});

/** Lines, or what a bad request says; anything else is thrown. */
async function outcomeOf(script: string): Promise<readonly string[]> {
  try {
    return (await data.run(script, undefined, { seriesMax: 100, rowsMax: 10_000 })).lines;
  } catch (error) {
    // A limit on rows is Prometheus' error.
    const isRefusal =
      (error instanceof TsdbError && error.code === 'BAD_REQUEST') ||
      (error as Error).name === 'PromqlError';
    if (!isRefusal) throw error;
    return [];
  }
}

test('scripts of known functions answer rows or a bad request, and the same when they are printed', async () => {
  let answered = 0;
  await fc.assert(
    fc.asyncProperty(knownScript, async (script) => {
      const lines = await outcomeOf(script);
      assert.deepEqual(await outcomeOf(formatScript(parseScript(script))), lines);
      if (lines.length > 0) answered += 1;
    }),
    { numRuns: 1_000 },
  );
  assert.ok(answered > 100, `most of them should not be refused: ${answered} answered`);
});

test('scripts of any names, and garbage, are refused', async () => {
  await fc.assert(
    fc.asyncProperty(generatedScript, async (script) => {
      assert.deepEqual(await outcomeOf(formatScript(script)), []);
    }),
    { numRuns: 300 },
  );
  await fc.assert(
    fc.asyncProperty(garbage, async (text) => {
      await outcomeOf(text);
    }),
    { numRuns: 300 },
  );
});
