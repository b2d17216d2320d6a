/** Tags that a request or the configuration forces on all that is read: every endpoint that reads is tried. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';
import { readRequest } from '../remote/requests_testing.ts';

const header = 'TSDB-Restrict-By-Tags-JSON';
const carbon = 'carbon: {ingester: {listenAddress: "127.0.0.1:0"}}';
const restrictTags = 'query: {restrictTags: {match: [{name: tenant, type: EQUAL, value: a}]}}';

const ofTenant = (tenant: string, strip?: readonly string[]): string =>
  JSON.stringify({ match: [{ name: 'tenant', type: 'EQUAL', value: tenant }], strip });

/** Whatever is of the other tenant has this in its name, and in values of its tags. */
const secret = 'zebra';
const own = 'lion';

const { signal } = new AbortController();

/** Series of the tenants a and b, with exemplars, messages and paths of Carbon. */
async function opened(settings = `{${carbon}}`): Promise<TestCoordinator> {
  const test = await TestCoordinator.openReady(settings);
  const millis = nowSeconds() * 1000;
  const tenants = [
    { tenant: 'a', animal: own },
    { tenant: 'b', animal: secret },
  ];
  const series = tenants.flatMap(({ tenant, animal }) =>
    [`metric_${animal}`, 'shared'].map((metric) => ({
      tags: Object.entries({ __name__: metric, animal, tenant, [`tag_${animal}`]: 'x' }).map(
        ([name, value]) => ({ name, value }),
      ),
      samples: [-60_000, -30_000, 0].map((before) => ({
        timestampMillis: millis + before,
        value: tenant === 'a' ? 1 : 4242.5,
      })),
      exemplars: [
        { labels: [{ name: 'trace', value: animal }], value: 1, timestampMillis: millis },
      ],
    })),
  );
  const body = encodeRemoteWrite(series, [{ name: 'metric_x', type: 1, help: secret, unit: '' }]);
  await test.post('/api/v1/compat/remote/write', body);
  await until(() => readyIn(test, '_exemplars') && readyIn(test, '_metadata'));
  assert.equal((await test.post('/api/v1/compat/remote/write', body)).status, 200);
  const create = { namespaceName: 'devices', retentionTime: '12h' };
  assert.equal((await test.post('/api/v1/database/create', create)).status, 200);
  await test.post('/api/v1/services/tsdb/namespace/ready', { name: 'devices' });
  await until(() => readyIn(test, 'devices'));
  const schema = {
    name: 'devices',
    msgName: 'Reading',
    protoName: 'reading.proto',
    protoMap: { 'reading.proto': 'syntax = "proto3"; message Reading { double load = 1; }' },
  };
  assert.equal((await test.post('/api/v1/services/tsdb/schema', schema)).status, 200);
  const messages = tenants.map(({ tenant, animal }) => ({
    tags: { __name__: 'reading', tenant, animal },
    timestamp: nowSeconds(),
    value: { load: 1.5 },
  }));
  assert.equal((await test.post('/api/v1/json/write', messages)).status, 200);
  const event = { what: secret, tags: [secret], data: secret };
  assert.equal((await test.post('/events', event)).status, 200);
  if (test.coordinator.carbon !== null) {
    const socket = connect({ host: '127.0.0.1', port: test.coordinator.carbon.tcpPort });
    await once(socket, 'connect');
    socket.end(`paths.${secret}.cpu 1 ${nowSeconds()}\ndisk;tenant=a;kind=${own} 1 -1\n`);
    socket.resume();
    await once(socket, 'close');
  }
  return test;
}

const readyIn = (test: TestCoordinator, name: string): boolean =>
  test.topology.view.namespaces.get(name)?.options.stagingStatus === 'READY';

async function until(isSo: () => boolean): Promise<void> {
  for (let attempt = 0; !isSo(); attempt++) {
    assert.ok(attempt < 400, 'not in time');
    await realEnv.clock.sleep(25, signal);
  }
}

