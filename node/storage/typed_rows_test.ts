/** Typed rows and start times on their way through a node: written, replayed, flushed, merged, deleted, compared. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { allTime } from '#cluster/metadata/deletions.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { readMixedRows } from '#engine/store/read/mixed_rows.ts';
import { realEnv } from '#lib/env/real.ts';
import { HybridClock } from '#lib/hybrid_clock.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { compactDue } from './flush/compaction.ts';
import { Pace } from './flush/pace.ts';
import type { Database } from './database.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  readAll,
  type TestRow,
  writeRows,
} from './database_testing.ts';
import { messageOf, typedColumns } from './typed_rows_testing.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-typed-'));
  folders.push(folder);
  return folder;
}

const second = 1_000_000_000n;
const block = 7200n * second;
const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
/** In a closed block. */
const middle = (realEnv.clock.nowNanos() / block) * block - block / 2n;
const host = (name: string) => ({ __name__: 'request', host: name });
const idOf = (name: string) => `__name__=request,host=${name}`;

/** Every second from `first` on, with values from `value` on. */
function rowsOf(name: string, count: number, more: Partial<TestRow> = {}): TestRow[] {
  const { nanos = middle, value = 1 } = more;
  return Array.from({ length: count }, (_, i) => ({
    isTyped: true,
    ...more,
    series: host(name),
    nanos: nanos + BigInt(i) * second,
    value: value + i,
  }));
}

const open = async (folder: string): Promise<Database> =>
  (await openDatabase(folder, { registry })).database;

/** Start times of the first series, by row. */
async function startsOf(database: Database): Promise<bigint[]> {
  const request = {
    namespace: 'metrics',
    placementVersion: 0,
    query: { kind: 'all' },
    shards: null,
    seriesLimit: 0,
    fetchData: true,
    startNanos: 0n,
    endNanos: 2n ** 62n,
  } as const;
  const { bundle } = await database.fetch(request, never);
  const { startNanos } = readMixedRows([bundle.chunkData], [0n, 2n ** 62n]);
  return [...startNanos];
}

/** What a start finds, from the log, from a snapshot, from files, and after the late rows of both kinds. */
test('typed rows and floats of one series outlive every way to the disk', async () => {
  const folder = temporaryFolder();
  let database = await open(folder);
  await writeRows(database, [...rowsOf('a', 300), ...rowsOf('b', 300, { isTyped: false })]);
  await writeRows(database, rowsOf('a', 100, { nanos: middle + 300n * second, isTyped: false }));
  const expected = await readAll(database);
  assert.equal(expected.get(idOf('a'))!.length, 400);
  const check = async (what: string) => {
    assert.deepEqual(await readAll(database), expected, what);
  };
  database = await open(folder);
  await check('replayed');
  await database.snapshot(1, never);
  database = await open(folder);
  await check('of a snapshot');
  await database.flush(null, never);
  await check('flushed');
  database = await open(folder);
  await check('of files');
  // Late rows of either kind, and some that replace others.
  const late = [
    ...rowsOf('a', 20, { nanos: middle - 20n * second, value: 500 }),
    ...rowsOf('a', 10, { nanos: middle, value: 700, isTyped: false }),
    ...rowsOf('a', 10, { nanos: middle + 300n * second, value: 800 }),
    ...rowsOf('c', 5),
  ];
  await realEnv.clock.sleep(3, never);
  await writeRows(database, late);
  const merged = await readAll(database);
  const values = merged.get(idOf('a'))!.map(([, value]) => value);
  assert.equal(values.length, 420);
  assert.deepEqual(values.slice(0, 2), [500, 501]);
  assert.deepEqual(values.slice(20, 22), [700, 701]);
  assert.deepEqual(values.slice(320, 322), [800, 801]);
  await database.flush(null, never);
  assert.deepEqual(await readAll(database), merged, 'merged with what is in the file');
  database = await open(folder);
  assert.deepEqual(await readAll(database), merged, 'read anew');
});

test('files of typed rows are brought together', async () => {
  const hours = 2n;
  const registryOfLong = registryOf([
    namespaceOf('metrics', {
      coldWritesEnabled: true,
      retentionOptions: {
        ...namespaceOf('metrics').options.retentionOptions,
        retentionPeriodNanos: 480n * 3600n * second,
      },
    }),
  ]);
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder, { registry: registryOfLong });
  const first = middle - 400n * 3600n * second;
  for (let i = 0n; i < 24n; i += 1n) {
    await writeRows(database, rowsOf('a', 50, { nanos: first + i * hours * 3600n * second }));
  }
  await database.flush(null, never);
  const before = await readAll(database);
  const pace = new Pace(realEnv.clock, () => 1);
  const { written } = await compactDue(database, { pace, mayGoOn: () => true }, never);
  assert.ok(written > 0);
  assert.deepEqual(await readAll(database), before);
});

