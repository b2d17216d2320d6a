/** Who asks for values of windows, and for no function over a time, gets what aggregation rules say, through the API of a coordinator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { applyRules, makeAggregated, makeWindows, sayComplete } from '../windows_testing.ts';

const hour = 3_600;
const never = new AbortController().signal;
const fullHour = Math.floor(nowSeconds() / hour) * hour;
/** Long after all samples are gone. */
const old = fullHour - 480 * hour;
const tags = [{ name: '__name__', value: 'm' }];
const storagePolicies = [{ resolution: '1h', retention: '720h' }];
const nanosOf = (seconds: number): bigint => BigInt(seconds) * 1_000_000_000n;

/** Of the hours that end then: last value, greatest one. What ends stale has no more than that one. */
const windows = [
  [0, 7, 9],
  [1, Number.NaN, 9],
  [2, 2, 4],
  [3, 1, 6],
  [4, 3, 8],
] as const;

async function filled(test: TestCoordinator): Promise<void> {
  const of = windows.map(([hours, last, max]) => {
    return { endNanos: nanosOf(old + hours * hour), last, max };
  });
  await makeWindows(test, [{ tags, windows: of }]);
}

const rulesOf = (...aggregations: string[]) => ({
  mappingRules: [{ name: 'typed', filter: '__name__:m', aggregations, storagePolicies }],
});

/** Rows of the series, by seconds from the last full hour. */
async function writeRows(
  test: TestCoordinator,
  rows: readonly (readonly [seconds: number, value: number])[],
): Promise<void> {
  for (const [seconds, value] of rows) {
    const row = { tags: { __name__: 'm' }, timestamp: fullHour + seconds, value };
    const { status, text } = await test.post('/api/v1/json/write', row);
    assert.equal(status, 200, text);
  }
}

interface Found {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
  readonly values: readonly (readonly [number, string])[];
}

async function answerOf(
  test: TestCoordinator,
  path: string,
  parameters: Readonly<Record<string, string | number>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly result: readonly Found[]; readonly infos: readonly string[] }> {
  const texts = Object.entries(parameters).map(([name, value]) => [name, String(value)]);
  const answer = await test.get(`${path}?${new URLSearchParams(texts)}`, headers);
  assert.equal(answer.status, 200, answer.text);
  return { result: answer.json.data.result, infos: answer.json.infos ?? [] };
}

/** Of the only series at a time; undefined where there is none. */
async function valueAt(
  test: TestCoordinator,
  query: string,
  time: number,
  headers = {},
): Promise<string | undefined> {
  const { result } = await answerOf(test, '/api/v1/query', { query, time }, headers);
  return result[0]?.value[1];
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt++) {
    if (await isSo()) return;
    await realEnv.clock.sleep(25, never);
  }
  assert.fail(`not in time: ${what}`);
}

test('instant selectors have the value that a rule says, and functions over ranges what they had', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  const queries = [
    'last_over_time(m[4h])',
    'min_over_time(m[4h])',
    'max_over_time(m[4h])',
    'sum_over_time(m[4h])',
    'count_over_time(m[4h])',
    'avg_over_time(m[4h])',
    'increase(m[4h])',
    'delta(m[4h])',
    'stddev_over_time(m[4h])',
    'timestamp(m)',
  ];
  const time = old + 4 * hour;
  const values = async (): Promise<(string | undefined)[]> =>
    Promise.all(queries.map((query) => valueAt(test, query, time)));
  const before = await values();
  assert.equal(await valueAt(test, 'm', time), '3');
  await applyRules(test, rulesOf('Max'));
  await until('the rule is known', async () => (await valueAt(test, 'm', time)) === '8');
  assert.deepEqual(await values(), before);
  assert.equal(await valueAt(test, 'm + 1', old), '10');
  assert.equal(await valueAt(test, 'm', old + hour), undefined, 'the series has ended');
  // Inside of a subquery it is an instant selector.
  assert.equal(await valueAt(test, 'sum_over_time(m[3h:1h])', time), '18');
  const { result } = await answerOf(test, '/api/v1/query', { query: 'm[5h]', time });
  assert.deepEqual(
    result[0]!.values,
    windows.map(([hours, , max]) => [old + hours * hour, `${max}`]),
  );
  const range = { start: old, end: time, step: hour };
  const { result: rows } = await answerOf(test, '/m3ql/api/v1/query_range', {
    query: 'fetch name:m',
    ...range,
  });
  assert.deepEqual(
    rows[0]!.values.map(([, value]) => value),
    ['9', '9', '4', '6', '8'],
  );
});

