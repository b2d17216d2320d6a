import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSessionMemory } from '#lib/read_memory/session_memory.ts';
import { addInstances, initPlacement } from '#cluster/placement/algorithm.ts';
import { Session } from '#cluster/session/session.ts';
import type { HttpServer } from '#lib/env/http.ts';
import { BytesInFlight } from '#lib/env/in_flight/bytes_in_flight.ts';
import { realEnv } from '#lib/env/real.ts';
import { newestFormats } from '#lib/format_level.ts';
import { silentLog } from '#lib/log.ts';
import { TestCluster } from '../../cluster_testing.ts';
import { namespaceOf } from '../../storage/database_testing.ts';
import type { JsonBackend } from './backend.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import { overriding } from '#test/overriding.ts';
import { ClusterBackend } from './cluster_backend.ts';
import { clusterMethods, nodeMethods } from './methods.ts';
import { NodeBackend } from './node_backend.ts';
import { serveJson } from './server.ts';

const never = new AbortController().signal;
const nowSeconds = Math.floor(realEnv.clock.nowMillis() / 1000);

interface Answer {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
  readonly text: string;
}

async function call(
  server: HttpServer,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
    ...(body === undefined
      ? {}
      : { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) }),
    headers,
  });
  const text = await response.text();
  return { status: response.status, text, json: JSON.parse(text) };
}

const memory = openSessionMemory(realEnv.clock, null);

async function listen(
  backend: JsonBackend,
  kind: 'node' | 'cluster',
  inFlight: BytesInFlight = new BytesInFlight(1 << 20),
): Promise<HttpServer> {
  return serveJson({
    host: '127.0.0.1',
    port: 0,
    allowedHosts: null,
    backend,
    methods: kind === 'node' ? nodeMethods : clusterMethods,
    inFlight,
    clock: realEnv.clock,
    log: silentLog,
  });
}

async function singleNode(cluster: TestCluster) {
  const node = await cluster.start('a');
  await cluster.placements.create(
    initPlacement([cluster.instance('a')], { numShards: 8, replicaFactor: 1 }),
    never,
  );
  await cluster.addNamespace(namespaceOf('metrics'));
  await cluster.untilAvailable('a');
  return node;
}

function sessionOf(cluster: TestCluster, id: string): Session {
  return new Session({
    topology: cluster.nodes.get(id)!.topology,
    nodeOf: (instance) => cluster.serviceOf(instance),
    env: realEnv,
    log: silentLog,
    formats: newestFormats,
  });
}

const writeTagged = (host: string, value: unknown, seconds = nowSeconds) => ({
  namespace: 'metrics',
  id: `cpu-${host}`,
  tags: [
    { name: '__name__', value: 'cpu' },
    { name: 'host', value: host },
  ],
  datapoint: { timestamp: seconds, value },
});

