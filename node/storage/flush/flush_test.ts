import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import type { TsdbError } from '#lib/errors.ts';
import {
  closeDatabases,
  dueNow,
  handOver,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  readAll,
  samplesOf,
  samplesOfBundle,
  type TestRow,
  truncateByLog,
  writeRows,
} from '../database_testing.ts';
import type { Database } from '../database.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import { emptyFlushReport, flushBlock } from './flush.ts';
import { Pace } from './pace.ts';
import { paceThat } from './pace_testing.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-flush-'));
  folders.push(folder);
  return folder;
}

const secondNanos = 1_000_000_000n;
const cold = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);

/** Rows of so many series, one every 10 s. */
function rowsOf(
  seriesCount: number,
  times: number,
  value = 0,
  endNanos = middleOfBlock(),
): TestRow[] {
  const rows: TestRow[] = [];
  for (let t = 0; t < times; t += 1) {
    for (let s = 0; s < seriesCount; s += 1) {
      const series = { __name__: 'cpu', host: `h${s}` };
      rows.push({ series, nanos: endNanos - BigInt(t) * 10n * secondNanos, value: value + t + s });
    }
  }
  return rows;
}

/** In the middle of the last block that has ended. */
function middleOfBlock(): bigint {
  const blockNanos = 7200n * secondNanos;
  return (nowNanos() / blockNanos) * blockNanos - blockNanos / 2n;
}

function nowNanos(): bigint {
  return realEnv.clock.nowNanos();
}

function dataFiles(folder: string): string[] {
  return readdirSync(join(folder, 'data'), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('-data.db'))
    .map((name) => join(folder, 'data', name));
}

test('a flush moves all rows to filesets, where reads and the next start find them', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf(30, 900));
  const before = await readAll(database);
  const report = await database.flusher.flushAll(null, never);
  assert.ok(report.filesets > 0 && report.blocksLeft === 0, JSON.stringify(report));
  assert.equal(database.store.sampleCount, 0);
  assert.equal(database.store.blocks(0).length, 0);
  assert.deepEqual(await readAll(database), before);
  await closeDatabases();
  rmSync(join(folder, 'commitlogs'), { recursive: true });
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.equal(again.store.sampleCount, 0);
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('rows that come later are merged into the next volume, and the newest write of a time wins', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  const end = middleOfBlock();
  await writeRows(database, rowsOf(8, 100, 0, end));
  await database.flusher.flushAll(null, never);
  const files = dataFiles(folder);
  // Half of the times again with other values, and some that are new.
  await writeRows(database, rowsOf(4, 50, 1000, end));
  await writeRows(database, rowsOf(10, 3, 5, end + secondNanos));
  const before = await readAll(database);
  assert.equal(before.get('__name__=cpu,host=h0')!.at(-2)![1], 1000);
  assert.equal(before.size, 10);
  await database.flusher.flushAll(null, never);
  assert.deepEqual(await readAll(database), before);
  for (const { files: used } of database.namespaces.values()) await used.settled();
  for (const path of dataFiles(folder)) assert.ok(!files.includes(path), 'the old volume is gone');
  await closeDatabases();
  // The log holds everything once more, which changes nothing, and no new volume is written for it.
  const { database: again } = await openDatabase(folder, { registry: cold });
  assert.deepEqual(await readAll(again), before);
  const report = await again.flusher.flushAll(null, never);
  assert.equal(report.filesets, 0);
  assert.equal(again.store.sampleCount, 0);
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('reads, writes and flushes at the same time: no read misses a row', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  const end = middleOfBlock();
  let written = 0;
  let done = false;
  const flushing = (async () => {
    while (!done) {
      await database.flusher.flushAll(null, never);
      await realEnv.clock.sleep(1, never);
    }
  })();
  const reading = Array.from({ length: 3 }, async () => {
    while (!done) {
      await realEnv.clock.sleep(1, never);
      const least = written;
      const samples = await readAll(database);
      if (least > 0) assert.equal(samples.size, 25);
      for (const [name, rows] of samples) {
        assert.ok(rows.length >= least, `${name} has ${rows.length} of ${least} rows`);
        rows.slice(0, least).forEach(([, value], i) => assert.equal(value, i));
      }
    }
  });
  for (let i = 0; i < 60; i += 1) {
    const rows = Array.from({ length: 25 }, (_, s) => ({
      series: { __name__: 'cpu', host: `h${s}` },
      nanos: end - 600n * secondNanos + BigInt(i) * secondNanos,
      value: i,
    }));
    await writeRows(database, rows);
    written = i + 1;
  }
  done = true;
  await Promise.all([flushing, ...reading]);
  await closeDatabases();
});

