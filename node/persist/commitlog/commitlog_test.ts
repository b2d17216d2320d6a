import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Disk, DiskFile, Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { Commitlog, type CommitlogOptions, listSegments } from './commitlog.ts';
import type { SegmentBuffer } from './format.ts';
import { type LogRecord, readSegment, type SegmentProblem } from './reader.ts';

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-commitlog-'));
  folders.push(folder);
  return folder;
}

function optionsOf(folder: string, more: Partial<CommitlogOptions> = {}): CommitlogOptions {
  return {
    folder,
    incarnation: '00112233445566778899aabbccddeeff',
    boot: 7,
    segmentBytesMax: 1 << 20,
    sync: 'always',
    syncEveryMillis: 1000,
    syncBytesMax: 1 << 20,
    ...more,
  };
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** A series and a batch whose bytes are a text. */
function write(text: string, slot = 1): (buffer: SegmentBuffer) => void {
  return (buffer) => {
    const namespace = buffer.namespaceOrdinal('metrics', 12);
    buffer.addSeries(namespace, {
      slot,
      generation: 1,
      idScheme: 1,
      tags: bytesOf(`tags ${slot}`),
      explicitId: bytesOf(''),
    });
    buffer.addBatch(namespace, [bytesOf(text)]);
  };
}

interface Readings {
  readonly texts: string[];
  readonly records: LogRecord['kind'][];
  readonly problems: SegmentProblem[];
}

async function readAll(folder: string): Promise<Readings> {
  const readings: Readings = { texts: [], records: [], problems: [] };
  for (const { path } of await listSegments(realEnv, folder)) {
    const records = readSegment(realEnv.disk, path, (problem) => readings.problems.push(problem));
    for await (const record of records) {
      readings.records.push(record.kind);
      if (record.kind === 'batch') readings.texts.push(new TextDecoder().decode(record.batch));
      if (record.kind === 'namespace') {
        assert.equal(record.name, 'metrics');
        assert.equal(record.createRevision, 12);
      }
    }
  }
  return readings;
}

/** An environment whose disk can be told to fail. */
function failingEnv(): { env: Env; fail: { write: number; sync: number; open: boolean } } {
  const fail = { write: 0, sync: 0, open: false };
  const noSpace = () => Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  const disk: Disk = {
    ...realEnv.disk,
    async open(path, mode) {
      if (fail.open && mode.startsWith('create')) throw noSpace();
      const file = await realEnv.disk.open(path, mode);
      const failing: DiskFile = {
        read: (position, length) => file.read(position, length),
        async write(position, parts) {
          if (fail.write > 0 && position > 0) {
            fail.write -= 1;
            await file.write(position, [parts[0]!.subarray(0, 11)]);
            throw noSpace();
          }
          await file.write(position, parts);
        },
        async sync() {
          if (fail.sync > 0) {
            fail.sync -= 1;
            throw Object.assign(new Error('input/output error'), { code: 'EIO' });
          }
          await file.sync();
        },
        truncate: (length) => file.truncate(length),
        size: () => file.size(),
        close: () => file.close(),
        [Symbol.asyncDispose]: () => file.close(),
      };
      return failing;
    },
  };
  return { env: { ...realEnv, disk }, fail };
}

test('a commit log gives back what was written, in order, over segments and restarts', async () => {
  const folder = temporaryFolder();
  for (const boot of [1, 2]) {
    await using log = await Commitlog.open(
      realEnv,
      silentLog,
      optionsOf(folder, { boot, segmentBytesMax: 200 }),
    );
    for (let i = 0; i < 5; i += 1) await log.write(write(`boot ${boot} row ${i}`, i));
  }
  const { texts, problems } = await readAll(folder);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    texts,
    [1, 2].flatMap((boot) => [0, 1, 2, 3, 4].map((i) => `boot ${boot} row ${i}`)),
  );
  assert.ok((await listSegments(realEnv, folder)).length >= 4);
});