/** The walk through SPEC.txt's node endpoints, which both listeners must answer alike. */
async function walk(server: HttpServer): Promise<void> {
  for (const host of ['a1', 'a2', 'b1']) {
    const answer = await call(server, '/writetagged', writeTagged(host, 1.5));
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json, {});
  }
  const regexp = await call(server, '/query', {
    namespace: 'metrics',
    query: { regexp: { field: 'host', regexp: 'a.' } },
    rangeStart: nowSeconds - 60,
    rangeEnd: nowSeconds + 60,
  });
  assert.equal(regexp.status, 200, regexp.text);
  assert.equal(regexp.json.exhaustive, true);
  assert.deepEqual(
    regexp.json.results.toSorted((x: { id: string }, y: { id: string }) => (x.id < y.id ? -1 : 1)),
    ['a1', 'a2'].map((host) => ({
      id: `cpu-${host}`,
      tags: [
        { name: '__name__', value: 'cpu' },
        { name: 'host', value: host },
      ],
      datapoints: [{ timestamp: nowSeconds, value: 1.5 }],
    })),
  );
  const combined = await call(server, '/query', {
    NAMESPACE: 'metrics',
    Query: {
      conjunction: {
        queries: [
          { term: { field: '__name__', term: 'cpu' } },
          { negation: { query: { regexp: { field: 'host', regexp: 'a.*' } } } },
        ],
      },
    },
    rangestart: String((nowSeconds - 60) * 1000),
    rangeEnd: (nowSeconds + 60) * 1000,
    rangeType: 'UNIX_MILLISECONDS',
    resultTimeType: 'UNIX_NANOSECONDS',
  });
  assert.equal(combined.json.results.length, 1, combined.text);
  assert.match(combined.text, new RegExp(`"timestamp":${nowSeconds}000000000,`));
  assert.equal(
    (
      await call(server, '/write', {
        nameSpace: 'metrics',
        id: 'plain',
        datapoint: {
          timestamp: `${nowSeconds}000000007`,
          value: -3,
          timestampTimeType: 'UNIX_NANOSECONDS',
        },
      })
    ).status,
    200,
  );
  const fetched = await call(server, '/fetch', {
    nameSpace: 'metrics',
    id: 'plain',
    rangeStart: nowSeconds,
    rangeEnd: nowSeconds + 1,
    resultTimeType: 'UNIX_NANOSECONDS',
  });
  assert.equal(fetched.text, `{"datapoints":[{"timestamp":${nowSeconds}000000007,"value":-3}]}\n`);
  const tags = await call(server, '/aggregate', {
    namespace: 'metrics',
    rangeStart: nowSeconds - 60,
    rangeEnd: nowSeconds + 60,
    tagNameFilter: ['host'],
    aggregateQueryType: 'AGGREGATE_BY_TAG_NAME_VALUE',
  });
  assert.deepEqual(tags.json, {
    results: [
      {
        tagName: 'host',
        tagValues: ['a1', 'a2', 'b1'].map((tagValue) => ({ tagValue })),
      },
    ],
    exhaustive: true,
  });
  const raw = await call(server, '/fetchtagged', {
    nameSpace: Buffer.from('metrics').toString('base64'),
    query: { term: { field: 'host', term: 'b1' } },
    rangeStart: nowSeconds - 60,
    rangeEnd: nowSeconds + 60,
  });
  assert.equal(Buffer.from(raw.json.elements[0].id, 'base64').toString(), 'cpu-b1');
  assert.ok(raw.json.elements[0].segments[0].merged.head.length > 10);
  const truncated = await call(server, '/truncate', {
    nameSpace: Buffer.from('metrics').toString('base64'),
  });
  assert.deepEqual(truncated.json, { numSeries: 4 });
}

test('the node listener answers all methods of SPEC.txt on its own data', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await singleNode(cluster);
  const truncations = cluster.truncations('a');
  runtime.database.onTruncate = async (name, signal) =>
    void (await truncations.truncate(name, signal));
  await using server = await listen(
    new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    'node',
  );
  await walk(server);
  const health = await call(server, '/health');
  assert.equal(health.status, 200);
  assert.equal(health.json.ok, true);
  assert.equal(health.json.bootstrapped, true);
  assert.deepEqual((await call(server, '/bootstrapped')).json, {});
  assert.deepEqual((await call(server, '/bootstrappedinplacementornoplacement')).json, {});
});

test('the cluster listener answers through the session, from all shards of two nodes', async () => {
  await using cluster = new TestCluster();
  await singleNode(cluster);
  await cluster.start('b');
  await cluster.changePlacement((placement) =>
    addInstances(placement, [cluster.instance('b')], { force: false }),
  );
  await cluster.untilAvailable('b');
  await cluster.untilAvailable('a');
  const { topology } = cluster.nodes.get('a')!;
  const truncations = cluster.truncations('a');
  const backend = new ClusterBackend(sessionOf(cluster, 'a'), memory, topology, truncations);
  await using server = await listen(backend, 'cluster');
  await walk(server);
  assert.deepEqual((await call(server, '/health')).json, { ok: true, status: 'up' });
  assert.equal((await call(server, '/bootstrapped')).status, 404);
});