type Ask = (test: TestCoordinator, headers: Record<string, string>) => Promise<TestAnswer>;

const get =
  (path: string, parameters: Record<string, string | readonly string[]> = {}): Ask =>
  (test, headers) =>
    test.get(`${path}?${form(parameters)}`, headers);
const post =
  (path: string, parameters: Record<string, string | readonly string[]>): Ask =>
  (test, headers) =>
    test.post(path, form(parameters), headers);

const form = (parameters: Record<string, string | readonly string[]>): string =>
  new URLSearchParams(
    Object.entries(parameters).flatMap(([name, values]) =>
      [values].flat().map((value) => [name, value] as [string, string]),
    ),
  ).toString();

/** Questions are made before rows are written, on a busy machine some time before. */
const soon = (): string => `${nowSeconds() + 60}`;
const before = (): string => `${nowSeconds() - 300}`;
const range = () => ({ start: before(), end: soon(), step: '10' });

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Series by M3's search, whose answers have all texts in base64. */
const searched: Ask = async (test, headers) => {
  const matchers = [{ type: 2, name: base64('animal'), value: base64('.+') }];
  const answer = await test.post('/search', { matchers }, headers);
  const text = answer.text.replace(/"([A-Za-z0-9+/]+={0,2})"/g, (_, word: string) =>
    JSON.stringify(Buffer.from(word, 'base64').toString()),
  );
  return { ...answer, text };
};

const readByQuery =
  (more: Record<string, string> = {}): Ask =>
  (test, headers) => {
    const query = 'rate({animal=~".+"}[5m]) or shared{tenant="b"}';
    const asked = { query, start: before(), end: soon(), ...more };
    return get('/api/v1/prom/remote/read', asked)(test, headers);
  };

/** Attempts to read what is of the other tenant; each finds it when nothing is forced. */
const attempts: readonly (readonly [what: string, ask: Ask])[] = [
  ...[
    `{__name__=~".+"}`,
    `shared`,
    `metric_${secret}`,
    `shared{tenant="b"}`,
    `shared{tenant=~"a|b"}`,
    `shared{tenant!="a"}`,
    `{__name__=~".+",tenant=~".*"} or shared{tenant="b"}`,
    `sum by (animal) (shared)`,
    `count by (tenant, animal) ({__name__=~".+"})`,
    `label_replace(shared, "x", "$1", "animal", "(.*)")`,
    `last_over_time({tenant="b"}[5m])`,
    `sum by (animal) (shared offset 1s)`,
    `topk(10, {animal!=""})`,
    `count_values by (animal) ("v", shared)`,
    `shared * on (animal) group_left (tenant) shared`,
    `max_over_time(shared[5m:10s])`,
    `reading{__field__="load"}`,
  ].map((query) => [query, get('/api/v1/query', { query, time: soon() })] as const),
  [
    'range query',
    (test, headers) => get('/api/v1/query_range', { query: 'shared', ...range() })(test, headers),
  ],
  ['range of rows', get('/api/v1/query', { query: '{animal=~".+"}[5m]' })],
  ['query by form', post('/prometheus/api/v1/query', { query: '{animal=~".+"}' })],
  ['M3QL', get('/m3ql/api/v1/query', { query: 'fetch name:shared' })],
  ['M3QL by a parameter', get('/api/v1/query', { engine: 'm3ql', query: 'fetch animal:*' })],
  ['labels', get('/api/v1/labels')],
  ['labels of a selector', get('/api/v1/labels', { 'match[]': `{tag_${secret}="x"}` })],
  ['labels by form', post('/api/v1/labels', { 'match[]': '{tenant="b"}' })],
  ['values', get('/api/v1/label/animal/values')],
  ['names', get('/prometheus/api/v1/label/__name__/values')],
  ['series', get('/api/v1/series', { 'match[]': ['shared', '{tenant="b"}'] })],
  ['series of all', post('/api/v1/series', { 'match[]': '{__name__!=""}' })],
  ['federate', get('/federate', { 'match[]': ['shared', '{tenant="b"}'] })],
  ['export', get('/api/v1/export', { 'match[]': '{animal!=""}' })],
  [
    'export as CSV',
    get('/api/v1/export/csv', { 'match[]': 'shared', format: '__name__,animal,__value__' }),
  ],
  ['exemplars', get('/api/v1/query_exemplars', { query: '{animal!=""} or shared' })],
  ['messages', get('/api/v1/json/query', { 'match[]': 'reading' })],
  [
    'render by tags',
    post('/render', { target: 'seriesByTag("animal=~.+")', format: 'json', from: '-10min' }),
  ],
  [
    'render in groups',
    get('/render', {
      target: 'groupByTags(seriesByTag("name=shared"),"sum","animal")',
      format: 'json',
    }),
  ],
  ['render of a path', get('/render', { target: 'paths.*.*', format: 'json' })],
  ['find', get('/metrics/find', { query: 'paths.*' })],
  ['find across', get('/metrics/find', { query: '**' })],
  ['expand', get('/metrics/expand', { query: 'paths.*' })],
  ['index', get('/metrics/index.json')],
  ['tags', get('/tags')],
  ['tag', get('/tags/animal')],
  ['tags that are completed', get('/tags/autoComplete/tags', { tagPrefix: 'tag_' })],
  ['values that are completed', get('/tags/autoComplete/values', { tag: 'animal' })],
  ['series of tags', get('/tags/findSeries', { expr: 'animal=~.+' })],
  ['search for tags', get('/api/v1/search', { query: 'animal:.+' })],
  [
    'search for names of tags',
    get('/api/v1/search', { query: 'animal:.+', result: 'tagNamesOnly' }),
  ],
  ['search for series', searched],
  ['remote read', remoteRead([])],
  ['remote read of chunks', remoteRead([1])],
  ['remote read as JSON', remoteRead([], '?format=json')],
  ['remote read of a query', readByQuery()],
  ['remote read of a query as JSON', readByQuery({ format: 'json' })],
];

