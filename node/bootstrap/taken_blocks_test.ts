import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { heldBlocksMax, type StreamShardRequest } from '#cluster/node/service.ts';
import type { Placement } from '#cluster/placement/placement.ts';
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
  writeRows,
} from '../storage/database_testing.ts';
import { takeShard } from './peers.ts';
import { ShardJobs, streamShardsAtOnce } from './shard_jobs.ts';
import { heldBlocks, takenAsOf } from './taken_blocks.ts';

const opened: ShardJobs[] = [];
after(async () => {
  for (const jobs of opened) await jobs[Symbol.asyncDispose]();
  await closeDatabases();
});

const metrics = namespaceOf('metrics', { coldWritesEnabled: true });
const registry = registryOf([metrics]);
const { blockSizeNanos } = metrics.options.retentionOptions;
const numShards = 6;
const blockCount = 8;
const firstBlock =
  (realEnv.clock.nowNanos() / blockSizeNanos - BigInt(blockCount) - 2n) * blockSizeNanos;

/** `a` takes all shards from `b`, as one assignment. */
function placementAs(assignment: string | undefined): Placement {
  const shardsOf = (state: 'INITIALIZING' | 'AVAILABLE') =>
    Object.fromEntries(Array.from({ length: numShards }, (_, id) => [id, state]));
  const placement = placementOf(
    { a: shardsOf('INITIALIZING'), b: shardsOf('AVAILABLE') },
    { numShards, replicaFactor: 2, sourceId: 'b' },
  );
  const instances = placement.instances.map((instance) => ({
    ...instance,
    shards: instance.shards.map((shard) =>
      shard.state === 'INITIALIZING' && assignment !== undefined ? { ...shard, assignment } : shard,
    ),
  }));
  return { ...placement, instances };
}

async function openInstance(
  instanceId: string,
  disk: SimulatedDisk,
  placement: Placement = placementAs('first'),
): Promise<Database> {
  const env = { ...realEnv, disk: disk.session() };
  const { database } = await openDatabase('data', { env, registry, placement, instanceId });
  database.store.keepRowVersions(true);
  return database;
}

function newDisk(): SimulatedDisk {
  return new SimulatedDisk({ below: () => 0 });
}

/** @param blocks ordinals of those with rows; some are left in memory */
async function openDonor(blocks: readonly number[], hosts = 40): Promise<Database> {
  const donor = await openInstance('b', newDisk());
  for (const block of blocks) {
    await writeRows(
      donor,
      Array.from({ length: hosts }, (_, host) => ({
        series: { __name__: 'cpu', host: `h${host}` },
        nanos: firstBlock + BigInt(block) * blockSizeNanos + 1_000_000_000n,
        value: block * hosts + host,
      })),
    );
    if (block % 3 > 0) await donor.flush(null, never);
  }
  return donor;
}

const allBlocks = Array.from({ length: blockCount }, (_, block) => block);

async function until(isSo: () => boolean): Promise<void> {
  for (let polls = 0; !isSo(); polls += 1) {
    assert.ok(polls < 20_000, 'what is waited for comes');
    await realEnv.clock.sleep(1, never);
  }
}

test('a taker that is killed fetches again what was under way, and nothing else', async () => {
  const donor = await openDonor(allBlocks);
  const disk = newDisk();
  let given = 0;
  /** Blocks that the donor may give before the taker is killed. */
  let allowed = 0;
  const { promise: held, resolve } = Promise.withResolvers<void>();
  const gated = overriding<Database>(donor, {
    async *streamShard(...request: Parameters<Database['streamShard']>) {
      for await (const page of donor.streamShard(...request)) {
        if (given >= allowed) await held;
        given += 1;
        yield page;
      }
    },
  });
  const kills = 5;
  for (let kill = 0; kill <= kills; kill += 1) {
    allowed = kill < kills ? given + 6 : Infinity;
    const before = given;
    const database = await openInstance('a', disk);
    const jobs = new ShardJobs({
      parts: database,
      nodeServiceOf: () => gated,
      sinceBoot: () => 1,
      onReady: () => {},
    });
    opened.push(jobs);
    jobs.reconcile();
    const { readyShards, files } = database.namespaces.get('metrics')!;
    if (kill === kills) {
      await until(() => readyShards.size === numShards);
      assert.deepEqual(await readAll(database), await readAll(donor));
      assert.equal(files.all(null).length, numShards * blockCount);
    } else {
      await until(() => given === allowed);
      assert.ok(readyShards.size < numShards);
      disk.crash();
      void jobs[Symbol.asyncDispose]();
      assert.ok(given > before);
    }
  }
  resolve();
  const twice = given - numShards * blockCount;
  assert.ok(twice <= kills * streamShardsAtOnce, `${twice} blocks came twice`);
});

