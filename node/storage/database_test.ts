import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import {
  type Namespace,
  type NamespaceRegistry,
  registryOf,
} from '#cluster/namespaces/namespaces.ts';
import type { Instance, Placement, ShardState } from '#cluster/placement/placement.ts';
import { realEnv } from '#lib/env/real.ts';
import { versionAtMillis } from '#lib/hybrid_clock.ts';
import {
  batchOf,
  closeDatabases,
  handOver,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  placementOf,
  readAll,
  samplesOf,
  writeRows,
} from './database_testing.ts';
import type { Database } from './database.ts';
import { overriding } from '#test/overriding.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-database-'));
  folders.push(folder);
  return folder;
}

const now = realEnv.clock.nowNanos();
const second = 1_000_000_000n;
const cpu = (host: string) => ({ __name__: 'cpu', host });

test('an acknowledged write is readable at once, and after a restart without a clean stop', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const answer = await writeRows(database, [
    { series: cpu('a'), nanos: now, value: 1.5 },
    { series: cpu('b'), nanos: now - second, value: -2 },
  ]);
  assert.equal(answer.outcomes.length, 0);
  assert.equal(answer.references.length, 4);
  const [slot, generation] = answer.references;
  await writeRows(database, [
    { series: { slot: slot!, generation: generation! }, nanos: now + 1n, value: 3 },
  ]);
  const expected = new Map([
    [
      '__name__=cpu,host=a',
      [
        [now, 1.5],
        [now + 1n, 3],
      ],
    ],
    ['__name__=cpu,host=b', [[now - second, -2]]],
  ]);
  assert.deepEqual(await readAll(database), expected);
  // The first database is left as it is, as by a crash.
  const { database: second_, report } = await openDatabase(folder);
  assert.equal(report.replay.rows, 3);
  assert.deepEqual(await readAll(second_), expected);
  await writeRows(second_, [{ series: cpu('a'), nanos: now + 2n, value: 4 }]);
  const { database: third } = await openDatabase(folder);
  assert.equal((await readAll(third)).get('__name__=cpu,host=a')!.length, 3);
});

test('references are refused by row when they are of another boot or of no series', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const { references } = await writeRows(database, [{ series: cpu('a'), nanos: now, value: 1 }]);
  const reference = { slot: references[0]!, generation: references[1]! };
  const oldEpoch = await writeRows(
    database,
    [
      { series: reference, nanos: now + 1n, value: 1 },
      { series: cpu('b'), nanos: now + 1n, value: 1 },
    ],
    { referenceEpoch: 'ffff.1' },
  );
  assert.deepEqual([...oldEpoch.outcomes], [rowOutcome.unknownReference, rowOutcome.written]);
  assert.equal(oldEpoch.referenceEpoch, database.referenceEpoch);
  const unknown = await writeRows(database, [
    { series: { slot: 77_777, generation: 3 }, nanos: now, value: 1 },
    { series: { ...reference, generation: 9 }, nanos: now, value: 1 },
  ]);
  assert.deepEqual([...unknown.outcomes], [1, 1]);
  assert.deepEqual(
    [...(await readAll(database)).keys()],
    ['__name__=cpu,host=a', '__name__=cpu,host=b'],
  );
});