function remoteRead(types: readonly number[], more = ''): Ask {
  const [startMillis, endMillis] = [(nowSeconds() - 300) * 1000, (nowSeconds() + 300) * 1000];
  const matchers = [[2, 'animal', '.+']] as const;
  const asked = { startMillis, endMillis, matchers };
  const other = { startMillis, endMillis, matchers: [[0, 'tenant', 'b']] as const };
  return (test, headers) =>
    test.post(`/api/v1/compat/remote/read${more}`, readRequest([asked, other], types), headers);
}

test('a forced tag holds wherever something is read', { timeout: 60_000 }, async () => {
  await using test = await opened();
  for (const [what, ask] of attempts) {
    const whole = await ask(test, {});
    assert.equal(whole.status, 200, `${what}: ${whole.text}`);
    assert.ok(whole.text.includes(secret), `${what} finds nothing: ${whole.text}`);
    const forced = await ask(test, { [header]: ofTenant('a') });
    assert.ok(forced.status === 200 || forced.status === 404, `${what}: ${forced.text}`);
    // What was asked for by the name of the other may be said again.
    const said = forced.text.replaceAll(`"target":"metric_${secret}`, '');
    assert.ok(!said.includes(secret) && !said.includes('4242.5'), `${what}: ${forced.text}`);
    // Under either name, and beside each other.
    const byM3 = await ask(test, {
      'M3-Restrict-By-Tags-JSON': ofTenant('a'),
      [header]: '{"strip":["none"]}',
    });
    assert.ok(!byM3.text.includes(secret), `${what} by both names: ${byM3.text}`);
  }
  assert.ok(attempts.length >= 40);
});

