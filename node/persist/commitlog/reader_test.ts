import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disk } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { Commitlog } from './commitlog.ts';
import { readSegment, readSegmentHeader, type SegmentProblem } from './reader.ts';
import { readWhatIs } from './read_what_is.ts';

const path = 'log/commitlog-1.db';

/** A disk with one segment of a hundred batches, each a group of its own. */
async function written(): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk({ below: () => 0 });
  await using log = await Commitlog.open({ ...realEnv, disk }, silentLog, {
    folder: 'log',
    incarnation: '00112233445566778899aabbccddeeff',
    boot: 7,
    segmentBytesMax: 1 << 20,
    sync: 'always',
    syncEveryMillis: 1000,
    syncBytesMax: 1 << 20,
  });
  for (let i = 0; i < 100; i += 1) {
    await log.write((buffer) =>
      buffer.addBatch(buffer.namespaceOrdinal('metrics', 1), [new Uint8Array(200).fill(i)]),
    );
  }
  return disk;
}

/** The same disk, which cannot read the bytes [start, end) of any file. */
function unreadable(disk: Disk, start: number, end: number, failuresMax = Infinity): Disk {
  let failures = 0;
  return {
    ...realEnv.disk,
    size: (name) => disk.size(name),
    async open(name, mode) {
      const file = await disk.open(name, mode);
      return {
        ...file,
        async read(position, length) {
          if (position < end && position + length > start && failures < failuresMax) {
            failures += 1;
            throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' });
          }
          return file.read(position, length);
        },
      };
    },
  };
}

async function read(disk: Disk): Promise<{ batches: number[]; problems: SegmentProblem[] }> {
  const batches: number[] = [];
  const problems: SegmentProblem[] = [];
  for await (const record of readSegment(disk, path, (problem) => problems.push(problem))) {
    if (record.kind === 'batch') batches.push(record.batch[0]!);
  }
  return { batches, problems };
}

test('a sector that the disk cannot read costs the records of its page', async () => {
  const disk = unreadable(await written(), 9000, 9512);
  const { batches, problems } = await read(disk);
  assert.ok(batches.length > 80 && batches.length < 90, `${batches.length} are left`);
  const [problem, ...others] = problems;
  assert.equal(problem?.kind, 'corrupt records');
  assert.ok(problem.start <= 8192 && problem.end >= 12288 && problem.end < 12288 + 400);
  assert.deepEqual(others, []);
});

test('a read that fails once is tried again', async () => {
  const { batches, problems } = await read(unreadable(await written(), 0, 1e9, 2));
  assert.equal(batches.length, 100);
  assert.deepEqual(problems, []);
});

test('the salt of a segment whose header and first records are gone is found in others', async () => {
  const disk = await written();
  disk.zero((name) => name === path, 0, 1000);
  const { batches, problems } = await read(disk);
  assert.ok(batches.length > 90);
  assert.deepEqual(
    problems.map(({ kind, start }) => [kind, start]),
    [
      ['corrupt header', 0],
      ['corrupt records', 64],
    ],
  );
});

test('a segment of which nothing can be read says so as one problem', async () => {
  const disk = await written();
  const bytes = (await disk.size(path))!;
  const broken: Disk = {
    ...unreadable(disk, 0, bytes),
    open: () => Promise.reject(Object.assign(new Error('EUCLEAN'), { code: 'EUCLEAN' })),
  };
  for (const none of [unreadable(disk, 0, bytes), broken]) {
    assert.deepEqual(await read(none), {
      batches: [],
      problems: [{ path, kind: 'no records', start: 0, end: bytes }],
    });
    assert.equal(typeof (await readSegmentHeader(none, path)), 'string');
  }
  const missing: Disk = { ...broken, open: () => Promise.reject(new Error('no memory')) };
  await assert.rejects(read(missing), /no memory/);
});

test('what cannot be read is zeros, and the end of the file stays where it is', async () => {
  const disk = await written();
  const bytes = (await disk.size(path))!;
  await using whole = await disk.open(path, 'read');
  await using file = await unreadable(disk, bytes - 10, bytes).open(path, 'read');
  const wanted = await whole.read(100, bytes);
  const lastPage = bytes - (bytes % 4096) - 100;
  const found = await readWhatIs(file, 100, 2 * bytes);
  assert.equal(found.length, bytes - 100);
  assert.deepEqual(found.subarray(0, lastPage), wanted.subarray(0, lastPage));
  assert.ok(found.subarray(lastPage).every((byte) => byte === 0));
});