test('messages come in as JSON and as annotations, and go out as JSON, by both listeners', async () => {
  await using cluster = new TestCluster();
  const { runtime, topology } = await singleNode(cluster);
  await cluster.deploySchema('metrics', {
    messageName: 'Reading',
    protoName: 'reading.proto',
    protoMap: {
      'reading.proto':
        'syntax = "proto3"; message Reading { double load = 1; fixed64 at = 2; repeated string names = 3; }',
    },
  });
  await cluster.until('a', () => {
    const { schemas } = topology.view.namespaces.get('metrics')!;
    return (
      schemas !== undefined &&
      runtime.database.namespaces.get('metrics')?.definition.schemas === schemas
    );
  });
  const backends = {
    node: new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    cluster: new ClusterBackend(
      sessionOf(cluster, 'a'),
      memory,
      topology,
      cluster.truncations('a'),
    ),
  };
  for (const kind of ['node', 'cluster'] as const) {
    await using server = await listen(backends[kind], kind);
    const write = async (host: string, datapoint: object) =>
      call(server, '/writetagged', { ...writeTagged(`${kind}-${host}`, 0), datapoint });
    const good = { load: 1.5, at: 18446744073709551615n, names: ['x', 'ÿ'] };
    const at = nowSeconds;
    const json = JSON.stringify(good, (_, each) => (typeof each === 'bigint' ? `${each}` : each));
    const first = await write('a', { timestamp: at, value: JSON.parse(json) });
    assert.equal(first.status, 200, first.text);
    const wire = Buffer.from([0x09, ...new Uint8Array(Float64Array.of(2.5).buffer)]);
    const annotation = wire.toString('base64');
    const second = await write('b', { timestamp: at, value: 0, annotation });
    assert.equal(second.status, 200, second.text);
    // A message of which no field is set has no bytes.
    const third = await write('d', { timestamp: at, value: 0, annotation: '' });
    assert.equal(third.status, 200, third.text);
    const refused = async (datapoint: object) => {
      const answer = await write('c', { timestamp: at, ...datapoint });
      return [answer.status, answer.json.error.data.message];
    };
    assert.deepEqual(await refused({ value: { load: [] } }), [
      400,
      'cannot take message: load: it must be a number: []',
    ]);
    assert.deepEqual(await refused({ value: 1 }), [
      400,
      'cannot write: datapoint.value: not an object, and namespace metrics has a schema',
    ]);
    assert.match(
      (await refused({ value: 0, annotation: '?' }))[1],
      /datapoint\.annotation is not base64/,
    );
    assert.match((await refused({ value: 0, annotation: 'MAE=' }))[1], /the schema has no field 6/);
    const { results } = (
      await call(server, '/query', {
        namespace: 'metrics',
        query: { regexp: { field: 'host', regexp: `${kind}.*` } },
        rangeStart: at,
        rangeEnd: at + 1,
      })
    ).json;
    assert.deepEqual(
      results
        .toSorted((x: { id: string }, y: { id: string }) => (x.id < y.id ? -1 : 1))
        .map(({ datapoints }: { datapoints: object[] }) => datapoints),
      [JSON.parse(json), { load: 2.5 }, {}].map((value) => [{ timestamp: at, value }]),
    );
    const fetched = await call(server, '/fetch', {
      namespace: 'metrics',
      id: `cpu-${kind}-b`,
      rangeStart: at,
      rangeEnd: at + 1,
    });
    assert.deepEqual(fetched.json, { datapoints: [{ timestamp: at, value: { load: 2.5 } }] });
  }
});

test('a repair is begun on demand, and refused where nothing is compared', async () => {
  for (const enabled of [true, false]) {
    await using cluster = new TestCluster();
    const strategy = { type: 'default', strategy: 'default' } as const;
    cluster.repair = { enabled, ...strategy, throttleMillis: 1, checkIntervalMillis: 3_600_000 };
    const { runtime } = await singleNode(cluster);
    await using server = await listen(
      new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
      'node',
    );
    const { status, json } = await call(server, '/repair');
    assert.equal(status, enabled ? 200 : 400);
    if (!enabled) assert.match(JSON.stringify(json), /db\.repair\.enabled is false/);
    else await cluster.until('a', () => runtime.repairs.counts.rounds === 1);
  }
});

