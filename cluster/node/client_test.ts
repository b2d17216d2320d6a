import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { BatchBuilder, readBatch } from '#engine/batch/batch.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Env } from '#lib/env/env.ts';
import { type GrpcServer, serveGrpc } from '#lib/env/grpc.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { silentLog } from '#lib/log.ts';
import { NodeClient, NodeConnections } from './client.ts';
import { nodeMethods, nodeRequestBytesMax } from './methods.ts';
import type {
  AggregateRequest,
  CompareRowsRequest,
  CompareRowsResponse,
  FetchByIdRequest,
  FetchRequest,
  NodeService,
  StreamDifferentRequest,
  StreamShardRequest,
  WriteRequest,
} from './service.ts';
import type { Instance, Placement } from '../placement/placement.ts';
import { bundleOfSeries, FakeCluster, textsOf } from '../session/fakes_testing.ts';

const { signal } = new AbortController();

const health = {
  ok: true,
  status: 'up',
  bootstrapped: true,
  instanceId: 'h1',
  incarnation: 'abc',
  writesRefused: 'no space',
  bootCount: 3,
  placementVersion: 7,
  namespacesRevision: 2 ** 53 - 1,
  lineageId: '5f',
  unixNanos: 1_700_000_000_123_456_789n,
  retires: true,
  formatLevel: 2,
  formatLevelWritten: 2,
  formatLevelOfReaders: 2,
  blocksLacking: 3,
  blocksLost: 5,
  shardsLacking: [2, 300],
  vouches: false,
};

function serve(service: Partial<NodeService>, port = 0): Promise<GrpcServer> {
  const unused = () => Promise.reject(new TsdbError('INTERNAL', 'not part of this test'));
  const whole: NodeService = {
    write: unused,
    fetch: unused,
    fetchById: unused,
    aggregate: unused,
    truncate: unused,
    streamShard: async function* () {},
    health: (_, of = null) => Promise.resolve({ ...health, vouches: of?.asks === true }),
    ...service,
  };
  return listen(whole, port);
}

function listen(service: NodeService, port = 0): Promise<GrpcServer> {
  return serveGrpc({
    host: '127.0.0.1',
    port,
    methods: nodeMethods(service, realEnv.clock),
    requestBytesMax: nodeRequestBytesMax,
    stopGraceMillis: 0,
  });
}

const clientOf = ({ port }: GrpcServer) => new NodeClient({ target: `127.0.0.1:${port}` });

/** More than one page. */
function largeBundle(): SeriesBundle {
  const chunks = (bytes: number, seed: number) =>
    new Uint8Array(
      Buffer.alloc(
        bytes,
        Uint8Array.from({ length: 251 }, (_, i) => i + seed),
      ),
    );
  return bundleOfSeries([
    { job: 'small', chunks: chunks(10, 1) },
    { job: 'large', chunks: chunks(10 << 20, 2) },
    { job: 'none', chunks: chunks(0, 3) },
    { job: 'last', chunks: chunks(3 << 20, 4) },
  ]);
}

