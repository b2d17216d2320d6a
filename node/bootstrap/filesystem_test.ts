import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  readAll,
  writeRows,
} from '../storage/database_testing.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { loadShard } from './filesystem.ts';
import { fillMemory, smallMemoryBytes } from './full_memory_testing.ts';

after(closeDatabases);

const loaded = registryOf([namespaceOf('loaded')]);
const both = registryOf([namespaceOf('loaded'), namespaceOf('metrics')]);

test('a fileset for whose series memory has no room is loaded when what is loaded already was flushed', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const env = { ...realEnv, disk };
  const nanos = realEnv.clock.nowNanos();
  const rows = Array.from({ length: 5000 }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i}` },
    nanos,
    value: i,
  }));
  const { database: before } = await openDatabase('data', { env, registry: both });
  await writeRows(before, rows);
  await before.flush(null, never);
  const expected = await readAll(before);
  await closeDatabases();

  // As a release leaves it that does not note what the folder holds.
  await disk.remove('data/held.json');
  const options = { env, registry: loaded, memoryBytesMax: smallMemoryBytes };
  const { database } = await openDatabase('data', options);
  await fillMemory(database, 'loaded');
  await database.applyTopology(onePlacement, 1, both);
  const namespace = database.namespaces.get('metrics')!;
  for (const { id } of database.shards.all()) {
    await loadShard(database, namespace, id, null, undefined, never);
    namespace.readyShards.add(id);
  }
  assert.equal(database.store.sampleCount, 0);
  assert.deepEqual(await readAll(database), expected);
});