test('a series that too few replicas were asked for comes with the reason, on the port of the cluster', async () => {
  await using cluster = new TestCluster();
  const { topology } = await cluster.start('a');
  const session = overriding(sessionOf(cluster, 'a'), {
    fetchById: async () => ({
      bundle: emptyBundle,
      exhaustive: true,
      warnings: ['b: away'],
      responses: 1,
    }),
  });
  await using server = await listen(
    new ClusterBackend(session, memory, topology, cluster.truncations('a')),
    'cluster',
  );
  const { status, json } = await call(server, '/fetch', {
    namespace: 'metrics',
    id: 'cpu-a',
    rangeStart: nowSeconds,
    rangeEnd: nowSeconds + 10,
  });
  assert.equal(status, 200);
  assert.deepEqual(json, { datapoints: [], exhaustive: false, warnings: ['b: away'] });
});

test('mistakes are answered with 400, the reason and the type BAD_REQUEST', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await singleNode(cluster);
  await cluster.addNamespace(namespaceOf('cold', { coldWritesEnabled: true }));
  await cluster.until('a', () => runtime.database.namespaces.has('cold'));
  await using server = await listen(
    new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    'node',
  );
  const good = writeTagged('a', 1);
  const bad: [unknown, RegExp][] = [
    ['{', /not JSON/],
    [[], /request body: not a JSON object: \[\]/],
    [{ ...good, more: 1 }, /unknown field: more/],
    [{ ...good, Namespace: 'x' }, /Namespace: field is given twice/],
    [{ ...good, id: '' }, /id is empty/],
    [{ ...good, tags: [{ name: '1st', value: 'x' }] }, /tag name does not match/],
    [{ ...good, tags: [{ name: '__x__', value: 'x' }] }, /reserved/],
    [{ ...good, tags: [{ name: 'x' }] }, /tags\[0\].value is missing/],
    [{ ...good, datapoint: { timestamp: 1.5, value: 1 } }, /timestamp is not a whole number: 1.5/],
    [{ ...good, datapoint: { timestamp: nowSeconds, value: 'x' } }, /value is not a number/],
    [{ ...good, datapoint: { timestamp: nowSeconds, value: '__proto__' } }, /is not a number/],
    [{ ...good, datapoint: { timestamp: nowSeconds, value: 'constructor' } }, /is not a number/],
    [writeTagged('a', 1, nowSeconds - 7200), /too far in past: id=cpu-a, off_by=1h\d+m\d/],
    [writeTagged('a', 1, nowSeconds + 7200), /too far in future/],
    [
      { ...writeTagged('a', 1, nowSeconds - 50 * 3600), namespace: 'cold' },
      /too far in past: id=cpu-a, off_by=2h\d/,
    ],
  ];
  for (const [body, reason] of bad) {
    const answer = await call(server, '/writetagged', body);
    assert.equal(answer.status, 400, answer.text);
    assert.equal(answer.json.error.data.type, 'BAD_REQUEST');
    assert.match(answer.json.error.data.message, reason);
    assert.match(answer.json.error.message, /^Error\(\{Type:BAD_REQUEST Message:.* Flags:0\}\)$/s);
  }
  const range = { namespace: 'metrics', rangeStart: 0, rangeEnd: 1 };
  const badQueries: [unknown, RegExp][] = [
    [{ ...range, query: {} }, /no query types specified/],
    [{ ...range, query: { all: {}, field: { field: 'x' } } }, /multiple query types specified/],
    [{ ...range, query: { regexp: { field: 'x', regexp: '(' } } }, /regexp/],
    [{ ...range, rangeStart: 2 }, /rangeEnd is before rangeStart/],
    [{ ...range, query: { all: { x: 1 } } }, /unknown field: query.all.x/],
  ];
  for (const [body, reason] of badQueries) {
    const answer = await call(server, '/query', body);
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.json.error.data.message, reason);
  }
  assert.equal((await call(server, '/writetagged')).status, 400);
  assert.equal((await call(server, '/health', {})).status, 400);
  assert.equal((await call(server, '/nothing')).status, 404);
  const lenient = await call(
    server,
    '/writetagged',
    { ...good, more: 1 },
    { 'M3-JSON-Disable-Disallow-Unknown-Fields': 'true' },
  );
  assert.equal(lenient.status, 200);
});

