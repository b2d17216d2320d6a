/**
 * Damaged commit logs and filesets: never a hang, never a wrong byte, only what was written or a
 * report.
 */
import assert from 'node:assert/strict';
import type { Disk, DiskFile, DiskOpenMode } from '#lib/env/env.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { compareBytes, encodeTags } from '#lib/tags.ts';
import { countInputs } from '#test/sim/counts.ts';
import { encodeSegmentHeader, SegmentBuffer } from './commitlog/format.ts';
import { readSegment, type SegmentProblem } from './commitlog/reader.ts';
import { FilesetCorrupt, type FilesetInfo, filesetPath } from './fileset/format.ts';
import { FilesetReader } from './fileset/reader.ts';
import { FilesetWriter } from './fileset/writer.ts';

/** A generator of whole numbers that a seed decides. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed * 2_654_435_761) >>> 0 || 1;
  }

  /** In [0, end). */
  below(end: number): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) % end;
  }

  bytes(length: number): Uint8Array {
    return new Uint8Array(length).map(() => this.below(256));
  }
}

/** A disk in memory. */
class MemoryDisk implements Disk {
  readonly files = new Map<string, Uint8Array>();

  async open(path: string, mode: DiskOpenMode): Promise<DiskFile> {
    if (mode.startsWith('create')) this.files.set(path, new Uint8Array(0));
    if (!this.files.has(path)) throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
    return {
      read: async (position, length) => this.files.get(path)!.slice(position, position + length),
      write: async (position, parts) => {
        const all = Buffer.concat([this.files.get(path)!.subarray(0, position), ...parts]);
        this.files.set(path, new Uint8Array(all));
      },
      sync: async () => {},
      truncate: async (length) => {
        this.files.set(path, this.files.get(path)!.slice(0, length));
      },
      size: async () => this.files.get(path)!.length,
      close: async () => {},
      [Symbol.asyncDispose]: async () => {},
    };
  }