test('a segment is closed when its rows are longer than its dictionary, which is not written in vain', async () => {
  const folder = temporaryFolder();
  await using log = await Commitlog.open(
    realEnv,
    silentLog,
    optionsOf(folder, { segmentBytesMax: 200 }),
  );
  const rows = (buffer: SegmentBuffer) =>
    buffer.addBatch(buffer.namespaceOrdinal('metrics', 12), [new Uint8Array(1000)]);
  const first = await log.write((buffer) => {
    const namespace = buffer.namespaceOrdinal('metrics', 12);
    const tags = new Uint8Array(60_000);
    buffer.addSeries(namespace, { slot: 1, generation: 1, idScheme: 1, tags, explicitId: tags });
  });
  const segments: number[] = [];
  for (let i = 0; i < 150; i += 1) segments.push(await log.write(rows));
  const inFirst = segments.filter((segment) => segment === first).length;
  assert.ok(inFirst > 110 && inFirst < 125, `120 kB of dictionary, ${inFirst} kB of rows`);
  // After it, without a dictionary, the length of the rows alone counts.
  assert.equal(new Set(segments).size, 1 + segments.length - inFirst);
});

test('a torn tail ends the segment cleanly at every cut', async () => {
  const folder = temporaryFolder();
  {
    await using log = await Commitlog.open(realEnv, silentLog, optionsOf(folder));
    for (let i = 0; i < 3; i += 1) await log.write(write(`row ${i}`, i));
  }
  const path = `${folder}/commitlog-1.db`;
  const whole = readFileSync(path);
  let most = 0;
  for (let length = 0; length < whole.length; length += 1) {
    writeFileSync(path, whole.subarray(0, length));
    const { texts, problems } = await readAll(folder);
    assert.deepEqual(
      texts,
      ['row 0', 'row 1', 'row 2'].slice(0, texts.length),
      `cut at ${length} gives a prefix`,
    );
    assert.ok(texts.length >= most, 'a longer file never gives less');
    most = texts.length;
    assert.ok(problems.every((problem) => problem.kind === 'torn tail'));
  }
  assert.equal(most, 3);
});

test('a flipped byte costs the record it is in, is reported, and the next ones stand', async () => {
  const folder = temporaryFolder();
  {
    await using log = await Commitlog.open(realEnv, silentLog, optionsOf(folder));
    for (let i = 0; i < 4; i += 1) await log.write(write(`row ${i}`, i));
  }
  const path = `${folder}/commitlog-1.db`;
  const whole = readFileSync(path);
  for (let at = 0; at < whole.length; at += 1) {
    const damaged = Uint8Array.from(whole);
    damaged[at]! ^= 0x10;
    writeFileSync(path, damaged);
    const { texts, problems } = await readAll(folder);
    const lost = ['row 0', 'row 1', 'row 2', 'row 3'].filter((text) => !texts.includes(text));
    assert.ok(lost.length <= 1, `flip at ${at} lost ${lost.join()}`);
    const isTail = at > whole.length - 8;
    if (!isTail && problems.length === 0) {
      // Padding after a payload is not under the checksum; nothing is lost by it.
      assert.equal(lost.length, 0, `flip at ${at} lost rows without a report`);
    }
    for (const problem of problems) {
      assert.ok(problem.start <= at && at < problem.end, 'the report names the place');
    }
  }
});

test('after a failed sync the records go to a new segment and stay readable', async () => {
  const folder = temporaryFolder();
  const { env, fail } = failingEnv();
  {
    await using log = await Commitlog.open(env, silentLog, optionsOf(folder));
    assert.equal(await log.write(write('before')), 1);
    fail.sync = 1;
    assert.equal(await log.write(write('failed once')), 2);
    assert.equal(await log.write(write('after')), 2);
  }
  const { texts, problems } = await readAll(folder);
  assert.deepEqual(texts, ['before', 'failed once', 'after']);
  assert.deepEqual(problems, []);
});

test('a full disk refuses writes with UNAVAILABLE and takes them again when space returns', async () => {
  const folder = temporaryFolder();
  const { env, fail } = failingEnv();
  {
    await using log = await Commitlog.open(env, silentLog, optionsOf(folder));
    await log.write(write('before'));
    fail.write = 1;
    fail.open = true;
    const isUnavailable = (error: unknown) =>
      error instanceof TsdbError && error.code === 'UNAVAILABLE';
    await assert.rejects(log.write(write('refused')), isUnavailable);
    await assert.rejects(log.write(write('refused')), isUnavailable);
    fail.open = false;
    await env.clock.sleep(120, new AbortController().signal);
    await log.write(write('after'));
  }
  const { texts } = await readAll(folder);
  assert.deepEqual(texts, ['before', 'after']);
});