test('an ID that is that of other tags is refused on both ports, by name, and changes nothing', async () => {
  await using cluster = new TestCluster();
  const { runtime, topology } = await singleNode(cluster);
  const truncations = cluster.truncations('a');
  const session = sessionOf(cluster, 'a');
  const backends = {
    node: new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    cluster: new ClusterBackend(session, memory, topology, truncations),
  };
  for (const kind of ['node', 'cluster'] as const) {
    await using server = await listen(backends[kind], kind);
    const write = async (id: string, tags: unknown) => {
      const answer = await call(server, '/writetagged', { ...writeTagged('a', 1), id, tags });
      return [answer.status, answer.json.error?.data.message ?? ''] as const;
    };
    const evil = [{ name: 'evil', value: kind }];
    const victim = '{__name__="up",job="x"}';
    assert.deepEqual(await write(victim, evil), [
      400,
      `cannot write: the ID is that of a series with other tags: id=${victim}, tags={evil="${kind}"}: ` +
        'the ID is the one that is made from {__name__="up", job="x"}',
    ]);
    assert.equal((await write(`mine-${kind}`, evil))[0], 200);
    const [status, message] = await write(`mine-${kind}`, [{ name: 'good', value: 'x' }]);
    assert.equal(status, 400);
    assert.match(message, /tags=\{good="x"\}: the series has \{evil="(node|cluster)"\}$/);
    const [legacyStatus, legacyMessage] = await write('a=1,b=2,', evil);
    assert.equal(legacyStatus, 400);
    assert.match(legacyMessage, /the form that the scheme legacy makes/);
  }
  const found = await session.fetch(
    {
      namespace: 'metrics',
      query: { kind: 'all' },
      startNanos: 0n,
      endNanos: 2n ** 62n,
      seriesLimit: 0,
      requireExhaustive: true,
      fetchData: false,
    },
    never,
  );
  assert.equal(found.bundle.seriesCount, 2);
});