test('what tells of all series is refused to who is forced to some', async () => {
  await using test = await opened();
  const paths = [
    '/api/v1/metadata',
    '/prometheus/api/v1/targets/metadata',
    '/api/v1/status/tsdb',
    '/events',
    '/events/get_data',
  ];
  for (const path of paths) {
    const refused = await test.get(path, { [header]: ofTenant('a') });
    assert.equal(refused.status, 400, path);
    assert.match(refused.json.error, /^header TSDB-Restrict-By-Tags-JSON: not supported here: /);
  }
  const events = get('/render', { target: 'events("*")', format: 'json', from: '-1min' });
  assert.equal((await events(test, {})).status, 200);
  const refused = await events(test, { [header]: ofTenant('a') });
  assert.equal(refused.status, 400);
  assert.match(refused.text, /events\(\) tells the events of all, and tags are forced/);
  const write = await test.post(
    '/api/v1/json/write',
    { tags: { __name__: 'm' }, timestamp: nowSeconds(), value: 1 },
    { [header]: ofTenant('a') },
  );
  assert.equal(write.status, 400);
});

test('strip leaves tags out of answers; without it those of match are', async () => {
  await using test = await opened();
  const metricOf = async (value: string, query = 'metric_lion'): Promise<unknown> =>
    (await get('/api/v1/query', { query })(test, { [header]: value })).json.data.result.map(
      ({ metric }: { metric: object }) => metric,
    );
  const name = { __name__: 'metric_lion', animal: own, tag_lion: 'x' };
  assert.deepEqual(await metricOf(ofTenant('a')), [name]);
  assert.deepEqual(await metricOf(ofTenant('a', [])), [{ ...name, tenant: 'a' }]);
  assert.deepEqual(await metricOf(ofTenant('a', ['animal', 'tag_lion'])), [
    { __name__: 'metric_lion', tenant: 'a' },
  ]);
  assert.deepEqual(await metricOf('{"strip":["animal"]}', 'count by (animal) (shared)'), [{}, {}]);
  const labels = await get('/api/v1/labels')(test, { [header]: ofTenant('a') });
  assert.deepEqual(labels.json.data, ['__field__', '__name__', 'animal', 'kind', 'tag_lion']);
  const values = await get('/api/v1/label/tenant/values')(test, { [header]: ofTenant('a') });
  assert.deepEqual(values.json.data, []);
  for (const [path, parameters] of [
    ['/api/v1/series', { 'match[]': 'shared' }],
    ['/federate', { 'match[]': 'shared' }],
    ['/api/v1/export', { 'match[]': 'shared' }],
    ['/api/v1/query_exemplars', { query: 'shared' }],
    ['/api/v1/json/query', { 'match[]': 'reading' }],
    ['/m3ql/api/v1/query', { query: 'fetch name:shared' }],
  ] as const) {
    const { text } = await get(path, parameters)(test, { [header]: ofTenant('a') });
    assert.ok(text.includes(own) && !text.includes('tenant'), `${path}: ${text}`);
  }
});

test("M3's kinds of matchers", async () => {
  await using test = await opened();
  const found = async (match: object): Promise<string[]> => {
    const value = JSON.stringify({ match: [match], strip: [] });
    const { json } = await get('/api/v1/query', { query: 'shared' })(test, { [header]: value });
    return json.data.result.map(({ metric }: { metric: { tenant: string } }) => metric.tenant);
  };
  const both = ['a', 'b'];
  assert.deepEqual(await found({ name: 'tenant', type: 'NOTEQUAL', value: 'a' }), ['b']);
  assert.deepEqual((await found({ name: 'tenant', type: 'REGEXP', value: 'a|b' })).sort(), both);
  assert.deepEqual(await found({ name: 'tenant', type: 'REGEXP', value: '' }), []);
  assert.deepEqual(await found({ name: 'tenant', type: 'NOTREGEXP', value: '[b-z]' }), ['a']);
  assert.deepEqual(await found({ name: 'tag_lion', type: 'EXISTS' }), ['a']);
  assert.deepEqual(await found({ name: 'tag_lion', type: 'NOTEXISTS' }), ['b']);
});

