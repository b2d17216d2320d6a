import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import type { ShardState } from '#cluster/placement/placement.ts';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { overriding } from '#test/overriding.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import type { Database } from '../storage/database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  placementOf,
  readAll,
  truncateByLog,
  writeRows,
} from '../storage/database_testing.ts';
import { ShardJobs, streamShardsAtOnce } from './shard_jobs.ts';

const opened: ShardJobs[] = [];
after(async () => {
  for (const jobs of opened) await jobs[Symbol.asyncDispose]();
  await closeDatabases();
});

const metrics = namespaceOf('metrics', { coldWritesEnabled: true });
const registry = registryOf([metrics]);
const { blockSizeNanos } = metrics.options.retentionOptions;
const firstBlock = (realEnv.clock.nowNanos() / blockSizeNanos - 4n) * blockSizeNanos;
const blocks = [firstBlock, firstBlock + blockSizeNanos];
const rows = blocks.flatMap((start) =>
  [1n, 2n, 3n].map((seconds) => ({
    series: { __name__: 'cpu', host: 'x' },
    nanos: start + seconds * 1_000_000_000n,
    value: Number(seconds),
  })),
);

/** One shard on two instances, of which `b` has it AVAILABLE. */
const placementWith = (state: ShardState) =>
  placementOf(
    { a: { 0: state }, b: { 0: 'AVAILABLE' } },
    { numShards: 1, replicaFactor: 2, sourceId: 'b' },
  );

async function openInstance(
  instanceId: string,
  state: ShardState,
  clock: Clock,
): Promise<Database> {
  const env = { ...realEnv, clock, disk: new SimulatedDisk({ below: () => 0 }) };
  const placement = placementWith(state);
  const { database } = await openDatabase('data', { env, registry, placement, instanceId });
  return database;
}

/**
 * Two instances; `b` has all rows in filesets of two blocks, and so has `a` when its shard is
 * AVAILABLE.
 */
async function openTwo(state: ShardState, clock: Clock = realEnv.clock) {
  const database = await openInstance('a', state, clock);
  const donor = await openInstance('b', state, clock);
  for (const each of state === 'AVAILABLE' ? [database, donor] : [donor]) {
    await writeRows(each, rows);
    await each.flush(null, never);
  }
  /** What the streams of the donor wait for. */
  const gate = { opened: Promise.resolve() };
  const gated = overriding<Database>(donor, {
    async *streamShard(...request: Parameters<Database['streamShard']>) {
      await gate.opened;
      yield* donor.streamShard(...request);
    },
  });
  const jobs = new ShardJobs({
    parts: database,
    nodeServiceOf: () => gated,
    sinceBoot: () => 1,
    onReady: () => {},
  });
  opened.push(jobs);
  database.onDamage = (of, file) =>
    jobs.repair({ namespace: of, shard: file.shard, blocks: new Set(of.files.blocksOf(file)) });
  const namespace = database.namespaces.get('metrics')!;
  return { env: database.env, database, donor, jobs, namespace, gate };
}

async function until(isSo: () => boolean): Promise<void> {
  for (let polls = 0; !isSo(); polls += 1) {
    assert.ok(polls < 20_000, 'what is waited for comes');
    await realEnv.clock.sleep(1, never);
  }
}

test('a block that is found damaged while another one is repaired is repaired too', async () => {
  const { database, donor, jobs, namespace } = await openTwo('AVAILABLE');
  for (const file of namespace.files.all(0)) namespace.files.setAside(file, 'test');
  assert.equal(namespace.files.all(0).length, 0);
  assert.equal(namespace.readyShards.has(0), false);
  assert.equal(jobs.pending, 1);
  await until(() => namespace.readyShards.has(0));
  assert.deepEqual(await readAll(database), await readAll(donor));
  assert.deepEqual(
    namespace.files.all(0).map(({ blockStartNanos }) => blockStartNanos),
    blocks,
  );
  assert.equal(jobs.pending, 0);
});

test('a block that is damaged before the shard is marked AVAILABLE is fetched again', async () => {
  const { database, donor, jobs, namespace, gate } = await openTwo('INITIALIZING');
  jobs.reconcile();
  await until(() => namespace.readyShards.has(0));
  assert.deepEqual(
    [...jobs.readyShards()].map(([id, { sourceId }]) => [id, sourceId]),
    [[0, 'b']],
  );
  jobs.noteMarking(jobs.readyShards());
  const { promise, resolve } = Promise.withResolvers<void>();
  gate.opened = promise;
  namespace.files.setAside(namespace.files.get(0, firstBlock)!, 'test');
  assert.equal(jobs.readyShards().size, 0);
  // A namespace came, say.
  jobs.reconcile();
  // It was marked when it was still whole.
  for (const each of [database, donor]) {
    await each.applyTopology(placementWith('AVAILABLE'), 2, registry);
  }
  jobs.reconcile();
  assert.equal(namespace.readyShards.has(0), false);
  resolve();
  await until(() => namespace.readyShards.has(0));
  assert.deepEqual(await readAll(database), await readAll(donor));
});