test('values of any other kind in any field are a 400 that names the field, on both ports', async () => {
  await using cluster = new TestCluster();
  const { runtime, topology } = await singleNode(cluster);
  const truncations = cluster.truncations('a');
  const session = sessionOf(cluster, 'a');
  runtime.database.onTruncate = async (name, signal) =>
    void (await truncations.truncate(name, signal));
  const range = { namespace: 'metrics', rangeStart: 0, rangeEnd: 1 };
  const row = writeTagged('a', 1);
  const requests: [path: string, body: Record<string, unknown>][] = [
    ['/writetagged', row],
    ['/write', { namespace: 'metrics', id: 'x', datapoint: row.datapoint }],
    ['/fetch', { ...range, id: 'x', rangeType: 'UNIX_SECONDS', resultTimeType: 'UNIX_SECONDS' }],
    ['/query', { ...range, query: { all: {} }, limit: 1, noData: true, clusterOptions: {} }],
    [
      '/fetchtagged',
      { ...range, query: { all: {} }, seriesLimit: 1, docsLimit: 1, fetchData: true },
    ],
    [
      '/aggregate',
      {
        ...range,
        query: { all: {} },
        tagNameFilter: [],
        aggregateQueryType: 'AGGREGATE_BY_TAG_NAME',
        source: '',
      },
    ],
    ['/truncate', { namespace: 'none' }],
    ['/flush', { namespace: 'none' }],
  ];
  /** As JSON: numbers that a double would round among them. */
  const odd = [
    ...['[]', '["metrics"]', '[[]]', '{}', '{"a":1}', 'true', '1.5', '-1', '1e308', '[null]'],
    ...[
      '9007199254740993',
      '[9007199254740993]',
      '{"a":9007199254740993}',
      '"18446744073709551616"',
    ],
    ...['"\\u0000"', '"\\ud800"', '"1e9"', '"-1h"', '"__proto__"', `"${'x'.repeat(5000)}"`],
  ];
  const backends = {
    node: new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    cluster: new ClusterBackend(session, memory, topology, truncations),
  };
  for (const kind of ['node', 'cluster'] as const) {
    await using server = await listen(backends[kind], kind);
    for (const [path, body] of requests) {
      if (kind === 'cluster' && path === '/flush') continue;
      for (const name of Object.keys(body)) {
        for (const value of odd) {
          const request = JSON.stringify({ ...body, [name]: '?' }).replace('"?"', () => value);
          const { status, json, text } = await call(server, path, request);
          const what = `${kind}${path} ${name}=${value}: ${status} ${text}`;
          assert.ok([200, 400, 404].includes(status), what);
          if (!/^[[{]/.test(value) || status === 200) continue;
          const named = name === 'query' || name === 'datapoint' || name === 'clusterOptions';
          if (!named) assert.match(json.error.data.message, new RegExp(`\\b${name}\\b`, 'i'), what);
        }
      }
    }
  }
});

test('numbers, texts and keys that JSON would lose something of are refused', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await singleNode(cluster);
  await using server = await listen(
    new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    'node',
  );
  const body = (id: string, tag: string, value: string) =>
    `{"namespace":"metrics","id":"${id}","tags":[{"name":"a","value":"${tag}"}],` +
    `"datapoint":{"timestamp":${nowSeconds},"value":${value}}}`;
  const bad: [string, RegExp][] = [
    [body('x', 'b', '1e400'), /datapoint\.value is out of range/],
    [body('x', 'b', '-1e400'), /datapoint\.value is out of range/],
    [body('x', '\\ud800', '1'), /tags\[0\]\.value is not Unicode.*"\\ud800"/],
    [body('\\udfff', 'b', '1'), /id is not Unicode/],
    [body('x', 'b', '1,"value":2'), /key is given twice: "value"/],
    [body('x', 'b', '1').replace('{', '{"id":"y",'), /key is given twice: "id"/],
    [body('x', 'b', '['.repeat(1_000_000)), /nested more than 256 deep/],
    [`{"namespace":${'{"a":'.repeat(500_000)}`, /nested more than 256 deep/],
    [body('x', 'b', '1').replace('"id"', `"${'k'.repeat(1_000_000)}"`), /id is missing/],
  ];
  for (const [text, reason] of bad) {
    const answer = await call(server, '/writetagged', text);
    assert.equal(answer.status, 400);
    assert.match(answer.json.error.data.message, reason);
    assert.ok(answer.text.length < 2000);
  }
  assert.equal((await call(server, '/writetagged', body('x', 'b', '1'))).status, 200);
});

test('NaN and the infinities go in and out as strings', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await singleNode(cluster);
  await using server = await listen(
    new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    'node',
  );
  const values = ['NaN', '+Inf', '-Inf', 0.1];
  for (const [i, value] of values.entries()) {
    await call(server, '/writetagged', writeTagged('a', value, nowSeconds + i));
  }
  const answer = await call(server, '/fetch', {
    namespace: 'metrics',
    id: 'cpu-a',
    rangeStart: nowSeconds,
    rangeEnd: nowSeconds + 10,
  });
  assert.deepEqual(
    answer.json.datapoints.map(({ value }: { value: unknown }) => value),
    values,
  );
});

test('before the bootstrap the listeners answer that the node is not bootstrapped', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await cluster.start('a');
  await using server = await listen(
    new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    'node',
  );
  const answer = await call(server, '/writetagged', writeTagged('a', 1));
  assert.equal(answer.status, 503);
  assert.match(answer.json.error.data.message, /not bootstrapped/);
  assert.equal((await call(server, '/bootstrapped')).status, 503);
  assert.equal((await call(server, '/health')).json.bootstrapped, false);
});

