import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { openSessionMemory } from '#lib/read_memory/session_memory.ts';
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { environmentDefault, zoneDefault } from '#cluster/kv/keys.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { addNamespace } from '#cluster/namespaces/changes.ts';
import { NodeClient, NodeConnections } from '#cluster/node/client.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import type { InstanceInfo } from '#cluster/placement/placement.ts';
import { addInstances, initPlacement } from '#cluster/placement/algorithm.ts';
import { PlacementStore } from '#cluster/placement/store.ts';
import { Topology } from '#cluster/topology/topology.ts';
import { parseConfig } from '#lib/config/config.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { type RunningNode, startNode } from './start.ts';
import { announcementKeys } from './identity/announcement.ts';
import { batchOf, namespaceOf, samplesOf } from './storage/database_testing.ts';

const never = new AbortController().signal;
const cluster = { environment: environmentDefault, zone: zoneDefault };
const now = realEnv.clock.nowNanos();

/** Nodes with real sockets and a key-value store in memory. */
class Nodes implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly folder: string = `${tmpdir()}/tsdb-start-${realEnv.random.bytes(6).toHex()}`;
  kvStore: MemoryKvStore = new MemoryKvStore({ clock: realEnv.clock });
  readonly placements: PlacementStore = new PlacementStore(
    this.kvStore.client(),
    cluster,
    realEnv.random,
  );
  readonly connections: NodeConnections;

  constructor() {
    this.#stack.defer(() => realEnv.disk.removeTree(this.folder));
    this.connections = this.#stack.use(new NodeConnections({ env: realEnv, log: silentLog }));
  }

  async start(id: string): Promise<RunningNode> {
    const { db } = parseConfig([{ path: 'x.yml', text: 'db: {}' }], 'node', {});
    const anywhere = { host: '127.0.0.1', port: 0 };
    const kv = this.kvStore.client();
    const topology = this.#stack.use(
      new Topology({ kv, cluster, env: realEnv, log: silentLog }).start(),
    );
    return this.#stack.use(
      await startNode({
        env: realEnv,
        log: silentLog,
        metrics: new Metrics(),
        config: {
          ...db!,
          dataDirectory: `${this.folder}/${id}`,
          listenAddress: anywhere,
          clusterListenAddress: anywhere,
          httpNodeListenAddress: anywhere,
          httpClusterListenAddress: anywhere,
          debugListenAddress: anywhere,
        },
        instanceId: id,
        memoryBytesMax: 64 * 1024 * 1024,
        sessionMemory: openSessionMemory(realEnv.clock, null),
        kv,
        cluster,
        topology,
        nodeServiceOf: (instance) => this.connections.nodeOf(instance),
        onFatal: (error) => assert.fail(String(error)),
      }),
    );
  }

  infoOf(id: string, node: RunningNode): InstanceInfo {
    return {
      id,
      isolationGroup: id,
      zone: 'embedded',
      weight: 1,
      endpoint: `127.0.0.1:${node.ports.grpcNode}`,
      hostname: '127.0.0.1',
      port: node.ports.grpcNode,
      shardSetId: 0,
      debugPort: 0,
    };
  }

  async addNamespace(name: string): Promise<void> {
    const store = new NamespaceStore(this.kvStore.client(), cluster);
    await store.update((registry) => addNamespace(registry, namespaceOf(name)), never);
  }

  async until(holds: () => boolean): Promise<void> {
    const giveUp = realEnv.clock.deadline(10_000, never);
    while (!holds()) await realEnv.clock.sleep(10, giveUp);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

const isWhole = ({ database }: RunningNode) =>
  database.isBootstrapped &&
  database.namespaces.size > 0 &&
  database.shards.all().every(({ state }) => state === 'AVAILABLE');

const seriesOf = ({ database }: RunningNode) =>
  database.namespaces.get('metrics')!.index.seriesCount;

const everything = {
  namespace: 'metrics',
  placementVersion: 0,
  query: { kind: 'all' },
  shards: null,
  seriesLimit: 0,
  fetchData: true,
  startNanos: now - 1000n,
  endNanos: now + 1000n,
} as const;

const rows = Array.from({ length: 50 }, (_, i) => ({
  series: { __name__: 'up', host: `h${i}` },
  nanos: now + BigInt(i),
  value: i,
}));

test('two nodes over gRPC: writes, reads, and shards that move between processes', async () => {
  await using nodes = new Nodes();
  const a = await nodes.start('a');
  await nodes.placements.create(
    initPlacement([nodes.infoOf('a', a)], { numShards: 8, replicaFactor: 1 }),
    never,
  );
  await nodes.addNamespace('metrics');
  await nodes.until(() => isWhole(a));
  using client = new NodeClient({ target: `127.0.0.1:${a.ports.grpcNode}` });
  const request = { namespace: 'metrics', placementVersion: 2, referenceEpoch: '' };
  const written = await client.write({ ...request, batch: batchOf(rows) }, never);
  assert.equal(written.outcomes.length, 0);
  assert.equal(written.referenceEpoch, a.database.referenceEpoch);
  const before = samplesOf(await client.fetch(everything, never));
  assert.equal(before.size, 50);

  const b = await nodes.start('b');
  await nodes.placements.update(
    (placement) => addInstances(placement, [nodes.infoOf('b', b)], { force: false }),
    never,
  );
  await nodes.until(() => isWhole(b) && isWhole(a) && b.database.shards.all().length === 4);
  // A shard leaves memory shortly after the placement; until then its rows are in both answers.
  await nodes.until(() => seriesOf(a) + seriesOf(b) === rows.length);
  using other = new NodeClient({ target: `127.0.0.1:${b.ports.grpcNode}` });
  const left = samplesOf(await client.fetch(everything, never));
  const moved = samplesOf(await other.fetch(everything, never));
  assert.ok(moved.size > 0);
  assert.deepEqual(new Set([...left, ...moved]), new Set(before));

  using whole = new NodeClient({ target: `127.0.0.1:${b.ports.grpcCluster}` });
  assert.equal(samplesOf(await whole.fetch(everything, never)).size, 50);
});

test('gRPC on the cluster port takes batches with dictionaries for every shard', async () => {
  await using nodes = new Nodes();
  const a = await nodes.start('a');
  const b = await nodes.start('b');
  await nodes.placements.create(
    initPlacement([nodes.infoOf('a', a), nodes.infoOf('b', b)], { numShards: 8, replicaFactor: 1 }),
    never,
  );
  await nodes.addNamespace('metrics');
  await nodes.until(() => isWhole(a) && isWhole(b));
  using client = new NodeClient({ target: `127.0.0.1:${a.ports.grpcCluster}` });
  const request = { namespace: 'metrics', placementVersion: 0, referenceEpoch: '' };
  const bad = { series: { __name__: 'up', host: 'late' }, nanos: 5n, value: 1 };
  const answer = await client.write({ ...request, batch: batchOf([...rows, bad]) }, never);
  assert.equal(answer.outcomes[50], rowOutcome.tooFarPast);
  assert.ok([...answer.outcomes.subarray(0, 50)].every((outcome) => outcome === 0));
  assert.equal(samplesOf(await client.fetch(everything, never)).size, 50);
  assert.ok(a.database.store.seriesCount > 0 && b.database.store.seriesCount > 0);
  const { tags } = await client.aggregate(
    { ...everything, tagNames: ['host'], namesOnly: false, limit: 0 },
    never,
  );
  assert.equal(tags[0]!.values.length, 50);
  await assert.rejects(
    client.write(
      {
        ...request,
        batch: batchOf([{ series: { slot: 1, generation: 1 }, nanos: now, value: 1 }]),
      },
      never,
    ),
    /names no dictionary entry/,
  );
  assert.equal(await client.truncate('metrics', never), 50);
});

test('all listeners are open before there is a placement, and the debug page tells the state', async () => {
  await using nodes = new Nodes();
  const a = await nodes.start('a');
  using client = new NodeClient({ target: `127.0.0.1:${a.ports.grpcNode}` });
  await assert.rejects(client.fetch(everything, never), /not bootstrapped/);
  assert.equal((await client.health(never)).bootstrapped, false);
  const url = (path: string) => `http://127.0.0.1:${a.ports.debug}${path}`;
  const secret = 'a password that nobody may see';
  process.env['TSDB_TEST_SECRET'] = secret;
  const texts = new Map<string, string>();
  for (const path of [
    '/debug/dump',
    '/debug/pprof/profile?seconds=0.05',
    '/debug/pprof/heap?seconds=0.05',
  ]) {
    const text = await (await fetch(url(path))).text();
    assert.ok(!text.includes(secret) && !text.includes(process.env['PATH']!), path);
    texts.set(new URL(path, 'http://debug').pathname, text);
  }
  delete process.env['TSDB_TEST_SECRET'];
  const dump = (await (await fetch(url('/debug/dump'))).json()) as {
    host: { instanceId: string; bootstrapped: boolean };
    placement: unknown;
  };
  assert.equal(dump.host.instanceId, 'a');
  assert.equal(dump.host.bootstrapped, false);
  assert.equal(dump.placement, null);
  const metrics = await (await fetch(url('/metrics'))).text();
  assert.match(metrics, /^tsdb_node_bootstrapped 0$/m);
  const profile = JSON.parse(texts.get('/debug/pprof/profile')!) as { nodes: unknown[] };
  assert.ok(profile.nodes.length > 0);
  const heap = JSON.parse(texts.get('/debug/pprof/heap')!) as { head: unknown };
  assert.ok(heap.head);
  assert.equal((await fetch(url('/debug/pprof/profile?seconds=x'))).status, 400);
  assert.equal((await fetch(url('/debug/nothing'))).status, 404);
});

test('a node whose folder and store have both gone back says what it knew before it gives anything up', async () => {
  await using nodes = new Nodes();
  const firstStart = await nodes.start('a');
  const info = nodes.infoOf('a', firstStart);
  await nodes.placements.create(initPlacement([info], { numShards: 4, replicaFactor: 1 }), never);
  await nodes.addNamespace('metrics');
  await nodes.until(() => isWhole(firstStart));
  await firstStart[Symbol.asyncDispose]();
  const restart = async (): Promise<void> => {
    const node = await nodes.start('a');
    await nodes.until(() => isWhole(node));
    await node[Symbol.asyncDispose]();
  };
  await restart();
  const kv = nodes.kvStore.client();
  const { items } = await kv.list('', never);
  // Others write on.
  const other = { kind: 'put', key: 'other', value: new Uint8Array(1) } as const;
  for (let i = 0; i < 50; i++) await kv.transact([], [other], never);
  await restart();

  // A backup, in which a process that was taken for a copy has noted rows that this folder may lack.
  const restored = new MemoryKvStore({ clock: realEnv.clock });
  const { identity } = announcementKeys(cluster, 'a');
  for (const { key, value } of items.toSorted((a, b) => a.modRevision - b.modRevision)) {
    const said = key === identity ? withMissed(value) : value;
    await restored.client().transact([], [{ kind: 'put', key, value: said }], never);
  }
  nodes.kvStore = restored;
  const third = await nodes.start('a');
  const admin = new ClusterAdmin({
    kv: restored.client(),
    cluster,
    clock: realEnv.clock,
    random: realEnv.random,
  });
  const giveUp = realEnv.clock.deadline(20_000, never);
  for (;;) {
    const approved = await admin.placementApprove({}, plainRequest, never).catch((error) => error);
    if (!(approved instanceof Error)) break;
    await realEnv.clock.sleep(50, giveUp);
  }
  await nodes.until(() => third.database.isBootstrapped);
});

function withMissed(value: Uint8Array): Uint8Array {
  const said = JSON.parse(new TextDecoder().decode(value)) as object;
  return new TextEncoder().encode(JSON.stringify({ ...said, missed: true }));
}
