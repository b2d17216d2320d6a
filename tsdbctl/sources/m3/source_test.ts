import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Disk } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { realEnv } from '#lib/env/real.ts';
import { takeParts } from '../../import/taking.ts';
import { adler32 } from './bytes/adler32.ts';
import {
  blockNanos,
  diskOf,
  encodedTags,
  fileOf,
  type Files,
  fixtureFiles,
  fixtureLog,
  fixtureSeries,
  fixtures,
  logName,
  type MadeEntry,
  madeFileset,
  readSource,
} from './folder_testing.ts';
import { sourceUpToDamage } from '../up_to_damage_testing.ts';
import { m3Source, type M3Options } from './source.ts';

const startNanos = 1_700_006_400_000_000_000n;

/** A row of 5 at the beginning of the block, in a stream. */
const stream = rowAt(startNanos);

function rowAt(nanos: bigint): Uint8Array {
  const digits = [
    BigInt.asUintN(64, nanos).toString(2).padStart(64, '0'),
    '0' + '011000010' + '01101' + '10000000000',
  ].join('');
  const bytes = digits.padEnd(Math.ceil(digits.length / 8) * 8, '0').match(/.{8}/g)!;
  return Uint8Array.from(bytes, (each) => Number.parseInt(each, 2));
}

const entry = (id: string, more: Partial<MadeEntry> = {}): MadeEntry => ({ id, stream, ...more });
const name = (volume: number, shard = 0, kind = 'data') =>
  `${kind}/default/${shard}/fileset-${startNanos}-${volume}`;
const merged = (...all: readonly Files[]): Files => new Map(all.flatMap((files) => [...files]));
const sourceOf = (files: Files, options: Partial<M3Options> = {}) =>
  m3Source('m3', { namespace: 'default', ...options }, diskOf(files));
const read = (files: Files, options: Partial<M3Options> = {}) =>
  readSource(sourceOf(files, options));
const withoutLogs = 'm3: there are no commit logs, which have what came since the last snapshots';
const idsOf = async (files: Files, options: Partial<M3Options> = {}) =>
  (await read(files, options)).map(({ part, tags }) => `${part} ${JSON.stringify(tags)}`);

test('filesets, snapshots and commit logs that M3 wrote are what it wrote', async () => {
  const source = m3Source(`${fixtures}/node`, { namespace: 'default' }, realEnv.disk);
  const expected = [...fixtureLog('default'), ...fixtureSeries()];
  assert.equal(expected.length, 24);
  assert.deepEqual(await readSource(source), expected);
  assert.deepEqual(source.notes, []);
  assert.deepEqual(
    (await source.parts()).map((part) => fileOf(part.name)),
    [
      'data/default/3/fileset-1699999200000000000-1',
      'data/default/4/fileset-1699999200000000000',
      'data/default/4/fileset-1700006400000000000-0',
      'snapshots/default/3/fileset-1700006400000000000-2',
      logName,
    ],
  );
});

test('a namespace that has rows in the commit log alone is read, with a note', async () => {
  const source = sourceOf(fixtureFiles(), { namespace: 'other' });
  assert.deepEqual(await readSource(source), fixtureLog('other'));
  assert.deepEqual(source.notes, [
    'm3: there are no filesets of M3 of the namespace "other"; namespaces that are there: default',
  ]);
});

test('a folder without anything of the namespace is refused', async () => {
  const files = madeFileset(name(0), startNanos, [entry('{a="b"}')]);
  await assert.rejects(sourceOf(files, { namespace: 'x' }).parts(), {
    message:
      'cannot read m3: there are no filesets of M3 of the namespace "x"; namespaces that are there: default',
  });
  await assert.rejects(sourceOf(new Map()).parts(), /namespaces that are there: none$/);
});

test('the highest volume that is complete is read, and a name without a volume is the lowest', async () => {
  const made = (file: string, id: string) => madeFileset(file, startNanos, [entry(id)]);
  const old = made(`data/default/0/fileset-${startNanos}`, '{a="old"}');
  const files = merged(old, made(name(0), '{a="0"}'), made(name(10), '{a="10"}'));
  for (const [path, bytes] of made(name(11), '{a="11"}')) {
    files.set(path, path.endsWith('checkpoint.db') ? bytes.subarray(1) : bytes);
  }
  assert.deepEqual(await idsOf(files), [`${name(10)} [["a","10"]]`]);
  for (const path of [...files.keys()]) if (path.includes('-10-')) files.delete(path);
  assert.deepEqual(await idsOf(files), [`${name(0)} [["a","0"]]`]);
  assert.deepEqual(await idsOf(old), [`data/default/0/fileset-${startNanos} [["a","old"]]`]);
});