test('a damaged series is not served, its neighbours are, and the rest moves to a new volume', async () => {
  const folder = temporaryFolder();
  {
    const { database } = await openDatabase(folder, { registry: cold });
    await writeRows(database, rowsOf(20, 30));
    await database.flusher.flushAll(null, never);
    await closeDatabases();
  }
  rmSync(join(folder, 'commitlogs'), { recursive: true });
  const path = dataFiles(folder)[0]!;
  const bytes = readFileSync(path);
  bytes[bytes.length - 2]! ^= 16;
  writeFileSync(path, bytes);
  const { database } = await openDatabase(folder, { registry: cold });
  const damaged: string[] = [];
  database.onDamage = (_, file) => damaged.push(file.dataPath);
  for (let round = 0; round < 2; round += 1) {
    const samples = await readAll(database);
    const whole = [...samples.values()].filter((rows) => rows.length === 30).length;
    const short = [...samples.values()].filter((rows) => rows.length < 30);
    assert.equal(short.length, 1, 'one series lost its rows of one block');
    assert.equal(whole, 19);
  }
  assert.deepEqual(damaged, [path]);
  await writeRows(database, rowsOf(20, 1));
  // A reader keeps the damaged one under its names; a start after a crash takes the new one.
  const { files } = database.namespaces.get('metrics')!;
  const pinned = files.all(null);
  for (const file of pinned) files.pin(file);
  await database.flusher.flushAll(null, never);
  const crashed = temporaryFolder();
  cpSync(folder, crashed, { recursive: true });
  for (const file of pinned) files.unpin(file);
  for (const { files } of database.namespaces.values()) await files.settled();
  assert.ok(readdirSync(join(path, '..')).some((name) => name.endsWith('-data.db.corrupt')));
  await closeDatabases();
  const { database: again, report } = await openDatabase(crashed, { registry: cold });
  const { info } = pinned.find(({ dataPath }) => dataPath === path)!;
  assert.deepEqual(
    report.unrepaired.map(({ shard, blocks }) => ({ shard, blocks: [...blocks] })),
    [{ shard: info.shard, blocks: [info.blockStartNanos] }],
  );
  assert.ok([...(await readAll(again)).values()].every((rows) => rows.length > 0));
  await closeDatabases();
});

test('an index that is damaged sets the fileset aside while others are served', async () => {
  const folder = temporaryFolder();
  {
    const { database } = await openDatabase(folder, { registry: cold });
    await writeRows(database, rowsOf(20, 30));
    await database.flusher.flushAll(null, never);
    await closeDatabases();
  }
  rmSync(join(folder, 'commitlogs'), { recursive: true });
  const path = dataFiles(folder)[0]!.replace('-data.db', '-index.db');
  const bytes = readFileSync(path);
  bytes[40]! ^= 1;
  writeFileSync(path, bytes);
  const { database, report } = await openDatabase(folder, { registry: cold });
  assert.equal(report.corrupt.length, 1);
  const samples = await readAll(database);
  assert.ok(samples.size > 0 && samples.size < 20);
  await closeDatabases();
});

test('truncation, a handover and retention take filesets away with the rest', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: cold });
  await writeRows(database, rowsOf(40, 20));
  await database.flusher.flushAll(null, never);
  await writeRows(database, rowsOf(40, 5, 100));
  await handOver(database, [2, 3], cold);
  const smaller = database.shards.placement!;
  const left = await readAll(database);
  assert.ok(left.size > 0 && left.size < 40);
  assert.deepEqual(readdirSync(join(folder, 'data/metrics')).sort(), ['0', '1']);
  assert.equal(await truncateByLog(database, 'metrics'), left.size);
  assert.equal((await readAll(database)).size, 0);
  await database.removal.settled();
  assert.deepEqual(readdirSync(join(folder, 'data')), []);
  await writeRows(database, rowsOf(40, 2));
  await database.flusher.flushAll(null, never);
  const after = await readAll(database);
  assert.ok([...after.values()].every((rows) => rows.length === 2));
  await closeDatabases();
  const { database: again } = await openDatabase(folder, { registry: cold, placement: smaller });
  assert.deepEqual(await readAll(again), after);
  await closeDatabases();
});

const metricsEnded = new Map([['metrics', 1]]);