test('what was taken counts for its assignment, folder and namespace, where the log lost nothing', async () => {
  const donor = await openDonor(allBlocks);
  const disk = newDisk();
  const database = await openInstance('a', disk);
  const namespace = database.namespaces.get('metrics')!;
  const assigned = database.shards.get(0)!;
  const takenAs = takenAsOf(database, namespace, assigned)!;
  assert.deepEqual(takenAs, { namespaceNumber: 1, assignment: 'first', sourceId: 'b', boot: 1 });
  await takeShard(database, namespace, 0, [donor], { held: new Set(), takenAs }, never);
  disk.crash();

  const after = await openInstance('a', disk);
  const again = after.namespaces.get('metrics')!;
  const now = { ...takenAs, boot: 2 };
  const held = heldBlocks(after, again, 0, now, 1);
  assert.equal(held.size, blockCount);
  assert.equal(heldBlocks(after, again, 0, { ...now, assignment: 'second' }, 1).size, 0);
  assert.equal(heldBlocks(after, again, 0, { ...now, sourceId: '' }, 1).size, 0);
  assert.equal(heldBlocks(after, again, 0, { ...now, namespaceNumber: 2 }, 1).size, 0);
  // A folder that was rolled back since.
  assert.equal(heldBlocks(after, again, 0, now, 2).size, 0);
  assert.equal(heldBlocks(after, again, 1, now, 1).size, 0);
  after.doubts.add('test', 'metrics', [0], new Set([firstBlock]));
  assert.equal(heldBlocks(after, again, 0, now, 1).has(firstBlock), false);
  again.files.noteDamage(again.files.get(0, firstBlock + blockSizeNanos)!, 16);
  assert.equal(heldBlocks(after, again, 0, now, 1).size, blockCount - 2);
  // Rows that came since are merged by a flush: what it writes says nothing of the donors.
  await after.applyTopology(placementAs('first'), 2, registry);
  assert.equal(takenAsOf(after, again, { assignment: undefined, sourceId: 'b' }), null);
  after.store.keepRowVersions(false);
  assert.equal(takenAsOf(after, again, assigned), null);
});

test('of donors that do not have the same blocks each is asked for all of its own', async () => {
  const donors = [await openDonor([0, 2, 5]), await openDonor([1, 2, 3, 5, 6])];
  const database = await openInstance('a', newDisk());
  const namespace = database.namespaces.get('metrics')!;
  for (let shard = 0; shard < numShards; shard += 1) {
    const takenAs = takenAsOf(database, namespace, database.shards.get(shard)!);
    await takeShard(database, namespace, shard, donors, { held: new Set(), takenAs }, never);
  }
  const blocks = namespace.files.all(0).map(({ blockStartNanos }) => blockStartNanos);
  assert.deepEqual(
    blocks,
    [0, 1, 2, 3, 5, 6].map((block) => firstBlock + BigInt(block) * blockSizeNanos),
  );
  // The same rows with other versions: which of the two stays is told by these.
  const rowsOf = async (of: Database) => [...(await readAll(of)).values()].flat().length;
  assert.equal(await rowsOf(database), 6 * 40);
});

