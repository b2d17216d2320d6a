/**
 * The formats as they were in their first version: files of today are the same, and old ones are
 * read.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { BatchBuilder, readBatch } from '#engine/batch/batch.ts';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import { encodeSegmentHeader, SegmentBuffer } from './commitlog/format.ts';
import { readSegment } from './commitlog/reader.ts';
import { type FilesetInfo, filesetParts, filesetPath } from './fileset/format.ts';
import { FilesetReader } from './fileset/reader.ts';
import { FilesetWriter } from './fileset/writer.ts';

const fixtures = join(import.meta.dirname, '../../test/fixtures');
const tagsOf = (host: string) =>
  encodeTags([
    { name: '__name__', value: 'up' },
    { name: 'host', value: host },
  ]);
const none = new Uint8Array(0);

function segment(): Uint8Array {
  const salt = 0x01020304;
  const header = encodeSegmentHeader({
    salt,
    incarnation: '00112233445566778899aabbccddeeff',
    boot: 3,
    segment: 7,
    createdNanos: 1_700_000_000_000_000_000n,
    hasMarks: false,
  });
  const builder = new BatchBuilder();
  builder.begin(108_800_000_000_000);
  builder.setRows(
    2,
    Uint32Array.of(4, 5),
    Uint32Array.of(1, 2),
    BigInt64Array.of(1_700_000_000_000n, 1_700_000_015_000n),
    1_000_000,
    Float64Array.of(1.5, -2),
  );
  const buffer = new SegmentBuffer();
  buffer.reset(7, salt);
  const namespace = buffer.namespaceOrdinal('default', 12);
  buffer.addSeries(namespace, {
    slot: 4,
    generation: 1,
    idScheme: 1,
    tags: tagsOf('a'),
    explicitId: none,
  });
  buffer.addSeries(namespace, {
    slot: 5,
    generation: 2,
    idScheme: 0,
    tags: none,
    explicitId: new TextEncoder().encode('plain'),
  });
  buffer.addBatch(namespace, [builder.finish()]);
  buffer.addTruncate(namespace, 1_700_000_016_000_000_000n);
  return new Uint8Array(Buffer.concat([header, buffer.bytes()]));
}

function snapshot(): Uint8Array {
  const salt = 0x01020304;
  const header = encodeSegmentHeader({
    salt,
    incarnation: '00112233445566778899aabbccddeeff',
    boot: 3,
    segment: 8,
    createdNanos: 1_700_000_000_000_000_000n,
    hasMarks: false,
  });
  const buffer = new SegmentBuffer();
  buffer.reset(8, salt);
  const namespace = buffer.namespaceOrdinal('default', 12);
  const names = [
    { slot: 4, generation: 1, idScheme: 1, tags: tagsOf('a'), explicitId: none },
    { slot: 5, generation: 2, idScheme: 0, tags: none, explicitId: Buffer.from('plain') },
  ];
  for (const name of names) buffer.addSeries(namespace, name);
  const raw = new Uint8Array(readFileSync(join(fixtures, 'chunk_v1_raw.bin')));
  const sealed = new Uint8Array(readFileSync(join(fixtures, 'chunk_v1_example.bin')));
  buffer.addChunks(namespace, [
    { slot: 4, generation: 1, chunks: sealed },
    { slot: 5, generation: 2, chunks: raw },
  ]);
  buffer.addEnd(2, raw.length + sealed.length);
  return new Uint8Array(Buffer.concat([header, buffer.bytes()]));
}

/** A snapshot that leaves a namespace to segments before it. */
function snapshotWithKept(): Uint8Array {
  const salt = 0x01020304;
  const header = encodeSegmentHeader({
    salt,
    incarnation: '00112233445566778899aabbccddeeff',
    boot: 3,
    segment: 8,
    createdNanos: 1_700_000_000_000_000_000n,
    hasMarks: false,
  });
  const buffer = new SegmentBuffer();
  buffer.reset(8, salt);
  buffer.addKept(buffer.namespaceOrdinal('default', 12), []);
  buffer.addKept(buffer.namespaceOrdinal('unsnapshotted', 13), [5, 7, 2 ** 40]);
  buffer.addEnd(0, 0);
  return new Uint8Array(Buffer.concat([header, buffer.bytes()]));
}