test('a flush passes over a namespace that is deleted meanwhile, and flushes the others', async () => {
  const folder = temporaryFolder();
  const both = registryOf([
    namespaceOf('metrics', { coldWritesEnabled: true }),
    namespaceOf('other', { coldWritesEnabled: true }),
  ]);
  for (let round = 0; round < 8; round += 1) {
    const { database } = await openDatabase(`${folder}/${round}`, { registry: both });
    await writeRows(database, rowsOf(200, 5));
    await writeRows(database, rowsOf(20, 5), { namespace: 'other' });
    const flushing = database.flush(null, never);
    for (let turn = 0; turn < round * 40; turn += 1) await Promise.resolve();
    await database.applyTopology(
      onePlacement,
      1,
      registryOf([namespaceOf('other', { coldWritesEnabled: true })]),
      metricsEnded,
    );
    await flushing;
    assert.ok(database.namespaces.get('other')!.files.all(null).length > 0);
    await closeDatabases();
  }
});

test('what was to be flushed of a namespace that is gone by then is passed over', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, rowsOf(3, 5));
  const namespace = database.namespaces.get('metrics')!;
  const { truncations } = namespace;
  const [block] = database.store.blocks(namespace.ordinal);
  await database.applyTopology(onePlacement, 1, registryOf([]), metricsEnded);
  await database.removal.settled();
  const pace = new Pace(realEnv.clock, () => 1);
  const options = { truncations, pace, report: emptyFlushReport() };
  await flushBlock(database, namespace, block!.blockStartNanos, options, never);
  assert.equal(options.report.blocks, 0);
  await closeDatabases();
});

test('a flush that meets a truncation at any of its rests brings nothing back, and takes no series for another one', async () => {
  let isOver = false;
  for (let at = 0; !isOver; at += 1) {
    const { database } = await openDatabase(temporaryFolder(), {
      registry: cold,
      slotsOfStretch: 2,
    });
    const nanos = middleOfBlock();
    await writeRows(database, rowsOf(9, 1));
    const namespace = database.namespaces.get('metrics')!;
    const { truncations } = namespace;
    const others = Array.from({ length: 20 }, (_, s) => ({
      series: { __name__: 'other', host: `o${s}` },
      nanos,
      value: s,
    }));
    const truncating: Promise<unknown>[] = [];
    const pace = paceThat(async (rest) => {
      if (rest === at) {
        // It may have to wait for the shard that is being written.
        truncating.push(truncateByLog(database, 'metrics').then(() => writeRows(database, others)));
      }
      for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
    });
    const options = { truncations, pace, report: emptyFlushReport() };
    const blockStartNanos = namespace.blockStartOf(nanos);
    await flushBlock(database, namespace, blockStartNanos, options, never).catch(
      (error: TsdbError) => assert.equal(error.code, 'UNAVAILABLE'),
    );
    await Promise.all(truncating);
    isOver = truncating.length === 0;
    if (isOver) assert.ok(at > 5, `${at} rests`);
    for (const isFlushed of [false, true]) {
      if (isFlushed) await database.flusher.flushAll(null, never);
      const found = await readAll(database);
      const names = new Set([...found.keys()].map((id) => id.slice(0, 13)));
      assert.equal(found.size, isOver ? 9 : 20, `truncated at rest ${at}: ${[...names].join()}`);
    }
    await closeDatabases();
  }
});

test('a flush lets go of a shard soon that is taken away while it makes names', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  const nanos = middleOfBlock();
  await writeRows(database, rowsOf(8000, 1));
  const namespace = database.namespaces.get('metrics')!;
  const { truncations } = namespace;
  const dropping: Promise<unknown>[] = [];
  let restsAfter = 0;
  const pace = paceThat(async (rest) => {
    if (namespace.truncations !== truncations) restsAfter += 1;
    if (rest === 4) dropping.push(truncateByLog(database, 'metrics'));
    // It has begun before it waits for the shard that is written.
    while (rest >= 4 && namespace.truncations === truncations) await new Promise(setImmediate);
  });
  const options = { truncations, pace, report: emptyFlushReport() };
  const blockStartNanos = namespace.blockStartOf(nanos);
  await flushBlock(database, namespace, blockStartNanos, options, never);
  await Promise.all(dropping);
  // Each of the four workers may have been on its way to a rest.
  assert.ok(restsAfter <= 2 * 4, `${restsAfter} rests`);
  assert.equal((await readAll(database)).size, 0);
  await closeDatabases();
});

