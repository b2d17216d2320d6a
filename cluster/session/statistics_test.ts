import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { sketchOf } from '#lib/hashing/distinct_sketch.ts';
import { TsdbError } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type {
  NodeService,
  StatisticsCount,
  StatisticsRequest,
  StatisticsResponse,
} from '../node/service.ts';
import { nodeMethods } from '../node/methods.ts';
import { statisticsRequestWire, statisticsResponseWire } from '../node/wire.ts';
import { Ownership } from '../topology/ownership.ts';
import type { Placement, ShardState } from '../placement/placement.ts';
import { clusterStatistics } from './statistics.ts';

const { signal } = new AbortController();
const none = new Uint32Array(0);

function ownershipOf(shards: Record<string, number[]>, state: ShardState = 'AVAILABLE'): Ownership {
  const placement: Placement = {
    instances: Object.entries(shards).map(([id, owned], index) => ({
      id,
      isolationGroup: id,
      zone: 'embedded',
      weight: 1,
      endpoint: `${id}:9000`,
      hostname: id,
      port: 9000,
      shardSetId: index,
      debugPort: 0,
      shards: owned.map((shard) => ({
        id: shard,
        state,
        sourceId: '',
        cutoverNanos: 0n,
        cutoffNanos: 0n,
      })),
    })),
    replicaFactor: 2,
    numShards: 4,
    isSharded: true,
    isMirrored: false,
    maxShardSetId: 0,
    cutoverTimeNanos: 0n,
  };
  return new Ownership(placement);
}

/** Series `m{host=h<n>}` of which n modulo 4 is the shard. */
const hostsOf = (shards: readonly number[]): number[] =>
  Array.from({ length: 100 }, (_, n) => n).filter((n) => shards.includes(n % 4));

/** Answers for its shards, as a node's index would. */
function fakeNode(owned: readonly number[], asked: StatisticsRequest[] = []): NodeService {
  const statistics = async (request: StatisticsRequest): Promise<StatisticsResponse> => {
    asked.push(request);
    const hosts = hostsOf(request.shards === null ? owned : [...request.shards]);
    const sketch = (texts: readonly string[]): Uint32Array =>
      request.withSketches
        ? sketchOf(Uint32Array.from(texts, (text) => murmur3(Buffer.from(text))))
        : none;
    const row = (name: string, count: number, value = ''): StatisticsCount => {
      return { name, value, count, sketch: none };
    };
    const pairs = hosts.map((n) => `host=h${n % 30}`);
    return {
      seriesCount: hosts.length,
      nameCount: 2,
      pairCount: 1 + new Set(pairs).size,
      valuesByName: [
        { ...row('host', new Set(pairs).size), sketch: sketch(pairs) },
        { ...row('__name__', 1), sketch: sketch(['m']) },
      ],
      seriesByName: [row('__name__', hosts.length), row('host', hosts.length)],
      seriesByPair: [row('__name__', hosts.length, 'm'), row('host', 2, 'h1')],
      seriesByMetric: [row('m', hosts.length)],
      bytesByName: [row('host', 1000)],
      nameSketch: sketch(['__name__', 'host']),
      pairSketch: sketch(['m', ...pairs]),
      openBlocks: hosts.length,
      startNanos: BigInt(owned[0]!) + 5n,
      endNanos: BigInt(owned[0]!) + 50n,
      created: hosts.length,
      removed: 1,
      createdLastHour: 1,
      removedLastHour: 0,
      shards: request.shards ?? Uint32Array.from(owned),
    };
  };
  return { statistics } as unknown as NodeService;
}

const planOf = (ownership: Ownership, nodes: readonly NodeService[]) => ({
  ownership,
  placementVersion: 3,
  nodeOf: (index: number) => nodes[index]!,
  namespace: 'default',
  namespaceNumber: 7,
  limit: 5,
  metricName: '__name__',
});