test('a donor of the release before gives all at once, and is asked no more than twice', async () => {
  for (const blocks of [allBlocks, [0], []]) {
    const donor = await openDonor(blocks);
    const requests: StreamShardRequest[] = [];
    const former = overriding<Database>(donor, {
      async *streamShard(...[{ next, ...request }, signal]: Parameters<Database['streamShard']>) {
        assert.ok(next !== undefined);
        requests.push(request);
        yield* donor.streamShard(request, signal);
      },
    });
    const database = await openInstance('a', newDisk());
    const namespace = database.namespaces.get('metrics')!;
    const takenAs = takenAsOf(database, namespace, database.shards.get(0)!)!;
    await takeShard(database, namespace, 0, [former], { held: new Set(), takenAs }, never);
    assert.equal(namespace.files.all(0).length, blocks.length);
    assert.ok(requests.length <= 2, `${requests.length}`);
    // And with one of this release beside it.
    const other = await openInstance('a', newDisk());
    const both = other.namespaces.get('metrics')!;
    const second = await openDonor([3, 4]);
    requests.length = 0;
    await takeShard(other, both, 0, [former, second], { held: new Set(), takenAs }, never);
    assert.equal(both.files.all(0).length, new Set([...blocks, 3, 4]).size);
    assert.ok(requests.length <= 3, `${requests.length}`);
  }
});

test('a block of which a donor finds out in the end that it lacks rows is not taken', async () => {
  const donor = await openDonor([0, 1]);
  const failing = overriding<Database>(donor, {
    async *streamShard(...[request, signal]: Parameters<Database['streamShard']>) {
      yield* donor.streamShard(request, signal);
      if (request.next!.fromNanos > firstBlock) throw new TsdbError('UNAVAILABLE', 'test');
    },
  });
  const database = await openInstance('a', newDisk());
  const namespace = database.namespaces.get('metrics')!;
  const takenAs = takenAsOf(database, namespace, database.shards.get(0)!)!;
  const taking = takeShard(database, namespace, 0, [failing], { held: new Set(), takenAs }, never);
  await assert.rejects(taking, { code: 'UNAVAILABLE', message: /test/ });
  assert.deepEqual([...heldBlocks(database, namespace, 0, takenAs, 1)], [firstBlock]);
  const requests: StreamShardRequest[] = [];
  const noting = overriding<Database>(donor, {
    async *streamShard(...[request, signal]: Parameters<Database['streamShard']>) {
      requests.push(request);
      yield* donor.streamShard(request, signal);
    },
  });
  const held = heldBlocks(database, namespace, 0, takenAs, 1);
  const { blocks } = await takeShard(database, namespace, 0, [noting], { held, takenAs }, never);
  assert.equal(blocks, 1);
  assert.deepEqual(requests[0]!.next!.heldStartsNanos, [firstBlock]);
});

test('blocks of which no more can be told come again, and those after them too', async () => {
  const donor = await openDonor(allBlocks);
  const database = await openInstance('a', newDisk());
  const namespace = database.namespaces.get('metrics')!;
  const takenAs = takenAsOf(database, namespace, database.shards.get(0)!)!;
  await takeShard(database, namespace, 0, [donor], { held: new Set(), takenAs }, never);
  const files = () => namespace.files.all(0);
  for (const file of files().slice(1)) namespace.files.retire(file, 'delete');
  const before = Array.from({ length: heldBlocksMax }, (_, i) => firstBlock - BigInt(i + 1));
  const held = new Set([...before, firstBlock]);
  await takeShard(database, namespace, 0, [donor], { held, takenAs }, never);
  assert.equal(files().length, blockCount);
});

test('a donor refuses to be told of more held blocks than there may be', async () => {
  const donor = await openDonor([0]);
  const heldStartsNanos = Array.from({ length: 65_537 }, (_, i) => BigInt(i));
  const request = {
    namespace: 'metrics',
    shard: 0,
    placementVersion: 1,
    blockStartsNanos: [],
    damagedToo: false,
    next: { fromNanos: 0n, heldStartsNanos, blocksMax: 1 },
  };
  await assert.rejects(donor.streamShard(request, never).next(), {
    code: 'BAD_REQUEST',
    message: /next\.held_starts_nanos are more than 65536: 65537/,
  });
});