test('a header that makes no sense is refused, never passed over', async () => {
  await using test = await TestCoordinator.openReady();
  for (const [value, message] of [
    ['tenant=a', /^header TSDB-Restrict-By-Tags-JSON: the request body is not JSON/],
    ['[]', /not a JSON object: \[\]/],
    ['{"matches":[]}', /unknown field: matches/],
    ['{"match":[{"type":"EQUAL","value":"a"}]}', /match\[0\]\.name: missing/],
    ['{"match":[{"name":"tenant","value":"a"}]}', /match\[0\]\.type: missing/],
    [
      '{"match":[{"name":"tenant","type":"equal","value":"a"}]}',
      /match\[0\]\.type: not one of EQUAL, /,
    ],
    ['{"match":[{"name":"tenant","type":"ALL"}]}', /match\[0\]\.type: not one of/],
    ['{"match":[{"name":"t","type":"REGEXP","value":"("}]}', /regexp/],
    ['{"match":[],"match":[]}', /key is given twice: "match"/],
    ['{"match":[{"name":"t","type":"EQUAL","value":1}]}', /match\[0\]\.value: not a string: 1/],
    ['{"strip":"t"}', /strip: not a list/],
    [`${ofTenant('a')}, ${ofTenant('b')}`, /not JSON/],
    ['{}', /^header TSDB-Restrict-By-Tags-JSON: it forces nothing, without match and strip: \{\}$/],
    ['{"match":[]}', /it forces nothing/],
    ['{"match":[],"strip":[]}', /it forces nothing/],
    ['', /^header TSDB-Restrict-By-Tags-JSON: it is empty, and forces nothing$/],
  ] as const) {
    const answer = await get('/api/v1/query', { query: 'up' })(test, { [header]: value });
    assert.equal(answer.status, 400, value);
    assert.match(answer.json.error, message);
  }
});

test('query.restrictTags holds for all, and a header may only tighten it', async () => {
  await using test = await opened(`{${carbon}, ${restrictTags}}`);
  for (const [what, ask] of attempts) {
    const { text } = await ask(test, {});
    assert.ok(!text.includes(secret) && !text.includes('4242.5'), `${what}: ${text}`);
    const loosened = await ask(test, { [header]: ofTenant('b') });
    assert.ok(!loosened.text.includes(secret), `${what}: ${loosened.text}`);
  }
  const own = await get('/api/v1/query', { query: 'shared' })(test, {});
  assert.equal(own.json.data.result.length, 1);
});

test('a header that is there with nothing in it is refused wherever there is something of data', async () => {
  await using test = await TestCoordinator.openReady();
  const row = { tags: { __name__: 'm' }, timestamp: nowSeconds(), value: 1 };
  const calls: readonly ((headers: Record<string, string>) => Promise<TestAnswer>)[] = [
    (headers) => test.get('/api/v1/labels', headers),
    (headers) => test.get('/api/v1/metadata', headers),
    (headers) => test.get('/api/v1/export?match[]=m', headers),
    (headers) => test.post('/api/v1/json/write', row, headers),
    (headers) => test.post('/api/v1/admin/tsdb/delete_series?match[]=m', '', headers),
    (headers) => test.get('/api/v1/services/m3db/placement', headers),
  ];
  for (const call of calls) {
    for (const name of [header, 'M3-Restrict-By-Tags-JSON']) {
      const answer = await call({ [name]: '' });
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.json.error, `header ${name}: it is empty, and forces nothing`);
    }
    // Without its prefix it would force nothing, whatever is in it.
    const bare = await call({ 'Restrict-By-Tags-JSON': '' });
    assert.equal(bare.status, 400, bare.text);
    assert.match(bare.json.error, /its name is TSDB-Restrict-By-Tags-JSON or M3-/);
  }
  assert.equal((await test.get('/health', { [header]: '' })).status, 200);
});

interface Call {
  readonly method: string;
  readonly path: string;
}

/** All that the API has, by what it says of itself; parts of paths are the name of a tag. */
async function callsOf(test: TestCoordinator): Promise<readonly Call[]> {
  const { paths } = (await test.get('/api/v1/openapi')).json as {
    paths: Record<string, Record<string, unknown>>;
  };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{\w+\}/g, 'animal'),
    })),
  );
}