test('rows that derive their versions replace nothing unseen, and that stays so over a restart', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const write = async (to: Database, values: [string, bigint, number][], derives: boolean) => {
    const rows = values.map(([host, nanos, value]) => ({ series: cpu(host), nanos, value }));
    const batch = batchOf(rows, undefined, undefined, derives);
    const request = { namespace: 'metrics', placementVersion: 1, referenceEpoch: '', batch };
    return [...(await to.write(request, never)).outcomes];
  };
  // Later than what a start before may have left.
  await realEnv.clock.sleep(20, never);
  const soon = realEnv.clock.nowNanos() - second / 100n;
  await write(database, [['a', soon, 5]], true);
  const again = [
    ['a', soon, 4],
    ['b', soon, 7],
    ['c', 0n, 1],
  ] as const;
  const { superseded, written, tooFarPast } = rowOutcome;
  const mixed = await write(database, again as unknown as [string, bigint, number][], true);
  assert.deepEqual(mixed, [superseded, written, tooFarPast]);
  const { rowsRefused, rowsSentBack } = database.writes.counts;
  assert.deepEqual([rowsRefused, rowsSentBack], [1, 1]);
  assert.deepEqual(await write(database, [['a', soon, 4]], false), []);
  const expected = new Map([
    ['__name__=cpu,host=a', [[soon, 4]]],
    ['__name__=cpu,host=b', [[soon, 7]]],
  ]);
  assert.deepEqual(await readAll(database), expected);
  // As by a crash: the log has the row that was superseded, too.
  const { database: next } = await openDatabase(folder);
  assert.deepEqual(await readAll(next), expected);
  const past = realEnv.clock.nowNanos() - second;
  assert.deepEqual(await write(next, [['d', past, 1]], true), [superseded], 'a file may have it');
  assert.deepEqual(await write(next, [['d', past, 1]], false), []);
});

test('good rows are kept when others are too old, too new or malformed', async () => {
  const { database } = await openDatabase(temporaryFolder());
  const answer = await writeRows(database, [
    { series: cpu('a'), nanos: now - 3700n * second, value: 1 },
    { series: cpu('b'), nanos: now, value: 2 },
    { series: cpu('c'), nanos: now + 700n * second, value: 3 },
    { series: { '': 'x' }, nanos: now, value: 4 },
    { series: {}, nanos: now, value: 4 },
  ]);
  assert.deepEqual(
    [...answer.outcomes],
    [
      rowOutcome.tooFarPast,
      rowOutcome.written,
      rowOutcome.tooFarFuture,
      rowOutcome.badSeries,
      rowOutcome.written,
    ],
  );
  assert.deepEqual([...answer.references.subarray(0, 2)], [0, 0]);
  assert.deepEqual([...answer.references.subarray(6, 8)], [0, 0]);
  const samples = await readAll(database);
  assert.deepEqual(samples.get('__name__=cpu,host=b'), [[now, 2]]);
  assert.equal(samples.get('__name__=cpu,host=a'), undefined);
  assert.equal(database.store.seriesCount, 2, 'series of refused rows are not kept');
});

test('a batch from the future is refused by the clocks of three nodes, and taken by fewer', async () => {
  const { database } = await openDatabase(temporaryFolder());
  const hourAhead = versionAtMillis(realEnv.clock.nowMillis() + 3_600_000);
  const write = (nanos: bigint, version?: number) => {
    const batch = batchOf([{ series: cpu('a'), nanos, value: 1 }], undefined, version);
    const request = { namespace: 'metrics', placementVersion: 1, referenceEpoch: '', batch };
    return database.write(request, never);
  };
  const early = await write(now);
  assert.ok(early.highestVersion > 0);
  const { highestVersion } = await write(now + 1n, hourAhead);
  assert.equal(database.versions.counts.unchecked, 1);
  const halfMinuteAhead = versionAtMillis(realEnv.clock.nowMillis() + 30_000);
  assert.ok(highestVersion > early.highestVersion && highestVersion <= halfMinuteAhead);

  const stop = new AbortController();
  const instances = ['b', 'c'].map((id) => ({ id }) as Instance);
  const nodeServiceOf = ({ id: instanceId }: Instance) => ({
    health: async () => ({ ...(await database.health(never)), instanceId }),
  });
  const peers = { placement: () => ({ instances }), nodeServiceOf };
  await database.peerClocks.follow(peers, stop.signal);
  stop.abort();
  await assert.rejects(write(now + 2n, hourAhead), {
    code: 'FAILED_PRECONDITION',
    message:
      /^cannot write: the clock of the writer is 3\d{3}\.\d s ahead of the median of 3 clocks/,
  });
  await write(now + 3n);
  assert.deepEqual(
    (await readAll(database)).get('__name__=cpu,host=a')!.map(([nanos]) => nanos - now),
    [0n, 1n, 3n],
  );
});