test('a write goes over whole, and its outcomes and references come back', async () => {
  const seen: WriteRequest[] = [];
  await using server = await serve({
    write(request) {
      seen.push(request);
      return Promise.resolve({
        referenceEpoch: 'boot1',
        outcomes: Uint8Array.of(0, 3),
        references: Uint32Array.of(4_000_000_000, 1, 0, 0),
        highestVersion: 2 ** 53 - 1,
      });
    },
  });
  using client = clientOf(server);
  const builder = new BatchBuilder();
  builder.begin(12345);
  builder.addSeries(Uint8Array.of(1, 2), 1, new Uint8Array(0));
  const columns = [Uint32Array.of(0, 0), new Uint32Array(2), BigInt64Array.of(1n, -2n)] as const;
  const values = new Float64Array(new BigUint64Array([0x7ff0000000000002n, 5n]).buffer);
  builder.setRows(2, ...columns, 1_000_000, values);
  const batch = builder.finish();
  const request = {
    namespace: 'ns',
    namespaceNumber: 2 ** 53 - 1,
    placementVersion: 9,
    namespacesRevision: 2 ** 53 - 1,
    namespacesLineageId: 'first',
    formatLevel: formatLevelNewest,
    referenceEpoch: 'x',
    batch,
  };
  const response = await client.write(request, signal);
  assert.deepEqual([...response.outcomes], [0, 3]);
  assert.deepEqual(response.references, Uint32Array.of(4_000_000_000, 1, 0, 0));
  assert.equal(response.referenceEpoch, 'boot1');
  assert.equal(response.highestVersion, 2 ** 53 - 1);
  assert.deepEqual(Buffer.from(seen[0]!.batch), Buffer.from(batch));
  assert.deepEqual({ ...seen[0]!, batch: null }, { ...request, batch: null });
  assert.deepEqual([...readBatch(seen[0]!.batch).timestamps], [1n, -2n]);
});

test('a fetch of many megabytes comes in pages and is whole again', async () => {
  const seen: FetchRequest[] = [];
  const bundle = largeBundle();
  await using server = await serve({
    fetch(request) {
      seen.push(request);
      return Promise.resolve({ bundle, exhaustive: false, shards: Uint32Array.of(1, 63) });
    },
  });
  using client = clientOf(server);
  const query: IndexQuery = {
    kind: 'conjunction',
    queries: [
      { kind: 'term', field: 'job', term: '' },
      { kind: 'regexp', field: 'x', regexp: 'a.*' },
      { kind: 'negation', query: { kind: 'field', field: 'é' } },
      { kind: 'disjunction', queries: [{ kind: 'all' }] },
    ],
  };
  const request: FetchRequest = {
    namespace: 'ns',
    namespaceNumber: 1_700_000_000_000,
    placementVersion: 4_294_967_295,
    query,
    startNanos: -5n,
    endNanos: 1_700_000_000_123_456_789n,
    shards: null,
    seriesLimit: 0,
    fetchData: true,
  };
  const response = await client.fetch(request, signal);
  // What this process reads is said of every request.
  assert.deepEqual(seen[0], { ...request, formatLevel: formatLevelNewest });
  assert.equal(response.exhaustive, false);
  assert.deepEqual(response.shards, Uint32Array.of(1, 63));
  for (const key of ['tagsData', 'tagsOffset', 'idScheme', 'chunkOffset'] as const) {
    assert.deepEqual([...response.bundle[key]], [...bundle[key]], key);
  }
  assert.equal(Buffer.compare(response.bundle.chunkData, bundle.chunkData), 0);
  for (const shards of [new Uint32Array(0), Uint32Array.of(0, 5)]) {
    await client.fetch({ ...request, shards }, signal);
    assert.deepEqual(seen.at(-1)!.shards, shards);
  }
});

test('fetch by ID, truncate and health carry what they are given', async () => {
  const seen: FetchByIdRequest[] = [];
  const bundle = bundleOfSeries([{ job: 'x', chunks: Uint8Array.of(1) }]);
  await using server = await serve({
    fetchById(request) {
      seen.push(request);
      return Promise.resolve({ bundle, exhaustive: true, shards: new Uint32Array(0) });
    },
    truncate: (namespace) => Promise.resolve(namespace === 'ns' ? 5_000_000_000 : 0),
  });
  using client = clientOf(server);
  const ids = [Uint8Array.of(0, 255), new Uint8Array(0)];
  const range = { startNanos: 0n, endNanos: 1n };
  await client.fetchById(
    { namespace: 'ns', namespaceNumber: 5, placementVersion: 0, ids, ...range },
    signal,
  );
  assert.deepEqual(
    seen[0]!.ids.map((id) => [...id]),
    [[0, 255], []],
  );
  assert.equal(await client.truncate('ns', signal), 5_000_000_000);
  assert.deepEqual(await client.health(signal), health);
  const introduction = {
    instanceId: 'a',
    incarnation: 'one',
    bootCount: 3,
    mark: 'm2',
    markBefore: 'm1',
    placementVersion: 7,
    lineageId: 'x',
    asks: true,
    deletionSequence: 1_700_000_000_000,
  };
  assert.deepEqual(await client.health(signal, introduction), { ...health, vouches: true });
});