test('windows of before a rule changed or ended stay what they were', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  await applyRules(test, rulesOf('Max'));
  await applyRules(test, rulesOf('Sum'), nanosOf(old + 2 * hour));
  await applyRules(test, { mappingRules: [] }, nanosOf(old + 3 * hour));
  const time = old + 4 * hour;
  const range = { query: 'm', start: old, end: time, step: hour };
  await until('the rules are known', async () => {
    return (await valueAt(test, 'm', old)) === '9' && (await valueAt(test, 'm', time)) === '3';
  });
  const { result } = await answerOf(test, '/api/v1/query_range', range);
  assert.deepEqual(result[0]!.values, [
    [old, '9'],
    [old + 2 * hour, '4'],
    [old + 3 * hour, '7'],
    [old + 4 * hour, '3'],
  ]);
});

test('windows of recent time that are asked for by hand are what rules say, too', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  await writeRows(test, [
    [-1_800, 5],
    [-1_200, 3],
  ]);
  const byHand = { 'TSDB-Metrics-Type': 'aggregated', 'TSDB-Storage-Policy': '1h:720h' };
  assert.equal(await valueAt(test, 'm', fullHour, byHand), '3');
  await applyRules(test, rulesOf('P99', 'Mean', 'Max'));
  await until('the rule is known', async () => (await valueAt(test, 'm', old)) === '8');
  assert.equal(await valueAt(test, 'm', fullHour, byHand), '4');
  assert.equal(await valueAt(test, 'm', fullHour - 1_100), '3', 'samples are what they are');
});

test('a rule says as what windows of its policies are read, as the tests of M3 have it, and others are read as last', async () => {
  await using test = await TestCoordinator.openReady();
  await makeWindows(test, []);
  await makeAggregated(test, 'halves', '30m', true);
  await sayComplete(test, 'halves');
  const rule = { filter: 'app:nginx*', aggregations: ['Max'], storagePolicies };
  await applyRules(test, { mappingRules: [rule] });
  for (const [at, value] of [15, 10, 30, 5, 0].entries()) {
    for (const app of ['nginx_edge', 'other']) {
      const row = { tags: { __name__: 'foo_metric', app }, timestamp: fullHour - 100 + at, value };
      assert.equal((await test.post('/api/v1/json/write', row)).status, 200);
    }
  }
  const values = (policy: string): Promise<(string | undefined)[]> => {
    const byHand = { 'TSDB-Metrics-Type': 'aggregated', 'TSDB-Storage-Policy': policy };
    const queries = ['foo_metric{app="nginx_edge"}', 'foo_metric{app="other"}'];
    return Promise.all(queries.map((query) => valueAt(test, query, fullHour, byHand)));
  };
  await until('the rule is known', async () => (await values('1h:720h'))[0] === '30');
  assert.deepEqual(await values('1h:720h'), ['30', '0']);
  assert.deepEqual(await values('30m:720h'), ['0', '0']);
});

test('of rules without paths the first by its name counts, whichever was there first', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  const [sum] = rulesOf('Sum').mappingRules;
  const [max] = rulesOf('Max').mappingRules;
  await applyRules(test, { mappingRules: [{ ...sum, name: 'rule 10' }] });
  await applyRules(
    test,
    {
      mappingRules: [
        { ...sum, name: 'rule 10' },
        { ...max, name: 'rule 9' },
      ],
    },
    nanosOf(old + hour),
  );
  const time = old + 4 * hour;
  await until('the rules are known', async () => (await valueAt(test, 'm', time)) === '8');
  assert.equal(await valueAt(test, 'm', old), '16');
});

