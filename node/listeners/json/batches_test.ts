/** M3's raw calls, and its calls that read and set options of a node. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { initPlacement } from '#cluster/placement/algorithm.ts';
import { Decoder } from '#engine/store/decoder.ts';
import type { HttpServer } from '#lib/env/http.ts';
import { BytesInFlight } from '#lib/env/in_flight/bytes_in_flight.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { encodeTags } from '#lib/tags.ts';
import { TestCluster } from '../../cluster_testing.ts';
import { namespaceOf } from '../../storage/database_testing.ts';
import { m3TagsOf } from './encoded_tags.ts';
import { nodeMethods } from './methods.ts';
import { NodeBackend } from './node_backend.ts';
import { serveJson } from './server.ts';

const nowSeconds = Math.floor(realEnv.clock.nowMillis() / 1000);

interface Answer {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

async function opened(cluster: TestCluster) {
  const { runtime } = await cluster.start('a');
  const placement = initPlacement([cluster.instance('a')], { numShards: 4, replicaFactor: 1 });
  await cluster.placements.create(placement, new AbortController().signal);
  for (const name of ['metrics', 'others']) await cluster.addNamespace(namespaceOf(name));
  await cluster.untilAvailable('a');
  const server = await serveJson({
    host: '127.0.0.1',
    port: 0,
    allowedHosts: null,
    backend: new NodeBackend(runtime.database, () => runtime.repairs.demand(), runtime.limits),
    methods: nodeMethods,
    inFlight: new BytesInFlight(1 << 20),
    clock: realEnv.clock,
    log: silentLog,
  });
  return { server, runtime };
}

async function call(server: HttpServer, path: string, body?: object): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });
  return { status: response.status, json: await response.json() };
}

const base64 = (text: string | Uint8Array): string => Buffer.from(text).toString('base64');
const datapoint = (value: number) => ({ timestamp: nowSeconds, value });

/** Values of a series by the chunks in the answer. */
function valuesOf(element: { readonly segments: any }): number[] {
  return element.segments.flatMap(({ merged }: any) => {
    const chunkData = new Uint8Array(Buffer.from(merged.head, 'base64'));
    const decoder = new Decoder();
    const bundle = { chunkData, chunkOffset: Uint32Array.of(0, chunkData.length) };
    const count = decoder.decode(bundle as never, 0, 0n, 2n ** 62n);
    return [...decoder.values.subarray(0, count)];
  });
}

test('rows of raw batches are written, and read back by their IDs', async () => {
  await using cluster = new TestCluster();
  const { server } = await opened(cluster);
  await using _ = server;
  const tags = m3TagsOf(encodeTags([{ name: 'city', value: 'york' }]));
  const plain = { id: base64('plain'), datapoint: datapoint(1) };
  const tagged = { id: base64('tagged'), encodedTags: base64(tags), datapoint: datapoint(2) };
  const nameSpaces = [base64('metrics'), base64('others')];
  for (const [path, body] of [
    ['/writebatchraw', { nameSpace: base64('metrics'), elements: [plain] }],
    ['/writetaggedbatchraw', { nameSpace: base64('metrics'), elements: [tagged] }],
    [
      '/writebatchrawv2',
      { nameSpaces, elements: [{ ...plain, id: base64('second'), nameSpace: 1 }] },
    ],
    [
      '/writetaggedbatchrawv2',
      { nameSpaces, elements: [{ ...tagged, id: base64('third'), nameSpace: 1 }] },
    ],
  ] as const) {
    assert.deepEqual(await call(server, path, body), { status: 200, json: {} }, path);
  }
  const range = { rangeStart: nowSeconds - 60, rangeEnd: nowSeconds + 60 };
  const ids = ['tagged', 'none', 'plain'].map(base64);
  const { json } = await call(server, '/fetchbatchraw', {
    nameSpace: base64('metrics'),
    ids,
    ...range,
  });
  assert.deepEqual(json.elements.map(valuesOf), [[2], [], [1]]);
  const elements = ['third', 'second', 'plain'].map((id) => ({
    id: base64(id),
    nameSpace: 1,
    ...range,
  }));
  const second = await call(server, '/fetchbatchrawv2', { nameSpaces, elements });
  assert.deepEqual(second.json.elements.map(valuesOf), [[2], [1], []]);
  const found = await call(server, '/fetchtagged', {
    nameSpace: base64('metrics'),
    query: { term: { field: 'city', term: 'york' } },
    ...range,
  });
  assert.equal(found.json.elements[0].encodedTags, base64(tags));
});