test('filesets that are not complete are told, others of the folder are not looked at', async () => {
  const files = madeFileset(name(0), startNanos, [entry('{a="b"}')]);
  files.delete(`m3/${name(0)}-checkpoint.db`);
  files.set(`m3/data/default/0/notes.txt`, new Uint8Array(4));
  files.set(`m3/data/default/lost/fileset-1-0-checkpoint.db`, new Uint8Array(4));
  const source = sourceOf(files);
  assert.deepEqual(await source.parts(), []);
  assert.deepEqual(source.notes, [
    withoutLogs,
    '1 filesets in default were not written to their ends',
  ]);
  assert.equal(source.unfinished, 1);
  const before = sourceOf(files, { range: { startNanos: 0n, endNanos: startNanos } });
  await before.parts();
  assert.equal(before.unfinished, 0, 'it is of a block that is not asked for');
});

test('a fileset that is written to its end meanwhile is a part then, and not told any more', async () => {
  const files = madeFileset(name(0), startNanos, [entry('{a="b"}')]);
  const path = `m3/${name(0)}-checkpoint.db`;
  const checkpoint = files.get(path)!;
  files.delete(path);
  const source = sourceOf(files);
  await source.parts();
  files.set(path, checkpoint);
  assert.equal((await source.parts()).length, 1);
  assert.deepEqual([source.unfinished, source.notes], [0, [withoutLogs]]);
});

test('files of one name are parts of other names where their rows are others, as those of two replicas', async () => {
  const namesOf = async (files: Files) => (await sourceOf(files).parts()).map((part) => part.name);
  const later = rowAt(startNanos + 1_000_000_000n);
  assert.equal(later.length, stream.length);
  const made = (...entries: readonly MadeEntry[]) => madeFileset(name(0), startNanos, entries);
  const all = [
    ...(await namesOf(made(entry('{a="b"}')))),
    ...(await namesOf(made(entry('{a="b"}', { stream: later })))),
    ...(await namesOf(made(entry('{a="c"}')))),
  ];
  assert.equal(new Set(all).size, 3);
  assert.deepEqual(all.map(fileOf), [name(0), name(0), name(0)]);
  assert.deepEqual(await namesOf(made(entry('{a="b"}'))), all.slice(0, 1));
});