test('no batch of a single node makes a row that later writes and deletions do not beat', async () => {
  const { database } = await openDatabase(temporaryFolder());
  const write = async (value: number, version?: number) => {
    const batch = batchOf([{ series: cpu('a'), nanos: now, value }], undefined, version);
    const request = { namespace: 'metrics', placementVersion: 1, referenceEpoch: '', batch };
    await database.write(request, never);
  };
  await write(1);
  const refused = { code: 'FAILED_PRECONDITION', httpStatus: 503 };
  await assert.rejects(write(666, Number.MAX_SAFE_INTEGER), refused);
  await assert.rejects(
    write(666, versionAtMillis(realEnv.clock.nowMillis() + 25 * 3_600_000)),
    refused,
  );
  await write(2);
  const rows = (await readAll(database)).get('__name__=cpu,host=a');
  assert.deepEqual(rows, [[now, 2]]);
  assert.deepEqual(database.versions.counts, { refused: 2, unchecked: 0 });
});

test('NaN payloads survive the write, the log and the restart bit for bit', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const bits = new BigUint64Array([0x7ff0000000000002n, 0x7ff8000000000001n, 0x8000000000000000n]);
  const rows = [0, 1, 2].map((i) => ({ series: cpu('a'), nanos: now + BigInt(i), value: 0 }));
  const tooOld = { series: cpu('a'), nanos: 5n, value: 0 };
  const values = new Float64Array(new BigUint64Array([7n, ...bits]).buffer);
  const batch = batchOf([tooOld, ...rows], values);
  await database.write(
    { namespace: 'metrics', placementVersion: 1, referenceEpoch: '', batch },
    never,
  );
  for (const opened of [database, (await openDatabase(folder)).database]) {
    const samples = (await readAll(opened)).get('__name__=cpu,host=a')!;
    const read = new BigUint64Array(3);
    const floats = new Float64Array(read.buffer);
    samples.forEach(([, value], i) => (floats[i] = value));
    assert.equal(read[2], bits[2]);
    const { bundle } = await opened.fetch(
      {
        namespace: 'metrics',
        placementVersion: 0,
        query: { kind: 'all' },
        shards: null,
        seriesLimit: 0,
        fetchData: true,
        startNanos: 0n,
        endNanos: 2n ** 62n,
      },
      never,
    );
    const { Decoder } = await import('#engine/store/decoder.ts');
    const decoder = new Decoder();
    assert.equal(decoder.decode(bundle, 0, 0n, 2n ** 62n), 3);
    const words = decoder.valueWords;
    const got = [0, 1, 2].map((i) => (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!));
    assert.deepEqual(got, [...bits]);
  }
});

test('shards that are not owned are refused, and moving ones to writers that do not know', async () => {
  const { database } = await openDatabase(temporaryFolder(), {
    placement: placementOf(
      { a: { 0: 'AVAILABLE', 1: 'AVAILABLE' }, b: { 2: 'AVAILABLE', 3: 'AVAILABLE' } },
      { numShards: 4 },
    ),
    version: 2,
  });
  const rows = Array.from({ length: 20 }, (_, i) => ({
    series: cpu(`h${i}`),
    nanos: now,
    value: i,
  }));
  const first = await writeRows(database, rows);
  const owned = [...first.outcomes].map((outcome) => outcome === rowOutcome.written);
  assert.ok(owned.includes(true) && owned.includes(false));
  assert.ok(
    [...first.outcomes].every(
      (outcome) => outcome === rowOutcome.written || outcome === rowOutcome.shardNotOwned,
    ),
  );
  await database.applyTopology(
    placementOf(
      {
        a: { 0: 'LEAVING', 1: 'LEAVING' },
        b: { 2: 'AVAILABLE', 3: 'AVAILABLE' },
        c: { 0: 'INITIALIZING', 1: 'INITIALIZING' },
      },
      { numShards: 4, sourceId: 'a' },
    ),
    3,
    registryOf([namespaceOf('metrics')]),
  );
  const old = await writeRows(database, rows, { placementVersion: 2 });
  const current = await writeRows(database, rows, { placementVersion: 3 });
  const byReference = await writeRows(
    database,
    rows.flatMap(({ nanos, value }, i) =>
      owned[i]
        ? [
            {
              series: { slot: first.references[2 * i]!, generation: first.references[2 * i + 1]! },
              nanos,
              value,
            },
          ]
        : [],
    ),
    { placementVersion: 2 },
  );
  owned.forEach((isOwned, i) => {
    assert.equal(old.outcomes[i], isOwned ? rowOutcome.stalePlacement : rowOutcome.shardNotOwned);
    assert.equal(current.outcomes[i], isOwned ? rowOutcome.written : rowOutcome.shardNotOwned);
  });
  assert.ok([...byReference.outcomes].every((outcome) => outcome === rowOutcome.stalePlacement));
});