test('a graph says where sums of windows stand beside samples', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  await writeRows(test, [[-60, 5]]);
  const infosOf = async (query: string, start = old, end = fullHour): Promise<readonly string[]> =>
    (await answerOf(test, '/api/v1/query_range', { query, start, end, step: hour })).infos;
  await applyRules(test, rulesOf('Sum'));
  await until('the rule is known', async () => (await valueAt(test, 'm', old)) === '16');
  const text = (others: string, place: string): string =>
    `PromQL info: values of different scales: ${others} (${place})`;
  const sums = 'sums of windows of 3600 s, as aggregation rules say';
  assert.deepEqual(await infosOf('m'), [text(`${sums}, and samples`, '1:1')]);
  assert.deepEqual(await infosOf('1 + sum(m)'), [text(`${sums}, and samples`, '1:9')]);
  const answer = await answerOf(test, '/api/v1/query', { query: 'm[500h]', time: fullHour });
  assert.deepEqual(answer.infos, [text(`${sums}, and samples`, '1:1')]);
  // One kind of values has no step, and functions over ranges have none.
  assert.deepEqual(await infosOf('m', old, old + 4 * hour), []);
  assert.deepEqual(await infosOf('m', fullHour - hour), []);
  for (const query of ['timestamp(m)', 'sum_over_time(m[4h])', 'other']) {
    assert.deepEqual(await infosOf(query), [], query);
  }
  await applyRules(test, { mappingRules: [] }, nanosOf(old + 2 * hour));
  await until('the rule has ended', async () => {
    return (await valueAt(test, 'm', old + 4 * hour)) === '3';
  });
  assert.deepEqual(await infosOf('m', old, old + 4 * hour), [
    text(`${sums}, and values of windows of 3600 s`, '1:1'),
  ]);
});

test('what a rule says of others than are found is not told', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  await writeRows(test, [[-60, 5]]);
  const rule = { ...rulesOf('Sum').mappingRules[0]!, filter: 'app:billing*' };
  const last = { ...rulesOf('Max').mappingRules[0]!, name: 'known' };
  await applyRules(test, { mappingRules: [rule, last] });
  await until('the rules are known', async () => (await valueAt(test, 'm', old)) === '9');
  const range = { query: 'm', start: old, end: fullHour, step: hour };
  assert.deepEqual((await answerOf(test, '/api/v1/query_range', range)).infos, []);
});

test('sums of windows of two lengths are told, with samples or without', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  await makeAggregated(test, 'halves', '30m', true);
  await sayComplete(test, 'halves', nanosOf(fullHour - 6 * hour));
  const ofBoth = [...storagePolicies, { resolution: '30m', retention: '720h' }];
  const mappingRules = [
    { ...rulesOf('Sum').mappingRules[0]!, storagePolicies: ofBoth },
    { name: 'dropped', filter: '__name__:m', drop: true },
  ];
  await applyRules(test, { mappingRules });
  await writeRows(test, [
    [-2_000, 5],
    [-1_000, 3],
  ]);
  await until('the rules are known', async () => (await valueAt(test, 'm', old)) === '16');
  const byHand = (policies: string) => ({ 'TSDB-Restrict-By-Storage-Policies': policies });
  const range = { query: 'm', start: old, end: fullHour, step: hour };
  const infosOf = async (headers: Readonly<Record<string, string>>): Promise<readonly string[]> =>
    (await answerOf(test, '/api/v1/query_range', range, headers)).infos;
  const text =
    'PromQL info: values of different scales: sums of windows of 3600 s and sums of windows of 1800 s, as aggregation rules say (1:1)';
  assert.deepEqual(await infosOf({}), [text]);
  assert.deepEqual(await infosOf(byHand('30m:720h;1h:720h')), [text]);
  assert.deepEqual(await infosOf(byHand('1h:720h')), []);
});