test('parts come by their blocks, flushed ones first, and tell their times', async () => {
  const later = startNanos + blockNanos;
  const files = merged(
    madeFileset(`data/default/7/fileset-${later}-0`, later, [
      entry('{a="b"}', { stream: rowAt(later) }),
    ]),
    madeFileset(name(0, 10), startNanos, [entry('{a="b"}')]),
    madeFileset(name(0, 9), startNanos, [entry('{a="b"}')]),
    madeFileset(name(3, 1, 'snapshots'), startNanos, [entry('{a="b"}')]),
  );
  const parts = await sourceOf(files).parts();
  assert.deepEqual(
    parts.map((part) => [fileOf(part.name), part.startNanos, part.endNanos - part.startNanos]),
    [
      [name(0, 9), startNanos, blockNanos],
      [name(0, 10), startNanos, blockNanos],
      [name(3, 1, 'snapshots'), startNanos, blockNanos],
      [`data/default/7/fileset-${later}-0`, later, blockNanos],
    ],
  );
  assert.ok(parts.every(({ bytes }) => bytes > 20));
  assert.deepEqual(
    parts.map(({ contents }) => contents[0]!.replace(/^\d+\//, '')),
    [startNanos, startNanos, startNanos, later].map(String),
  );
  const range = { startNanos: later, endNanos: later + 1n };
  assert.deepEqual(await idsOf(files, { range }), [`${fileOf(parts[3]!.name)} [["a","b"]]`]);
  const after = { startNanos: startNanos + 1n, endNanos: later };
  assert.equal((await sourceOf(files, { range: after }).parts()).length, 3);
  assert.deepEqual(await idsOf(files, { range: after }), []);
});

test('a fileset that lacks a file is gone, or damaged when it lacks it again', async () => {
  const files = merged(
    madeFileset(name(0, 1), startNanos, [entry('{a="b"}')]),
    madeFileset(name(0, 2), startNanos, [entry('{a="c"}')]),
    madeFileset(name(0, 3), startNanos, [entry('{a="d"}')]),
  );
  for (const [shard, file] of [
    [1, 'data'],
    [2, 'info'],
  ] as const) {
    const [path] = [...files].find(([each]) => each.includes(`${name(0, shard)}-${file}`))!;
    files.delete(path);
  }
  const source = sourceOf(files);
  await assert.rejects(source.parts(), { code: 'NOT_FOUND' });
  const lines: string[] = [];
  const found = await readSource(sourceUpToDamage(source, (line) => lines.push(line)));
  assert.equal(found.length, 1);
  assert.match(lines.join('\n'), /shard|default\/1.*-data\.db: file is missing/s);
  assert.match(lines.join('\n'), /default\/2.*-info\.db: file is missing/s);
});

test('a shard of which a fileset is replaced while it is listed is listed again, and no other one', async () => {
  const files = merged(
    madeFileset(name(0, 1), startNanos, [entry('{a="b"}')]),
    madeFileset(name(0, 2), startNanos, [entry('{a="c"}')]),
  );
  const disk = diskOf(files);
  const listed: string[] = [];
  let isReplaced = false;
  const racing: Disk = {
    ...disk,
    list(path) {
      listed.push(path);
      return disk.list(path);
    },
    open(path, mode) {
      if (!isReplaced && path.includes(`${name(0, 1)}-`)) {
        isReplaced = true;
        const former = [...files.keys()].filter((each) => each.includes(`${name(0, 1)}-`));
        for (const each of former) files.delete(each);
        const newer = madeFileset(name(1, 1), startNanos, [entry('{a="b"}')]);
        for (const [each, bytes] of newer) files.set(each, bytes);
      }
      return disk.open(path, mode);
    },
  };
  const parts = await m3Source('m3', { namespace: 'default' }, racing).parts();
  assert.deepEqual(
    parts.map((part) => fileOf(part.name)),
    [name(1, 1), name(0, 2)],
  );
  const listsOf = (shard: number) =>
    listed.filter((path) => path === `m3/data/default/${shard}`).length;
  assert.deepEqual([listsOf(1), listsOf(2)], [2, 1]);
});

test('a flushed block that is gone is in another volume of it, and in no snapshot', async () => {
  const flushed = madeFileset(name(0), startNanos, [entry('{a="b"}')]);
  const snapshot = madeFileset(name(3, 0, 'snapshots'), startNanos, [entry('{a="c"}')]);
  const later = madeFileset(name(1), startNanos, [entry('{a="b"}'), entry('{a="c"}')]);
  const goneFrom = async (files: Files, now: Files) => {
    const [part] = await sourceOf(files).parts();
    const waiting = new Map([[part!.name, part!.contents]]);
    const { signal } = new AbortController();
    const steps = { isDone: () => false, take: async () => true, waiting, signal };
    const { replaced, lost } = await takeParts(sourceOf(now), steps);
    return [replaced.map(fileOf), lost.map(fileOf)];
  };
  assert.deepEqual(await goneFrom(flushed, later), [[name(0)], []]);
  assert.deepEqual(await goneFrom(flushed, snapshot), [[], [name(0)]]);
  const [path] = [...flushed.keys()].filter((each) => each.endsWith('-digest.db'));
  const damaged = new Map(flushed).set(path!, new Uint8Array(20));
  assert.deepEqual(await goneFrom(damaged, snapshot), [[], [`${name(0)},`]]);
  const newer = madeFileset(name(4, 0, 'snapshots'), startNanos, [entry('{a="c"}')]);
  for (const now of [flushed, newer]) {
    assert.deepEqual(await goneFrom(snapshot, now), [[name(3, 0, 'snapshots')], []]);
  }
});

test('what was not written to its end counts where there is no whole one of its block, within the range', async () => {
  const unfinished = (path: string): Files => new Map([[`m3/${path}-data.db`, new Uint8Array(1)]]);
  const files = merged(
    madeFileset(name(0, 1), startNanos, [entry('{a="b"}')]),
    unfinished(name(7, 1, 'snapshots')),
    unfinished(name(7, 2, 'snapshots')),
  );
  const countIn = async (range?: M3Options['range']): Promise<number> => {
    const source = sourceOf(files, range === undefined ? {} : { range });
    await source.parts();
    return source.unfinished;
  };
  assert.equal(await countIn(), 1);
  assert.equal(await countIn({ startNanos: startNanos + 1n, endNanos: startNanos + 2n }), 1);
  const after = startNanos + blockNanos;
  assert.equal(await countIn({ startNanos: after, endNanos: after + 1n }), 0);
});

test('a fileset of which it cannot be read what it has leaves the others to be read', async () => {
  const files = merged(
    madeFileset(name(0, 1), startNanos, [entry('{a="b"}')]),
    madeFileset(name(0, 2), startNanos, [entry('{a="c"}')]),
  );
  const [path, bytes] = [...files].find(([each]) => each.includes(`${name(0, 1)}-digest`))!;
  const damaged = new Map(files).set(path, bytes.with(0, bytes[0]! ^ 1));
  await assert.rejects(readSource(sourceOf(damaged)), /cannot read .*-digest\.db: /);
  const lines: string[] = [];
  const found = await readSource(sourceUpToDamage(sourceOf(damaged), (line) => lines.push(line)));
  assert.equal(found.length, 1);
  assert.match(
    lines.join('\n'),
    /, damaged is left from its damage on: cannot read .*-digest\.db: /,
  );
  const before = { startNanos: startNanos - 10n, endNanos: startNanos };
  assert.deepEqual(await sourceOf(damaged, { range: before }).parts(), []);
});

test('series that were there before are passed over', async () => {
  const files = fixtureFiles();
  const [part] = await sourceOf(files).parts();
  const tagsFrom = async (skip: number) => {
    const tags = [];
    for await (const series of part!.series(skip)) tags.push(series.tags);
    return tags;
  };
  const all = await tagsFrom(0);
  assert.ok(all.length > 5);
  assert.deepEqual(await tagsFrom(2), all.slice(2));
  assert.deepEqual(await tagsFrom(all.length), []);
});

test('tags are those beside the ID, or of the ID, or there are none', async () => {
  const files = madeFileset(name(0), startNanos, [
    entry('any', { tags: encodedTags({ __g0__: 'x', job: 'y' }) }),
    entry('servers.cpu'),
    entry('{a="b"}'),
    entry('plain'),
    entry('{a="b"', {}),
  ]);
  const source = sourceOf(files);
  assert.deepEqual(
    (await readSource(source)).map(({ tags }) => Object.fromEntries(tags)),
    [{ __g0__: 'servers', __g1__: 'cpu' }, { __g0__: 'x', job: 'y' }, { a: 'b' }],
  );
  await readSource(source);
  assert.equal((await source.parts())[0]!.untagged!(), 2);
  assert.deepEqual(source.notes, [
    withoutLogs,
    `2 series have no tags that can be read and are left out, in 1 parts, the first in ${name(0)}: "plain"`,
  ]);
});

test('a namespace of protobuf messages is refused with the reason', async () => {
  const files = madeFileset(name(0), startNanos, [
    entry('{a="b"}', { stream: Uint8Array.of(1, 4, 0, 0) }),
  ]);
  await assert.rejects(read(files), {
    code: 'BAD_REQUEST',
    message: `cannot read m3/${name(0)}-data.db: namespace "default" has protobuf messages for values, which are no numbers`,
  });
});

test('rows outside of their block, and streams outside of their file, are refused', async () => {
  const one = (more: Partial<MadeEntry>, count = 1) =>
    read(madeFileset(name(0), startNanos, [entry('{a="b"}', more)], count));
  const before = rowAt(startNanos - 1_000_000_000n);
  await assert.rejects(one({ stream: before }), /data\.db: rows are outside of the block/);
  await assert.rejects(one({ offset: 1 }), /data\.db: stream is behind the end of the file/);
  await assert.rejects(one({ offset: 2 ** 50 }), /data\.db: stream is behind the end of the file/);
  await assert.rejects(one({ offset: -1 }), /index\.db: place of a stream is negative/);
  await assert.rejects(one({}, 2), /index\.db: file ends within the entry 2 of 2/);
  await assert.rejects(one({}, 0), /index\.db: file has more than 0 entries/);
  await assert.rejects(one({}, 2 ** 40), /index\.db: file ends within the entry 2 of/);
});

test('streams are read in whatever order they are, far apart and more than are held', async () => {
  // Of 5000 streams, each 6 KB after the one before, in the other order.
  const count = 5000;
  const gap = 6000;
  const made = Array.from({ length: count }, (_, at) =>
    entry(`{a="${at}"}`, { offset: (count - 1 - at) * gap }),
  );
  const files = madeFileset(name(0), startNanos, made);
  const data = new Uint8Array(count * gap);
  for (let at = 0; at < count; at += 1) data.set(stream, at * gap);
  const whole = withData(files, data);
  const series = await read(whole);
  assert.equal(series.length, count);
  assert.ok(series.every(({ times }) => times.length === 1 && times[0] === String(startNanos)));
});

/** The same with another data file. */
function withData(files: Files, data: Uint8Array): Files {
  const other = madeFileset(name(0), startNanos, [entry('x', { stream: data })]);
  const sums = (from: Files) =>
    new Uint32Array(from.get(`m3/${name(0)}-digest.db`)!.slice().buffer);
  const digests = sums(files).with(4, sums(other)[4]!);
  const digest = new Uint8Array(digests.buffer);
  const withDigest = new Map([...files, [`m3/${name(0)}-data.db`, data]]);
  withDigest.set(`m3/${name(0)}-digest.db`, digest);
  withDigest.set(`m3/${name(0)}-checkpoint.db`, checkpointOf(digest));
  return withDigest;
}

function checkpointOf(digest: Uint8Array): Uint8Array {
  return new Uint8Array(Uint32Array.of(adler32(digest)).buffer);
}

const isUnread = (path: string) => /-(summaries|bloomfilter)\.db$/.test(path);

test('each byte of a fileset that is another, and each file that is cut, is an error naming it', async () => {
  const all = fixtureFiles();
  const prefix = 'm3/data/default/3/fileset-1699999200000000000-1-';
  const files = new Map([...all].filter(([path]) => path.startsWith(prefix)));
  assert.equal(files.size, 7);
  const good = await read(files);
  const check = async (path: string, bytes: Uint8Array | null) => {
    const damaged = new Map(files);
    if (bytes === null) damaged.delete(path);
    else damaged.set(path, bytes);
    const source = sourceOf(damaged);
    try {
      const got = await readSource(source);
      // Without a whole checkpoint it is no fileset.
      if (path.endsWith('checkpoint.db') && got.length === 0) assert.equal(source.unfinished, 1);
      else assert.deepEqual([isUnread(path), got], [true, good], path);
    } catch (error) {
      assert.ok(error instanceof TsdbError, String(error));
      assert.equal(error.code, bytes === null ? 'NOT_FOUND' : 'BAD_REQUEST');
      const suspects = path.endsWith('checkpoint.db') ? `${prefix}digest.db` : path;
      assert.ok(error.message.startsWith(`cannot read ${suspects}: `), error.message);
    }
  };
  for (const [path, bytes] of files) {
    for (let at = 0; at < bytes.length; at += 1) {
      await check(path, bytes.with(at, bytes[at]! ^ (1 << (at % 8))));
      await check(path, bytes.subarray(0, at));
    }
    await check(path, Uint8Array.from([...bytes, 0]));
    await check(path, null);
  }
});

test('without checksums damage of index and data is still an error, or other rows are none', async () => {
  const all = fixtureFiles();
  const prefix = 'm3/data/default/4/fileset-1699999200000000000-';
  const files = new Map([...all].filter(([path]) => path.startsWith(prefix)));
  for (const [file, place] of [
    ['index', 1],
    ['info', 0],
  ] as const) {
    const bytes = files.get(`${prefix}${file}.db`)!;
    for (let at = 0; at < bytes.length; at += 1) {
      for (const bit of [1, 16, 128]) {
        const damaged = new Map(files);
        const other = bytes.with(at, bytes[at]! ^ bit);
        const old = files.get(`${prefix}digest.db`)!.slice();
        const digest = new Uint8Array(
          new Uint32Array(old.buffer).with(place, adler32(other)).buffer,
        );
        damaged.set(`${prefix}${file}.db`, other);
        damaged.set(`${prefix}digest.db`, digest);
        damaged.set(`${prefix}checkpoint.db`, checkpointOf(digest));
        // Series of other names are what nothing but the checksum tells; nothing else may be thrown.
        await read(damaged).catch((error: unknown) => {
          assert.ok(error instanceof TsdbError, String(error));
        });
      }
    }
  }
});

test('a folder that is a link to what is not there is no empty one, and commit logs that are not there are a note', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-m3-'));
  const partsOf = () => m3Source(folder, { namespace: 'default' }, realEnv.disk).parts();
  try {
    for (const name of ['commitlogs', 'snapshots', 'data', 'data/default', 'data/default/3']) {
      cpSync(`${fixtures}/node`, folder, { recursive: true });
      assert.ok((await partsOf()).length > 0);
      const link = join(folder, name);
      rmSync(link, { recursive: true });
      symlinkSync(join(folder, 'not mounted'), link);
      await assert.rejects(partsOf(), {
        code: 'BAD_REQUEST',
        message: `cannot read ${link}: it is a link to what is not there`,
      });
      rmSync(link);
    }
    cpSync(`${fixtures}/node`, folder, { recursive: true });
    rmSync(join(folder, 'commitlogs'), { recursive: true });
    const source = m3Source(folder, { namespace: 'default' }, realEnv.disk);
    await source.parts();
    assert.deepEqual(source.notes, [withoutLogs.replace('m3', folder)]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