test('an aggregation of many values comes in pages, and tags that were cut are whole again', async () => {
  const seen: AggregateRequest[] = [];
  const values = Array.from({ length: 80_000 }, (_, i) => `${i}`.padStart(60, 'x'));
  const tags = [
    { name: 'a', values: ['1'] },
    { name: 'b', values },
    { name: 'c', values: [] },
  ];
  await using server = await serve({
    aggregate(request) {
      seen.push(request);
      return Promise.resolve({ tags, exhaustive: true, shards: Uint32Array.of(2) });
    },
  });
  using client = clientOf(server);
  const request: AggregateRequest = {
    namespace: 'ns',
    namespaceNumber: 1_700_000_000_000,
    placementVersion: 1,
    query: { kind: 'all' },
    startNanos: 1n,
    endNanos: 2n,
    tagNames: ['a', 'b', 'c'],
    namesOnly: false,
    joined: true,
    limit: 7,
  };
  const response = await client.aggregate(request, signal);
  assert.deepEqual(seen[0], request);
  assert.deepEqual(response, { tags, exhaustive: true, shards: Uint32Array.of(2) });
});

test('a shard streams page by page, pages of any size', async () => {
  const seen: StreamShardRequest[] = [];
  const pages = [largeBundle(), bundleOfSeries([{ job: 'x', chunks: Uint8Array.of(1) }])];
  await using server = await serve({
    async *streamShard(request) {
      seen.push(request);
      for (const bundle of pages) yield { bundle };
    },
  });
  using client = clientOf(server);
  const request = {
    namespace: 'ns',
    namespaceNumber: 1_700_000_000_000,
    shard: 0,
    placementVersion: 3,
    deletionSequence: 1_700_000_132_016,
    deletionVersions: [108_800_008_449_024],
    blockStartsNanos: [-7200n, 1_700_000_000_000_000_000n],
    damagedToo: true,
    next: { fromNanos: -7200n, heldStartsNanos: [-7200n, 7200n], blocksMax: 1 },
  };
  const got: SeriesBundle[] = [];
  for await (const { bundle } of client.streamShard(request, signal)) got.push(bundle);
  assert.deepEqual(seen, [request]);
  assert.equal(got.length, 2);
  for (const [i, bundle] of got.entries()) {
    assert.equal(bundle.seriesCount, pages[i]!.seriesCount);
    assert.equal(Buffer.compare(bundle.chunkData, pages[i]!.chunkData), 0);
    assert.deepEqual([...bundle.chunkOffset], [...pages[i]!.chunkOffset]);
  }
});

