import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../../coordinator_testing.ts';

const settings = '{carbon: {ingester: {listenAddress: "127.0.0.1:0"}}, graphite: {step: 10s}}';

/** Ten samples of two hosts, every 10 s, values 0..9 and 100..109; returns the time of the first. */
async function filled(test: TestCoordinator): Promise<number> {
  const start = nowSeconds() - 100;
  const rows = Array.from({ length: 10 }, (_, i) => [
    { tags: { __name__: 'cpu', host: 'a' }, timestamp: start + i * 10, value: i },
    { tags: { __name__: 'cpu', host: 'b' }, timestamp: start + i * 10, value: 100 + i },
  ]).flat();
  const answer = await test.post('/api/v1/json/write', rows);
  assert.equal(answer.status, 200, answer.text);
  return start;
}

async function sendLines(test: TestCoordinator, lines: readonly string[]): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.carbon!.tcpPort });
  socket.end(lines.map((line) => `${line}\n`).join(''));
  socket.resume();
  await once(socket, 'close');
}

const inUrl = (parameters: Record<string, string | number>): string =>
  `${new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, `${value}`]))}`;

function ranged(test: TestCoordinator, start: number, query: string, rest = {}) {
  const parameters = { query, start, end: start + 90, step: '10s', ...rest };
  return test.get(`/m3ql/api/v1/query_range?${inUrl(parameters)}`);
}

function errorOf(answer: TestAnswer): string {
  assert.equal(answer.status, 400, answer.text);
  assert.equal(answer.json.status, 'error');
  assert.equal(answer.json.errorType, 'bad_data');
  return answer.json.error as string;
}

test('a range of M3QL is a matrix, at its own path and by the name of the engine', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const parameters = inUrl({
    query: 'fetch name:cpu host:* | scale 2 | sum host | > 214',
    start,
    end: start + 90,
    step: '10s',
  });
  const expected = {
    status: 'success',
    data: {
      resultType: 'matrix',
      result: [
        { metric: { host: 'b' }, values: [8, 9].map((i) => [start + i * 10, `${200 + 2 * i}`]) },
      ],
    },
  };
  const answers = [
    await test.get(`/m3ql/api/v1/query_range?${parameters}`),
    await test.post('/m3ql/api/v1/query_range', parameters),
    await test.get(`/api/v1/query_range?engine=m3ql&${parameters}`),
    await test.get(`/prometheus/api/v1/query_range?engine=m3ql&${parameters}`),
    await test.get(`/api/v1/query_range?${parameters}`, { 'TSDB-Engine': 'm3ql' }),
    await test.get(`/api/v1/query_range?${parameters}`, { 'M3-Engine': 'm3ql' }),
  ];
  for (const answer of answers) {
    assert.deepEqual([answer.status, answer.json], [200, expected]);
    assert.equal(answer.headers['content-type'], 'application/json');
    assert.equal(answer.headers['tsdb-engine'], 'm3ql');
    assert.equal(answer.headers['m3-series-count'], '2');
  }
  // The parameter comes before the header, and M3's name of PromQL is no other language.
  for (const engine of ['prometheus', 'm3query']) {
    const promql = await test.get(
      `/api/v1/query_range?engine=${engine}&${parameters.replace(/query=[^&]*/, 'query=cpu')}`,
      { 'TSDB-Engine': 'm3ql' },
    );
    assert.equal(promql.headers['tsdb-engine'], 'prometheus');
    assert.equal(promql.json.data.result.length, 2);
  }
});

