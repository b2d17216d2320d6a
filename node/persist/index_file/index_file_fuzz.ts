/**
 * Damaged files of saved indexes. Bytes that are not those that were written are refused by name.
 * Sections that were changed and then sealed again with right checksums are refused too, or give an
 * index that works: no trap, no hang, and it can be emptied.
 */
import assert from 'node:assert/strict';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { TsdbError } from '#lib/errors.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { countInputs } from '#test/sim/counts.ts';
import { NamespaceIndex } from '../../index/namespace_index.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import { IndexFile, writeIndexFile } from './index_file.ts';
import {
  decodeDirectory,
  directoryStart,
  encodeDirectory,
  encodeIndexFileHeader,
  IndexFileCorrupt,
  indexFileFooterBytes,
} from './format.ts';

const path = 'data/default/index.db';
const manifest = new TextEncoder().encode('what it covers');
const blockSizeNanos = 100n;
const noId = new Uint8Array(0);
const neverAborts = new AbortController().signal;

function randomIndex(random: SeededRandom, seriesCount: number): NamespaceIndex {
  const index = new NamespaceIndex({ random, blockSizeNanos });
  for (let ordinal = 0; ordinal < seriesCount; ordinal++) {
    const tags = encodeTags([
      { name: '__name__', value: `m${ordinal % 3}` },
      { name: 'i', value: String(ordinal) },
      { name: 'odd=', value: `${random.below(5)}` },
    ]);
    const id = random.below(4) === 0 ? Buffer.from(`id-${ordinal}`) : noId;
    const scheme = id.length > 0 ? idSchemeCode.explicit : 1 + random.below(3);
    index.insert(ordinal, tags, scheme, id, random.below(9));
    index.markLiveOne(ordinal, BigInt(random.below(3)) * blockSizeNanos);
  }
  const gone = Uint32Array.from({ length: seriesCount }, (_, i) => i);
  index.remove(gone.filter(() => random.below(10) === 0));
  return index;
}

function damaged(bytes: Uint8Array, random: SeededRandom): Uint8Array {
  const at = random.below(bytes.length);
  const changed = bytes.slice();
  switch (random.below(5)) {
    case 0:
      return changed.subarray(0, at);
    case 1:
      changed.set(random.bytes(Math.min(bytes.length - at, 1 + random.below(12))), at);
      return changed;
    case 2:
      changed.copyWithin(at, random.below(bytes.length), random.below(bytes.length));
      return changed;
    case 3:
      return new Uint8Array(
        Buffer.concat([
          bytes.subarray(0, at),
          random.bytes(1 + random.below(40)),
          bytes.subarray(at),
        ]),
      );
    default:
      changed[at]! ^= 1 << random.below(8);
      return changed;
  }
}

/** Changes numbers of some section, or sections as such, and makes all checksums right. */
function resealed(bytes: Uint8Array, random: SeededRandom): Uint8Array {
  const start = directoryStart(bytes.slice(-indexFileFooterBytes), bytes.length);
  const sections = decodeDirectory(bytes.slice(start), start).map((row) => ({
    kind: row.kind,
    bytes: bytes.slice(row.start, row.start + row.bytes),
  }));
  const chosen = random.below(sections.length);
  const kind = random.below(10);
  if (kind === 0) sections.splice(chosen, 1);
  else if (kind === 1) sections.push(sections[chosen]!);
  else if (kind === 2) sections[chosen]!.kind = random.below(12);
  else if (kind === 3) sections[chosen]!.bytes = sections[chosen]!.bytes.slice(0, -8);
  else changeWord(sections[chosen]!.bytes, random);
  const parts = [encodeIndexFileHeader()];
  const rows = [];
  let end = parts[0]!.length;
  for (const section of sections) {
    rows.push({
      kind: section.kind,
      crc32c: crc32c(section.bytes),
      start: end,
      bytes: section.bytes.length,
    });
    parts.push(section.bytes);
    end += section.bytes.length;
  }
  return new Uint8Array(Buffer.concat([...parts, encodeDirectory(rows, end)]));
}

function changeWord(bytes: Uint8Array, random: SeededRandom): void {
  if (bytes.length === 0) return;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const at = 4 * random.below(bytes.length >>> 2);
  const word = view.getUint32(at, true);
  const words = [
    0,
    1,
    word + 1,
    word - 1,
    word ^ (1 << random.below(32)),
    0xffffffff,
    random.u32(),
  ];
  view.setUint32(at, random.pick(words) >>> 0, true);
}

async function read(bytes: Uint8Array, random: SeededRandom): Promise<NamespaceIndex> {
  const disk = new SimulatedDisk(random);
  await disk.writeFileAtomic(path, bytes);
  await using file = await IndexFile.open(disk, path);
  assert.deepEqual(await file!.manifest(), manifest);
  return file!.load({ random, blockSizeNanos });
}

/** Walks through everything that an index answers, and empties it. */
function exercise(index: NamespaceIndex): void {
  const range = { startNanos: -1_000_000n, endNanos: 1_000_000n };
  const { slots } = index.query({ kind: 'all' }, range, { limit: 0, shards: null });
  index.query({ kind: 'regexp', field: 'i', regexp: '.*1' }, range, { limit: 0, shards: null });
  index.tagsOf(slots);
  index.statistics({ limit: 5, metricName: '__name__' });
  const all = [];
  for (let ordinal = 0; ordinal < index.slotsEnd; ordinal++) {
    if (!index.has(ordinal)) continue;
    all.push(ordinal);
    try {
      index.findById(index.id(ordinal));
    } catch (error) {
      // Tags that are not UTF-8, or a scheme that is none: what such a series has no ID for.
      assert.ok(error instanceof TsdbError);
    }
  }
  index.remove(Uint32Array.from(all));
  assert.equal(index.seriesCount, 0);
  assert.equal(index.termCount, 0);
}

/** @param size about the number of damaged files */
export async function fuzz(seed: number, size: number): Promise<void> {
  const random = new SeededRandom(seed);
  const index = randomIndex(random, random.below(120));
  const disk = new SimulatedDisk(random);
  const length = await writeIndexFile(disk, path, index, manifest, neverAborts);
  const bytes = await disk.readFile(path);
  assert.equal(bytes.length, length);
  const whole = await read(bytes, random);
  assert.equal(whole.seriesCount, index.seriesCount);
  exercise(whole);
  countInputs('index file', 2 * size);
  for (let i = 0; i < size; i++) {
    const changed = damaged(bytes, random);
    if (Buffer.compare(changed, bytes) !== 0) {
      await assert.rejects(read(changed, random), IndexFileCorrupt);
    }
    try {
      exercise(await read(resealed(bytes, random), random));
    } catch (error) {
      const isManifest =
        error instanceof assert.AssertionError && error.actual instanceof Uint8Array;
      if (!(error instanceof IndexFileCorrupt) && !isManifest) throw error;
    }
  }
}