test('a writer that has not heard of a namespace of samples is refused, whoever names one is not', async () => {
  const { database } = await openDatabase(temporaryFolder());
  const nanos = BigInt(Date.now()) * 1_000_000n;
  const rows = [{ series: { __name__: 'x' }, nanos, value: 1 }];
  const { sampleNamespaces } = database;
  const [one, two] = ['metrics', 'two'].map((name) => namespaceOf(name));
  const waiting = {
    ...namespaceOf('three'),
    options: { ...two!.options, stagingStatus: 'UNKNOWN' },
  };
  const registry = (...all: object[]) => registryOf(all as Namespace[]);
  const outcomesOf = async (
    namespacesRevision: number,
    namespacesLineageId = 'a',
  ): Promise<number[]> => {
    const writer = { namespacesRevision, namespacesLineageId };
    return [...(await writeRows(database, rows, writer)).outcomes];
  };
  const note = (all: NamespaceRegistry, revision: number, lineageId: string, store = lineageId) =>
    sampleNamespaces.note(all, { revision, lineageId }, store);
  note(registry(one!), 10, 'a');
  // There is no other one that it may have left out.
  assert.deepEqual(await outcomesOf(9), []);
  assert.deepEqual(await outcomesOf(9, 'b'), []);
  // Options change, one is made that takes nothing yet.
  note(registry(one!, waiting), 20, 'a');
  assert.deepEqual(await outcomesOf(10), []);
  note(registry(one!, two!, waiting), 30, 'a');
  assert.deepEqual(await outcomesOf(20), [rowOutcome.stalePlacement]);
  assert.deepEqual(await outcomesOf(30), []);
  assert.deepEqual(await outcomesOf(0), []);
  // Who cannot say what it knows.
  await assert.rejects(writeRows(database, rows, { formatLevel: 3 }), /its rows may lack a name/);
  assert.equal((await database.health(never)).formatLevelOfReaders, 3);
  note(registry(one!), 40, 'a');
  assert.deepEqual([...(await writeRows(database, rows, { formatLevel: 3 })).outcomes], []);
  // A store that was restored awaits its approval, which takes promises back.
  note(registry(one!, two!), 50, 'a', 'restored');
  assert.deepEqual(await outcomesOf(2, 'restored'), []);
  assert.deepEqual(await outcomesOf(60, 'other'), [rowOutcome.stalePlacement]);
  // Numbers of two stores say nothing of each other.
  note(registry(one!, two!), 5, 'restored');
  assert.deepEqual(await outcomesOf(60), [rowOutcome.stalePlacement]);
  assert.deepEqual(await outcomesOf(5, 'restored'), []);
  const { namespacesRevision, lineageId } = await database.health(never);
  assert.deepEqual(
    { namespacesRevision, lineageId },
    { namespacesRevision: 5, lineageId: 'restored' },
  );
});