const info: FilesetInfo = {
  namespace: 'default',
  namespaceRevision: 12,
  shard: 3,
  shardCount: 64,
  blockStartNanos: 1_700_006_400_000_000_000n,
  blockSizeNanos: 7_200_000_000_000n,
  volume: 0,
  createdNanos: 1_700_013_600_000_000_000n,
  source: 'peers',
};

async function writeFileset(folder: string): Promise<void> {
  await using writer = FilesetWriter.open(realEnv.disk, folder, info);
  const plain = { idScheme: 0, tags: none, explicitId: new TextEncoder().encode('plain') };
  await writer.add(plain.explicitId, plain, Uint8Array.of(1, 2, 3));
  for (const host of ['a', 'b']) {
    const id = new TextEncoder().encode(`{__name__="up",host="${host}"}`);
    const name = { idScheme: 1, tags: tagsOf(host), explicitId: none };
    await writer.add(id, name, Uint8Array.of(host.charCodeAt(0), 9));
  }
  await writer.finish(async () => {});
}

test('a commit log segment of version 1 is written and read as it was', async () => {
  const path = join(fixtures, 'commitlog_v1.bin');
  assert.deepEqual(segment(), new Uint8Array(readFileSync(path)));
  const records = [];
  for await (const record of readSegment(realEnv.disk, path, () => assert.fail('it is whole'))) {
    records.push(record.kind);
    if (record.kind === 'series') {
      assert.deepEqual(
        record.entries.map(({ slot, generation }) => [slot, generation]),
        [
          [4, 1],
          [5, 2],
        ],
      );
    }
    if (record.kind === 'batch') {
      const batch = readBatch(record.batch);
      assert.deepEqual([...batch.timestamps], [1_700_000_000_000n, 1_700_000_015_000n]);
      assert.deepEqual([...batch.values], [1.5, -2]);
    }
  }
  assert.deepEqual(records, ['namespace', 'series', 'batch', 'truncate']);
});

test('a snapshot of version 1 is written and read as it was', async () => {
  const path = join(fixtures, 'snapshot_v1.bin');
  assert.deepEqual(snapshot(), new Uint8Array(readFileSync(path)));
  const records: string[] = [];
  for await (const record of readSegment(realEnv.disk, path, () => assert.fail('it is whole'))) {
    if (record.kind === 'chunks') {
      const all = record.series.map(({ slot, generation, chunks }) => [
        slot,
        generation,
        chunks.length,
      ]);
      assert.deepEqual(all, [
        [4, 1, readFileSync(join(fixtures, 'chunk_v1_example.bin')).length],
        [5, 2, readFileSync(join(fixtures, 'chunk_v1_raw.bin')).length],
      ]);
    }
    if (record.kind === 'end') assert.equal(record.seriesCount, 2);
    records.push(record.kind);
  }
  assert.deepEqual(records, ['namespace', 'series', 'chunks', 'end']);
});

test('segments that a snapshot of version 1 keeps are written and read as they were', async () => {
  const path = join(fixtures, 'snapshot_v1_kept.bin');
  assert.deepEqual(snapshotWithKept(), new Uint8Array(readFileSync(path)));
  const kept: (readonly [number, readonly number[]])[] = [];
  for await (const record of readSegment(realEnv.disk, path, () => assert.fail('it is whole'))) {
    if (record.kind === 'kept') kept.push([record.namespaceOrdinal, record.segments]);
  }
  assert.deepEqual(kept, [
    [0, []],
    [1, [5, 7, 2 ** 40]],
  ]);
});

test('a fileset of version 2 is written and read as it was', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-golden-'));
  const old = mkdtempSync(join(tmpdir(), 'tsdb-golden-'));
  try {
    await writeFileset(folder);
    for (const part of filesetParts) {
      const fixture = readFileSync(join(fixtures, `fileset_v2_${part}.bin`));
      assert.deepEqual(readFileSync(filesetPath(folder, info, part)), fixture, part);
      writeFileSync(filesetPath(old, info, part), fixture);
    }
    assert.equal(readdirSync(folder).length, filesetParts.length);
    await using reader = await FilesetReader.open(realEnv.disk, old, info);
    await reader.verifyData();
    const ids: string[] = [];
    for await (const [entry, chunks] of reader.all()) {
      ids.push(`${new TextDecoder().decode(entry.id)} ${chunks.length}`);
    }
    assert.deepEqual(ids, ['plain 3', '{__name__="up",host="a"} 2', '{__name__="up",host="b"} 2']);
  } finally {
    rmSync(folder, { recursive: true });
    rmSync(old, { recursive: true });
  }
});