test('bodies that have no room beside those that are on their way get 429 with Retry-After', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await singleNode(cluster);
  const inFlight = new BytesInFlight(1000);
  await using server = await listen(
    new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    'node',
    inFlight,
  );
  const flushed = await call(server, '/flush', { nameSpace: 'metrics' });
  assert.equal(flushed.status, 200);
  assert.equal(inFlight.bytes, 0, 'what was answered holds nothing');
  assert.ok(
    inFlight.take(
      inFlight.begin(1000, () => {}),
      900,
    ),
    'others are on their way',
  );
  const url = `http://127.0.0.1:${server.port}/flush`;
  const response = await fetch(url, { method: 'POST', body: ' '.repeat(200) });
  assert.equal(response.status, 429);
  assert.equal(response.headers.get('retry-after'), '5');
  assert.match(await response.text(), /too many bytes of requests in flight/);
  assert.equal(inFlight.bytes, 900);
});

test('a flush on demand answers when rows are in filesets and the commit log is gone', async () => {
  await using cluster = new TestCluster();
  const { runtime } = await singleNode(cluster);
  await using node = await listen(
    new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    'node',
  );
  for (let i = 0; i < 5; i += 1) {
    const datapoint = { timestamp: nowSeconds, value: i };
    const answer = await call(node, '/write', { nameSpace: 'metrics', id: `s${i}`, datapoint });
    assert.equal(answer.status, 200, answer.text);
  }
  const { status, json } = await call(node, '/flush?namespace=metrics', '');
  assert.equal(status, 200);
  assert.ok(json.filesets > 0 && json.series === 5 && json.segmentsDeleted === 1, json);
  assert.equal(runtime.database.store.sampleCount, 0);
  const again = await call(node, '/flush', '');
  assert.deepEqual([again.status, again.json.filesets, again.json.blocksLeft], [200, 0, 0]);
  assert.equal((await call(node, '/flush', { nameSpace: 'none' })).status, 404);
  assert.equal((await call(node, '/flush', { what: 1 })).status, 400);
});

test('tags are forced by coordinators: their header is refused, be it empty', async () => {
  const backend = new Proxy({} as JsonBackend, {
    get: () => () => Promise.resolve(null),
  });
  for (const kind of ['node', 'cluster'] as const) {
    await using server = await listen(backend, kind);
    for (const name of ['tsdb-restrict-by-tags-json', 'm3-restrict-by-tags-json']) {
      for (const value of ['{"match":[]}', '']) {
        const { status, json } = await call(server, '/health', undefined, { [name]: value });
        assert.equal(status, 400, value);
        assert.match(json.error.data.message, new RegExp(`^header ${name}: not supported here`));
      }
    }
    assert.equal((await call(server, '/health')).status, 200);
  }
});

test('web pages of other sites call no method that changes something or costs much', async () => {
  const calls: string[] = [];
  const backend = new Proxy({} as JsonBackend, {
    get: (_, name) => () => {
      calls.push(String(name));
      return Promise.resolve(null);
    },
  });
  const page = { Origin: 'http://evil.example', 'Sec-Fetch-Site': 'cross-site' };
  for (const kind of ['node', 'cluster'] as const) {
    await using server = await listen(backend, kind);
    const paths = [...(kind === 'node' ? nodeMethods : clusterMethods)]
      .filter(([path, { verb }]) => verb === 'POST' || path === '/repair')
      .map(([path]) => path);
    assert.ok(paths.includes('/truncate'));
    for (const path of paths) {
      const body = path === '/repair' ? undefined : { namespace: 'metrics' };
      const { status, json } = await call(server, path, body, page);
      assert.equal(status, 403, path);
      assert.equal(json.error.data.type, 'BAD_REQUEST');
      assert.match(json.error.data.message, /web page of another origin/);
    }
    assert.deepEqual(calls, []);
    assert.equal((await call(server, '/health', undefined, page)).status, 200);
    calls.length = 0;
  }
});