test('a shard that was handed over is forgotten, and the log gives its rows to nobody', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const rows = Array.from({ length: 20 }, (_, i) => ({
    series: cpu(`h${i}`),
    nanos: now,
    value: i,
  }));
  await writeRows(database, rows);
  await handOver(database, [1, 2, 3], registryOf([namespaceOf('metrics')]));
  const left = (await readAll(database)).size;
  assert.ok(left > 0 && left < 20, `${left} series are of shard 0`);
  const { placement, version } = database.shards;
  const { database: again, report } = await openDatabase(folder, {
    placement: placement!,
    version,
  });
  assert.equal((await readAll(again)).size, left);
  assert.equal(report.replay.rowsPassedOver, 20 - left);
});

test('writes go on while many shards are handed over, and one that comes back is empty', async () => {
  const folder = temporaryFolder();
  const numShards = 300;
  const every = Array.from({ length: numShards }, (_, id) => id);
  const owning = (ids: readonly number[]) => {
    const states = Object.fromEntries(ids.map((id) => [id, 'AVAILABLE' as const]));
    return placementOf({ a: states }, { numShards });
  };
  const { database } = await openDatabase(folder, { placement: owning(every) });
  const hosts = Array.from({ length: 1000 }, (_, i) => `h${i}`);
  await writeRows(
    database,
    hosts.map((host) => ({ series: cpu(host), nanos: now, value: 1 })),
  );
  await database.flush(null, never);
  const { index } = database.namespaces.get('metrics')!;
  const shardOfHost = (slot: number) => index.shard(slot);
  const slots = Array.from({ length: 2000 }, (_, slot) => slot).filter((slot) => index.has(slot));
  const keptSeries = slots.filter((slot) => shardOfHost(slot) < 3).length;
  assert.ok(keptSeries > 0);
  const registry = registryOf([namespaceOf('metrics')]);
  const done: string[] = [];
  const changing = handOver(
    database,
    every.filter((id) => id > 2),
    registry,
  );
  await Promise.all([
    changing.then(() => done.push('all are gone')),
    (async () => {
      while (database.shards.version < 4) await realEnv.clock.sleep(1, never);
      await writeRows(database, [{ series: cpu('h0'), nanos: now + 1n, value: 2 }]);
      done.push('a write');
    })(),
  ]);
  assert.deepEqual(done, ['a write', 'all are gone']);
  assert.equal((await readAll(database)).size, keptSeries);
  assert.ok(readdirSync(join(folder, 'data/metrics')).length <= 4);
  await database.applyTopology(owning(every), 5, registry);
  assert.equal((await readAll(database)).size, keptSeries);
});

test('a start whose memory has no room for the series of the log ends, and passes over none', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  const env = { ...realEnv, disk };
  const { database } = await openDatabase('data', { env });
  for (let first = 0; first < 60_000; first += 5000) {
    const rows = Array.from({ length: 5000 }, (_, i) => ({
      series: cpu(`h${first + i}`),
      nanos: now,
      value: i,
    }));
    await writeRows(database, rows);
  }
  const before = await readAll(database);
  disk.crash();
  const small = openDatabase('data', { env, memoryBytesMax: 8 << 20 });
  await assert.rejects(small, { code: 'RESOURCE_EXHAUSTED', message: /db\.memoryMax/ });
  const { database: again } = await openDatabase('data', { env });
  assert.deepEqual(await readAll(again), before);
});

test('files of a shard that was handed over are removed at the next try when the disk has failed', async () => {
  const disk = new SimulatedDisk({ below: () => 0 });
  let isFailing = false;
  const rename = async (from: string, to: string): Promise<void> => {
    if (isFailing) throw Object.assign(new Error('EIO'), { code: 'EIO' });
    await disk.rename(from, to);
  };
  const failing = overriding(disk, { rename });
  const { database } = await openDatabase('data', { env: { ...realEnv, disk: failing } });
  const rows = Array.from({ length: 20 }, (_, i) => ({
    series: cpu(`h${i}`),
    nanos: now,
    value: i,
  }));
  await writeRows(database, rows);
  await database.flush(null, never);
  const before = (await readAll(database)).size;
  const registry = registryOf([namespaceOf('metrics')]);
  isFailing = true;
  await assert.rejects(handOver(database, [1, 2, 3], registry), { code: 'UNAVAILABLE' });
  assert.equal(database.shards.version, 4);
  // Not taken back before what it had is gone.
  for (let i = 0; i < 2; i += 1) {
    const back = database.applyTopology(onePlacement, 5, registry);
    await assert.rejects(back, { code: 'UNAVAILABLE' });
    assert.equal(database.shards.version, 4);
  }
  isFailing = false;
  await database.applyTopology(onePlacement, 5, registry);
  await database.removal.settled();
  const shards = (await disk.list('data/data/metrics')).filter((name) => !name.endsWith('.db'));
  assert.deepEqual(shards, ['0']);
  const left = await readAll(database);
  assert.ok(left.size > 0 && left.size < before, `${left.size} series are of shard 0`);
});

