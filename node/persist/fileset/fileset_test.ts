import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { compareBytes, encodeTags } from '#lib/tags.ts';
import {
  FilesetCorrupt,
  type FilesetInfo,
  filesetParts,
  filesetPath,
  listFilesets,
  namespaceFolder,
  namespaceOfFolder,
  listShardFolder,
  removeFilesetAside,
  setFilesetAside,
} from './format.ts';
import { FilesetReader } from './reader.ts';
import { type FilesetSeries, FilesetWriter } from './writer.ts';

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-fileset-'));
  folders.push(folder);
  return folder;
}

const { disk } = realEnv;

const info: FilesetInfo = {
  namespace: 'metrics',
  namespaceRevision: 12,
  shard: 3,
  shardCount: 64,
  blockStartNanos: 1_700_000_000_000_000_000n,
  blockSizeNanos: 7_200_000_000_000n,
  volume: 0,
  createdNanos: 1_700_000_000_000_000_001n,
  source: 'peers',
};

interface Sample {
  readonly id: Uint8Array;
  readonly series: FilesetSeries;
  readonly chunks: Uint8Array;
}

function samples(count: number): Sample[] {
  return Array.from({ length: count }, (_, i) => {
    const explicit = i % 5 === 0;
    const series: FilesetSeries = {
      idScheme: explicit ? idSchemeCode.explicit : idSchemeCode.quoted,
      tags: encodeTags([
        { name: '__name__', value: 'cpu' },
        { name: 'host', value: `host_${i}` },
        { name: 'city', value: 'Zürich' },
      ]),
      explicitId: explicit ? new TextEncoder().encode(`explicit ${i}`) : new Uint8Array(0),
    };
    const id = seriesIdOf(series.idScheme, series.tags, series.explicitId)!;
    return { id, series, chunks: new Uint8Array(i % 300).map((_, at) => at * i) };
  }).sort((a, b) => compareBytes(a.id, b.id));
}

async function write(folder: string, all: readonly Sample[], more: Partial<FilesetInfo> = {}) {
  await using writer = FilesetWriter.open(disk, folder, { ...info, ...more });
  for (const { id, series, chunks } of all) await writer.add(id, series, chunks);
  await writer.finish(async () => {});
}

test('a fileset gives back every series with its tags, ID and chunks', async () => {
  const folder = temporaryFolder();
  const all = samples(500);
  await write(folder, all);
  await using reader = await FilesetReader.open(disk, folder, info);
  assert.deepEqual(reader.info, info);
  await reader.verifyData();
  let i = 0;
  for await (const [entry, chunks] of reader.all()) {
    assert.deepEqual(entry.id, all[i]!.id);
    assert.deepEqual(entry.tags, all[i]!.series.tags);
    assert.deepEqual(entry.explicitId, all[i]!.series.explicitId);
    assert.deepEqual(new Uint8Array(chunks), all[i]!.chunks);
    i += 1;
  }
  assert.equal(i, 500);
  for (const { id, chunks } of all) {
    assert.deepEqual(await reader.read(reader.find(id)!), chunks);
  }
  assert.equal(reader.find(new TextEncoder().encode('explicit 1')), null);
  assert.equal(reader.find(new Uint8Array(0)), null);
  assert.equal(reader.find(new Uint8Array([255])), null);
});

test('an empty fileset is one too', async () => {
  const folder = temporaryFolder();
  await write(folder, []);
  await using reader = await FilesetReader.open(disk, folder, info);
  await reader.verifyData();
  assert.equal([...reader.entries()].length, 0);
  assert.equal(reader.find(new Uint8Array([1])), null);
});

test('a fileset without its checkpoint does not count', async () => {
  const folder = temporaryFolder();
  {
    await using writer = FilesetWriter.open(disk, folder, info);
    await writer.add(new Uint8Array([1]), samples(1)[0]!.series, new Uint8Array(9));
    await writer.drain();
    assert.deepEqual(
      (await listFilesets(disk, folder)).map((fileset) => fileset.complete),
      [false],
    );
  }
  assert.deepEqual(await listFilesets(disk, folder), []);
  await write(folder, samples(3));
  await write(folder, samples(3), { volume: 1, blockStartNanos: -5n });
  assert.deepEqual(await listFilesets(disk, folder), [
    { blockStartNanos: -5n, volume: 1, complete: true },
    { blockStartNanos: info.blockStartNanos, volume: 0, complete: true },
  ]);
});

test('a flipped byte in any file is found and named, and the fileset can be set aside', async () => {
  const folder = temporaryFolder();
  await write(folder, samples(3));
  for (const part of filesetParts) {
    const path = filesetPath(folder, info, part);
    const whole = readFileSync(path);
    for (let at = 0; at < whole.length; at += 1) {
      const damaged = Uint8Array.from(whole);
      damaged[at]! ^= 0x04;
      writeFileSync(path, damaged);
      // The reserved bytes of the checkpoint's header are the only ones that nothing depends on.
      if (part === 'checkpoint' && at >= 12 && at < 16) continue;
      await assert.rejects(
        async () => {
          await using reader = await FilesetReader.open(disk, folder, info);
          await reader.verifyData();
        },
        (error) => error instanceof FilesetCorrupt && error.path.startsWith(folder),
        `${part} at ${at}`,
      );
    }
    writeFileSync(path, whole);
  }
  await setFilesetAside(disk, folder, info);
  assert.deepEqual(await listFilesets(disk, folder), []);
  const { blockStartNanos, volume } = info;
  const { filesets, asides } = await listShardFolder(disk, folder);
  assert.deepEqual(filesets, []);
  assert.deepEqual(asides, [{ blockStartNanos, volume, complete: true }]);
  assert.equal((await disk.list(folder)).filter((name) => name.endsWith('.corrupt')).length, 5);
  await removeFilesetAside(disk, folder, info);
  assert.deepEqual(await disk.list(folder), []);
});

test('names of namespaces that are no folder names are escaped and come back', () => {
  for (const name of ['metrics', '../../etc', '.', '..', 'a/b', 'agg:1m:40d', 'späße']) {
    const folder = namespaceFolder('/data', name);
    assert.ok(folder.startsWith('/data/data/'));
    const last = folder.slice('/data/data/'.length);
    assert.ok(!last.includes('/') && last !== '.' && last !== '..', last);
    assert.equal(namespaceOfFolder(last), name);
  }
});