test('a node that has all shards is asked alone, and its numbers are those of the cluster', async () => {
  const asked: StatisticsRequest[] = [];
  const nodes = [fakeNode([0, 1]), fakeNode([0, 1, 2, 3], asked), fakeNode([2, 3])];
  const ownership = ownershipOf({ a: [0, 1], b: [0, 1, 2, 3], c: [2, 3] });
  const found = await clusterStatistics(planOf(ownership, nodes), signal);
  assert.deepEqual(found.instances, ['b']);
  assert.deepEqual([found.seriesCount, found.pairCount], [100, 31]);
  assert.deepEqual(
    [asked[0]!.shards, asked[0]!.limit, asked[0]!.withSketches, asked[0]!.placementVersion],
    [null, 5, false, 3],
  );
});

test('several nodes answer for shards of their own, and what they share is counted once', async () => {
  const nodes = [fakeNode([0, 1, 2]), fakeNode([1, 2, 3]), fakeNode([3, 0])];
  const ownership = ownershipOf({ a: [0, 1, 2], b: [1, 2, 3], c: [3, 0] });
  const found = await clusterStatistics(planOf(ownership, nodes), signal);
  assert.deepEqual(found.instances, ['a', 'b']);
  assert.equal(found.seriesCount, 100);
  assert.deepEqual([found.nameCount, found.pairCount], [2, 31]);
  const counts = (rows: readonly StatisticsCount[]) =>
    rows.map(({ name, value, count }) => [name, value, count]);
  assert.deepEqual(counts(found.valuesByName), [
    ['host', '', 30],
    ['__name__', '', 1],
  ]);
  assert.deepEqual(counts(found.seriesByMetric), [['m', '', 100]]);
  assert.deepEqual(counts(found.seriesByPair), [
    ['__name__', 'm', 100],
    ['host', 'h1', 4],
  ]);
  assert.deepEqual([found.startNanos, found.endNanos, found.created], [5n, 51n, 100]);
});

test('the other replicas answer for a node that does not', async () => {
  const failing = {
    statistics: () => Promise.reject(new TsdbError('UNAVAILABLE', 'is down')),
  } as unknown as NodeService;
  const ownership = ownershipOf({ a: [0, 1, 2, 3], b: [0, 1], c: [2, 3] });
  const nodes = [failing, fakeNode([0, 1]), fakeNode([2, 3])];
  const found = await clusterStatistics(planOf(ownership, nodes), signal);
  assert.deepEqual([found.instances, found.seriesCount], [['b', 'c'], 100]);
  await assert.rejects(
    clusterStatistics(planOf(ownership, [failing, failing, nodes[2]!]), signal),
    { code: 'UNAVAILABLE', message: 'no replica answers for 2 shards: a: is down; b: is down' },
  );
});

test('a node that is not whole yet, or only takes shards over, does not count', async () => {
  const half = fakeNode([0, 1, 2, 3]);
  const statistics = half.statistics!.bind(half);
  half.statistics = async (request, until) => ({
    ...(await statistics(request, until)),
    shards: Uint32Array.of(0, 1),
  });
  const ownership = ownershipOf({ a: [0, 1, 2, 3] });
  await assert.rejects(clusterStatistics(planOf(ownership, [half]), signal), {
    message: 'no replica answers for 4 shards: a: shards are not yet bootstrapped to read',
  });
  const taking = ownershipOf({ a: [0, 1, 2, 3] }, 'INITIALIZING');
  await assert.rejects(clusterStatistics(planOf(taking, [fakeNode([0])]), signal), {
    code: 'UNAVAILABLE',
  });
});

test('request and answer go over the wire', async () => {
  const asked: StatisticsRequest[] = [];
  const service = fakeNode([0, 1, 2, 3], asked);
  const method = nodeMethods(service, realEnv.clock).find(({ path }) =>
    path.endsWith('/Statistics'),
  )!;
  assert.ok(method.kind === 'unary');
  const request: StatisticsRequest = {
    namespace: 'default',
    namespaceNumber: 1_700_000_000_000,
    placementVersion: 4,
    shards: Uint32Array.of(1, 3),
    limit: 7,
    metricName: '__name__',
    withSketches: true,
  };
  const context = { signal } as Parameters<typeof method.handle>[1];
  const bytes = await method.handle(statisticsRequestWire.encode(request), context);
  assert.deepEqual(asked, [request]);
  assert.deepEqual(
    statisticsResponseWire.decode(bytes),
    await service.statistics!(request, signal),
  );
});