test('rows of a damaged record are missing after a restart, and all others are there', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const { references } = await writeRows(database, [{ series: cpu('a'), nanos: now, value: 0 }]);
  const series = { slot: references[0]!, generation: references[1]! };
  const lengths: number[] = [];
  const path = join(folder, 'commitlogs', readdirSync(join(folder, 'commitlogs'))[0]!);
  for (let i = 1; i <= 5; i += 1) {
    lengths.push(readFileSync(path).length);
    await writeRows(database, [{ series, nanos: now + BigInt(i), value: i }]);
  }
  const bytes = readFileSync(path);
  // The end of the third row's record.
  bytes[lengths[3]! - 16]! ^= 1;
  writeFileSync(path, bytes);
  const { database: again, report } = await openDatabase(folder);
  assert.equal(report.replay.problems.length, 1);
  assert.equal(report.replay.problems[0]!.kind, 'corrupt records');
  assert.deepEqual(
    report.replay.lost.map(({ spans }) => spans?.map((span) => span.namespace)),
    [['metrics']],
  );
  const values = (await readAll(again)).get('__name__=cpu,host=a')!.map(([, value]) => value);
  assert.deepEqual(values, [0, 1, 2, 4, 5]);
});

test('requests wait for a placement that their sender knows already', async () => {
  const { database } = await openDatabase(temporaryFolder());
  const written = writeRows(database, [{ series: cpu('a'), nanos: now, value: 1 }], {
    placementVersion: 2,
  });
  await database.applyTopology(onePlacement, 2, registryOf([namespaceOf('metrics')]));
  assert.equal((await written).outcomes.length, 0);
});

test('a fetch names the shards for which it is whole, and cuts at the limit', async () => {
  const { database } = await openDatabase(temporaryFolder(), {
    placement: placementOf(
      { a: { 0: 'AVAILABLE', 1: 'INITIALIZING', 2: 'AVAILABLE', 3: 'AVAILABLE' } },
      { numShards: 4 },
    ),
  });
  await writeRows(
    database,
    Array.from({ length: 10 }, (_, i) => ({ series: cpu(`h${i}`), nanos: now, value: i })),
  );
  const request = {
    namespace: 'metrics',
    placementVersion: 1,
    query: { kind: 'term', field: '__name__', term: 'cpu' },
    shards: null,
    seriesLimit: 0,
    fetchData: true,
    startNanos: now,
    endNanos: now + 1n,
  } as const;
  const all = await database.fetch(request, never);
  assert.deepEqual([...all.shards], [0, 2, 3]);
  assert.equal(samplesOf(all).size, 10);
  assert.equal(all.exhaustive, true);
  const cut = await database.fetch({ ...request, seriesLimit: 3, fetchData: false }, never);
  assert.equal(cut.bundle.seriesCount, 3);
  assert.equal(cut.exhaustive, false);
  assert.equal(cut.bundle.chunkData.length, 0);
  const byId = await database.fetchById(
    { ...request, ids: [new TextEncoder().encode('{__name__="cpu",host="h3"}')] },
    never,
  );
  assert.deepEqual(samplesOf(byId).get('__name__=cpu,host=h3'), [[now, 3]]);
  const tags = await database.aggregate(
    { ...request, tagNames: ['host'], namesOnly: false, limit: 0 },
    never,
  );
  assert.equal(tags.tags[0]!.values.length, 10);
});