test('with sync interval, rows acknowledged before a failed sync are written again', async () => {
  const folder = temporaryFolder();
  const { env, fail } = failingEnv();
  {
    await using log = await Commitlog.open(
      env,
      silentLog,
      optionsOf(folder, { sync: 'interval', syncEveryMillis: 100_000 }),
    );
    await log.write(write('a'));
    await log.write(write('b'));
    fail.sync = 1;
    await log.sync();
    await log.write(write('c'));
    assert.equal(log.counts.failures, 1);
  }
  const segments = await listSegments(realEnv, folder);
  const last = segments.at(-1)!;
  const texts: string[] = [];
  for await (const record of readSegment(realEnv.disk, last.path, () => {})) {
    if (record.kind === 'batch') texts.push(new TextDecoder().decode(record.batch));
  }
  assert.deepEqual(texts, ['a', 'b', 'c']);
});

test('the time of a write has its sync in it, and a failed one is not counted', async () => {
  const { env: failing, fail } = failingEnv();
  let nowMillis = 0;
  const clock = { ...realEnv.clock, monotonicMillis: () => nowMillis };
  const disk: Disk = {
    ...failing.disk,
    async open(path, mode) {
      const file = await failing.disk.open(path, mode);
      const slow: DiskFile = {
        ...file,
        async write(position, parts) {
          nowMillis += 20;
          await file.write(position, parts);
        },
        async sync() {
          nowMillis += 300;
          await file.sync();
        },
      };
      return slow;
    },
  };
  const log = await Commitlog.open(
    { ...realEnv, clock, disk },
    silentLog,
    optionsOf(temporaryFolder()),
  );
  await using _ = log;
  const seconds: number[] = [];
  log.onWritten = (each) => seconds.push(each);
  await log.write(write('a'));
  await log.write(write('b'));
  fail.write = 2;
  await assert.rejects(log.write(write('c')));
  nowMillis += 100_000;
  assert.deepEqual(seconds.splice(0), [0.64, 0.32], 'the first one opens the segment');
  await log.write(write('d'));
  fail.write = 1;
  await log.write(write('e'));
  // A failed write, header and sync of a new segment, the write once more.
  assert.deepEqual(seconds, [0.64, 0.02 + 0.32 + 0.32]);
});

test('segments are deleted by number, never the open one', async () => {
  const folder = temporaryFolder();
  await using log = await Commitlog.open(
    realEnv,
    silentLog,
    optionsOf(folder, { segmentBytesMax: 100 }),
  );
  for (let i = 0; i < 3; i += 1) {
    await log.write((buffer) => {
      write(`row ${i}`)(buffer);
      log.noteRows(buffer.segment, 'metrics', 1000 * i, 1000 * i);
    });
  }
  assert.deepEqual(
    log.segments().map((segment) => segment.newestMillis.get('metrics')),
    [0, 1000, 2000],
  );
  await log.deleteSegmentsBefore(2);
  assert.deepEqual((await readAll(folder)).texts, ['row 1', 'row 2']);
  await log.deleteSegmentsBefore(100);
  assert.deepEqual((await readAll(folder)).texts, ['row 2']);
});

test('a long batch and records larger than the read window come back whole', async () => {
  const folder = temporaryFolder();
  const large = new Uint8Array(9 * 1024 * 1024).map((_, index) => index & 255);
  {
    await using log = await Commitlog.open(realEnv, silentLog, optionsOf(folder));
    await log.write((buffer) => {
      const namespace = buffer.namespaceOrdinal('metrics', 12);
      buffer.addBatch(namespace, [large]);
      buffer.addTruncate(namespace, 99n);
      buffer.addBatch(namespace, [bytesOf('end')]);
    });
  }
  const seen: LogRecord['kind'][] = [];
  for await (const record of readSegment(realEnv.disk, `${folder}/commitlog-1.db`, () => {})) {
    seen.push(record.kind);
    if (record.kind === 'truncate') assert.equal(record.atNanos, 99n);
    if (record.kind === 'batch') assert.equal(record.batch.byteOffset % 8, 0);
    if (record.kind === 'batch' && record.batch.length > 10) {
      assert.equal(Buffer.compare(record.batch, large), 0);
    }
  }
  assert.deepEqual(seen, ['namespace', 'batch', 'truncate', 'batch', 'mark']);
});