test('of a batch the good rows are written, and the others are named by their places', async () => {
  await using cluster = new TestCluster();
  const { server } = await opened(cluster);
  await using _ = server;
  const rows = Array.from({ length: 600 }, (__, i) => ({
    id: base64(`series-${i}`),
    datapoint: i % 200 === 7 ? { timestamp: 1, value: i } : datapoint(i),
  }));
  const { status, json } = await call(server, '/writebatchraw', {
    nameSpace: base64('metrics'),
    elements: rows,
  });
  assert.equal(status, 400);
  assert.match(
    json.error.message,
    /^3 of 600 rows are not written: row 7: datapoint too far in past/,
  );
  assert.deepEqual(
    json.error.data.errors.map(({ index, err }: any) => [index, err.type]),
    [7, 207, 407].map((index) => [index, 'BAD_REQUEST']),
  );
  const { json: read } = await call(server, '/fetchbatchraw', {
    nameSpace: base64('metrics'),
    ids: rows.map(({ id }) => id),
    rangeStart: 0,
    rangeEnd: nowSeconds + 60,
  });
  const values = read.elements.map(valuesOf);
  assert.deepEqual(
    values,
    rows.map((__, i) => (i % 200 === 7 ? [] : [i])),
  );
  for (const [body, reason] of [
    [{ nameSpace: base64('none'), elements: [rows[0]] }, /none/],
    [{ nameSpace: base64('metrics'), elements: [{ ...rows[0], id: '%' }] }, /id is not base64/],
    [{ nameSpace: base64('metrics'), elements: [{ ...rows[0], id: '' }] }, /id is empty/],
    [
      { nameSpace: base64('metrics'), elements: [{ ...rows[0], id: `${'='.repeat(1e5)}A` }] },
      /base64/,
    ],
    [{ nameSpace: base64('metrics'), elements: [{ ...rows[0], more: 1 }] }, /unknown field/],
  ] as const) {
    const refused = await call(server, '/writebatchraw', body);
    assert.equal(refused.status, 400);
    assert.match(refused.json.error.message, reason);
  }
  const third = { nameSpaces: ['metrics'], elements: [{ ...rows[0], nameSpace: 1 }] };
  const refused = await call(server, '/writebatchrawv2', third);
  assert.match(refused.json.error.message, /nameSpace is not the place of one of 1 names: 1/);
});

test('options of a node are read and set: the limit of new series holds, others take what holds anyway', async () => {
  await using cluster = new TestCluster();
  const { server, runtime } = await opened(cluster);
  await using _ = server;
  const limit = 'writenewserieslimitpershardpersecond';
  const name = 'writeNewSeriesLimitPerShardPerSecond';
  assert.deepEqual((await call(server, `/get${limit}`)).json, { [name]: 0 });
  assert.deepEqual((await call(server, `/set${limit}`, { [name]: 2 })).json, { [name]: 2 });
  assert.deepEqual((await call(server, `/get${limit}`)).json, { [name]: 2 });
  // Of four shards.
  assert.equal(runtime.database.admission.limits.newSeriesPerSecondMax, 8);
  const elements = Array.from({ length: 40 }, (__, i) => ({
    id: base64(`new-${i}`),
    datapoint: datapoint(i),
  }));
  const batch = { nameSpace: base64('metrics'), elements };
  const limited = await call(server, '/writebatchraw', batch);
  assert.equal(limited.status, 429);
  assert.equal(limited.json.error.data.errors[0].err.flags, 1);
  assert.equal((await call(server, `/set${limit}`, { [name]: 0 })).status, 200);
  assert.equal((await call(server, '/writebatchraw', batch)).status, 200);
  for (const [path, body, answer] of [
    ['writenewseriesasync', { writeNewSeriesAsync: false }, { writeNewSeriesAsync: false }],
    [
      'writenewseriesbackoffduration',
      { writeNewSeriesBackoffDuration: 0 },
      { writeNewSeriesBackoffDuration: 0, durationType: 'UNIX_MILLISECONDS' },
    ],
    [
      'persistratelimit',
      { limitEnabled: false, limitMbps: 100 },
      { limitEnabled: false, limitMbps: 0, limitCheckEvery: 0 },
    ],
  ] as const) {
    assert.deepEqual((await call(server, `/get${path}`)).json, answer);
    assert.deepEqual((await call(server, `/set${path}`, body)).json, answer);
  }
  for (const [path, body] of [
    [limit, { [name]: -1 }],
    [limit, { [name]: 'many' }],
    ['writenewseriesasync', { writeNewSeriesAsync: true }],
    ['writenewseriesbackoffduration', { writeNewSeriesBackoffDuration: 2 }],
    ['persistratelimit', { limitEnabled: true }],
    ['persistratelimit', { limit: 1 }],
  ] as const) {
    assert.equal((await call(server, `/set${path}`, body)).status, 400, JSON.stringify(body));
  }
});

test('calls of M3 that are not here say what is in their place', async () => {
  await using cluster = new TestCluster();
  const { server } = await opened(cluster);
  await using _ = server;
  const tiles = { sourceNamespace: 'metrics', targetNamespace: 'others', step: '5m' };
  const { status, json } = await call(server, '/aggregatetiles', tiles);
  assert.equal(status, 400);
  assert.match(json.error.message, /aggregated namespaces are filled from their samples/);
  assert.match((await call(server, '/debugprofilestart', {})).json.error.message, /pprof/);
});
