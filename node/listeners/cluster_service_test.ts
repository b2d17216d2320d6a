import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSessionMemory } from '#lib/read_memory/session_memory.ts';
import { FakeCluster } from '#cluster/session/fakes_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { ClusterService } from './cluster_service.ts';
import { ClusterBackend } from './json/cluster_backend.ts';

const three = ['a1', 'b1', 'c1'];
const range = { namespace: 'ns', startNanos: 0n, endNanos: 10n ** 12n } as const;
const all = { ...range, query: { kind: 'all' } } as const;

const noTruncations = { truncate: () => Promise.resolve(0) };

/** All listeners of the cluster, before and while two of three replicas are away. */
async function openCluster() {
  const cluster = await FakeCluster.start(three, { replicaFactor: 3, numShards: 8 });
  const { session, topology } = cluster;
  const memory = openSessionMemory(realEnv.clock, null);
  const readers: (number | undefined)[] = [];
  const service = new ClusterService(session, memory, topology, noTruncations, {
    health: (signal) => cluster.node('a1').health(signal),
    readers: { note: (level) => void readers.push(level) },
  });
  const backend = new ClusterBackend(session, memory, topology, noTruncations);
  const loseTwo = () => {
    for (const id of ['b1', 'c1']) cluster.node(id).mode = 'down';
  };
  return { cluster, service, backend, loseTwo, readers };
}

test('by gRPC an answer of too few replicas is whole for no shard', async () => {
  const { cluster, service, loseTwo } = await openCluster();
  await using _ = cluster;
  const wholeShards = async () => {
    const request = { ...all, placementVersion: 0, shards: null, seriesLimit: 0, fetchData: true };
    const aggregation = { ...all, placementVersion: 0, tagNames: [], namesOnly: true, limit: 0 };
    const answers = [
      await service.fetch(request, cluster.signal),
      await service.fetchById(
        { ...range, placementVersion: 0, ids: [Uint8Array.of(120)] },
        cluster.signal,
      ),
      await service.aggregate(aggregation, cluster.signal),
    ];
    return answers.map(({ shards }) => shards.length);
  };
  assert.deepEqual(await wholeShards(), [8, 8, 8]);
  loseTwo();
  assert.deepEqual(await wholeShards(), [0, 0, 0]);
});

test('who reads by gRPC is noted with the formats that it reads', async () => {
  const { cluster, service, readers } = await openCluster();
  await using _ = cluster;
  const request = { ...all, placementVersion: 0, shards: null, seriesLimit: 0, fetchData: true };
  await service.fetch({ ...request, formatLevel: 1 }, cluster.signal);
  const byId = { ...range, placementVersion: 0, ids: [], formatLevel: formatLevelNewest };
  await service.fetchById(byId, cluster.signal);
  assert.deepEqual(readers, [1, formatLevelNewest]);
});

test('by JSON an answer of too few replicas is not exhaustive, and refused where it has to be', async () => {
  const { cluster, backend, loseTwo } = await openCluster();
  await using _ = cluster;
  const ask = async (requireExhaustive: boolean) => {
    const query = { ...all, seriesLimit: 0, fetchData: true, requireExhaustive, consistency: null };
    const aggregation = { ...all, tagNames: [], namesOnly: true, limit: 0, requireExhaustive };
    const answers = [
      await backend.query(query, cluster.signal, {}),
      await backend.aggregate(aggregation, cluster.signal, {}),
    ];
    return answers.map(({ exhaustive }) => exhaustive);
  };
  assert.deepEqual(await ask(true), [true, true]);
  loseTwo();
  assert.deepEqual(await ask(false), [false, false]);
  await assert.rejects(ask(true), { code: 'UNAVAILABLE', message: /fewer replicas/ });
});
