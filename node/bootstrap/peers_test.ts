import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { allTime, type Deletion } from '#cluster/metadata/deletions.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { addInstances, initPlacement } from '#cluster/placement/algorithm.ts';
import { realEnv } from '#lib/env/real.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { TestCluster } from '../cluster_testing.ts';
import type { Database } from '../storage/database.ts';
import {
  batchOf,
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  writeRows,
} from '../storage/database_testing.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { fillMemory, smallMemoryBytes } from './full_memory_testing.ts';
import { bootstrapFromPeers } from './peers.ts';

after(closeDatabases);

const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
const shards = [0, 1, 2, 3];

async function openOnMemory(memoryBytesMax = 256 << 20) {
  const disk = new SimulatedDisk({ below: () => 0 });
  const env = { ...realEnv, disk };
  const { database } = await openDatabase('data', { env, registry, memoryBytesMax });
  return { database, disk };
}

test('a shard is not taken from peers while a deletion is applied that they need not have applied', async () => {
  const { database: donor } = await openOnMemory();
  const now = realEnv.clock.nowNanos();
  const rows = ['a', 'b', 'c', 'd'].map((host) => ({
    series: { __name__: 'cpu', host },
    nanos: now,
    value: 1,
  }));
  await writeRows(donor, rows);
  await realEnv.clock.sleep(3, never);
  const deletedAt = realEnv.clock.nowNanos();
  const deletion: Deletion = {
    sequence: 1,
    namespace: 'metrics',
    query: { kind: 'term', field: 'host', term: 'a' },
    ...allTime,
    version: Number(versionAtNanos(deletedAt)),
    createdNanos: deletedAt,
    expiresNanos: deletedAt + 3_600_000_000_000n,
    selectors: [],
  };
  const { database: asker, disk } = await openOnMemory();
  const namespace = asker.namespaces.get('metrics')!;
  const takeAll = async () => {
    for (const shard of shards) {
      await bootstrapFromPeers(asker, namespace, shard, [donor], null, false, never);
    }
  };
  const write = disk.writeFileAtomic.bind(disk);
  const fails = () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
  asker.env.disk.writeFileAtomic = fails;
  await assert.rejects(asker.deletions.apply(deletion), { code: 'UNAVAILABLE' });
  await assert.rejects(takeAll(), { code: 'UNAVAILABLE', message: /series are being deleted/ });
  asker.env.disk.writeFileAtomic = write;
  await asker.deletions.apply(deletion);
  const taking = takeAll();
  // The donor streams when it has applied the deletion too.
  await donor.deletions.apply(deletion);
  await taking;
  assert.deepEqual(
    [...(await readAll(asker)).keys()].sort(),
    ['b', 'c', 'd'].map((host) => `__name__=cpu,host=${host}`),
  );
});

test('of what two donors have both, a fileset holds one copy', async () => {
  const now = realEnv.clock.nowNanos();
  const batch = batchOf(
    Array.from({ length: 3000 }, (_, i) => ({
      series: { __name__: 'cpu', host: `h${i % 10}` },
      nanos: now - BigInt(i) * 1_000_000n,
      value: (i * 37) % 1001,
    })),
  );
  const donors = [await openOnMemory(), await openOnMemory()];
  for (const { database } of donors) {
    const { referenceEpoch } = database;
    const request = { namespace: 'metrics', placementVersion: 1, referenceEpoch, batch };
    await database.write(request, never);
  }
  const bytesFrom = async (from: readonly Database[]): Promise<number> => {
    const { database: asker } = await openOnMemory();
    const namespace = asker.namespaces.get('metrics')!;
    let bytes = 0;
    for (const shard of shards) {
      bytes += (await bootstrapFromPeers(asker, namespace, shard, from, null, false, never)).bytes;
    }
    assert.deepEqual(await readAll(asker), await readAll(from[0]!));
    return bytes;
  };
  const [first, second] = donors.map(({ database }) => database) as [Database, Database];
  const alone = await bytesFrom([first]);
  assert.equal(await bytesFrom([first, second]), alone);
  // Rows that one of them alone has come beside that.
  await writeRows(second, [{ series: { __name__: 'cpu', host: 'h1' }, nanos: now + 1n, value: 7 }]);
  await second.flush(null, never);
  const more = await bytesFrom([second, first]);
  assert.ok(more > alone && more < 1.5 * alone, `${alone} bytes, and ${more}`);
});

test('a fileset from peers is not put in use before memory has room for all of its series', async () => {
  const { database: donor } = await openOnMemory();
  const nanos = realEnv.clock.nowNanos();
  const rows = Array.from({ length: 5000 }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i}` },
    nanos,
    value: i,
  }));
  await writeRows(donor, rows);
  await donor.flush(null, never);
  const { database: asker } = await openOnMemory(smallMemoryBytes);
  const namespace = asker.namespaces.get('metrics')!;
  const take = (shard: number) =>
    bootstrapFromPeers(asker, namespace, shard, [donor], null, false, never);
  await fillMemory(asker, 'metrics');
  for (const shard of shards) await assert.rejects(take(shard), { code: 'RESOURCE_EXHAUSTED' });
  assert.deepEqual(namespace.files.all(null), []);
  const filling = await readAll(asker);
  await asker.flush(null, never);
  for (const shard of shards) await take(shard);
  assert.deepEqual(await readAll(asker), new Map([...filling, ...(await readAll(donor))]));
});

test('typed rows move with their shards, those of memory and those of files', async () => {
  await using world = new TestCluster();
  await world.start('a');
  const first = initPlacement([world.instance('a')], { numShards: 4, replicaFactor: 1 });
  await world.placements.create(first, never);
  await world.addNamespace(namespaceOf('metrics', { coldWritesEnabled: true }));
  await world.untilAvailable('a');
  const { database } = world.nodes.get('a')!.runtime;
  const blockNanos = 7200n * 1_000_000_000n;
  const middle = (realEnv.clock.nowNanos() / blockNanos) * blockNanos - blockNanos / 2n;
  const rowsOf = (count: number, value: number) =>
    Array.from({ length: count }, (_, i) => ({
      series: { __name__: 'x', host: `${i % 20}` },
      nanos: middle + BigInt(i) * 1_000_000_000n,
      value: value + i,
      isTyped: i % 3 > 0,
      startNanos: i % 5 === 0 ? middle : 0n,
    }));
  await writeRows(database, rowsOf(400, 1));
  await database.flush(null, never);
  await realEnv.clock.sleep(3, never);
  await writeRows(database, rowsOf(100, 5000));
  const expected = await readAll(database);
  await world.start('b');
  const options = { force: false };
  await world.changePlacement((placement) =>
    addInstances(placement, [{ ...world.instance('b'), isolationGroup: 'a' }], options),
  );
  await world.untilAvailable('b');
  const taken = await readAll(world.nodes.get('b')!.runtime.database);
  assert.ok(taken.size > 0 && taken.size < 20);
  for (const [series, rows] of taken) assert.deepEqual(rows, expected.get(series), series);
});