test('new series above the limit a second are refused by row and taken later', async () => {
  const { database } = await openDatabase(temporaryFolder(), {
    limits: { newSeriesPerSecondMax: 3 },
  });
  const rows = [0, 1, 2, 3, 4].map((i) => ({ series: cpu(`h${i}`), nanos: now, value: i }));
  const { outcomes } = await writeRows(database, rows);
  assert.deepEqual([...outcomes], [0, 0, 0, 6, 6]);
  await realEnv.clock.sleep(700, never);
  assert.equal((await writeRows(database, rows)).outcomes.length, 0);
});

test('more writes under way than allowed are refused with RESOURCE_EXHAUSTED', async () => {
  const { database } = await openDatabase(temporaryFolder(), {
    limits: { outstandingWritesMax: 1 },
  });
  const row = { series: cpu('a'), nanos: now, value: 1 };
  const results = await Promise.allSettled([1, 2].map(() => writeRows(database, [row])));
  assert.deepEqual(
    results.map((result) => result.status),
    ['fulfilled', 'rejected'],
  );
});

test('two series with one ID are one series, whatever their tags and schemes', async () => {
  const { database } = await openDatabase(temporaryFolder());
  const { BatchBuilder } = await import('#engine/batch/batch.ts');
  const { encodeTags } = await import('#lib/tags.ts');
  const builder = new BatchBuilder();
  builder.begin(versionAtMillis(realEnv.clock.nowMillis()));
  const none = new Uint8Array(0);
  const id = new TextEncoder().encode('{__name__="cpu",host="a"}');
  const tags = encodeTags([
    { name: '__name__', value: 'cpu' },
    { name: 'host', value: 'a' },
  ]);
  builder.addSeries(tags, 1, none);
  builder.addSeries(none, 0, id);
  builder.addSeries(encodeTags([{ name: 'other', value: 'x' }]), 0, id);
  // Quotes in names are escaped: these are series of their own.
  builder.addSeries(encodeTags([{ name: 'x', value: 'y",z="w' }]), 1, none);
  builder.addSeries(encodeTags([{ name: '__name__="cpu",host', value: 'a' }]), 1, none);
  builder.setRows(
    5,
    Uint32Array.of(0, 1, 2, 3, 4),
    new Uint32Array(5),
    new BigInt64Array(5).fill(now),
    1,
    new Float64Array(5),
  );
  const { references } = await database.write(
    { namespace: 'metrics', placementVersion: 1, referenceEpoch: '', batch: builder.finish() },
    never,
  );
  const slots = [0, 1, 2, 3, 4].map((i) => references[2 * i]);
  assert.equal(database.store.seriesCount, 3);
  assert.deepEqual(slots, [slots[0], slots[0], slots[0], slots[3], slots[4]]);
});

test('shards that others give until they are here do not keep a node from serving, those of nobody do', async () => {
  const stateOf = async (placement: Placement, registry = registryOf([namespaceOf('metrics')])) => {
    const { database } = await openDatabase(temporaryFolder(), { placement, registry });
    return { bootstrapped: database.isBootstrapped, serving: database.isServing };
  };
  const options = { numShards: 2, sourceId: 'b' };
  const own: Record<number, ShardState> = { 0: 'AVAILABLE', 1: 'INITIALIZING' };
  const given = placementOf({ a: own, b: { 1: 'LEAVING' } }, options);
  assert.deepEqual(await stateOf(given), { bootstrapped: false, serving: true });
  const lost = placementOf({ a: own, b: { 0: 'AVAILABLE' } }, options);
  assert.deepEqual(await stateOf(lost), { bootstrapped: false, serving: false });
  const making = registryOf([namespaceOf('metrics', { stagingStatus: 'INITIALIZING' })]);
  assert.deepEqual(await stateOf(lost, making), { bootstrapped: false, serving: true });
});
