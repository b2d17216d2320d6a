import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { allTime, type Deletion } from '#cluster/metadata/deletions.ts';
import { type NamespaceRegistry, registryOf } from '#cluster/namespaces/namespaces.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { bringBack } from '#node/bootstrap/bring_back.ts';
import { overriding } from '#test/overriding.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import type { Database } from '../database.ts';
import { tick } from '../retention/tick.ts';
import {
  adopt,
  closeDatabases,
  handOver,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  placementOf,
  readAll,
  type TestRow,
  writeRows,
} from '../database_testing.ts';

after(closeDatabases);

const hourNanos = 3_600_000_000_000n;
const metrics = namespaceOf('metrics', { coldWritesEnabled: true });
const registry = registryOf([metrics]);
/** Another instance has everything, as somebody says who has not asked this one. */
const foreign = placementOf(
  { evil: { 0: 'AVAILABLE', 1: 'AVAILABLE', 2: 'AVAILABLE', 3: 'AVAILABLE' } },
  { numShards: 4 },
);
const now = realEnv.clock.nowNanos();

/** Of twenty series, in two blocks. */
const rowsOf = (value: number): TestRow[] =>
  Array.from({ length: 40 }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i % 20}` },
    nanos: now - (i < 20 ? 0n : 3n * hourNanos) + BigInt(value),
    value,
  }));

function simulated(disk = new SimulatedDisk({ below: () => 0 })) {
  return { disk, env: { ...realEnv, disk } };
}

/** Rows in filesets, and others in memory and log alone. */
async function filled(
  env: Env,
  of: NamespaceRegistry = registry,
  { placement = onePlacement, rowCount = 40 } = {},
): Promise<Database> {
  const { database } = await openDatabase('data', { env, registry: of, placement });
  await writeRows(database, rowsOf(1).slice(0, rowCount));
  await database.flusher.flushAll(null, never);
  await writeRows(database, rowsOf(2).slice(0, rowCount));
  return database;
}

/** As shards do that have nothing to fetch from others. */
function setReady({ namespaces, shards, parked }: Database): void {
  for (const namespace of namespaces.values()) {
    for (const { id } of shards.all()) {
      const isParked = parked.holds(namespace.definition, shards.shardCount, id);
      if (!isParked) namespace.readyShards.add(id);
    }
  }
}

/** Takes a topology that gives shards back, and brings back what is parked of them. */
async function regain(
  database: Database,
  placement = onePlacement,
  of: NamespaceRegistry = registry,
): Promise<void> {
  await adopt(database, placement, database.shards.version + 1, of);
  await bringBack(database, never);
  setReady(database);
}

const parkedOf = ({ parked }: Database) =>
  parked.entries.map(({ info, shards }) => [info?.namespace, [...shards].sort((a, b) => a - b)]);

test('shards that somebody takes away at once are parked with all their rows, and come back with them', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  await adopt(database, foreign, 2, registry);
  assert.equal(database.store.seriesCount, 0, 'memory is freed');
  assert.equal((await readAll(database)).size, 0);
  assert.deepEqual(await disk.list('data/data/metrics'), []);
  assert.deepEqual(parkedOf(database), [['metrics', [0, 1, 2, 3]]]);
  assert.ok(database.parked.bytes > 1000);
  assert.deepEqual(database.holdings.shards, new Set());
  await regain(database);
  assert.deepEqual(await readAll(database), before);
  assert.deepEqual(parkedOf(database), []);
  assert.deepEqual(await disk.list('data/parked'), ['kept.json']);
  // It goes on with them.
  await writeRows(database, rowsOf(3));
  await database.flush(null, never);
  const more = await readAll(database);
  disk.crash();
  const { database: again } = await openDatabase('data', { env, registry });
  assert.deepEqual(await readAll(again), more);
});

test('what is parked is so after a restart, and nothing of it is in the log then', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  await adopt(database, foreign, 2, registry);
  disk.crash();
  const options = { env, registry, placement: foreign, version: 2 };
  const { database: again } = await openDatabase('data', options);
  assert.equal(again.store.seriesCount, 0);
  assert.deepEqual(parkedOf(again), [['metrics', [0, 1, 2, 3]]]);
  await regain(again);
  assert.deepEqual(await readAll(again), before);
});

test('shards that were taken away while the node was down are parked by its start, those of the log too', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  disk.crash();
  const options = { env, registry, placement: foreign, version: 2 };
  const { database: again, report } = await openDatabase('data', options);
  assert.equal(report.replay.rowsPassedOver, 0);
  assert.equal(again.store.seriesCount, 0);
  assert.deepEqual(parkedOf(again), [['metrics', [0, 1, 2, 3]]]);
  await regain(again);
  assert.deepEqual(await readAll(again), before);
});

test('without a placement all stays where it is, also over a clean stop and a start', async () => {
  const { env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  await adopt(database, null, 0, registry);
  assert.deepEqual(parkedOf(database), []);
  await database.snapshot(1, never);
  await closeDatabases();
  const { database: again } = await openDatabase('data', { env, registry, placement: foreign });
  assert.deepEqual(parkedOf(again), [['metrics', [0, 1, 2, 3]]]);
  await regain(again);
  assert.deepEqual(await readAll(again), before);
});

test('a start that finds no placement forgets nothing of the log', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  disk.crash();
  const { database: second } = await openDatabase('data', { env, registry, placement: null });
  await second.snapshot(1, never);
  disk.crash();
  const { database: third } = await openDatabase('data', { env, registry });
  assert.deepEqual(await readAll(third), before);
});

test('a shard that comes back before it is parked just stays', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  disk.troubles.writeFailures = 1000;
  await database.applyTopology(foreign, 2, registry).catch(() => {});
  await assert.rejects(database.parking.run(never), { code: 'UNAVAILABLE' });
  assert.ok(database.parking.isDue);
  assert.equal(database.namespaces.get('metrics')!.readyShards.size, 0, 'it counts for nothing');
  assert.equal((await readAll(database)).size, 0, 'it is not served');
  disk.troubles.writeFailures = 0;
  await database.applyTopology(onePlacement, 3, registry);
  assert.equal(database.parking.isDue, false);
  assert.deepEqual(await readAll(database), before);
  assert.deepEqual(parkedOf(database), []);
});

test('rows that come while shards are parked go where they belong', async () => {
  const { env } = simulated();
  const database = await filled(env);
  const { references } = await writeRows(database, rowsOf(0));
  const before = await readAll(database);
  const some = placementOf({ a: { 0: 'AVAILABLE', 1: 'AVAILABLE' } }, { numShards: 4 });
  await database.applyTopology(some, 2, registry);
  const parking = database.parking.run(never);
  const { outcomes } = await writeRows(database, rowsOf(3));
  const byReference = rowsOf(4).map((row, i) => {
    const [slot, generation] = [references[2 * (i % 20)]!, references[2 * (i % 20) + 1]!];
    return { ...row, series: { slot, generation } };
  });
  const { outcomes: again } = await writeRows(database, byReference);
  await parking;
  for (const each of [outcomes, again]) {
    const refused = [...each].filter((outcome) => outcome === rowOutcome.shardNotOwned).length;
    assert.ok(refused > 0 && refused < 40, `${refused} are refused`);
    assert.equal(
      [...each].filter((outcome) => outcome === rowOutcome.written).length,
      40 - refused,
    );
  }
  const kept = await readAll(database);
  assert.deepEqual(parkedOf(database), [['metrics', [2, 3]]]);
  await regain(database);
  const all = await readAll(database);
  assert.equal(all.size, 20);
  for (const [name, rows] of before) assert.deepEqual(all.get(name), kept.get(name) ?? rows);
});

test('a placement with another number of shards gets none of the rows, and the one before gets all', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  const eight = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [i, 'AVAILABLE' as const]));
  const other = placementOf({ a: eight }, { numShards: 8 });
  await assert.rejects(database.applyTopology(other, 1, registry), { code: 'UNAVAILABLE' });
  await adopt(database, other, 1, registry);
  setReady(database);
  assert.equal((await readAll(database)).size, 0);
  await writeRows(database, rowsOf(7));
  const ofOther = await readAll(database);
  // It is taken soon, as the log still has rows of the placement before.
  assert.ok(await database.snapshots.isDue());
  await database.snapshot(1, never);
  disk.crash();
  const { database: again } = await openDatabase('data', { env, registry });
  await bringBack(again, never);
  setReady(again);
  assert.deepEqual(await readAll(again), before);
  await regain(again, other);
  assert.deepEqual(await readAll(again), ofOther);
});

test('a namespace that leaves the registry without a deletion is parked, and comes back', async () => {
  const { disk, env } = simulated();
  const both = registryOf([metrics, namespaceOf('other', { coldWritesEnabled: true })]);
  const database = await filled(env, both);
  await writeRows(database, rowsOf(5), { namespace: 'other' });
  const before = await readAll(database);
  const other = await readAll(database, 'other');
  const without = registryOf([both.get('other')!]);
  await adopt(database, onePlacement, 1, without);
  await assert.rejects(readAll(database), { code: 'NOT_FOUND' });
  assert.deepEqual(parkedOf(database), [['metrics', [0, 1, 2, 3]]]);
  assert.deepEqual(await disk.list('data/data/metrics'), []);
  disk.crash();
  const { database: again } = await openDatabase('data', { env, registry: without });
  assert.deepEqual(await readAll(again, 'other'), other);
  await regain(again, onePlacement, both);
  assert.deepEqual(await readAll(again), before);
  assert.deepEqual(await readAll(again, 'other'), other);
  disk.crash();
  const { database: last } = await openDatabase('data', { env, registry: both });
  assert.deepEqual(await readAll(last), before, 'what the log said of its end is over');
});

const madeAgain = registryOf([{ ...metrics, number: 7 }]);

test('a namespace that was deleted and made again while the node was down has none of the rows', async () => {
  const { disk, env } = simulated();
  await filled(env);
  disk.crash();
  const options = { env, registry: madeAgain, ended: new Map([['metrics', 1]]) };
  const { database } = await openDatabase('data', options);
  await database.deletions.apply(deletionOf({ kind: 'all' }));
  setReady(database);
  assert.deepEqual([...(await readAll(database)).values()].flat(), []);
  assert.deepEqual(parkedOf(database), []);
});

test('a namespace that was lost and made again, and not deleted, goes on with its rows', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const before = await readAll(database);
  await adopt(database, onePlacement, 1, madeAgain);
  assert.deepEqual(await readAll(database), before);
  disk.crash();
  const { database: again } = await openDatabase('data', { env, registry: madeAgain });
  assert.deepEqual(await readAll(again), before);
  // The same when it is seen to be lost before.
  await adopt(again, onePlacement, 1, registryOf([]));
  assert.deepEqual(parkedOf(again), [['metrics', [0, 1, 2, 3]]]);
  await regain(again, onePlacement, registryOf([{ ...metrics, number: 9 }]));
  assert.deepEqual(await readAll(again), before);
});

test('parked data of a namespace that was deleted meanwhile are not those of the next one', async () => {
  const { env } = simulated();
  const database = await filled(env);
  await adopt(database, foreign, 2, registry);
  await adopt(database, onePlacement, 3, madeAgain, new Map([['metrics', 1]]));
  await bringBack(database, never);
  setReady(database);
  assert.equal((await readAll(database)).size, 0);
  assert.deepEqual(parkedOf(database), []);
});

for (const isParked of [true, false]) {
  const when = isParked ? 'is parked' : 'is on its way to be parked';
  test(`what a coordinator of release 0.1.0 deletes while it ${when} is not there when it is made again`, async () => {
    const { env } = simulated();
    const database = await filled(env);
    // It does not note that the namespace has ended, and publishes a deletion of everything.
    const everything = deletionOf({ kind: 'all' });
    await database.applyTopology(onePlacement, 1, registryOf([]));
    if (isParked) await database.parking.run(never);
    await database.deletions.apply(everything);
    await regain(database, onePlacement, madeAgain);
    assert.deepEqual([...(await readAll(database)).values()].flat(), []);
  });
}

test('a namespace of another block size waits until the one before it is parked', async () => {
  const { env } = simulated();
  const database = await filled(env);
  const hours = { ...metrics.options.retentionOptions, blockSizeNanos: hourNanos };
  const other = registryOf([
    namespaceOf('metrics', {
      coldWritesEnabled: true,
      retentionOptions: hours,
      indexOptions: { enabled: true, blockSizeNanos: hourNanos },
    }),
  ]);
  const before = await readAll(database);
  const refused = { code: 'UNAVAILABLE', message: /parked before this is taken: .*: metrics$/ };
  await assert.rejects(database.applyTopology(onePlacement, 1, other), refused);
  await assert.rejects(readAll(database), { code: 'NOT_FOUND' });
  await regain(database, onePlacement, other);
  assert.equal((await readAll(database)).size, 0);
  assert.deepEqual(parkedOf(database), [['metrics', [0, 1, 2, 3]]]);
  await adopt(database, onePlacement, 1, registryOf([]));
  await regain(database);
  assert.deepEqual(await readAll(database), before);
});

test('a namespace that was deleted goes at once, with what is parked of it', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  const some = placementOf({ a: { 0: 'AVAILABLE', 1: 'AVAILABLE' } }, { numShards: 4 });
  await adopt(database, some, 2, registry);
  assert.deepEqual(parkedOf(database), [['metrics', [2, 3]]]);
  await database.applyTopology(some, 2, registryOf([]), new Map([['metrics', 1]]));
  await database.removal.settled();
  assert.deepEqual(parkedOf(database), []);
  assert.deepEqual(await disk.list('data/parked'), ['kept.json']);
  assert.deepEqual(await disk.list('data/data'), []);
});

/** A deletion that was accepted now. */
function deletionOf(
  query: Deletion['query'],
  sequence = 1,
  more: Partial<Deletion> = {},
): Deletion {
  const nanos = realEnv.clock.nowNanos() + 120_000_000_000n;
  return {
    sequence,
    namespace: 'metrics',
    query,
    ...allTime,
    version: Number(versionAtNanos(nanos)),
    createdNanos: nanos,
    expiresNanos: nanos + 100n * hourNanos,
    selectors: [],
    ...more,
  };
}

/** All rows of all series are there but for those of one host. */
async function assertWithout(database: Database, host: string, each = 4): Promise<void> {
  const rowCounts = [...(await readAll(database))].flatMap(([name, { length }]) =>
    length === 0 ? [] : [[name, length] as const],
  );
  assert.equal(rowCounts.length, 19);
  for (const [name, count] of rowCounts) {
    assert.ok(!name.endsWith(`host=${host}`), `${name} is deleted`);
    assert.equal(count, each, name);
  }
}

test('what is deleted while it is parked does not come back', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  await adopt(database, foreign, 2, registry);
  const deletion = deletionOf({ kind: 'term', field: 'host', term: 'h3' });
  await database.deletions.apply(deletion);
  await regain(database);
  await assertWithout(database, 'h3');
  database.deletions.cleanSequence = 1;
  await database.deletions.rewriteDue(never);
  assert.equal(database.deletions.cleanedSequence, 1);
  disk.crash();
  const { database: again } = await openDatabase('data', { env, registry });
  await assertWithout(again, 'h3');
});

test('what cannot be parked yet stays in the log, and in snapshots of it', async () => {
  const { disk } = simulated();
  const noFiles = overriding(disk, {
    open: async (path, mode) => {
      if (path.includes('fileset')) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
      return disk.open(path, mode);
    },
  });
  const database = await filled({ ...realEnv, disk: noFiles }).catch(() => null);
  assert.equal(database, null, 'nothing is flushed');
  await closeDatabases();
  const env = { ...realEnv, disk: noFiles };
  const { database: full } = await openDatabase('data', { env, registry });
  await writeRows(full, rowsOf(2));
  const before = await readAll(full);
  await full.applyTopology(onePlacement, 1, registryOf([]));
  await assert.rejects(full.parking.run(never), { code: 'UNAVAILABLE' });
  await full.snapshot(1, never);
  assert.equal((await tick(full)).segmentsDeleted, 0);
  disk.crash();
  const { database: again } = await openDatabase('data', { env: { ...env, disk }, registry });
  assert.deepEqual(await readAll(again), before);
});

test('what is deleted on its way to be parked does not come back', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  disk.troubles.writeFailures = 1000;
  await database.applyTopology(onePlacement, 1, registryOf([])).catch(() => {});
  await assert.rejects(database.parking.run(never), { code: 'UNAVAILABLE' });
  disk.troubles.writeFailures = 0;
  await realEnv.clock.sleep(150, never);
  await database.deletions.apply(deletionOf({ kind: 'term', field: 'host', term: 'h3' }));
  await database.parking.run(never);
  await regain(database);
  await assertWithout(database, 'h3');
});

test('a deletion is remembered as long as files are parked that have not seen it', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  await adopt(database, foreign, 2, registry);
  const query = { kind: 'term', field: 'host', term: 'h3' } as const;
  // A clock that is ahead has retired it.
  await database.deletions.apply(deletionOf(query, 1, { expiresNanos: 1n }));
  await database.deletions.keep(new Set());
  disk.crash();
  const options = { env, registry, placement: foreign, version: 2 };
  const { database: again } = await openDatabase('data', options);
  await again.deletions.keep(new Set());
  await regain(again);
  await assertWithout(again, 'h3');
});

test('a deletion of everything takes what was parked before it', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  await adopt(database, foreign, 2, registry);
  await database.parked.noteDeletion({ namespace: 'other', version: 2 ** 52 });
  await database.parked.noteDeletion({ namespace: 'metrics', version: 5 });
  assert.deepEqual(parkedOf(database), [['metrics', [0, 1, 2, 3]]]);
  await database.parked.noteDeletion({ namespace: 'metrics', version: 2 ** 52 });
  assert.deepEqual(parkedOf(database), []);
  assert.deepEqual(await disk.list('data/parked'), ['kept.json']);
});

test('what is handed over is removed at once, and nothing of it is parked', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  await handOver(database, [2, 3], registry);
  await database.removal.settled();
  assert.deepEqual(parkedOf(database), []);
  assert.deepEqual(await disk.list('data/data/metrics'), ['0', '1']);
  assert.deepEqual(database.holdings.shards, new Set([0, 1]));
});

test('parked data are kept by a clock that runs with the node, not by what machines show', async () => {
  const { disk } = simulated();
  const shows = { nanos: now, millis: 0 };
  const clock = {
    ...realEnv.clock,
    nowNanos: () => shows.nanos,
    nowMillis: () => Number(shows.nanos / 1_000_000n),
    monotonicMillis: () => shows.millis,
  };
  const long = namespaceOf('metrics', {
    coldWritesEnabled: true,
    retentionOptions: {
      ...metrics.options.retentionOptions,
      retentionPeriodNanos: 1000n * hourNanos,
    },
  });
  const of = registryOf([long]);
  const options = { env: { ...realEnv, disk, clock }, registry: of };
  const keepMillis = 48 * 3_600_000;
  const tickAfter = async (database: Database, hours: number): Promise<void> => {
    shows.millis += hours * 3_600_000;
    await database.parked.tick(keepMillis, shows.nanos, database.namespaces);
  };
  const { database } = await openDatabase('data', options);
  await writeRows(database, rowsOf(1));
  await adopt(database, foreign, 2, of);
  await tickAfter(database, 20);
  // Somebody sets the clock.
  shows.nanos += 500n * hourNanos;
  await tickAfter(database, 1);
  assert.equal(parkedOf(database).length, 1);
  disk.crash();
  // The machine starts anew, some days later.
  shows.millis = 0;
  shows.nanos += 100n * hourNanos;
  const { database: again } = await openDatabase('data', { ...options, placement: foreign });
  await tickAfter(again, 26);
  assert.equal(parkedOf(again).length, 1);
  await tickAfter(again, 2);
  assert.equal(parkedOf(again).length, 0);
  assert.deepEqual(await disk.list('data/parked'), ['kept.json']);
  // What is parked under its number is kept as long.
  await closeDatabases();
  const { database: third } = await openDatabase('data', options);
  await writeRows(third, rowsOf(1));
  await adopt(third, foreign, 2, of);
  disk.crash();
  const { database: last } = await openDatabase('data', { ...options, placement: foreign });
  await tickAfter(last, 40);
  assert.deepEqual(parkedOf(last), [['metrics', [0, 1, 2, 3]]]);
});

test('parked data go with their retention, and a longer one brings nothing back', async () => {
  const { env } = simulated();
  const database = await filled(env);
  await adopt(database, foreign, 2, registry);
  const tickAt = (nanos: bigint): Promise<void> =>
    database.parked.tick(Number.POSITIVE_INFINITY, nanos, database.namespaces);
  // By then the older one of the two blocks has expired.
  await tickAt(now + 48n * hourNanos);
  assert.equal(parkedOf(database).length, 1);
  const longer = namespaceOf('metrics', {
    coldWritesEnabled: true,
    retentionOptions: {
      ...metrics.options.retentionOptions,
      retentionPeriodNanos: 100n * hourNanos,
    },
  });
  await regain(database, onePlacement, registryOf([longer]));
  const rows = [...(await readAll(database)).values()].flat();
  assert.ok(rows.length > 0 && rows.every(([nanos]) => nanos > now - 2n * hourNanos));
  await adopt(database, foreign, 9, registryOf([longer]));
  await tickAt(now + 110n * hourNanos);
  assert.equal(parkedOf(database).length, 0);
});

test('shards that are parked twice have the rows of both times', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  await adopt(database, foreign, 2, registry);
  const first = await disk.list('data/parked/1/data');
  assert.equal(first.length, 4);
  // The node had the shards again, and did not come to bring back what it had.
  await adopt(database, onePlacement, 3, registry);
  await writeRows(database, rowsOf(4));
  await adopt(database, foreign, 4, registry);
  assert.equal(database.parked.entries.length, 2);
  await database.deletions.apply(deletionOf({ kind: 'term', field: 'host', term: 'h5' }));
  await regain(database);
  const assertAll = async (of: Database): Promise<void> => {
    await assertWithout(of, 'h5', 6);
    const rows = [...(await readAll(of)).values()].flat();
    assert.deepEqual(new Set(rows.map(([, value]) => value)), new Set([1, 2, 4]));
  };
  await assertAll(database);
  assert.deepEqual(await disk.list('data/parked'), ['kept.json']);
  disk.crash();
  const { database: again } = await openDatabase('data', { env, registry });
  await assertAll(again);
});

test('files of a parked shard whose description is damaged stay, and go with the time', async () => {
  const { disk, env } = simulated();
  const database = await filled(env);
  await adopt(database, foreign, 2, registry);
  disk.crash();
  assert.ok(disk.flip((path) => path.endsWith('parked.json')) !== null);
  const { database: again } = await openDatabase('data', { env, registry });
  assert.equal(await bringBack(again, never).then((corrupt) => corrupt.length), 0);
  assert.deepEqual(parkedOf(again), [[undefined, [0, 1, 2, 3]]]);
  await again.parked.tick(0, now, again.namespaces);
  assert.deepEqual(parkedOf(again), []);
});

/** A disk of which one of the calls that change something does not end well. */
function troubledAt(disk: SimulatedDisk, call: number, trouble: () => void) {
  let left = call;
  const session = disk.session();
  const names = ['writeFileAtomic', 'rename', 'remove', 'removeTree', 'syncFolder'] as const;
  const counted = Object.fromEntries(
    names.map((name) => [
      name,
      async (...given: [string, never]) => {
        left -= 1;
        if (left === 0) trouble();
        await session[name](...given);
      },
    ]),
  );
  return { disk: overriding(session, counted), isOver: () => left <= 0 };
}

const isPassing = (error: unknown): boolean =>
  error instanceof TsdbError ||
  ['EIO', 'EBADF'].includes(String((error as { code?: unknown }).code));

/** Little, since there is a power loss for each call of the disk that it takes. */
const two = placementOf({ a: { 0: 'AVAILABLE', 1: 'AVAILABLE' } }, { numShards: 2 });
const foreignTwo = placementOf({ evil: { 0: 'AVAILABLE', 1: 'AVAILABLE' } }, { numShards: 2 });

/** Runs steps with a power loss at each call that changes the disk, and looks for the rows then. */
async function losingPower(
  steps: (database: Database) => Promise<void>,
  prepare: (database: Database) => Promise<void> = async () => {},
): Promise<void> {
  for (let call = 1; ; call += 1) {
    let dice = call;
    const below = (end: number) => (dice = (dice * 48_271) % 2_147_483_647) % end;
    const disk = new SimulatedDisk({ below });
    const env = { ...realEnv, disk };
    const database = await filled(env, registry, { placement: two, rowCount: 6 });
    const expected = await readAll(database);
    await prepare(database);
    const { placement, version } = database.shards;
    await closeDatabases();
    const power = troubledAt(disk, call, () => disk.crash());
    try {
      const options = { env: { ...env, disk: power.disk }, registry, placement, version };
      await steps((await openDatabase('data', options)).database);
    } catch (error) {
      assert.ok(power.isOver() && isPassing(error), String((error as Error).stack));
    }
    if (!power.isOver()) {
      assert.ok(call > 20, `${call} calls`);
      return;
    }
    const { database: after } = await openDatabase('data', { env, registry, placement: two });
    await bringBack(after, never);
    setReady(after);
    assert.deepEqual(await readAll(after), expected, `power lost at call ${call}`);
    disk.crash();
    const { database: again } = await openDatabase('data', { env, registry, placement: two });
    assert.deepEqual(await readAll(again), expected, `and again after call ${call}`);
    await closeDatabases();
  }
}

test('no power loss on the way to be parked loses a row', async () => {
  await losingPower((database) => adopt(database, foreignTwo, 2, registry));
});

test('no power loss on the way back loses a row', async () => {
  await losingPower(
    (database) => regain(database, two),
    (database) => adopt(database, foreignTwo, 2, registry),
  );
});

test('no power loss at the end of a namespace that nobody has deleted loses a row', async () => {
  await losingPower((database) => adopt(database, two, 1, registryOf([])));
});

const failing = [
  ['parked', (database: Database) => adopt(database, foreignTwo, 2, registry), false],
  ['brought back', (database: Database) => regain(database, two), true],
  [
    'parked with their namespace',
    (database: Database) => adopt(database, two, 1, registryOf([])),
    false,
  ],
] as const;

for (const [what, steps, isParked] of failing) {
  test(`what fails once while data are ${what} is done when it is tried again`, async () => {
    for (let call = 1; ; call += 1) {
      const { disk, env } = simulated();
      const database = await filled(env, registry, { placement: two, rowCount: 6 });
      const expected = await readAll(database);
      if (isParked) await adopt(database, foreignTwo, 2, registry);
      const { placement, version } = database.shards;
      await closeDatabases();
      const troubled = troubledAt(disk, call, () => {
        throw Object.assign(new Error('EIO'), { code: 'EIO' });
      });
      const ofTrouble = { env: { ...env, disk: troubled.disk }, registry, placement, version };
      const running = await openDatabase('data', ofTrouble).catch((error: unknown) => {
        assert.ok(isPassing(error), String((error as Error).stack));
        return null;
      });
      for (let tries = 0; running !== null; tries += 1) {
        try {
          await steps(running.database);
          break;
        } catch (error) {
          assert.ok(tries < 10 && isPassing(error), String((error as Error).stack));
          // A log that failed is not opened again at once.
          await realEnv.clock.sleep(30, never);
        }
      }
      if (!troubled.isOver()) return;
      if (running !== null) await regain(running.database, two);
      if (running !== null) assert.deepEqual(await readAll(running.database), expected, `${call}`);
      disk.crash();
      const { database: again } = await openDatabase('data', { env, registry, placement: two });
      await bringBack(again, never);
      setReady(again);
      assert.deepEqual(await readAll(again), expected, `after a failure of call ${call}`);
      await closeDatabases();
    }
  });
}
