import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { NamespaceIndex } from '../../index/namespace_index.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import {
  IndexFile,
  indexFilePath,
  removeIndexFile,
  setIndexFileAside,
  writeIndexFile,
} from './index_file.ts';
import { IndexFileCorrupt } from './format.ts';
import { fuzz } from './index_file_fuzz.ts';

const { quoted, explicit } = idSchemeCode;
const noId = new Uint8Array(0);
const random = new SeededRandom(3);
const options = { random, blockSizeNanos: 7_200_000_000_000n };
const path = indexFilePath('folder', 'default');
const neverAborts = new AbortController().signal;
const everything = { startNanos: 0n, endNanos: 1_800_000_000_000_000_000n };
const noLimit = { limit: 0, shards: null };

function tagsOf(tags: Record<string, string>): Uint8Array {
  return encodeTags(Object.entries(tags).map(([name, value]) => ({ name, value })));
}

/** Two series of one metric, one with an ID of its own; ordinal 1 is not in use. */
function exampleIndex(): NamespaceIndex {
  const index = new NamespaceIndex(options);
  index.insert(0, tagsOf({ __name__: 'up', host: 'a' }), quoted, noId, 5);
  index.insert(1, tagsOf({ __name__: 'gone', host: 'a' }), quoted, noId, 6);
  index.insert(2, tagsOf({ __name__: 'up', host: 'b' }), quoted, noId, 7);
  index.insert(3, tagsOf({ host: 'b' }), explicit, Buffer.from('plain'), 8);
  index.markLive([0, 2], 1_699_999_200_000_000_000n);
  index.markLive([2, 3], 1_700_006_400_000_000_000n);
  index.remove(Uint32Array.of(1));
  return index;
}

async function load(disk: SimulatedDisk): Promise<NamespaceIndex> {
  await using file = await IndexFile.open(disk, path);
  return file!.load(options);
}

function assertIsExample(index: NamespaceIndex): void {
  assert.equal(index.seriesCount, 3);
  assert.equal(index.has(1), false);
  assert.equal(index.find(tagsOf({ __name__: 'up', host: 'b' }), quoted, noId), 2);
  assert.equal(index.find(tagsOf({ __name__: 'gone', host: 'a' }), quoted, noId), -1);
  assert.equal(index.findById(Buffer.from('plain')), 3);
  assert.equal(index.findById(Buffer.from('{__name__="up",host="a"}')), 0);
  assert.deepEqual([index.shard(0), index.shard(2), index.shard(3)], [5, 7, 8]);
  const up = { kind: 'term', field: '__name__', term: 'up' } as const;
  assert.deepEqual([...index.query(up, everything, noLimit).slots], [0, 2]);
  const first = { startNanos: 0n, endNanos: 1_699_999_200_000_000_001n };
  assert.deepEqual([...index.query({ kind: 'all' }, first, noLimit).slots], [0, 2]);
  assert.deepEqual(index.blockStarts, [1_699_999_200_000_000_000n, 1_700_006_400_000_000_000n]);
}

test('an index is read from its file as it was written, with the manifest', async () => {
  const disk = new SimulatedDisk(random);
  const manifest = new TextEncoder().encode('fileset 1, fileset 2');
  await writeIndexFile(disk, path, exampleIndex(), manifest, neverAborts);
  await using file = await IndexFile.open(disk, path);
  assert.deepEqual(await file!.manifest(), manifest);
  assertIsExample(await file!.load(options));
  assert.deepEqual(await disk.list('folder/data/default'), ['index.db']);
});

test('an empty index is a file too', async () => {
  const disk = new SimulatedDisk(random);
  await writeIndexFile(disk, path, new NamespaceIndex(options), noId, neverAborts);
  const index = await load(disk);
  assert.equal(index.seriesCount, 0);
  index.insert(0, tagsOf({ a: 'b' }), quoted, noId, 0);
  assert.equal(index.find(tagsOf({ a: 'b' }), quoted, noId), 0);
});

test('series can be given other ordinals when they are loaded', async () => {
  const disk = new SimulatedDisk(random);
  await writeIndexFile(disk, path, exampleIndex(), noId, neverAborts);
  await using file = await IndexFile.open(disk, path);
  const index = await file!.load(options, ({ seriesCount, ordinalsEnd, present }) => {
    assert.deepEqual([seriesCount, ordinalsEnd, present[0]], [3, 4, 0b1101]);
    return Uint32Array.of(10, 11, 70);
  });
  assert.equal(index.find(tagsOf({ __name__: 'up', host: 'b' }), quoted, noId), 11);
  assert.equal(index.findById(Buffer.from('plain')), 70);
  assert.deepEqual([...index.query({ kind: 'all' }, everything, noLimit).slots], [10, 11, 70]);
  assert.equal(index.shard(70), 8);
});

test('no file is no error, and a file of another block size is refused by name', async () => {
  const disk = new SimulatedDisk(random);
  assert.equal(await IndexFile.open(disk, path), null);
  await writeIndexFile(disk, path, exampleIndex(), noId, neverAborts);
  await using file = await IndexFile.open(disk, path);
  await assert.rejects(file!.load({ random, blockSizeNanos: 1n }), {
    name: 'IndexFileCorrupt',
    message: `cannot read saved index: block size is 7200000000000 ns, not 1 ns: ${path}`,
  });
});