test('an instant query of M3QL answers the row of its time', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const start = await filled(test);
  const at = async (query: string, time: number, rest = {}) => {
    const answer = await test.get(`/m3ql/api/v1/query?${inUrl({ query, time, ...rest })}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json.data as unknown;
  };
  assert.deepEqual(await at('fetch name:cpu | sum', start + 45), {
    resultType: 'vector',
    result: [{ metric: {}, value: [start + 45, '108'] }],
  });
  // A rate needs the row before, and a value that a comparison took out an age ago is none of now.
  assert.deepEqual(await at('fetch name:cpu host:a | perSecond', start + 40), {
    resultType: 'vector',
    result: [{ metric: { __name__: 'cpu', host: 'a' }, value: [start + 40, '0.1'] }],
  });
  assert.deepEqual(await at('fetch name:cpu host:a | < 3', start + 40), {
    resultType: 'vector',
    result: [],
  });
  const late = { query: 'fetch name:cpu | sum', time: start + 190, lookback: '1m' };
  assert.deepEqual(
    (await test.get(`/api/v1/query?engine=m3ql&${inUrl(late)}`)).json.data.result,
    [],
  );
});

test('rows have what came since the row before, or as far back as the request says', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const valuesOf = async (rest: object) => {
    const answer = await ranged(test, start, 'fetch name:cpu host:a', rest);
    assert.equal(answer.status, 200, answer.text);
    return (answer.json.data.result[0]?.values ?? []) as readonly (readonly [number, string])[];
  };
  const fine = { step: 5, end: start + 20 };
  assert.deepEqual(await valuesOf(fine), [
    [start, '0'],
    [start + 10, '1'],
    [start + 20, '2'],
  ]);
  assert.deepEqual(
    (await valuesOf({ ...fine, lookback: '10s' })).map(([, value]) => value),
    ['0', '0', '1', '1', '2'],
  );
  assert.deepEqual(
    (await valuesOf({ step: 20, start: start + 20, end: start + 79 })).map(([, value]) => value),
    ['2', '4', '6'],
  );
});

test('a name finds series with tags and paths of Carbon, whose nodes are tags', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const start = Math.floor(nowSeconds() / 10) * 10 - 60;
  await sendLines(test, [
    `servers.web1.cpu 1 ${start}`,
    `servers.web2.cpu 2 ${start}`,
    `servers.web2.cpu.user 4 ${start}`,
    `others.web2.cpu 8 ${start}`,
  ]);
  const write = { tags: { __name__: 'servers.web3.cpu' }, timestamp: start, value: 16 };
  assert.equal((await test.post('/api/v1/json/write', write)).status, 200);
  const resultOf = async (query: string) => {
    const answer = await ranged(test, start, query, { end: start });
    assert.equal(answer.status, 200, answer.text);
    return (answer.json.data.result as { metric: object; values: [number, string][] }[]).map(
      ({ metric, values }) => [metric, values[0]![1]],
    );
  };
  const path = (...nodes: readonly string[]) => ({
    __name__: nodes.join('.'),
    ...Object.fromEntries(nodes.map((node, index) => [`__g${index}__`, node])),
  });
  assert.deepEqual(await resultOf('fetch name:servers.*.cpu'), [
    [path('servers', 'web1', 'cpu'), '1'],
    [path('servers', 'web2', 'cpu'), '2'],
    [{ __name__: 'servers.web3.cpu' }, '16'],
  ]);
  assert.deepEqual(await resultOf('fetch name:servers.web2.cpu'), [
    [path('servers', 'web2', 'cpu'), '2'],
  ]);
  assert.deepEqual(await resultOf('fetch name:servers.** __g1__:web2 | sum __g1__'), [
    [{ __g1__: 'web2' }, '6'],
  ]);
  assert.deepEqual(await resultOf('fetch __g1__:web2 | sum'), [[{}, '14']]);
});

test('what is wrong in a request of M3QL is a 400 that names it', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const errors: readonly (readonly [RegExp, Promise<TestAnswer>])[] = [
    [
      /no function or macro has the name "summ" at line 1, column 18 \(did you mean "sum"\?\)/,
      ranged(test, start, 'fetch name:cpu | summ'),
    ],
    [/^cannot parse script: .*line 1, column 12/, ranged(test, start, 'fetch name:')],
    [/^missing required parameter: query$/, ranged(test, start, '')],
    [/^missing required parameter: step$/, ranged(test, start, 'fetch name:cpu', { step: '' })],
    [
      /^step: M3QL has steps of whole seconds: 0.5s$/,
      ranged(test, start, 'fetch name:cpu', { step: 0.5 }),
    ],
    [
      /^step: exceeded maximum resolution/,
      ranged(test, start, 'fetch name:cpu', { end: start + 11_001, step: 1 }),
    ],
    [/^end: /, ranged(test, start, 'fetch name:cpu', { end: start - 1 })],
    [/limit/, ranged(test, start, 'fetch name:cpu', { limit: 1 })],
    [
      /^cannot evaluate stdev: points has to be above 0: 0$/,
      ranged(test, start, 'fetch name:cpu | stdev 0'),
    ],
    [
      /^lookback: /,
      test.get(`/m3ql/api/v1/query?${inUrl({ query: 'fetch name:cpu', lookback: '0s' })}`),
    ],
    [
      /^step: exceeded maximum/,
      test.get(`/m3ql/api/v1/query?${inUrl({ query: 'fetch name:cpu', lookback: '1d', step: 1 })}`),
    ],
  ];
  for (const [error, answer] of errors) assert.match(errorOf(await answer), error);
});

test('an answer in part says so, and what storage refuses is no defect of the script', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const cut = await ranged(test, start, 'fetch name:cpu', { limit: 1, requireExhaustive: 'false' });
  assert.equal(cut.status, 200, cut.text);
  assert.equal(cut.json.data.result.length, 1);
  assert.match(String(cut.headers['tsdb-results-limited']), /max_fetch_series_limit_applied/);
  test.node.failure = new TsdbError('UNAVAILABLE', 'the disk is away');
  assert.equal((await ranged(test, start, 'fetch name:cpu')).status, 503);
  test.node.failure = null;
  test.node.gate = (signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        reject(signal.reason as Error);
      });
    });
  assert.equal((await ranged(test, start, 'fetch name:cpu', { timeout: '20ms' })).status, 504);
});