test('federation and export have the values of what is kept in windows alone', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  const { mappingRules } = rulesOf('Sum');
  const drop = { name: 'dropped', filter: '__name__:m', drop: true };
  await applyRules(test, { mappingRules: [...mappingRules, drop] });
  const write = async (more: object, seconds: number, value: number): Promise<void> => {
    const row = { tags: { __name__: 'm', ...more }, timestamp: seconds, value };
    const { status, text } = await test.post('/api/v1/json/write', row);
    assert.equal(status, 200, text);
  };
  let probe = 0;
  await until('rows are kept aside', async () => {
    await write({ probe: 'yes' }, fullHour - 2 * hour - ++probe, probe);
    return (test.node.namespaces.get('_dropped') ?? []).some(({ rows }) => rows.size > 0);
  });
  await write({}, fullHour - 1_800, 5);
  await write({}, fullHour - 1_200, 3);
  const selector = encodeURIComponent('m{probe=""}');
  const federated = await test.get(`/federate?match[]=${selector}&lookback_delta=2h`);
  assert.equal(federated.text, `# TYPE m untyped\nm{instance=""} 8 ${fullHour * 1000}\n`);
  const exported = await test.get(
    `/api/v1/export?match[]=${selector}&start=${fullHour - hour}&end=${fullHour}`,
  );
  const [line] = exported.text.split('\n');
  assert.deepEqual(JSON.parse(line!).values, [8]);
  assert.equal(await valueAt(test, 'm{probe=""}', fullHour), '8');
});

test('an export has windows where samples are no more, and samples where rules had not dropped them', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  await writeRows(test, [
    [-2.5 * hour, 1],
    [-1_800, 5],
    [-1_200, 3],
  ]);
  const exported = async (more = ''): Promise<unknown[]> => {
    const { text } = await test.get(`/api/v1/export?match[]=m${more}`);
    const [line] = text.split('\n');
    return JSON.parse(line!).values;
  };
  const stale = 'NaN:7ff0000000000002';
  assert.deepEqual(await exported(), [7, stale, 2, 1, 3, 1, 5, 3]);
  const { mappingRules } = rulesOf('Sum');
  const drop = { name: 'dropped', filter: '__name__:m', drop: true };
  await applyRules(test, { mappingRules: [...mappingRules, drop] }, nanosOf(fullHour - 2 * hour));
  await until('the rules are known', async () => (await valueAt(test, 'm', fullHour)) === '8');
  const range = `start=${fullHour - 3 * hour}&end=${fullHour}`;
  assert.deepEqual(await exported(`&${range}`), [1, 8]);
  assert.deepEqual(await exported(), [7, stale, 2, 1, 3, 1, 8]);
  const read = await test.get(`/api/v1/read?query=m&${range}&format=json`);
  const points: { readonly val: string }[] = read.json.queries[0].series[0].datapoints;
  assert.deepEqual(
    points.map(({ val }) => val),
    ['1', '8'],
  );
});

test('M3QL has the newest window in each row where a series has windows alone', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  const { mappingRules } = rulesOf('Sum');
  const drop = { name: 'dropped', filter: '__name__:m', drop: true };
  await applyRules(test, { mappingRules: [...mappingRules, drop] });
  await writeRows(test, [
    [-1.5 * hour, 5],
    [-0.5 * hour, 3],
  ]);
  await until('the rules are known', async () => (await valueAt(test, 'm', old)) === '16');
  const rowsOf = async (start: number, end: number): Promise<readonly string[]> => {
    const range = { query: 'fetch name:m', start, end, step: 600 };
    const { result } = await answerOf(test, '/m3ql/api/v1/query_range', range);
    return result[0]!.values.map(([, value]) => value);
  };
  // A window that ended before the first row is in it, too.
  const values = ['5', '5', '5', '5', '5', '3'];
  assert.deepEqual(await rowsOf(fullHour - hour + 600, fullHour), values);
});
