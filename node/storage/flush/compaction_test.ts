import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { chunkHeaders } from '#engine/codec/chunk.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { Database } from '../database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  onePlacement,
  openDatabase,
  readAll,
  type TestRow,
  writeRows,
} from '../database_testing.ts';
import { streamPages } from '../read/stream.ts';
import { tick } from '../retention/tick.ts';
import { compactDue } from './compaction.ts';
import { emptyFlushReport, flushBlock } from './flush.ts';
import { Pace } from './pace.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-compaction-'));
  folders.push(folder);
  return folder;
}

const minuteNanos = 60_000_000_000n;
const hourNanos = 60n * minuteNanos;
const blockNanos = 2n * hourNanos;
/** Of a namespace with a retention of 48 hours. */
const spanNanos = 8n * hourNanos;
const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
/** The begin of a span. */
const startNanos = ((1_700_000_000n * 1_000_000_000n) / spanNanos) * spanNanos;
const shards = onePlacement.numShards;

/** A clock that shows what it is set to. */
class TestTime {
  nowNanos = startNanos + spanNanos + 4n * hourNanos;
  readonly env: Env = {
    ...realEnv,
    clock: { ...realEnv.clock, nowNanos: () => this.nowNanos },
  };
}

/** A row a minute of each series, from a time on. */
function rowsOf(seriesCount: number, fromNanos: bigint, minutes: number): TestRow[] {
  return Array.from({ length: seriesCount * minutes }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i % seriesCount}` },
    nanos: fromNanos + BigInt(Math.floor(i / seriesCount)) * minuteNanos,
    value: i % 97,
  }));
}

async function compact(database: Database) {
  const pace = new Pace(database.env.clock, () => 1);
  return compactDue(database, { pace, mayGoOn: () => true }, never);
}

/** Series in all four blocks of the span, one that is in the first block only, one in the last. */
async function flushedSpan(folder: string, time: TestTime): Promise<Database> {
  const { database } = await openDatabase(folder, { registry, env: time.env });
  await writeRows(database, rowsOf(20, startNanos, 480));
  const lone = (host: string, nanos: bigint): TestRow => ({
    series: { __name__: 'lone', host },
    nanos,
    value: 1,
  });
  await writeRows(database, [lone('first', startNanos), lone('last', startNanos + 7n * hourNanos)]);
  await database.flusher.flushAll(null, never);
  return database;
}

function dataFiles(folder: string): string[] {
  return readdirSync(join(folder, 'data'), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('-data.db'))
    .sort();
}

test('short blocks become one fileset with less bytes, and nothing else changes', async () => {
  const folder = temporaryFolder();
  const time = new TestTime();
  const database = await flushedSpan(folder, time);
  const before = await readAll(database);
  const { files } = database.namespaces.get('metrics')!;
  const bytesOf = (): number =>
    files.all(null).reduce((sum, { dataBytes, indexBytes }) => sum + dataBytes + indexBytes, 0);
  const bytesBefore = bytesOf();
  // The write window of the last block, and a block more, must have passed.
  time.nowNanos = startNanos + spanNanos + 2n * hourNanos;
  assert.equal((await compact(database)).written, 0);
  time.nowNanos += 2n * hourNanos;
  const report = await compact(database);
  assert.deepEqual([report.written, report.replaced], [shards, 4 * shards]);
  assert.ok(bytesOf() < 0.7 * bytesBefore, `${bytesOf()} of ${bytesBefore}`);
  assert.deepEqual(await readAll(database), before);
  assert.equal((await compact(database)).written, 0);
  await files.settled();
  assert.equal(dataFiles(folder).length, shards);
  await closeDatabases();
  rmSync(join(folder, 'commitlogs'), { recursive: true });
  const { database: again } = await openDatabase(folder, { registry, env: time.env });
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('a block of a span that gets its first fileset while others are written keeps its rows', async () => {
  const time = new TestTime();
  const { database } = await openDatabase(temporaryFolder(), { registry, env: time.env });
  await writeRows(database, rowsOf(20, startNanos, 240));
  await database.flusher.flushAll(null, never);
  let expected: unknown = null;
  const pace = new Pace(database.env.clock, () => 1);
  pace.rest = async () => {
    if (expected !== null) return;
    await writeRows(database, rowsOf(20, startNanos + 6n * hourNanos, 10));
    expected = await readAll(database);
    await database.flusher.flushAll(null, never);
  };
  time.nowNanos += 2n * hourNanos;
  await compactDue(database, { pace, mayGoOn: () => true }, never);
  assert.ok(expected !== null);
  assert.deepEqual(await readAll(database), expected);
});

test('late rows of any block are merged into the long fileset', async () => {
  const folder = temporaryFolder();
  const time = new TestTime();
  const database = await flushedSpan(folder, time);
  await compact(database);
  const half = 30_000_000_000n;
  await writeRows(database, rowsOf(3, startNanos + half, 480));
  const before = await readAll(database);
  assert.equal(before.get('__name__=cpu,host=h0')!.length, 960);
  await database.flusher.flushAll(null, never);
  assert.deepEqual(await readAll(database), before);
  const { files } = database.namespaces.get('metrics')!;
  await files.settled();
  assert.equal(dataFiles(folder).length, shards);
  assert.equal(database.store.sampleCount, 0);
  await closeDatabases();
  const { database: again } = await openDatabase(folder, { registry, env: time.env });
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('what the log holds once more does not change a long fileset', async () => {
  const folder = temporaryFolder();
  const time = new TestTime();
  const database = await flushedSpan(folder, time);
  assert.equal((await compact(database)).written, shards);
  const before = await readAll(database);
  await database.namespaces.get('metrics')!.files.settled();
  const files = dataFiles(folder);
  await closeDatabases();
  const { database: again } = await openDatabase(folder, { registry, env: time.env });
  assert.ok(again.store.sampleCount > 0, 'the log was replayed');
  const report = await again.flusher.flushAll(null, never);
  assert.equal(report.filesets, 0);
  assert.equal(again.store.sampleCount, 0);
  assert.deepEqual(dataFiles(folder), files);
  assert.deepEqual(await readAll(again), before);
  await closeDatabases();
});

test('a long fileset is streamed block by block', async () => {
  const time = new TestTime();
  const database = await flushedSpan(temporaryFolder(), time);
  await compact(database);
  const namespace = database.namespaces.get('metrics')!;
  const rowsOfBlock = new Map<bigint, number>();
  for (let shard = 0; shard < shards; shard += 1) {
    const parts = { store: database.store, disk: database.env.disk };
    let last = startNanos;
    const all = { isWanted: () => true, blocksMax: 0 };
    const work = Turns.of(realEnv.clock).begin(never);
    for await (const { bundle } of streamPages(parts, namespace, shard, all, work)) {
      for (const { firstNanos, lastNanos, rowCount } of chunkHeaders(bundle.chunkData)) {
        const start = namespace.blockStartOf(firstNanos);
        assert.equal(namespace.blockStartOf(lastNanos), start, 'a chunk lies in one block');
        assert.ok(start >= last, 'blocks ascend');
        last = start;
        rowsOfBlock.set(start, (rowsOfBlock.get(start) ?? 0) + rowCount);
      }
    }
  }
  const counts = [...rowsOfBlock].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count);
  assert.deepEqual(counts, [2401, 2400, 2400, 2401]);
  await closeDatabases();
});

test('rows go with their block, and the file and its series with the last one', async () => {
  const folder = temporaryFolder();
  const time = new TestTime();
  const database = await flushedSpan(folder, time);
  await compact(database);
  const oldestIsNow = (nanos: bigint): void => {
    time.nowNanos = nanos + 48n * hourNanos;
  };
  const check = async (of: Database): Promise<void> => {
    await tick(of);
    const read = await readAll(of);
    const rows = read.get('__name__=cpu,host=h0')!;
    assert.equal(rows[0]![0], startNanos + blockNanos);
    assert.equal(rows.length, 360);
    assert.equal(read.get('__name__=lone,host=first')?.length ?? 0, 0);
    assert.equal(read.get('__name__=lone,host=last')!.length, 1);
  };
  oldestIsNow(startNanos + blockNanos);
  await check(database);
  // A series of which only expired blocks are left keeps its slot, for the directory has it.
  const fresh = { __name__: 'new', host: 'x' };
  await writeRows(database, [{ series: fresh, nanos: time.nowNanos, value: 7 }]);
  assert.deepEqual((await readAll(database)).get('__name__=new,host=x'), [[time.nowNanos, 7]]);
  await closeDatabases();
  const { database: again } = await openDatabase(folder, { registry, env: time.env });
  await check(again);
  oldestIsNow(startNanos + spanNanos);
  await tick(again);
  assert.equal((await readAll(again)).get('__name__=cpu,host=h0'), undefined);
  await again.namespaces.get('metrics')!.files.settled();
  assert.equal(dataFiles(folder).length, 0);
  await closeDatabases();
});

test('a series that came late into one block of a long fileset stays as long as the file', async () => {
  const time = new TestTime();
  const database = await flushedSpan(temporaryFolder(), time);
  await compact(database);
  const late = { __name__: 'late', host: 'x' };
  await writeRows(database, [{ series: late, nanos: startNanos, value: 5 }]);
  await database.flusher.flushAll(null, never);
  // This read makes directories, which tell series by their slots.
  assert.equal((await readAll(database)).get('__name__=late,host=x')!.length, 1);
  const before = time.nowNanos;
  time.nowNanos = startNanos + blockNanos + 48n * hourNanos;
  await tick(database);
  await tick(database);
  const fresh = { __name__: 'new', host: 'x' };
  await writeRows(database, [{ series: fresh, nanos: time.nowNanos, value: 7 }]);
  // The clock steps back, and the first block is within retention again.
  time.nowNanos = before;
  await tick(database);
  assert.deepEqual((await readAll(database)).get('__name__=new,host=x'), [
    [startNanos + blockNanos + 48n * hourNanos, 7],
  ]);
});

test('filesets that a crash left beside the long one that stands for them are removed', async () => {
  const folder = temporaryFolder();
  const time = new TestTime();
  const database = await flushedSpan(folder, time);
  const before = await readAll(database);
  const copy = temporaryFolder();
  cpSync(join(folder, 'data'), copy, { recursive: true });
  await compact(database);
  await database.namespaces.get('metrics')!.files.settled();
  await closeDatabases();
  cpSync(copy, join(folder, 'data'), { recursive: true, force: false });
  assert.equal(dataFiles(folder).length, 5 * shards);
  const { database: again } = await openDatabase(folder, { registry, env: time.env });
  assert.deepEqual(await readAll(again), before);
  assert.equal(dataFiles(folder).length, shards);
  await closeDatabases();
});

test('damage of a long fileset names all of its blocks', async () => {
  const folder = temporaryFolder();
  const time = new TestTime();
  const database = await flushedSpan(folder, time);
  await compact(database);
  await database.namespaces.get('metrics')!.files.settled();
  await closeDatabases();
  // Of one shard the index, of another its info too: then it does not tell what it has.
  const [first, second] = dataFiles(folder).map((name) => join(folder, 'data', name));
  const flip = (path: string): void => {
    const bytes = readFileSync(path);
    bytes[bytes.length - 20]! ^= 4;
    writeFileSync(path, bytes);
  };
  flip(first!.replace('-data.', '-index.'));
  flip(second!.replace('-data.', '-index.'));
  writeFileSync(second!.replace('-data.', '-info.'), 'no JSON');
  const { report } = await openDatabase(folder, { registry, env: time.env });
  const blocks = [0n, 1n, 2n, 3n].map((number) => startNanos + number * blockNanos);
  assert.equal(report.corrupt.length, 2);
  for (const corrupt of report.corrupt) assert.deepEqual([...corrupt.blocks], blocks);
  await closeDatabases();
});

test('a flush into a long fileset puts no row of another block over one that memory has of it', async () => {
  const time = new TestTime();
  const database = await flushedSpan(temporaryFolder(), time);
  assert.equal((await compact(database)).written, shards);
  const series = { __name__: 'cpu', host: 'h0' };
  const rewritten = { series, nanos: startNanos + 3n * hourNanos, value: 1000 };
  await writeRows(database, [rewritten]);
  // A later row of a block before and of one after, which are flushed first.
  const others = [startNanos + 30_000_000_000n, startNanos + 7n * hourNanos + 30_000_000_000n];
  await writeRows(
    database,
    others.map((nanos) => ({ series, nanos, value: 2000 })),
  );
  const namespace = database.namespaces.get('metrics')!;
  const before = await readAll(database);
  const found = [...before.values()].flat().filter(([, value]) => value === 1000);
  assert.deepEqual(found, [[rewritten.nanos, 1000]]);
  for (const nanos of others) {
    const block = namespace.blockStartOf(nanos);
    const { truncations } = namespace;
    const pace = new Pace(time.env.clock, () => 1);
    const options = { truncations, pace, report: emptyFlushReport() };
    await flushBlock(database, namespace, block, options, never);
    assert.deepEqual(await readAll(database), before);
  }
  await database.flusher.flushAll(null, never);
  assert.deepEqual(await readAll(database), before);
  assert.equal((await compact(database)).written, 0);
});