test('a flush passes over a namespace that is deleted before its turn comes', async () => {
  const { database } = await openDatabase(temporaryFolder(), {
    registry: registryOf([namespaceOf('metrics'), namespaceOf('other')]),
  });
  const nanos = nowNanos();
  await writeRows(database, rowsOf(200, 5, 0, nanos));
  await writeRows(database, rowsOf(3, 5, 0, nanos), { namespace: 'other' });
  const first = database.flusher.flushAll(null, never);
  const second = database.flusher.flushAll(null, never);
  const ended = new Map([['other', 1]]);
  await database.applyTopology(onePlacement, 1, registryOf([namespaceOf('metrics')]), ended);
  await database.removal.settled();
  await Promise.all([first, second]);
  await closeDatabases();
});

const afterAllIsRemoved: Record<string, (database: Database) => Promise<unknown>> = {
  'a truncation': (database) => truncateByLog(database, 'metrics'),
  'a shard that was handed over and came back': async (database) => {
    await handOver(database, [0, 1, 2, 3], cold);
    await database.applyTopology(onePlacement, 5, cold);
  },
  'a namespace that was deleted without a placement and made again': async (database) => {
    await database.applyTopology(null, 2, registryOf([]), metricsEnded);
    await database.applyTopology(onePlacement, 3, cold, metricsEnded);
  },
  'a namespace that was deleted and made again': async (database) => {
    await database.applyTopology(onePlacement, 2, registryOf([]), metricsEnded);
    await database.applyTopology(onePlacement, 3, cold, metricsEnded);
  },
};

for (const [name, remove] of Object.entries(afterAllIsRemoved)) {
  test(`a reader of a replaced fileset that ends after ${name} takes no new one away`, async () => {
    const folder = temporaryFolder();
    const { database } = await openDatabase(folder, { registry: cold });
    await writeRows(database, rowsOf(10, 5));
    await database.flusher.flushAll(null, never);
    const { files } = database.namespaces.get('metrics')!;
    const pinned = files.all(null);
    for (const file of pinned) files.pin(file);
    await writeRows(database, rowsOf(10, 9, 100));
    await database.flusher.flushAll(null, never);
    assert.ok(pinned.every(({ retired }) => retired === 'delete'));
    await remove(database);
    const namespace = database.namespaces.get('metrics')!;
    for (const { id } of database.shards.all()) namespace.readyShards.add(id);
    await writeRows(database, rowsOf(10, 7, 500));
    await database.flush(null, never);
    const pathsOf = (some: readonly BlockFile[]) => some.map(({ dataPath }) => dataPath).sort();
    assert.deepEqual(pathsOf(namespace.files.all(null)), pathsOf(pinned), 'the same names again');
    // What the reader finds there is not damage of what is in use.
    let damaged = 0;
    database.onDamage = () => {
      damaged += 1;
    };
    for (const file of pinned) files.noteDamage(file, 0);
    for (const file of pinned) files.unpin(file);
    await files.settled();
    const before = await readAll(database);
    assert.equal(before.size, 10);
    await closeDatabases();
    const { database: again } = await openDatabase(folder, { registry: cold });
    assert.deepEqual(await readAll(again), before);
    assert.equal(damaged, 0);
    await closeDatabases();
  });
}

test('a shard streams memory and filesets joined, also while it is flushed', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  const end = middleOfBlock();
  await writeRows(database, rowsOf(50, 40, 0, end));
  await database.flusher.flushAll(null, never);
  await writeRows(database, rowsOf(60, 10, 500, end + secondNanos));
  const expected = await readAll(database);
  let done = false;
  const flushing = (async () => {
    while (!done) {
      await realEnv.clock.sleep(1, never);
      await writeRows(database, rowsOf(60, 1, 500, end + secondNanos));
      await database.flusher.flushAll(null, never);
    }
  })();
  for (let round = 0; round < 3; round += 1) {
    assert.deepEqual(await streamed(database), expected);
  }
  done = true;
  await flushing;
  await closeDatabases();
});

async function streamed(database: Database): Promise<Map<string, [bigint, number][]>> {
  const all = new Map<string, [bigint, number][]>();
  for (const { id: shard } of database.shards.all()) {
    const whole = { blockStartsNanos: [], damagedToo: false };
    const request = { namespace: 'metrics', shard, placementVersion: 1, ...whole };
    for await (const { bundle } of database.streamShard(request, never)) {
      for (const [name, rows] of samplesOfBundle(bundle)) {
        const times = new Map([...(all.get(name) ?? []), ...rows]);
        all.set(
          name,
          [...times].sort(([a], [b]) => (a < b ? -1 : 1)),
        );
      }
    }
  }
  return all;
}