test('a deletion takes typed rows of memory and of files, and what is written later stays', async () => {
  const folder = temporaryFolder();
  let database = await open(folder);
  await writeRows(database, [
    ...rowsOf('a', 200, { startNanos: middle - second }),
    ...rowsOf('b', 5),
  ]);
  await database.flush(null, never);
  await writeRows(database, rowsOf('a', 100, { nanos: middle + 200n * second, value: 201 }));
  const versions = new HybridClock(realEnv.clock);
  await realEnv.clock.sleep(3, never);
  const deletion = {
    sequence: 1,
    namespace: 'metrics',
    query: { kind: 'term', field: 'host', term: 'a' },
    ...allTime,
    startNanos: middle + 50n * second,
    endNanos: middle + 250n * second,
    version: versions.next(),
    createdNanos: realEnv.clock.nowNanos(),
    expiresNanos: realEnv.clock.nowNanos() + 3600n * second,
    selectors: [],
  } as const;
  await database.deletions.apply(deletion);
  const left = Array.from({ length: 300 }, (_, i) => i + 1).filter((v) => v <= 50 || v > 250);
  const valuesOf = async (): Promise<number[]> =>
    (await readAll(database)).get(idOf('a'))!.map(([, value]) => value);
  assert.deepEqual(await valuesOf(), left);
  database = await open(folder);
  assert.deepEqual(await valuesOf(), left);
  database.deletions.cleanSequence = deletion.sequence;
  await database.deletions.rewriteDue(never);
  assert.equal(database.deletions.cleanedSequence, deletion.sequence);
  assert.deepEqual(await valuesOf(), left, 'files written anew');
  await realEnv.clock.sleep(3, never);
  await writeRows(database, rowsOf('a', 1, { nanos: middle + 100n * second, value: 9000 }));
  await database.flush(null, never);
  assert.ok((await valuesOf()).includes(9000));
});

test('replicas with the same typed rows have one digest, wherever these lie', async () => {
  const databases = [await open(temporaryFolder()), await open(temporaryFolder())];
  const rows = [
    ...rowsOf('a', 150, { startNanos: 5n }),
    ...rowsOf('a', 50, { isTyped: false, nanos: middle + 150n * second }),
    ...rowsOf('b', 150),
  ];
  const rootsOf = async (): Promise<string[]> => {
    const roots: string[] = [];
    for (const database of databases) {
      const namespace = database.namespaces.get('metrics')!;
      for (let shard = 0; shard < 4; shard += 1) {
        const start = namespace.blockStartOf(middle);
        const digests = await database.digests.of(namespace, shard, start);
        roots.push(`${shard}: ${digests?.root().join() ?? 'none'}`);
      }
    }
    return roots;
  };
  const [a, b] = databases as [Database, Database];
  await writeRows(a, rows);
  await writeRows(b, rows.slice(100));
  await b.flush(null, never);
  let roots = await rootsOf();
  assert.notDeepEqual(roots.slice(0, 4), roots.slice(4));
  await writeRows(b, rows.slice(0, 100));
  // A second, for which the members of memory are kept.
  await realEnv.clock.sleep(1100, never);
  roots = await rootsOf();
  assert.deepEqual(roots.slice(0, 4), roots.slice(4));
});

test('start times of floats and typed rows come back, from the log and from files', async () => {
  const folder = temporaryFolder();
  let database = await open(folder);
  const rows = [0n, 7n, 7n, 9n, 0n].map((startNanos, i) => ({
    ...rowsOf('a', 1, { nanos: middle + BigInt(i) * second, isTyped: i > 2 })[0]!,
    startNanos,
  }));
  await writeRows(database, rows);
  const wanted = [0n, 7n, 7n, 9n, 0n];
  assert.deepEqual(await startsOf(database), wanted);
  database = await open(folder);
  assert.deepEqual(await startsOf(database), wanted);
  await database.flush(null, never);
  assert.deepEqual(await startsOf(database), wanted);
});

test('a row whose value is not canonical is refused alone, and makes no series', async () => {
  const database = await open(temporaryFolder());
  const builder = new BatchBuilder();
  builder.begin(new HybridClock(realEnv.clock).next());
  const slotOf = (name: string): number => {
    const tags = Object.entries(host(name)).map(([key, value]) => ({ name: key, value }));
    return builder.addSeries(encodeTags(tags), idSchemeCode.quoted, new Uint8Array(0));
  };
  const good = { slot: slotOf('good'), generation: 0, nanos: middle };
  const bad = { slot: slotOf('bad'), generation: 0, nanos: middle };
  const late = { slot: slotOf('late'), generation: 0, nanos: middle - 1000n * block };
  builder.setRows(
    1,
    Uint32Array.of(good.slot),
    Uint32Array.of(0),
    BigInt64Array.of(middle - second),
    1,
    Float64Array.of(4),
  );
  const message = messageOf(5);
  const rows = [
    { ...good, message },
    { ...bad, message: message.subarray(0, -1) },
    { ...late, message },
  ];
  builder.setTypedRows(typedColumns(rows));
  const { outcomes, references } = await database.write(
    {
      namespace: 'metrics',
      placementVersion: database.shards.version,
      referenceEpoch: database.referenceEpoch,
      batch: builder.finish(),
    },
    never,
  );
  const { written, badValue, tooFarPast } = rowOutcome;
  assert.deepEqual([...outcomes], [written, written, badValue, tooFarPast]);
  assert.deepEqual([...references.subarray(2)], [0, 0, 0, 0]);
  const found = await readAll(database);
  assert.deepEqual([...found.keys()], [idOf('good')]);
  assert.deepEqual(
    found.get(idOf('good'))!.map(([, value]) => value),
    [4, 5],
  );
});