test('a namespace that is made behind the marking has nothing to fetch, however late this node hears of that', async () => {
  const { database, donor, jobs, namespace, gate } = await openTwo('INITIALIZING');
  jobs.reconcile();
  await until(() => namespace.readyShards.has(0));
  jobs.noteMarking(jobs.readyShards());
  // The other owner waits for this one in the same way.
  gate.opened = new Promise(() => {});
  const later = registryOf([metrics, namespaceOf('later')]);
  for (const each of [database, donor]) {
    await each.applyTopology(placementWith('INITIALIZING'), 1, later);
  }
  jobs.reconcile();
  assert.equal(jobs.pending, 1);
  assert.equal(jobs.readyShards().size, 0);
  await database.applyTopology(placementWith('AVAILABLE'), 2, later);
  jobs.reconcile();
  assert.equal(jobs.pending, 0);
  assert.equal(database.namespaces.get('later')!.readyShards.has(0), true);
});

const hasty: Clock = {
  ...realEnv.clock,
  sleep: (millis, signal) => realEnv.clock.sleep(millis / 1000, signal),
};

test('of a block that is damaged everywhere comes what others still have of it', async () => {
  const { env, database, donor, jobs, namespace } = await openTwo('AVAILABLE', hasty);
  const damaged = donor.namespaces.get('metrics')!;
  damaged.files.setAside(damaged.files.get(0, firstBlock)!, 'test');
  damaged.readyShards.lose(0, new Set([firstBlock]));
  const left = { series: { __name__: 'cpu', host: 'left' }, nanos: firstBlock, value: 7 };
  await writeRows(donor, [left]);
  namespace.files.setAside(namespace.files.get(0, firstBlock)!, 'test');
  await until(() => namespace.readyShards.has(0));
  assert.equal(jobs.pending, 0);
  assert.deepEqual(await readAll(database), await readAll(donor));
  await namespace.files.settled();
  const names = await env.disk.list('data/data/metrics/0');
  assert.ok(
    names.some((name) => name.endsWith('.corrupt')),
    'nobody had what is in there',
  );
});

test('of a shard that moves comes what its damaged owner still has', async () => {
  const { database, donor, jobs, namespace } = await openTwo('INITIALIZING', hasty);
  const damaged = donor.namespaces.get('metrics')!;
  damaged.files.setAside(damaged.files.get(0, firstBlock)!, 'test');
  damaged.readyShards.lose(0, new Set([firstBlock]));
  jobs.reconcile();
  await until(() => namespace.readyShards.has(0));
  assert.deepEqual(await readAll(database), await readAll(donor));
});

test('the owner that a shard moves from is asked again when it has been away, while another one is', async () => {
  const env = { ...realEnv, clock: hasty, disk: new SimulatedDisk({ below: () => 0 }) };
  const placement = placementOf(
    { a: { 0: 'INITIALIZING' }, b: { 0: 'LEAVING' }, c: { 0: 'AVAILABLE' }, d: { 0: 'AVAILABLE' } },
    { numShards: 1, replicaFactor: 3, sourceId: 'b' },
  );
  const { database } = await openDatabase('a', { env, registry, placement, instanceId: 'a' });
  const { database: donor } = await openDatabase('b', {
    env,
    registry,
    placement,
    instanceId: 'b',
  });
  await writeRows(donor, rows);
  await donor.flush(null, never);
  let asked = 0;
  const jobs = new ShardJobs({
    parts: database,
    nodeServiceOf: ({ id }) =>
      overriding<Database>(donor, {
        health: async (signal) => {
          if (id === 'b') asked += 1;
          // `c` is well, `d` never is, and `b` is when others have been asked in its place.
          if (id === 'd' || (id === 'b' && asked < 8)) throw new TsdbError('UNAVAILABLE', 'test');
          return donor.health(signal);
        },
      }),
    sinceBoot: () => 1,
    onReady: () => {},
  });
  opened.push(jobs);
  jobs.reconcile();
  const { readyShards } = database.namespaces.get('metrics')!;
  await until(() => readyShards.has(0));
  assert.deepEqual(await readAll(database), await readAll(donor));
});