test('only closed blocks are due, late rows when they are quiet, and all when memory is short', async () => {
  let moved = 0;
  const clock = {
    ...realEnv.clock,
    monotonicMillis: () => realEnv.clock.monotonicMillis() + moved,
  };
  const { database } = await openDatabase(temporaryFolder(), {
    env: { ...realEnv, clock },
    registry: cold,
  });
  const now = nowNanos();
  const old = now - 5n * 3600n * secondNanos;
  await writeRows(database, [...rowsOf(3, 1, 0, now), ...rowsOf(3, 1, 0, old)]);
  const why = async () => (await dueNow(database)).map((due) => due.why);
  assert.deepEqual(await why(), [], 'a backfill may be writing the block');
  moved += 11_000;
  assert.deepEqual(await why(), ['closed']);
  await database.flusher.runDue(never);
  assert.equal(database.store.blocks(0).length, 1, 'the open block stays in memory');
  await writeRows(database, rowsOf(3, 1, 0, old + 1n));
  assert.deepEqual(await why(), []);
  moved += 59_000;
  assert.deepEqual(await why(), []);
  await writeRows(database, rowsOf(3, 1, 0, old + 2n));
  moved += 59_000;
  assert.deepEqual(await why(), [], 'more rows came');
  moved += 61_000;
  assert.deepEqual(await why(), ['late rows']);
  await database.flusher.runDue(never);
  assert.equal(database.store.blocks(0).length, 1);
  await closeDatabases();
});

test('late rows that come all the time wait as long as windows wait for them', async () => {
  let moved = 0;
  const clock = { ...realEnv.clock, monotonicMillis: () => moved };
  const { options, ...rest } = namespaceOf('metrics', { coldWritesEnabled: true });
  const minuteNanos = 60n * secondNanos;
  const retentionOptions = {
    ...options.retentionOptions,
    retentionPeriodNanos: 64n * minuteNanos,
    blockSizeNanos: 10n * minuteNanos,
    bufferPastNanos: 10n * minuteNanos,
  };
  const { database } = await openDatabase(temporaryFolder(), {
    env: { ...realEnv, clock },
    registry: registryOf([{ ...rest, options: { ...options, retentionOptions } }]),
  });
  const old = nowNanos() - 40n * minuteNanos;
  const why = async () => (await dueNow(database)).map((due) => due.why);
  // An eighth of the retention.
  for (; moved < 480_000; moved += 5_000) {
    await writeRows(database, rowsOf(1, 1, 0, old + BigInt(moved)));
    assert.deepEqual(await why(), []);
  }
  assert.deepEqual(await why(), ['closed']);
  await closeDatabases();
});

test('a namespace with flushEnabled false stays in memory, and says so when it is to be flushed', async () => {
  const { database } = await openDatabase(temporaryFolder(), {
    registry: registryOf([
      namespaceOf('metrics', { flushEnabled: false, coldWritesEnabled: true }),
      namespaceOf('other', { coldWritesEnabled: true }),
    ]),
    placement: onePlacement,
  });
  await writeRows(database, rowsOf(3, 4));
  const report = await database.flusher.flushAll(null, never);
  assert.equal(report.blocks, 0);
  assert.equal(database.store.sampleCount, 12);
  await assert.rejects(database.flusher.flushAll(['metrics'], never), { code: 'BAD_REQUEST' });
  await assert.rejects(database.flusher.flushAll(['none'], never), { code: 'NOT_FOUND' });
  await closeDatabases();
});

test('a series by its ID is read from memory and filesets', async () => {
  const { database } = await openDatabase(temporaryFolder(), { registry: cold });
  await writeRows(database, rowsOf(5, 20));
  await database.flusher.flushAll(null, never);
  await writeRows(database, rowsOf(5, 1, 7, middleOfBlock() + 1n));
  const response = await database.fetchById(
    {
      namespace: 'metrics',
      placementVersion: 0,
      ids: ['{__name__="cpu",host="h3"}', '{__name__="cpu",host="h1"}'].map((id) =>
        Buffer.from(id),
      ),
      startNanos: 0n,
      endNanos: 2n ** 62n,
    },
    never,
  );
  const samples = samplesOf(response);
  assert.deepEqual(
    [...samples].map(([name, rows]) => [name, rows.length]),
    [
      ['__name__=cpu,host=h1', 21],
      ['__name__=cpu,host=h3', 21],
    ],
  );
  await closeDatabases();
});
