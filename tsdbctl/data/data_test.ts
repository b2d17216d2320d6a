import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import { NamespaceIndex } from '#node/index/namespace_index.ts';
import { indexFilePath, writeIndexFile } from '#node/persist/index_file/index_file.ts';
import { writeLedger } from '#node/persist/doubt_file.ts';
import { writeTombstones } from '#node/persist/tombstone_file.ts';
import {
  adopt,
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  placementOf,
  writeRows,
} from '#node/storage/database_testing.ts';
import { flushNode, repairNode } from './data.ts';
import { readFolder } from './read.ts';
import { verifyFolder } from './verify.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-ctl-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

const blockNanos = 7_200_000_000_000n;
const end = (realEnv.clock.nowNanos() / blockNanos) * blockNanos - blockNanos / 2n;
const rowsOf = (value: number) =>
  Array.from({ length: 60 }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i % 6}` },
    nanos: end - BigInt(i) * 1_000_000_000n,
    value,
  }));

test('a data folder is verified and read offline, and damage is found by name', async () => {
  const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
  const { database } = await openDatabase(folder, { registry });
  await writeRows(database, rowsOf(1.5));
  await database.flush(null, never);
  await writeRows(database, rowsOf(2));
  await database.snapshot(1, never);
  await writeRows(database, rowsOf(3));
  await closeDatabases();
  await writeTombstones(realEnv.disk, folder, { applied: 3, tombstones: [] });
  await writeLedger(realEnv.disk, folder, { sequence: 1, doubts: [] });

  const { damages, lines, text } = await verified();
  assert.equal(damages, 0);
  assert.match(
    text,
    /^namespace metrics: \d filesets of 1 block in \d shards, 6 entries of series, 60 rows$/m,
  );
  assert.match(text, /^ {2}data: times and values +\d+ +\d+\.\d %$/m);
  assert.match(text, /^snapshot .*snapshot-\d+\.db: 6 series, 60 rows$/m);
  assert.match(text, /^commit log .*commitlog-\d+\.db: 6 series, 60 rows in 1 batch$/m);
  assert.match(text, /^ {2}batches: values +\d+/m);
  assert.match(lines.at(-1)!, /^\d+ files, \d+ bytes: all checksums are right$/);
  assertAddsUp(lines);

  const read: string[] = [];
  const options = { namespace: 'metrics', match: '"h3"', rows: true, limit: 10 };
  await readFolder(realEnv, folder, options, (line) => read.push(line));
  // The rows of the fileset, those of the snapshot, and those of the log.
  assert.equal(read.length, 33);
  const series = '\\{__name__="cpu",host="h3"\\}: 10 rows from \\S+Z to \\S+Z';
  assert.match(read[0]!, new RegExp(`^metrics \\S+Z ${series}, \\d+ bytes$`));
  assert.match(read[1]!, /^ {2}\d+ 1\.5$/);
  assert.match(read[11]!, new RegExp(`^metrics snapshots/snapshot-\\d+.db ${series}`));
  assert.match(read[12]!, /^ {2}\d+ 2$/);
  assert.match(read[22]!, new RegExp(`^metrics commitlogs/commitlog-\\d+.db ${series}$`));
  assert.match(read[23]!, /^ {2}\d+ 3$/);
  const few: string[] = [];
  const twoSeries = { namespace: null, match: '', rows: false, limit: 2 };
  await readFolder(realEnv, folder, twoSeries, (line) => few.push(line));
  assert.equal(few.length, 3);
  assert.match(few[2]!, /^… more than 2/);
});

/** What `verifyFolder` says of the folder. */
async function verified(): Promise<{ damages: number; lines: string[]; text: string }> {
  const lines: string[] = [];
  const damages = await verifyFolder(realEnv, folder, (line) => lines.push(line));
  assert.equal(lines.filter((line) => line.startsWith('damaged: ')).length, damages);
  return { damages, lines, text: lines.join('\n') };
}

/** The lines of each table are together as long as its files. */
function assertAddsUp(lines: readonly string[]): void {
  let sum = 0;
  let tables = 0;
  for (const line of lines) {
    const row = /^ {2}(\S.*?) +(\d+)(?: +[\d.]+ %)?$/.exec(line);
    if (row === null) {
      sum = 0;
    } else if (row[1] === 'all') {
      assert.equal(sum, Number(row[2]), line);
      tables += 1;
    } else sum += Number(row[2]);
  }
  assert.ok(tables >= 3);
}

/** Changes a file for the time of some work. */
async function withDamage(
  path: string,
  change: (bytes: Buffer) => Buffer | null,
  work: () => Promise<void>,
): Promise<void> {
  const whole = readFileSync(path);
  const changed = change(Buffer.from(whole));
  if (changed === null) rmSync(path);
  else writeFileSync(path, changed);
  try {
    await work();
  } finally {
    writeFileSync(path, whole);
  }
}

const flipped =
  (at: number) =>
  (bytes: Buffer): Buffer => {
    bytes[at < 0 ? bytes.length + at : at]! ^= 1;
    return bytes;
  };

function fileWith(end: string): string {
  const names = readdirSync(folder, { recursive: true }).map(String);
  return join(folder, names.find((name) => name.endsWith(end))!);
}

test('each damage is found, named, and costs nothing beside it', async () => {
  const logName = readdirSync(join(folder, 'commitlogs')).at(-1)!;
  const log = join(folder, 'commitlogs', logName);
  const snapshot = join(folder, 'snapshots', readdirSync(join(folder, 'snapshots'))[0]!);
  const cases: [string, (bytes: Buffer) => Buffer | null, RegExp][] = [
    [
      fileWith('-data.db'),
      flipped(20),
      /-data\.db: checksum of series \{.*\} is wrong: bytes \d+ to \d+/,
    ],
    [fileWith('-data.db'), flipped(2), /-data\.db/],
    [fileWith('-data.db'), (bytes) => bytes.subarray(0, -1), /-data\.db/],
    [fileWith('-index.db'), flipped(40), /-index\.db/],
    [fileWith('-index.db'), () => null, /file is missing.*-index\.db/],
    [fileWith('-info.db'), flipped(9), /-info\.db/],
    [fileWith('-digest.db'), flipped(9), /-digest\.db/],
    [fileWith('-checkpoint.db'), flipped(18), /-digest\.db|-checkpoint\.db/],
    [log, flipped(70), /corrupt records: bytes \d+ to \d+|torn/],
    [log, flipped(3), /corrupt header: bytes 0 to 64/],
    [snapshot, flipped(100), /corrupt records: bytes \d+ to \d+/],
    [snapshot, (bytes) => bytes.subarray(0, -32), /its end is missing/],
    [join(folder, 'tombstones.bin'), flipped(-2), /tombstones\.bin: the checksum is wrong/],
    [join(folder, 'doubts-1.json'), flipped(-4), /doubts-1\.json: the checksum is wrong/],
  ];
  for (const [path, change, reason] of cases) {
    await withDamage(path, change, async () => {
      const { damages, lines, text } = await verified();
      assert.ok(damages > 0, `${path} ${reason}`);
      assert.match(text, new RegExp(`^damaged: .*(${reason.source})`, 'm'));
      assert.match(lines.at(-1)!, / damages?$/);
      assertAddsUp(lines);
      // Reading goes on after it.
      const read: string[] = [];
      const options = { namespace: null, match: '', rows: false, limit: 100 };
      await readFolder(realEnv, folder, options, (line) => read.push(line));
      assert.ok(read.filter((line) => line.includes(': 10 rows from ')).length >= 6);
    });
  }
  assert.equal((await verified()).damages, 0);
});

test('a torn tail and an unfinished fileset are no damage: a power loss leaves them', async () => {
  const log = join(folder, 'commitlogs', readdirSync(join(folder, 'commitlogs')).at(-1)!);
  await withDamage(
    log,
    (bytes) => bytes.subarray(0, -20),
    async () => {
      const { damages, lines, text } = await verified();
      assert.equal(damages, 0);
      assert.match(text, /^ {2}torn tail +\d+/m);
      assertAddsUp(lines);
    },
  );
  await withDamage(
    fileWith('-checkpoint.db'),
    () => null,
    async () => {
      const { damages, lines, text } = await verified();
      assert.equal(damages, 0);
      assert.match(text, /^ {2}unfinished, removed by the next start: .*fileset-\d+-\d+$/m);
      assertAddsUp(lines);
    },
  );
});

test('a saved index is verified section by section, and other files are listed', async () => {
  const index = new NamespaceIndex({ random: realEnv.random, blockSizeNanos: blockNanos });
  for (let i = 0; i < 500; i += 1) {
    const tags = encodeTags([{ name: 'host', value: `h${i}` }]);
    index.insert(i, tags, 1, new Uint8Array(0), 0);
    index.markLiveOne(i, 0n);
  }
  const path = indexFilePath(folder, 'metrics');
  await writeIndexFile(realEnv.disk, path, index, new Uint8Array(8), never);
  writeFileSync(join(folder, 'notes.txt'), 'x');
  writeFileSync(`${fileWith('-info.db')}.corrupt`, 'x');
  const { damages, lines, text } = await verified();
  assert.equal(damages, 0);
  assert.match(text, /^saved index .*index\.db$/m);
  assert.match(text, /^ {2}terms +\d+/m);
  assert.match(text, /^of no known kind:\n {2}notes\.txt +1$/m);
  assert.match(text, /^set aside for damage before:\n {2}data\/.*\.corrupt 1$/m);
  assertAddsUp(lines);
  for (const at of [5, 200, -5]) {
    await withDamage(path, flipped(at), async () => {
      const found = await verified();
      assert.equal(found.damages, 1, String(at));
      assert.match(found.text, /^damaged: .*index\.db/m);
      assertAddsUp(found.lines);
    });
  }
});

test('parked data are verified as those that are in use, and it is told what they are', async () => {
  const parked = join(folder, 'with-parked');
  const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
  const { database } = await openDatabase(parked, { registry });
  await writeRows(database, rowsOf(1));
  const states = { 0: 'AVAILABLE', 1: 'AVAILABLE', 2: 'AVAILABLE', 3: 'AVAILABLE' } as const;
  await adopt(database, placementOf({ b: states }, { numShards: 4 }), 2, registry);
  await closeDatabases();
  const verify = async (): Promise<{ damages: number; text: string }> => {
    const lines: string[] = [];
    const damages = await verifyFolder(realEnv, parked, (line) => lines.push(line));
    return { damages, text: lines.join('\n') };
  };
  const { damages, text } = await verify();
  assert.equal(damages, 0);
  const filesets = String.raw`\d filesets in \d shards, 60 rows, \d{4} bytes`;
  const since = String.raw`\n {2}since \S+Z: the placement does not name this instance$`;
  assert.match(text, new RegExp(`^parked 1: namespace metrics, ${filesets}${since}`, 'm'));
  assert.doesNotMatch(text, /of no known kind/);
  const shard = readdirSync(join(parked, 'parked/1/data'))[0]!;
  const files = readdirSync(join(parked, 'parked/1/data', shard));
  const data = files.find((name) => name.endsWith('-data.db'))!;
  for (const path of [`parked/1/data/${shard}/${data}`, 'parked/1/parked.json', 'held.json']) {
    await withDamage(join(parked, path), flipped(-5), async () => {
      const found = await verify();
      assert.equal(found.damages, 1, path);
      assert.match(found.text, /^damaged: .*(parked\/1|held\.json)/m);
    });
  }
});

test('a flush names the URL and the option when no node answers, and a URL that is none', async () => {
  const down = async () => {
    throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') });
  };
  await assert.rejects(flushNode(down, 'http://a:9002', null), {
    message:
      'cannot flush: no node answers at http://a:9002 (--node names another one): connect ECONNREFUSED',
  });
  for (const node of ['localhost:9002', 'a']) {
    await assert.rejects(flushNode(down, node, null), {
      message: `--node is not a URL such as http://127.0.0.1:9002: ${node}`,
    });
  }
});

test('a flush names the node that refuses it, with its words', async () => {
  const asked: string[] = [];
  const post = (status: number, text: string) => async (url: string) => {
    asked.push(url);
    return { status, text };
  };
  assert.equal(await flushNode(post(200, '{"blocks":1}\n'), 'http://a:9002', null), '{"blocks":1}');
  await assert.rejects(flushNode(post(404, 'no such namespace'), 'http://a:9002', 'x y'), {
    message: 'cannot flush: a:9002 answers 404: no such namespace',
  });
  assert.deepEqual(asked, ['http://a:9002/flush', 'http://a:9002/flush?namespace=x+y']);
});

test('a repair that the node refuses is told with its words', async () => {
  const asked: string[] = [];
  const get = (status: number, text: string) => (url: string) => {
    asked.push(url);
    return Promise.resolve({ status, text });
  };
  await repairNode(get(200, '{}\n'), 'http://a:9002');
  const refused = get(400, 'cannot repair: db.repair.enabled is false');
  await assert.rejects(repairNode(refused, 'http://a:9002'), {
    message: 'cannot repair: a:9002 answers 400: cannot repair: db.repair.enabled is false',
  });
  assert.deepEqual(asked, ['http://a:9002/repair', 'http://a:9002/repair']);
});