test('shards that cannot be fetched keep no other one from it', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const shardsOf = (state: ShardState) =>
    Object.fromEntries(Array.from({ length: streamShardsAtOnce + 1 }, (_, id) => [id, state]));
  const placement = placementOf(
    { a: shardsOf('INITIALIZING'), b: shardsOf('AVAILABLE') },
    { numShards: streamShardsAtOnce + 1, replicaFactor: 2, sourceId: 'b' },
  );
  const options = { env: { ...realEnv, disk }, registry, placement };
  const { database } = await openDatabase('a', { ...options, instanceId: 'a' });
  const { database: donor } = await openDatabase('b', { ...options, instanceId: 'b' });
  const failing = overriding<Database>(donor, {
    async *streamShard(...[request, signal]: Parameters<Database['streamShard']>) {
      if (request.shard < streamShardsAtOnce) throw new TsdbError('UNAVAILABLE', 'test');
      yield* donor.streamShard(request, signal);
    },
  });
  const jobs = new ShardJobs({
    parts: database,
    nodeServiceOf: () => failing,
    sinceBoot: () => 1,
    onReady: () => {},
  });
  opened.push(jobs);
  jobs.reconcile();
  const { readyShards } = database.namespaces.get('metrics')!;
  await until(() => readyShards.has(streamShardsAtOnce));
  assert.deepEqual([...readyShards], [streamShardsAtOnce]);
  assert.equal(jobs.pending, streamShardsAtOnce);
});

test('what nobody can repair is kept aside until its block expires', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const options = { env: { ...realEnv, disk }, registry };
  const asides = async () =>
    (await disk.list('data/data/metrics/0')).filter((name) => name.endsWith('.corrupt'));
  const placement = placementOf({ a: { 0: 'AVAILABLE' } }, { numShards: 1, replicaFactor: 1 });
  const { database: before } = await openDatabase('data', {
    ...options,
    placement,
    instanceId: 'a',
  });
  await writeRows(before, rows);
  await before.flush(null, never);
  const { files } = before.namespaces.get('metrics')!;
  files.setAside(files.get(0, firstBlock)!, 'test');
  await files.settled();
  assert.equal((await asides()).length, 5);
  await before[Symbol.asyncDispose]();
  const { database, report } = await openDatabase('data', {
    ...options,
    placement,
    instanceId: 'a',
  });
  assert.equal(report.corrupt.length, 0);
  assert.deepEqual([...report.unrepaired[0]!.blocks], [firstBlock]);
  const jobs = new ShardJobs({
    parts: database,
    nodeServiceOf: () => database,
    sinceBoot: () => 1,
    onReady: () => {},
  });
  opened.push(jobs);
  for (const shard of report.unrepaired) jobs.repair(shard);
  const namespace = database.namespaces.get('metrics')!;
  assert.ok(namespace.readyShards.has(0), 'there is nobody to fetch it from');
  await writeRows(database, rows.slice(0, 1));
  await database.flush(null, never);
  assert.equal(namespace.files.get(0, firstBlock)!.volume, 1, 'the names are not given again');
  const endNanos = firstBlock + blockSizeNanos + namespace.retentionNanos;
  namespace.expire(endNanos - 1n);
  await namespace.files.settled();
  assert.equal((await asides()).length, 5);
  namespace.expire(endNanos + blockSizeNanos);
  await namespace.files.settled();
  assert.deepEqual(await asides(), []);
});

test('a repair during which the namespace is truncated ends, and a namespace that comes then is made ready', async () => {
  const { database, jobs, namespace } = await openTwo('AVAILABLE');
  const { ordinal } = namespace;
  namespace.files.setAside(namespace.files.get(0, firstBlock)!, 'test');
  await truncateByLog(database, 'metrics');
  assert.notEqual(namespace.ordinal, ordinal);
  await until(() => namespace.readyShards.has(0));
  assert.equal(jobs.pending, 0);
  await database.removal.settled();
  const more = registryOf([metrics, namespaceOf('next')]);
  await database.applyTopology(placementWith('AVAILABLE'), 2, more);
  const next = database.namespaces.get('next')!;
  assert.equal(next.ordinal, ordinal, 'it has the number that the other one had');
  jobs.reconcile();
  assert.ok(next.readyShards.has(0));
  assert.ok(database.isBootstrapped);
});

test('of many blocks in doubt, one that nobody has all of is given up alone', async () => {
  const hasty = {
    ...realEnv.clock,
    sleep: (_: number, signal: AbortSignal) => realEnv.clock.sleep(0, signal),
  };
  const { database, donor, jobs, namespace } = await openTwo('AVAILABLE', hasty);
  const doubted = new Set(
    Array.from({ length: 20 }, (_, i) => firstBlock - BigInt(i) * blockSizeNanos),
  );
  database.doubts.add('test', 'metrics', [0], doubted);
  namespace.readyShards.doubt(0, doubted);
  const damaged = firstBlock - 5n * blockSizeNanos;
  donor.namespaces.get('metrics')!.readyShards.lose(0, new Set([damaged]));
  jobs.reconcile();
  await until(() => namespace.readyShards.has(0));
  assert.equal(database.doubts.size, 0);
  assert.equal(database.doubts.counts.blocksLost, 1);
});