/** What shows or changes what all data are kept by. */
const isAdmin = ({ path }: Call): boolean =>
  /^\/(?:api\/v1\/(?:database|services|placement|namespace|kvstore|topic)|r2)\b/.test(path);

/** What brings rows or events, or cleans up behind deletions. */
const isWrite = ({ method, path }: Call): boolean =>
  method !== 'GET' &&
  /(?:\/write|\/put\/?|\/import|\/import\/prometheus|\/v1\/metrics|\/datadog\/api\/v1\/series|\/v2\/series|\/events\/?|\/clean_tombstones)$/.test(
    path,
  );

test('what tells of all series is refused by each of its methods where the configuration forces tags', async () => {
  await using free = await opened();
  await using forced = await opened(`{${carbon}, ${restrictTags}}`);
  const found: string[] = [];
  for (const call of await callsOf(free)) {
    if (isAdmin(call) || isWrite(call)) continue;
    const { method, path } = call;
    const byHeader = await free.send(method, path, undefined, { [header]: ofTenant('a') });
    // It knows of no part of the series.
    if (!byHeader.text.includes('not supported here')) continue;
    found.push(`${method} ${path}`);
    for (const each of method === 'GET' ? ['GET', 'HEAD'] : [method]) {
      const refused = await forced.send(each, path, undefined);
      assert.equal(refused.status, 400, `${each} ${path}`);
      if (each !== 'HEAD') assert.match(refused.json.error, /query\.restrictTags/, path);
    }
  }
  for (const wanted of [
    'GET /events',
    'GET /api/v1/graphite/events/',
    'GET /events/get_data',
    'POST /events/get_data',
    'POST /api/v1/graphite/events/get_data/',
    'GET /api/v1/metadata',
    'GET /prometheus/api/v1/targets/metadata',
    'GET /api/v1/status/tsdb',
  ]) {
    assert.ok(found.includes(wanted), wanted);
  }
  // What changes them, and tells nothing, is taken.
  assert.equal((await forced.post('/events', { what: 'deploy' })).status, 200);
  for (const method of ['POST', 'PUT']) {
    const cleaned = await forced.send(method, '/api/v1/admin/tsdb/clean_tombstones', undefined);
    assert.equal(cleaned.status, 204, cleaned.text);
  }
});

test('no endpoint tells of the other tenant, whatever it is asked', {
  timeout: 120_000,
}, async () => {
  await using free = await opened();
  await using forced = await opened(`{${carbon}, ${restrictTags}}`);
  const asked = {
    'match[]': '{animal=~".+"}',
    target: 'seriesByTag("animal=~.+")',
    expr: 'animal=~.+',
    tag: 'animal',
    format: 'json',
    ...range(),
    from: '-10min',
    until: 'now',
  };
  const queries = ['{animal=~".+"}', 'fetch animal:*', 'animal:.+', '**'];
  const telling = new Set<string>();
  for (const { method, path } of (await callsOf(free)).filter(
    (call) => !isAdmin(call) && !isWrite(call) && !call.path.endsWith('/delete_series'),
  )) {
    for (const query of queries) {
      const ask = method === 'GET' ? get : method === 'POST' ? post : null;
      assert.ok(ask !== null, `${method} ${path}: only what is written or kept has other methods`);
      const ofAll = await ask(path, { ...asked, query })(free, {});
      if (ofAll.text.includes(secret)) telling.add(`${method} ${path}`);
      for (const { text } of [
        await ask(path, { ...asked, query })(forced, {}),
        await ask(path, { ...asked, query })(free, { [header]: ofTenant('a') }),
      ]) {
        assert.ok(!text.includes(secret) && !text.includes('4242.5'), `${method} ${path}: ${text}`);
      }
    }
  }
  assert.ok(telling.size >= 90, `${telling.size} tell something`);
});