test('errors keep their code and reason, also in the middle of a stream', async () => {
  await using server = await serve({
    write: () => Promise.reject(new TsdbError('RESOURCE_EXHAUSTED', 'memory is full')),
    fetch: () => Promise.reject(new TsdbError('BAD_REQUEST', 'regexp is malformed: "("')),
    async *streamShard() {
      yield { bundle: bundleOfSeries([{ job: 'x', chunks: Uint8Array.of(1) }]) };
      throw new TsdbError('UNAVAILABLE', 'disk is gone');
    },
  });
  using client = clientOf(server);
  const is = (code: string, text: RegExp) => (error: unknown) => {
    assert.ok(error instanceof TsdbError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, text);
    return true;
  };
  const batch = new Uint8Array(0);
  const write = { namespace: 'ns', placementVersion: 1, referenceEpoch: '', batch };
  await assert.rejects(client.write(write, signal), is('RESOURCE_EXHAUSTED', /memory is full/));
  const fetch: FetchRequest = {
    namespace: 'ns',
    namespaceNumber: 1_700_000_000_000,
    placementVersion: 1,
    query: { kind: 'all' },
    startNanos: 0n,
    endNanos: 1n,
    shards: null,
    seriesLimit: 0,
    fetchData: false,
  };
  await assert.rejects(client.fetch(fetch, signal), is('BAD_REQUEST', /regexp is malformed/));
  let pages = 0;
  const streaming = (async () => {
    const all = { blockStartsNanos: [], damagedToo: false };
    const request = { namespace: 'ns', shard: 1, placementVersion: 1, ...all };
    for await (const _ of client.streamShard(request, signal)) pages++;
  })();
  await assert.rejects(streaming, is('UNAVAILABLE', /disk is gone/));
  assert.equal(pages, 1);
  const none = new AbortController();
  none.abort(new Error('not wanted'));
  await assert.rejects(client.fetch(fetch, none.signal), /not wanted/);
});

test('a client that leaves is seen by the node', async () => {
  const left = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  await using server = await serve({
    fetch(_, ofCall) {
      begun.resolve();
      return new Promise((__, reject) => {
        ofCall.addEventListener('abort', () => {
          left.resolve();
          reject(ofCall.reason as Error);
        });
      });
    },
  });
  using client = clientOf(server);
  const stop = new AbortController();
  const fetch: FetchRequest = {
    namespace: 'ns',
    namespaceNumber: 1_700_000_000_000,
    placementVersion: 1,
    query: { kind: 'all' },
    startNanos: 0n,
    endNanos: 1n,
    shards: null,
    seriesLimit: 0,
    fetchData: true,
  };
  const fetching = client.fetch(fetch, stop.signal);
  await begun.promise;
  stop.abort(new Error('query was cancelled'));
  await assert.rejects(fetching, /query was cancelled/);
  await left.promise;
});

/** The real environment, whose periodic tasks run when told. */
function manualEnv(): { env: Env; runTasks: () => Promise<void> } {
  const tasks: (() => void | Promise<void>)[] = [];
  const clock: Env['clock'] = {
    ...realEnv.clock,
    every: (_, task, __, stop) => {
      tasks.push(task);
      stop.addEventListener('abort', () => tasks.splice(tasks.indexOf(task), 1));
    },
  };
  return {
    env: { ...realEnv, clock },
    runTasks: async () => {
      for (const task of tasks) await task();
    },
  };
}

