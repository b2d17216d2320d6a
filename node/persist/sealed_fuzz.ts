/**
 * Files whose damage has a right checksum, and files with one damaged stretch. Every length, count
 * and offset inside of a record or entry is checked though its checksum is right; and damage costs
 * what it hits and nothing beside it.
 */
import assert from 'node:assert/strict';
import { chunkHeaders, encodeRawChunk } from '#engine/codec/chunk.ts';
import { codecSample } from '#engine/codec/samples_testing.ts';
import { encodeFloatChunk } from '#engine/codec/codec_twin.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { TsdbError } from '#lib/errors.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { compareBytes, encodeTags } from '#lib/tags.ts';
import { count, countInputs } from '#test/sim/counts.ts';
import {
  bytesOf,
  changeFixed,
  damaged,
  type Pick,
  pickOf,
  replaced,
  withVarintChanged,
} from '#test/sim/mutate.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';
import {
  encodeSegmentHeader,
  paddedLength,
  recordChecksum,
  recordHeaderBytes,
  SegmentBuffer,
  segmentHeaderBytes,
} from './commitlog/format.ts';
import { readSegment, type SegmentProblem } from './commitlog/reader.ts';
import {
  encodeCheckpoint,
  encodeDigest,
  FilesetCorrupt,
  type FilesetInfo,
  fileHeaderBytes,
  filesetPath,
  indexFooterBytes,
} from './fileset/format.ts';
import { FilesetReader } from './fileset/reader.ts';
import { FilesetWriter } from './fileset/writer.ts';

const none = new Uint8Array(0);
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

/** A record in the bytes of a segment. */
interface Place {
  readonly start: number;
  readonly length: number;
  readonly kind: number;
}

function recordsOf(bytes: Uint8Array): Place[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const places: Place[] = [];
  for (let at = segmentHeaderBytes; at < bytes.length; ) {
    const length = view.getUint32(at + 8, true);
    places.push({ start: at, length, kind: view.getUint32(at + 12, true) });
    at += recordHeaderBytes + paddedLength(length);
  }
  return places;
}

function chunksOf(pick: Pick): Uint8Array {
  const parts = Array.from({ length: 1 + pick(2) }, () => {
    const { rows } = codecSample(pick(2 ** 31), 1 + pick(20));
    return pick(2) === 0 ? encodeRawChunk(rows) : encodeFloatChunk(rows);
  });
  return new Uint8Array(Buffer.concat(parts));
}

/** All kinds of records, many of each. */
function segmentOf(pick: Pick, salt: number, isSnapshot: boolean): Uint8Array {
  const incarnation = '00112233445566778899aabbccddeeff';
  const info = { salt, incarnation, boot: 1, segment: 9, createdNanos: 5n, hasMarks: true };
  const header = encodeSegmentHeader(info);
  const buffer = new SegmentBuffer();
  buffer.reset(9, salt);
  for (let i = 0; i < 8; i += 1) {
    const namespace = buffer.namespaceOrdinal(`n${pick(3)}`, 1);
    if (pick(3) === 0) {
      const spans = Array.from({ length: pick(3) }, () => {
        const firstNanos = BigInt(pick(1000));
        return { namespace: `n${pick(3)}`, firstNanos, lastNanos: firstNanos + 9n };
      });
      const mark = { segment: 9, syncedEnd: pick(2 ** 31), spans };
      if (pick(2) === 0) buffer.addMark(mark);
      else buffer.addMarkSince({ ...mark, baseAt: pick(999), firstNanos: -1n, lastNanos: 5n });
    }
    for (let series = pick(4); series > 0; series -= 1) {
      const tags = bytesOf(pick, pick(40));
      const explicitId = bytesOf(pick, pick(20));
      buffer.addSeries(namespace, { slot: i, generation: 1, idScheme: pick(4), tags, explicitId });
    }
    if (isSnapshot) {
      const series = Array.from({ length: 1 + pick(4) }, (_, slot) => ({
        slot,
        generation: 1,
        chunks: chunksOf(pick),
      }));
      buffer.addChunks(namespace, series);
      if (pick(3) === 0) buffer.addKept(namespace, [1 + pick(8), 9]);
    } else {
      buffer.addBatch(namespace, [bytesOf(pick, pick(200))]);
      if (pick(4) === 0) buffer.addTruncate(namespace, BigInt(pick(1000)));
    }
  }
  if (isSnapshot) buffer.addEnd(3, 1000);
  return new Uint8Array(Buffer.concat([header, buffer.bytes()]));
}

/**
 * Numbers of a record's payload, of its header, or its length; the checksum is made right again.
 */