test('a file with any bit changed, or cut off anywhere, is refused by name', async () => {
  const disk = new SimulatedDisk(random);
  await writeIndexFile(disk, path, exampleIndex(), Buffer.from('manifest'), neverAborts);
  const bytes = await disk.readFile(path);
  const refused = async (damaged: Uint8Array, what: string) => {
    await disk.writeFileAtomic(path, damaged);
    const read = async () => {
      await using file = await IndexFile.open(disk, path);
      await file!.manifest();
      await file!.load(options);
    };
    await assert.rejects(read, (error) => {
      assert.ok(error instanceof IndexFileCorrupt, `${what}: ${error}`);
      assert.match(error.message, new RegExp(`: ${path}$`));
      return true;
    });
  };
  for (let at = 0; at < bytes.length; at++) {
    const flipped = bytes.slice();
    flipped[at]! ^= 1 << (at % 8);
    await refused(flipped, `bit of byte ${at}`);
    await refused(bytes.subarray(0, at), `${at} bytes`);
  }
});

test('the old file stays when a save fails or is given up, and the index can be saved again', async () => {
  const disk = new SimulatedDisk(random);
  await writeIndexFile(disk, path, exampleIndex(), noId, neverAborts);
  const index = exampleIndex();
  index.insert(1, tagsOf({ new: 'x' }), quoted, noId, 0);
  disk.troubles.syncFailures = 1000;
  await assert.rejects(writeIndexFile(disk, path, index, noId, neverAborts), { code: 'EIO' });
  disk.troubles.syncFailures = 0;
  disk.troubles.writeFailures = 1000;
  await assert.rejects(writeIndexFile(disk, path, index, noId, neverAborts), { code: 'ENOSPC' });
  disk.troubles.writeFailures = 0;
  const reason = new Error('enough');
  await assert.rejects(writeIndexFile(disk, path, index, noId, AbortSignal.abort(reason)), reason);
  assert.deepEqual(await disk.list('folder/data/default'), ['index.db']);
  assertIsExample(await load(disk));
  await writeIndexFile(disk, path, index, noId, neverAborts);
  assert.equal((await load(disk)).seriesCount, 4);
});

test('a crash at any moment of a save leaves the old file or the new one', async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const dice = new SeededRandom(seed);
    const disk = new SimulatedDisk(dice);
    await writeIndexFile(disk, path, exampleIndex(), noId, neverAborts);
    const index = exampleIndex();
    index.insert(1, tagsOf({ new: 'x' }), quoted, noId, 0);
    const saving = writeIndexFile(disk, path, index, noId, neverAborts).catch(() => {});
    for (let turns = dice.below(60); turns > 0; turns--) await Promise.resolve();
    disk.crash();
    await saving;
    const { seriesCount } = await load(disk);
    assert.ok(seriesCount === 3 || seriesCount === 4);
  }
});

test('series that are removed while the index is saved are not in the file, nor are new ones', async () => {
  const disk = new SimulatedDisk(random);
  const index = exampleIndex();
  const saving = writeIndexFile(disk, path, index, noId, neverAborts);
  index.remove(Uint32Array.of(0));
  index.insert(0, tagsOf({ other: 'x' }), quoted, noId, 0);
  index.insert(9, tagsOf({ __name__: 'up', host: 'c' }), quoted, noId, 0);
  await saving;
  const loaded = await load(disk);
  assert.equal(loaded.seriesCount, 2);
  assert.equal(loaded.has(0), false);
  assert.deepEqual(loaded.find(tagsOf({ __name__: 'up', host: 'b' }), quoted, noId), 2);
  assert.equal(loaded.find(tagsOf({ other: 'x' }), quoted, noId), -1);
});

test('a file set aside is kept under another name, a removed one leaves nothing', async () => {
  const disk = new SimulatedDisk(random);
  await writeIndexFile(disk, path, exampleIndex(), noId, neverAborts);
  await setIndexFileAside(disk, path);
  await setIndexFileAside(disk, path);
  assert.deepEqual(await disk.list('folder/data/default'), ['index.db.corrupt']);
  await writeIndexFile(disk, path, exampleIndex(), noId, neverAborts);
  await removeIndexFile(disk, path);
  assert.deepEqual(await disk.list('folder/data/default'), ['index.db.corrupt']);
});

test('a saved index of version 2 is written and read as it was', async () => {
  const fixture = readFileSync(join(import.meta.dirname, '../../../test/fixtures/index_v2.bin'));
  const disk = new SimulatedDisk(random);
  const manifest = new TextEncoder().encode('manifest');
  await writeIndexFile(disk, path, exampleIndex(), manifest, neverAborts);
  assert.deepEqual(Buffer.from(await disk.readFile(path)), fixture);
  await disk.writeFileAtomic(path, fixture);
  assertIsExample(await load(disk));
});

test('damaged files are refused or harmless', async () => {
  for (let seed = 1; seed <= 10; seed++) await fuzz(seed, 30);
});
