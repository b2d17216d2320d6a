import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { type Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { type DiskCopy, SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { DoubtLedger } from '../doubt/ledger.ts';
import type { Database } from '../storage/database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  type TestRow,
  writeRows,
} from '../storage/database_testing.ts';

after(closeDatabases);

const dataFolder = 'data';
const metrics = namespaceOf('metrics', { coldWritesEnabled: true });
const registry = registryOf([metrics]);
const { blockSizeNanos } = metrics.options.retentionOptions;
const newest = (realEnv.clock.nowNanos() / blockSizeNanos) * blockSizeNanos;
const blocks = [newest - 3n * blockSizeNanos, newest - 2n * blockSizeNanos, newest];
const isLog = (path: string): boolean => /commitlog-\d+\.db$/.test(path);
const isSnapshot = (path: string): boolean => /snapshot-\d+\.db$/.test(path);

function open(
  env: Env,
  disk = env.disk,
): Promise<{ database: Database; report: { replay: { lost: readonly unknown[] } } }> {
  return openDatabase(dataFolder, { env: { ...env, disk }, registry });
}

const simulated = (): SimulatedDisk => new SimulatedDisk({ below: () => 0 });

/** Rows of all blocks, the last of which alone has the last series, each a group of its own. */
const groups: readonly TestRow[] = blocks.flatMap((start, block) =>
  [1n, 2n].map((step) => ({
    series: { __name__: 'cpu', host: block === 2 ? 'late' : 'early' },
    nanos: start + step,
    value: 10 * block + Number(step),
  })),
);

/** A disk after the groups. @returns it while the process ran, and after it had stopped */
async function disksOf(): Promise<{ running: DiskCopy; stopped: DiskCopy }> {
  const disk = simulated();
  const { database } = await open(realEnv, disk);
  for (const row of groups) await writeRows(database, [row]);
  const running = disk.copy();
  await closeDatabases();
  return { running, stopped: disk.copy() };
}

/** What a start finds on the disk with some bytes zeroed. */
async function found(copy: DiskCopy, at: (path: string) => boolean, start: number, end: number) {
  const disk = simulated();
  disk.restore(copy);
  disk.zero(at, start, end);
  const { database, report } = await open(realEnv, disk);
  const samples = await readAll(database);
  const missing = groups.filter(({ series, nanos, value }) => {
    const name = Object.entries(series).map(([key, text]) => `${key}=${text}`);
    return samples.get(name.join())?.some(([n, v]) => n === nanos && v === value) !== true;
  });
  const doubted = new Set<bigint>();
  for (const { id } of database.shards.all()) {
    for (const block of database.doubts.blocksOf('metrics', id)) doubted.add(block);
  }
  const namespace = database.namespaces.get('metrics')!;
  const isWhole = [...database.shards.all()].every(({ id }) => namespace.readyShards.has(id));
  await closeDatabases();
  return { disk, missing, doubted, isWhole, lost: report.replay.lost };
}

const sectorBytes = 64;
const blockOf = (nanos: bigint): bigint => (nanos / blockSizeNanos) * blockSizeNanos;

test('blocks of rows that a bad sector of the log took are in doubt, wherever it lies', async () => {
  const { stopped } = await disksOf();
  const [, bytes] = [...stopped.names].find(([path]) => isLog(path))!;
  let losses = 0;
  for (let start = 0; start < bytes.length; start += sectorBytes) {
    const end = start + sectorBytes;
    const { missing, doubted, isWhole, lost } = await found(stopped, isLog, start, end);
    for (const { nanos } of missing) {
      assert.ok(doubted.has(blockOf(nanos)), `row of ${nanos} is in doubt: sector ${start}`);
    }
    assert.equal(isWhole, doubted.size === 0);
    if (missing.length > 0) losses += 1;
    assert.ok(doubted.size <= 4, `the log says of which blocks its rows are: sector ${start}`);
    if (lost.length === 0) assert.deepEqual(missing, []);
  }
  assert.ok(losses > 10);
});

test('of many namespaces, too, what damage took is in doubt, whichever marks went with it', async () => {
  const names = ['n0', 'n1', 'n2', 'n3', 'n4', 'n5'];
  const registry = registryOf(names.map((name) => namespaceOf(name, { coldWritesEnabled: true })));
  const disk = simulated();
  const { database } = await openDatabase('data', { env: { ...realEnv, disk }, registry });
  const rows = Array.from({ length: 24 }, (_, i) => ({
    namespace: names[(i * 5) % names.length]!,
    nanos: blocks[i % 3]! + BigInt(i),
  }));
  for (const { namespace, nanos } of rows) {
    await writeRows(database, [{ series: { __name__: 'cpu' }, nanos, value: 1 }], { namespace });
  }
  const copy = disk.copy();
  await closeDatabases();
  const [, bytes] = [...copy.names].find(([path]) => isLog(path))!;
  let losses = 0;
  let everything = 0;
  for (const width of [sectorBytes, 16 * sectorBytes]) {
    for (let start = 0; start < bytes.length; start += width) {
      const damaged = simulated();
      damaged.restore(copy);
      damaged.zero(isLog, start, start + width);
      const after = await openDatabase('data', { env: { ...realEnv, disk: damaged }, registry });
      // The last group has no mark behind it, and that of the group before it may go with it.
      for (const { namespace, nanos } of rows.slice(0, -2)) {
        const samples = (await readAll(after.database, namespace)).get('__name__=cpu') ?? [];
        if (samples.some(([at]) => at === nanos)) continue;
        losses += 1;
        const { doubts, shards } = after.database;
        const isDoubted = ({ id }: { readonly id: number }): boolean =>
          doubts.blocksOf(namespace, id).has(blockOf(nanos));
        const isTail = start + width >= bytes.length - sectorBytes;
        assert.ok(isTail || shards.all().every(isDoubted), `${namespace} ${nanos}: ${start}`);
      }
      // Four blocks of four shards of each; all that there are when a name of the last group went.
      if (after.database.doubts.size > 6 * 4 * 4) everything += 1;
      await closeDatabases();
    }
  }
  assert.ok(losses > 20);
  assert.ok(everything <= 2, `${everything} times all is in doubt`);
});

test('what the last write before a power loss left torn is in no doubt', async () => {
  const { running } = await disksOf();
  const [, bytes] = [...running.names].find(([path]) => isLog(path))!;
  const { missing, doubted } = await found(running, isLog, bytes.length - 8, bytes.length);
  assert.deepEqual(missing, [groups.at(-1)]);
  assert.equal(doubted.size, 0);
});

test('a snapshot that is damaged anywhere leaves its blocks in doubt', async () => {
  const disk = simulated();
  const { database } = await open(realEnv, disk);
  for (const row of groups) await writeRows(database, [row]);
  await database.snapshot(1, never);
  await closeDatabases();
  const copy = disk.copy();
  const [, bytes] = [...copy.names].find(([path]) => isSnapshot(path))!;
  for (let start = sectorBytes; start < bytes.length; start += sectorBytes) {
    const { missing, doubted } = await found(copy, isSnapshot, start, start + sectorBytes);
    for (const { nanos } of missing) assert.ok(doubted.has(blockOf(nanos)), `sector ${start}`);
    // The three blocks and nothing between them.
    assert.deepEqual(doubted, new Set(blocks), `sector ${start}`);
  }
  const { doubted } = await found(copy, isSnapshot, 0, bytes.length);
  assert.ok(doubted.size >= 24, 'of a snapshot that says nothing, all blocks within retention');
  assert.ok(doubted.has(blocks[0]!) && doubted.has(blocks[2]!));
});

test('a damaged snapshot that does not name the segments which stay leaves their blocks in doubt', async () => {
  const kept = namespaceOf('metrics', { coldWritesEnabled: true, snapshotEnabled: false });
  const disk = simulated();
  const options = { env: { ...realEnv, disk }, registry: registryOf([kept]) };
  const { database } = await openDatabase(dataFolder, options);
  for (const row of groups) await writeRows(database, [row]);
  await database.snapshot(1, never);
  await closeDatabases();
  const copy = disk.copy();
  const [, bytes] = [...copy.names].find(([path]) => isSnapshot(path))!;
  let losses = 0;
  for (let start = sectorBytes; start < bytes.length; start += sectorBytes) {
    const { missing, doubted } = await found(copy, isSnapshot, start, start + sectorBytes);
    for (const { nanos } of missing) assert.ok(doubted.has(blockOf(nanos)), `sector ${start}`);
    if (missing.length > 0) losses += 1;
  }
  assert.ok(losses > 0);
});

test('a bad last page of a log that never rests takes no rows of more than a second unseen', async () => {
  let millis = 0;
  const clock = { ...realEnv.clock, monotonicMillis: () => millis };
  const disk = simulated();
  const { database } = await open({ ...realEnv, clock }, disk);
  for (const row of groups) {
    await writeRows(database, [row]);
    millis += 700;
  }
  const copy = disk.copy();
  const [, bytes] = [...copy.names].find(([path]) => isLog(path))!;
  assert.ok(bytes.length > 8192);
  const tail = await found(copy, isLog, bytes.length & ~4095, bytes.length);
  assert.ok(tail.missing.length <= 2);
  const { missing, doubted } = await found(copy, isLog, 4096, 8192);
  assert.ok(missing.length > 0);
  for (const { nanos } of missing) assert.ok(doubted.has(blockOf(nanos)));
});

test('damage of a segment that stays doubts the namespaces alone that it stays for', async () => {
  const disk = simulated();
  const names = [
    metrics,
    namespaceOf('stays', { snapshotEnabled: false, coldWritesEnabled: true }),
  ];
  const options = { env: { ...realEnv, disk }, registry: registryOf(names) };
  const { database } = await openDatabase(dataFolder, options);
  for (const { name: namespace } of names)
    for (const row of groups) await writeRows(database, [row], { namespace });
  await database.snapshot(1, never);
  await closeDatabases();
  disk.zero(isLog, 512, 1024);
  const { database: after } = await openDatabase(dataFolder, options);
  assert.deepEqual(
    after.doubts.all.map(({ namespace }) => namespace),
    ['stays'],
  );
  await closeDatabases();
});

test('what a killed process had not synced is no loss after a power loss', async () => {
  for (const sync of ['interval', 'always'] as const) {
    const disk = simulated();
    const end = Promise.withResolvers<void>();
    const dying = new Proxy(disk, {
      get: (target, name: keyof SimulatedDisk) => {
        if (name !== 'open') return (target[name] as () => unknown).bind(target);
        return async (...to: Parameters<SimulatedDisk['open']>) => ({
          ...(await target.open(...to)),
          // A header alone is synced, of all that the process writes.
          sync: async () => {
            const path = to[0];
            const bytes = (await target.size(path)) ?? 0;
            if (isLog(path) && bytes > 64) await end.promise;
          },
        });
      },
    });
    const before = await openDatabase(dataFolder, {
      env: { ...realEnv, disk: dying },
      registry,
      sync,
    });
    const writing = writeRows(before.database, [groups[0]!]).catch(() => {});
    await Promise.race([writing, realEnv.clock.sleep(50, never)]);
    // Its pages outlive the process, and the next one reads them.
    const { database } = await openDatabase(dataFolder, { env: { ...realEnv, disk }, registry });
    assert.equal((await readAll(database)).size, 1);
    await writeRows(database, [groups[1]!]);
    disk.crash();
    const after = await openDatabase(dataFolder, { env: { ...realEnv, disk }, registry });
    assert.deepEqual(after.report.replay.lost, []);
    assert.equal(after.database.doubts.size, 0);
    end.reject(new Error('the process is gone'));
    await closeDatabases();
  }
});

test('doubt outlives what it was seen by', async () => {
  const { stopped } = await disksOf();
  const { disk, doubted } = await found(stopped, isLog, 512, 1024);
  assert.ok(doubted.size > 0);
  const { database } = await open(realEnv, disk);
  assert.equal(await database.snapshots.isDue(), true);
  await database.snapshot(1, never);
  assert.equal(await database.snapshots.isDue(), false);
  await closeDatabases();
  const again = await found(disk.copy(), isLog, 0, 0);
  assert.deepEqual(again.lost, []);
  assert.deepEqual(again.doubted, doubted);
  assert.equal(again.isWhole, false);
});

test('damage that several starts see is one event', async () => {
  const { stopped } = await disksOf();
  const first = await found(stopped, isLog, 512, 1024);
  const again = await found(first.disk.copy(), isLog, 0, 0);
  assert.equal(again.lost.length, 1);
  assert.deepEqual(again.doubted, first.doubted);
  const { database } = await open(realEnv, again.disk);
  assert.equal(database.doubts.all.length, 1);
  assert.equal(database.doubts.size, 4 * first.doubted.size);
});

test('a ledger of doubt is whole while one of its copies is', async () => {
  const disk = simulated();
  const env = { ...realEnv, disk };
  const ledger = await DoubtLedger.open(env, dataFolder);
  ledger.add('test', 'metrics', [0, 1], new Set(blocks));
  await ledger.save();
  ledger.end('metrics', 0, new Set([blocks[0]!, blocks[1]!]));
  ledger.add('later', 'other', [3], new Set([0n]));
  await ledger.save();
  for (const name of ['doubts-0.json', 'doubts-1.json']) {
    const half = simulated();
    half.restore(disk.copy());
    half.zero((path) => path.endsWith(name), 20, 30);
    const again = await DoubtLedger.open({ ...realEnv, disk: half }, dataFolder);
    assert.equal(again.unreadable, '');
    assert.deepEqual(again.blocksOf('metrics', 0), new Set([blocks[2]]));
    assert.deepEqual(again.blocksOf('metrics', 1), new Set(blocks));
    assert.deepEqual(again.blocksOf('other', 3), new Set([0n]));
    assert.equal(again.size, 5);
    again.keepOnly((namespace) => namespace === 'other');
    assert.equal(again.size, 1);
  }
});

test('without a ledger that can be read, all that a node has is in doubt', async () => {
  const disk = simulated();
  const ledger = await DoubtLedger.open({ ...realEnv, disk }, dataFolder);
  ledger.add('test', 'metrics', [0], new Set(blocks));
  await ledger.save();
  const copy = disk.copy();
  const isLedger = (path: string): boolean => path.includes('doubts-');
  const { doubted, disk: after } = await found(copy, isLedger, 3, 9);
  assert.ok(doubted.size >= 24);
  assert.match(
    (await DoubtLedger.open({ ...realEnv, disk: simulated() }, dataFolder)).unreadable,
    /^$/,
  );
  const again = await DoubtLedger.open({ ...realEnv, disk: after }, dataFolder);
  assert.equal(again.unreadable, '');
  assert.ok(again.size >= 24);
});