function withRecordChanged(pick: Pick, whole: Uint8Array, place: Place, salt: number): Uint8Array {
  let bytes = whole.slice();
  const { start, length } = place;
  const payload = start + recordHeaderBytes;
  let newLength = length;
  if (pick(3) === 0) {
    // Another length: entries are cut off in the middle, or have bytes after them.
    newLength = pick(length + 24);
    const part = bytesOf(pick, paddedLength(newLength));
    part.set(bytes.subarray(payload, payload + Math.min(length, newLength)));
    bytes = replaced(bytes, payload, payload + paddedLength(length), part).slice();
    new DataView(bytes.buffer).setUint32(start + 8, newLength, true);
  } else {
    for (let changes = 1 + pick(2); changes > 0; changes -= 1) {
      const width = ([1, 4, 4, 4, 8] as const)[pick(5)]!;
      // Entries begin after the ordinal; their lengths are in the first bytes.
      const within = pick(2) === 0 ? 8 + 4 * pick(6) : pick(Math.max(1, length));
      if (within + width <= length) changeFixed(pick, bytes, payload + within, width);
    }
    if (pick(8) === 0) changeFixed(pick, bytes, start + 12, 4);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  view.setUint32(start + 4, recordChecksum(bytes, start, newLength, salt), true);
  return bytes;
}

/** What a record says, in a form in which two can be compared. */
async function readAll(bytes: Uint8Array, pick: Pick, decoder: Decoder) {
  const disk = new SimulatedDisk({ below: pick });
  await disk.writeFileAtomic('log', bytes);
  const problems: SegmentProblem[] = [];
  const records: string[] = [];
  for await (const record of readSegment(disk, 'log', (problem) => problems.push(problem))) {
    if (record.kind === 'chunks') {
      for (const { chunks } of record.series) decode(chunks, decoder);
    }
    const hex = (_: string, value: unknown): unknown =>
      value instanceof Uint8Array
        ? value.toHex()
        : typeof value === 'bigint'
          ? String(value)
          : value;
    // Where it stands depends on what was put in before it.
    const said = record.kind === 'mark' ? { ...record, at: 0 } : record;
    records.push(JSON.stringify(said, hex));
  }
  for (const { start, end } of problems) assert.ok(start < end && end <= bytes.length);
  return { records, problems };
}

/** Chunks are read by a kernel: what is malformed is refused. */
function decode(chunks: Uint8Array, decoder: Decoder): void {
  const chunkOffset = Uint32Array.of(0, chunks.length);
  try {
    let rows = 0;
    for (const { rowCount } of chunkHeaders(chunks)) rows += rowCount;
    const bundle = { ...emptyBundle, seriesCount: 1, chunkData: chunks, chunkOffset };
    assert.ok(decoder.decode(bundle, 0, ...allTimes) <= rows);
  } catch (error) {
    assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST', String(error));
  }
}

const inputsOfFile = 40;

async function fuzzSegment(pick: Pick, isSnapshot: boolean, decoder: Decoder): Promise<void> {
  const salt = pick(2 ** 32);
  const whole = segmentOf(pick, salt, isSnapshot);
  const places = recordsOf(whole);
  const { records: wanted } = await readAll(whole, pick, decoder);
  assert.equal(wanted.length, places.length);
  for (let input = 0; input < inputsOfFile; input += 1) {
    if (input % 2 === 0) {
      const hit = pick(places.length);
      const bytes = withRecordChanged(pick, whole, places[hit]!, salt);
      const { records } = await readAll(bytes, pick, decoder);
      // The records around it are read as before.
      assert.deepEqual(records.slice(0, hit), wanted.slice(0, hit));
      const behind = places.length - hit - 1;
      assert.deepEqual(behind === 0 ? [] : records.slice(-behind), wanted.slice(hit + 1));
      continue;
    }
    const bytes = whole.slice();
    const at = pick(bytes.length);
    const length = 1 + pick(Math.min(60, bytes.length - at));
    bytes.set(bytesOf(pick, length), at);
    const { records } = await readAll(bytes, pick, decoder);
    const isHit = ({ start, length: payload }: Place): boolean =>
      at < start + recordHeaderBytes + payload && at + length > start;
    // The salt of a damaged header is taken from the first record.
    if (at < segmentHeaderBytes && isHit(places[0]!)) continue;
    const left = wanted.filter((_, i) => !isHit(places[i]!));
    // Damage may leave a record as it was.
    const others = records.filter((record) => !left.includes(record));
    assert.deepEqual(
      others.filter((record) => !wanted.includes(record)),
      [],
    );
    assert.equal(records.filter((record) => left.includes(record)).length, left.length);
  }
  countInputs(isSnapshot ? 'snapshot' : 'commit log', inputsOfFile);
}

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

type Part = 'info' | 'index' | 'data' | 'digest' | 'checkpoint';

async function filesetOf(
  pick: Pick,
): Promise<{ files: Map<Part, Uint8Array>; ids: Uint8Array[]; chunks: Set<string> }> {
  const disk = new SimulatedDisk({ below: pick });
  const series = Array.from({ length: 1 + pick(70) }, (_, i) => {
    const idScheme = pick(4);
    const tags = encodeTags([
      { name: 'host', value: `h${i}` },
      { name: 'kind', value: `k${pick(3)}` },
      ...(pick(3) === 0 ? [{ name: 'more', value: 'm'.repeat(pick(40)) }] : []),
    ]);
    const explicitId = idScheme === 0 ? bytesOf(pick, 5 + pick(9)) : none;
    const id = seriesIdOf(idScheme, tags, explicitId)!;
    return { id, name: { idScheme, tags, explicitId }, chunks: bytesOf(pick, pick(60)) };
  }).sort((a, b) => compareBytes(a.id, b.id));
  const chunks = new Set<string>();
  {
    await using writer = FilesetWriter.open(disk, 'f', info);
    for (const one of series) {
      chunks.add(Buffer.from(one.chunks).toString('latin1'));
      await writer.add(one.id, one.name, one.chunks);
    }
    await writer.finish(async () => {});
  }
  const files = new Map<Part, Uint8Array>();
  for (const part of ['info', 'index', 'data', 'digest', 'checkpoint'] as const) {
    files.set(part, await disk.readFile(filesetPath('f', info, part)));
  }
  return { files, ids: series.map(({ id }) => id), chunks };
}

/** Something in the index changed, and the digest and the checkpoint made right for it. */
function resealed(pick: Pick, files: Map<Part, Uint8Array>): void {
  let index = files.get('index')!.slice();
  const footer = index.length - indexFooterBytes;
  const view = new DataView(index.buffer);
  const checksums = Number(view.getBigUint64(footer, true));
  const table = checksums + 4 * view.getUint32(footer + 16, true);
  const kind = pick(6);
  if (kind < 2) {
    // Bits of entries, and how their groups begin.
    index[fileHeaderBytes + pick(checksums - fileHeaderBytes)] = pick(256);
  } else if (kind === 2) {
    changeFixed(pick, index, footer + [0, 8, 16, 20][pick(4)]!, pick(2) === 0 ? 4 : 8);
  } else if (kind === 3) {
    changeFixed(pick, index, checksums + 4 * pick(Math.max(1, (table - checksums) >> 2)), 4);
  } else if (kind === 4) {
    index = withVarintChanged(pick, index, table + pick(footer - table)).slice();
  } else {
    index[table + pick(footer - table)] = pick(256);
  }
  files.set('index', index);
  const digestOf = (part: Part) => {
    const bytes = files.get(part)!;
    return { bytes: bytes.length, crc32c: crc32c(bytes) };
  };
  const digest = encodeDigest({
    info: digestOf('info'),
    index: digestOf('index'),
    data: digestOf('data'),
  });
  files.set('digest', digest);
  files.set('checkpoint', encodeCheckpoint(digest));
}

async function fuzzFileset(pick: Pick): Promise<void> {
  const whole = await filesetOf(pick);
  const parts = [...whole.files.keys()];
  for (let input = 0; input < inputsOfFile; input += 1) {
    const files = new Map(whole.files);
    if (pick(5) === 0) {
      const part = parts[pick(parts.length)]!;
      files.set(part, damaged(pick, files.get(part)!));
    } else resealed(pick, files);
    const disk = new SimulatedDisk({ below: pick });
    for (const [part, bytes] of files) {
      await disk.writeFileAtomic(filesetPath('f', info, part), bytes);
    }
    try {
      await using reader = await FilesetReader.open(disk, 'f', info);
      let entries = 0;
      for await (const [entry, chunks] of reader.all()) {
        entries += 1;
        assert.ok(entry.dataOffset + entry.dataLength <= files.get('data')!.length);
        assert.ok(whole.chunks.has(Buffer.from(chunks).toString('latin1')), 'chunks were written');
      }
      assert.equal(entries, reader.seriesCount);
      reader.find(whole.ids[pick(whole.ids.length)]!);
    } catch (error) {
      if (!(error instanceof FilesetCorrupt)) throw error;
      count('refused: fileset');
    }
  }
  countInputs('fileset', inputsOfFile);
}

/** @param size number of files of each kind, of which each is damaged in 40 ways */
export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  using decoder = new Decoder();
  for (let file = 0; file < size; file += 1) {
    await fuzzSegment(pick, false, decoder);
    await fuzzSegment(pick, true, decoder);
    await fuzzFileset(pick);
  }
}