  async readFile(path: string): Promise<Uint8Array> {
    const bytes = this.files.get(path);
    if (bytes === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
    return bytes.slice();
  }

  async writeFileAtomic(path: string, bytes: Uint8Array): Promise<void> {
    this.files.set(path, bytes.slice());
  }
  async rename(from: string, to: string): Promise<void> {
    this.files.set(to, this.files.get(from)!);
    this.files.delete(from);
  }
  async remove(path: string): Promise<void> {
    this.files.delete(path);
  }
  async removeTree(): Promise<void> {
    this.files.clear();
  }
  async makeFolder(): Promise<void> {}
  async list(path: string): Promise<string[]> {
    const names = [...this.files.keys()].filter((name) => name.startsWith(`${path}/`));
    return names.map((name) => name.slice(path.length + 1)).sort();
  }
  async size(path: string): Promise<number | null> {
    return this.files.get(path)?.length ?? null;
  }
  async syncFolder(): Promise<void> {}
}

/** Flips, cuts, overwrites, doubles or inserts somewhere. */
function damage(bytes: Uint8Array, dice: Dice): Uint8Array {
  const at = dice.below(bytes.length);
  const other = dice.below(bytes.length);
  switch (dice.below(5)) {
    case 0: {
      const flipped = bytes.slice();
      flipped[at]! ^= 1 << dice.below(8);
      return flipped;
    }
    case 1:
      return bytes.slice(0, at);
    case 2: {
      const written = bytes.slice();
      written.set(dice.bytes(Math.min(40, bytes.length - at)), at);
      return written;
    }
    case 3: {
      const copied = bytes.slice();
      copied.copyWithin(at, other, other + dice.below(100));
      return copied;
    }
    default: {
      const parts = [bytes.subarray(0, at), dice.bytes(dice.below(30)), bytes.subarray(at)];
      return new Uint8Array(Buffer.concat(parts));
    }
  }
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const dice = new Dice(seed);
  await fuzzCommitlog(dice, size);
  countInputs('commit log', size);
  await fuzzFileset(dice, size);
  countInputs('fileset', 2 * size);
}

async function fuzzCommitlog(dice: Dice, size: number): Promise<void> {
  const salt = dice.below(2 ** 32);
  const header = encodeSegmentHeader({
    salt,
    incarnation: '00112233445566778899aabbccddeeff',
    boot: 1,
    segment: 1,
    createdNanos: 5n,
    hasMarks: true,
  });
  const buffer = new SegmentBuffer();
  buffer.reset(1, salt);
  const written = new Set<string>();
  const count = 1 + dice.below(12);
  for (let i = 0; i < count; i += 1) {
    const namespace = buffer.namespaceOrdinal(`n${dice.below(3)}`, 1);
    buffer.addSeries(namespace, {
      slot: i,
      generation: 1,
      idScheme: 0,
      tags: dice.bytes(dice.below(40)),
      explicitId: dice.bytes(dice.below(20)),
    });
    const batch = dice.bytes(dice.below(200));
    // A batch that quotes a record of this segment must not become one.
    if (dice.below(3) === 0) batch.set(buffer.bytes().subarray(0, batch.length));
    buffer.addBatch(namespace, [batch]);
    written.add(Buffer.from(batch).toString('hex'));
  }
  const whole = new Uint8Array(Buffer.concat([header, buffer.bytes()]));
  for (let round = 0; round < size; round += 1) {
    const disk = new MemoryDisk();
    let bytes = damage(whole, dice);
    if (dice.below(3) === 0 && bytes.length > 0) bytes = damage(bytes, dice);
    disk.files.set('log', bytes);
    const problems: SegmentProblem[] = [];
    for await (const record of readSegment(disk, 'log', (problem) => problems.push(problem))) {
      if (record.kind !== 'batch') continue;
      assert.ok(
        written.has(Buffer.from(record.batch).toString('hex')),
        'a batch that was read was written',
      );
    }
    for (const { start, end } of problems) assert.ok(start < end && end <= bytes.length);
  }
}

async function fuzzFileset(dice: Dice, size: number): Promise<void> {
  const info: FilesetInfo = {
    namespace: 'n',
    namespaceRevision: 0,
    shard: 1,
    shardCount: 4,
    blockStartNanos: 0n,
    blockSizeNanos: 7_200_000_000_000n,
    volume: 0,
    createdNanos: 9n,
    source: 'flush',
  };
  const series = Array.from({ length: 1 + dice.below(80) }, (_, i) => {
    const scheme = dice.below(4);
    const tags = encodeTags([
      { name: 'host', value: `h${i}` },
      { name: 'kind', value: `k${dice.below(3)}` },
    ]);
    const explicitId = scheme === 0 ? dice.bytes(5 + dice.below(9)) : new Uint8Array(0);
    const id = seriesIdOf(scheme, tags, explicitId)!;
    return { id, name: { idScheme: scheme, tags, explicitId }, chunks: dice.bytes(dice.below(99)) };
  }).sort((a, b) => compareBytes(a.id, b.id));
  const good = new MemoryDisk();
  {
    await using writer = FilesetWriter.open(good, 'f', info);
    for (const { id, name, chunks } of series) await writer.add(id, name, chunks);
    await writer.finish(async () => {});
  }
  const chunksOf = new Map(
    series.map(({ id, chunks }) => [Buffer.from(id).toString('hex'), chunks]),
  );
  const parts = ['info', 'index', 'data', 'digest', 'checkpoint'] as const;
  for (let round = 0; round < size; round += 1) {
    const disk = new MemoryDisk();
    for (const [path, bytes] of good.files) disk.files.set(path, bytes);
    const path = filesetPath('f', info, parts[dice.below(parts.length)]!);
    disk.files.set(path, damage(disk.files.get(path)!, dice));
    try {
      await using reader = await FilesetReader.open(disk, 'f', info);
      for await (const [entry, chunks] of reader.all()) {
        const expected = chunksOf.get(Buffer.from(entry.id).toString('hex'));
        assert.deepEqual(Buffer.from(chunks), Buffer.from(expected!), 'chunks are those written');
      }
    } catch (error) {
      if (!(error instanceof FilesetCorrupt)) throw error;
    }
  }
  await fuzzIndexWithoutDigest(dice, size, good, info);
}

/** An index whose digest was made for its damage: every length in it is checked all the same. */
async function fuzzIndexWithoutDigest(
  dice: Dice,
  size: number,
  good: MemoryDisk,
  info: FilesetInfo,
): Promise<void> {
  const { crc32c } = await import('#lib/hashing/crc32c.ts');
  const { encodeCheckpoint, encodeDigest } = await import('./fileset/format.ts');
  const digestOf = (bytes: Uint8Array) => ({ bytes: bytes.length, crc32c: crc32c(bytes) });
  for (let round = 0; round < size; round += 1) {
    const disk = new MemoryDisk();
    for (const [path, bytes] of good.files) disk.files.set(path, bytes);
    const at = (part: (typeof parts)[number]) => filesetPath('f', info, part);
    const parts = ['info', 'index', 'data', 'digest', 'checkpoint'] as const;
    const index = damage(disk.files.get(at('index'))!, dice);
    // The footer's own checksum is made right too.
    if (index.length >= 64) {
      const footer = index.length - 48;
      const view = new DataView(index.buffer, index.byteOffset, index.byteLength);
      const groups = Number(view.getBigUint64(footer, true));
      if (groups <= footer)
        view.setUint32(footer + 40, crc32c(index, 0, groups, footer + 40), true);
    }
    disk.files.set(at('index'), index);
    const digest = encodeDigest({
      info: digestOf(disk.files.get(at('info'))!),
      index: digestOf(index),
      data: digestOf(disk.files.get(at('data'))!),
    });
    disk.files.set(at('digest'), digest);
    disk.files.set(at('checkpoint'), encodeCheckpoint(digest));
    try {
      await using reader = await FilesetReader.open(disk, 'f', info);
      let count = 0;
      for (const entry of reader.entries()) {
        assert.ok(entry.dataOffset + entry.dataLength <= disk.files.get(at('data'))!.length);
        count += 1;
      }
      assert.equal(count, reader.seriesCount);
      reader.find(dice.bytes(8));
    } catch (error) {
      if (!(error instanceof FilesetCorrupt)) throw error;
    }
  }
}