test('requests to an instance that fails four health checks fail at once, until it is back', async () => {
  const { env, runTasks } = manualEnv();
  using connections = new NodeConnections({ env, log: silentLog });
  const first = await serve({ truncate: () => Promise.resolve(1) });
  const { port } = first;
  const instance = { id: 'h1', endpoint: `127.0.0.1:${port}` } as Instance;
  const node = connections.nodeOf(instance);
  assert.equal(connections.nodeOf(instance), node);
  await runTasks();
  assert.equal(await node.truncate('ns', signal), 1);
  await first[Symbol.asyncDispose]();
  for (let i = 0; i < 4; i++) await runTasks();
  await assert.rejects(node.truncate('ns', signal), /health checks fail: /);

  await using _ = await serve({ truncate: () => Promise.resolve(2) }, port);
  for (let turns = 0; turns < 300; turns++) {
    await runTasks();
    const isBack = await node.truncate('ns', signal).then(
      () => true,
      () => false,
    );
    if (isBack) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(await node.truncate('ns', signal), 2);
});

test('an endpoint where another instance answers is not used', async () => {
  const { env, runTasks } = manualEnv();
  using connections = new NodeConnections({ env, log: silentLog });
  await using server = await serve({});
  const node = connections.nodeOf({
    id: 'other',
    endpoint: `127.0.0.1:${server.port}`,
  } as Instance);
  for (let i = 0; i < 4; i++) await runTasks();
  await assert.rejects(node.truncate('ns', signal), /instance h1 answers at its endpoint/);
});

test('an instance that moved to another endpoint gets another connection, a gone one none', async () => {
  const { env, runTasks } = manualEnv();
  using connections = new NodeConnections({ env, log: silentLog });
  await using server = await serve({ truncate: () => Promise.resolve(3) });
  const old = connections.nodeOf({ id: 'h1', endpoint: '127.0.0.1:1' } as Instance);
  const moved = { id: 'h1', endpoint: `127.0.0.1:${server.port}` } as Instance;
  const node = connections.nodeOf(moved);
  assert.notEqual(node, old);
  assert.equal(await node.truncate('ns', signal), 3);
  await assert.rejects(old.truncate('ns', signal));
  let tell: (view: { readonly placement: Placement | null }) => void = () => {};
  connections.follow({
    subscribe(listener) {
      tell = listener;
      return { [Symbol.dispose]: () => {} };
    },
  });
  tell({ placement: { instances: [moved] } as unknown as Placement });
  assert.equal(connections.nodeOf(moved), node);
  tell({ placement: { instances: [{ id: 'other' }] } as unknown as Placement });
  await turn();
  await runTasks();
  await assert.rejects(node.truncate('ns', signal));
  assert.notEqual(connections.nodeOf(moved), node);
});

test('an instance outside of the placement is checked only as long as somebody asks for it', async () => {
  const { env, runTasks } = manualEnv();
  let checks = 0;
  await using server = await serve({
    health: () => {
      checks += 1;
      return Promise.resolve(health);
    },
  });
  using connections = new NodeConnections({ env, log: silentLog });
  const placed = { id: 'h1', endpoint: `127.0.0.1:${server.port}` } as Instance;
  const view = { placement: { instances: [placed] } as unknown as Placement };
  let tell: (view: { readonly placement: Placement | null }) => void = () => {};
  connections.follow({
    subscribe(listener) {
      tell = listener;
      return { [Symbol.dispose]: () => {} };
    },
  });
  tell(view);
  connections.nodeOf(placed);
  for (let i = 0; i < 3; i++) await runTasks();
  assert.equal(checks, 3, 'an instance of the placement is always checked');
  tell({ placement: null });
  // By an older view of the placement.
  connections.nodeOf(placed);
  await runTasks();
  connections.nodeOf(placed);
  for (let i = 0; i < 5; i++) await runTasks();
  assert.equal(checks, 5);
  // One that has another endpoint now is not checked at the old one.
  tell(view);
  connections.nodeOf(placed);
  tell({ placement: { instances: [{ ...placed, endpoint: 'elsewhere:1' }] } as never });
  for (let i = 0; i < 3; i++) await runTasks();
  assert.equal(checks, 5);
});

test('a session writes and reads over gRPC as it does in the process', async () => {
  using connections = new NodeConnections({ env: realEnv, log: silentLog });
  const servers = new Map<string, GrpcServer>();
  await using cluster = await FakeCluster.start(
    ['a1', 'b1', 'c1'],
    { replicaFactor: 3, numShards: 8 },
    {
      nodeOf: ({ id, ...rest }) => {
        const endpoint = `127.0.0.1:${servers.get(id)?.port ?? 1}`;
        return connections.nodeOf({ ...rest, id, endpoint });
      },
    },
  );
  for (const id of ['a1', 'b1']) servers.set(id, await listen(cluster.node(id)));
  try {
    const jobs = Array.from({ length: 30 }, (_, i) => `j${i}`);
    for (const seconds of [1, 2]) {
      const { outcomes } = await cluster.write(jobs.map((job) => [job, seconds, seconds / 2]));
      assert.equal(outcomes, null);
    }
    cluster.node('a1').restart();
    assert.equal((await cluster.write(jobs.map((job) => [job, 3, 3]))).outcomes, null);
    const { bundle, warnings } = await cluster.fetch({ consistency: 'majority' });
    assert.deepEqual(warnings, []);
    const points = '1000000000=0.5;2000000000=1;3000000000=3;';
    assert.deepEqual(textsOf(bundle), Object.fromEntries(jobs.map((job) => [job, points])));
    await assert.rejects(cluster.fetch({ consistency: 'all' }), /shards=8: c1: .*127\.0\.0\.1:1 /);
  } finally {
    for (const server of servers.values()) await server[Symbol.asyncDispose]();
  }
});

const comparedShard = {
  namespace: 'ns',
  namespaceNumber: 2 ** 53 - 1,
  shard: 7,
  placementVersion: 9,
  deletionSequence: 4_000_000_000,
  deletionVersions: [],
  retentionNanos: 2n ** 62n,
};

test('a comparison of rows goes over whole, with ranges and without', async () => {
  const seen: CompareRowsRequest[] = [];
  const response: CompareRowsResponse = {
    states: Uint8Array.of(0, 4),
    roots: BigUint64Array.of(2n ** 64n - 1n, 1n, 0n, 0n),
    rangeBits: 1,
    ranges: BigUint64Array.of(3n, 2n ** 63n),
  };
  await using server = await serve({
    compareRows(request) {
      seen.push(request);
      return Promise.resolve(response);
    },
  });
  using client = clientOf(server);
  const requests: CompareRowsRequest[] = [null, 0, 16].map((rangeBits) => ({
    ...comparedShard,
    blockStartsNanos: [-7_200_000_000_000n, 0n],
    rangeBits,
  }));
  for (const request of requests) {
    assert.deepEqual(await client.compareRows(request, signal), response);
  }
  assert.deepEqual(seen, requests);
});

test('series that differ come in pages, of which some may be empty', async () => {
  const seen: StreamDifferentRequest[] = [];
  const bundle = largeBundle();
  await using server = await serve({
    async *streamDifferent(request) {
      seen.push(request);
      yield { bundle: emptyBundle };
      yield { bundle };
    },
  });
  using client = clientOf(server);
  const request: StreamDifferentRequest = {
    ...comparedShard,
    blockStartNanos: -7_200_000_000_000n,
    rangeBits: 11,
    ranges: Uint32Array.of(0, 2047),
    known: Uint32Array.of(0, 2 ** 32 - 1),
    salt: 2n ** 64n - 1n,
    namesOnly: true,
  };
  const counts: number[] = [];
  for await (const page of client.streamDifferent(request, signal)) {
    counts.push(page.bundle.seriesCount);
  }
  assert.deepEqual(counts, [0, 4]);
  assert.deepEqual(seen, [request]);
});

test('who cannot compare rows says so, as a release does that does not know the call', async () => {
  await using server = await serve({});
  using client = clientOf(server);
  const request = { ...comparedShard, blockStartsNanos: [0n], rangeBits: null };
  await assert.rejects(client.compareRows(request, signal), { code: 'UNIMPLEMENTED' });
  const methods = nodeMethods({} as NodeService, realEnv.clock).filter(
    ({ path }) => !path.includes('Compare'),
  );
  await using former = await serveGrpc({
    host: '127.0.0.1',
    port: 0,
    methods,
    requestBytesMax: nodeRequestBytesMax,
    stopGraceMillis: 0,
  });
  using formerClient = clientOf(former);
  await assert.rejects(formerClient.compareRows(request, signal), { code: 'UNIMPLEMENTED' });
});

test('a question is taken as far as a question needs, and only a write as far as a batch does', () => {
  const methods = nodeMethods({} as NodeService, realEnv.clock);
  const large = methods.filter(({ requestBytesMax = 0 }) => requestBytesMax > 4 << 20);
  assert.deepEqual(
    large.map(({ path }) => path.split('/').at(-1)),
    ['Write'],
  );
});
