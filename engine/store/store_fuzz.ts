/**
 * Holds the store equal to its twin: the same rows, in and out of order, twice and again, over
 * block boundaries, with reads, merges, expiry and releases in between. Odd seeds keep the version
 * of each row; in even ones a sealed chunk has one, so versions are chosen that it does not mix up.
 */
import assert from 'node:assert/strict';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { chunkHeaders, encodeRawChunk, kindsFloat } from '../codec/chunk.ts';
import { encodeRowsChunk } from '../codec/chunk_rows.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import {
  encodeFloatChunk,
  encodeFloatLagsChunk,
  encodeFloatStartsChunk,
} from '../codec/codec_twin.ts';
import { mergeChunks } from '../codec/decoder_twin.ts';
import { decodeChunk } from './chunk_merge.ts';
import { Decoder } from './decoder.ts';
import { emptyBundle } from '../codec/series_bundle.ts';
import { joinSlots, resultOf } from './rows.ts';
import {
  Store,
  type StoredBlock,
  type StoredChunks,
  type StoreNamespace,
  type StoreRows,
} from './store.ts';
import { StoreTwin } from './store_twin.ts';

const second = 1_000_000_000n;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const startNanos = 1_700_000_000n * second;

const namespaces: readonly StoreNamespace[] = [
  {
    blockSizeNanos: 600n * second,
    bufferPastNanos: 300n * second,
    bufferFutureNanos: 120n * second,
    retentionNanos: 3600n * second,
    coldWrites: false,
  },
  {
    blockSizeNanos: 3600n * second,
    bufferPastNanos: 600n * second,
    bufferFutureNanos: 600n * second,
    retentionNanos: 20_000n * second,
    coldWrites: true,
  },
];

function sumsOf(store: Store | StoreTwin, ordinal: number): StoredBlock[] {
  return resultOf(store.sumsInSteps(ordinal, 7));
}

/** One store with its twin; every call goes to both and must answer the same. */
class Pair {
  readonly store: Store;
  readonly twin: StoreTwin;
  readonly decoder: Decoder;
  /** Live slots with their namespaces. */
  readonly slots: Map<number, number>;
  readonly keepsRowVersions: boolean;

  constructor(keepsRowVersions: boolean) {
    this.keepsRowVersions = keepsRowVersions;
    const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
    this.store = new Store({ random, memoryBytesMax: 256 << 20 });
    this.store.keepRowVersions(keepsRowVersions);
    this.twin = new StoreTwin({ memoryBytesMax: 1 << 30 });
    this.decoder = new Decoder();
    this.slots = new Map();
    namespaces.forEach((namespace, ordinal) => {
      this.store.setNamespace(ordinal, namespace);
      this.twin.setNamespace(ordinal, namespace);
    });
  }

  create(ordinal: number): void {
    const slot = this.store.createSeries(ordinal);
    assert.equal(slot, this.twin.createSeries(ordinal));
    assert.equal(this.store.generation[slot], this.twin.generation[slot]);
    this.slots.set(slot, ordinal);
  }

  release(slot: number): void {
    this.store.releaseSeries(slot);
    this.twin.releaseSeries(slot);
    assert.equal(this.store.generation[slot], this.twin.generation[slot]);
    this.slots.delete(slot);
  }

  write(
    rows: StoreRows,
    ordinal: number,
    nowNanos: bigint,
    version: number,
    isDerived: boolean,
  ): void {
    const outcomes = new Uint8Array(rows.rowCount);
    const twinOutcomes = new Uint8Array(rows.rowCount);
    const refused = this.store.check(rows, ordinal, nowNanos, outcomes);
    assert.equal(refused, this.twin.check(rows, ordinal, nowNanos, twinOutcomes));
    assert.deepEqual(outcomes, twinOutcomes);
    const superseded = this.store.append(rows, version, outcomes, isDerived);
    assert.equal(superseded, this.twin.append(rows, version, twinOutcomes, isDerived));
    assert.deepEqual(outcomes, twinOutcomes);
  }

  rowsOf(chunks: StoredChunks, index: number, start: bigint, end: bigint): string[] {
    const rows = this.decoder.decode({ ...emptyBundle, ...chunks }, index, start, end);
    return Array.from({ length: rows }, (_, i) => {
      const words = this.decoder.valueWords;
      return `${this.decoder.timestampNanos[i]}:${words[2 * i]}:${words[2 * i + 1]}`;
    });
  }

  assertSameRead(slots: readonly number[], start: bigint, end: bigint): void {
    const asked = Uint32Array.from(slots);
    const [kernel, twin] = [this.store.read(asked, start, end), this.twin.read(asked, start, end)];
    slots.forEach((slot, i) => {
      const rows = this.rowsOf(twin, i, start, end);
      assert.deepEqual(this.rowsOf(kernel, i, start, end), rows, `rows of slot ${slot}`);
    });
    if (!this.keepsRowVersions) return;
    // With versions and start times, of some: the twin of the decoder is slow.
    const i = Number((start / second) % BigInt(slots.length));
    const at = i < 0 ? i + slots.length : i;
    const merged = ({ chunkData, chunkOffset }: StoredChunks) =>
      mergeChunks(chunkData.subarray(chunkOffset[at], chunkOffset[at + 1]), start, end);
    assert.deepEqual(merged(kernel), merged(twin), `versions and starts of slot ${slots[at]}`);
  }

  /**
   * Whole blocks are read as for a file and forgotten later, with whatever is written in between.
   */
  flush(slots: readonly number[], blockStart: bigint): void {
    const asked = Uint32Array.from(slots);
    const kernel = this.store.flushBlock(asked, blockStart);
    const twin = this.twin.flushBlock(asked, blockStart);
    slots.forEach((slot, i) => {
      const rows = this.rowsOf(twin, i, ...allTimes);
      assert.deepEqual(this.rowsOf(kernel, i, ...allTimes), rows, `flush of slot ${slot}`);
    });
  }

  dropFlushed(slots: readonly number[], blockStart: bigint): void {
    const asked = Uint32Array.from(slots);
    const dropped = this.store.dropFlushed(asked, blockStart);
    assert.equal(dropped, this.twin.dropFlushed(asked, blockStart));
  }

  assertSameSums(ordinal: number): void {
    assert.deepEqual(this.store.blocks(ordinal), this.twin.blocks(ordinal));
    const [kernel, twin] = [sumsOf(this.store, ordinal), sumsOf(this.twin, ordinal)];
    assert.equal(kernel.length, twin.length);
    const inAny = (store: Store | StoreTwin) => [...store.slotsInSteps(ordinal, null, 5)];
    assert.deepEqual(joinSlots(inAny(this.store)), joinSlots(inAny(this.twin)));
    for (const [i, block] of kernel.entries()) {
      const { blockStartNanos } = block;
      assert.equal(blockStartNanos, twin[i]!.blockStartNanos);
      assert.equal(block.seriesCount, twin[i]!.seriesCount);
      assert.ok(block.rowCount >= twin[i]!.rowCount);
      assert.ok(block.bytes >= 80 * block.seriesCount);
      const slots = this.store.slotsOfBlock(ordinal, blockStartNanos);
      assert.deepEqual(slots, this.twin.slotsOfBlock(ordinal, blockStartNanos));
      assert.deepEqual(joinSlots([...this.store.slotsInSteps(ordinal, blockStartNanos, 3)]), slots);
      assert.equal(slots.length, block.seriesCount);
    }
  }

  assertSameBlocks(slot: number): void {
    const starts = this.store.blockStarts(slot);
    assert.deepEqual(starts, this.twin.blockStarts(slot));
    for (const start of starts) {
      const asked = Uint32Array.of(slot);
      const kernel = this.rowsOf(this.store.readBlock(asked, start), 0, ...allTimes);
      const twin = this.rowsOf(this.twin.readBlock(asked, start), 0, ...allTimes);
      assert.deepEqual(kernel, twin, `block ${start} of slot ${slot}`);
      if (!this.keepsRowVersions) continue;
      const { chunkData } = this.store.readBlock(asked, start);
      let from = 0;
      const headers = chunkHeaders(chunkData, 0, chunkData.length, kindsFloat);
      const attributes = [...headers].flatMap(({ end }) => {
        const { rowVersions, startNanos } = decodeChunk(chunkData.subarray(from, end));
        from = end;
        return Array.from(rowVersions, (version, row) => [version, startNanos?.[row] ?? 0n]);
      });
      const wanted = this.twin.attributesOf(slot, start);
      assert.deepEqual(attributes, wanted, `versions and starts of slot ${slot}`);
    }
  }
}

/** Where the rows of a series are, so that most of them come in order, and the start time of the next ones. */
interface Writer {
  next: bigint;
  start: bigint;
}

/** A counter starts now and then; one that is sent as deltas starts with each row; others never do. */
function startOf(numbers: SeededNumbers, slot: number, nanos: bigint, writer: Writer): bigint {
  if (slot % 3 === 0) return 0n;
  if (slot % 3 === 1) {
    if (numbers.below(30) === 0) writer.start = nanos - BigInt(numbers.below(1000)) * second;
    if (numbers.below(60) === 0) writer.start = 0n;
    return writer.start;
  }
  if (numbers.below(20) === 0) return BigInt(numbers.below(3)) - 1n;
  return nanos - BigInt(1 + numbers.below(4)) * (second / 4n);
}

function valueOf(numbers: SeededNumbers): number {
  const kind = numbers.below(10);
  if (kind < 5) return numbers.below(50);
  if (kind < 8) return numbers.below(10_000) / 100;
  return kind < 9 ? numbers.normal() : [NaN, -0, 0, Infinity, 5e-324][numbers.below(5)]!;
}

/**
 * A batch in which every series has one row for a time, so that versions decide alone; where rows keep theirs some have times that
 * come again with another value, and any order.
 */
function batchOf(
  numbers: SeededNumbers,
  pair: Pair,
  ordinal: number,
  nowNanos: bigint,
  writers: Map<number, Writer>,
): StoreRows {
  type Sent = [slot: number, generation: number, nanos: bigint, value: number, start: bigint];
  const rows: Sent[] = [];
  const hasStarts = pair.keepsRowVersions && numbers.below(3) > 0;
  const rowsEach = 1 + numbers.below(numbers.below(5) === 0 ? 150 : 3);
  for (const [slot, slotOrdinal] of pair.slots) {
    if (slotOrdinal !== ordinal && numbers.below(40) !== 0) continue;
    const writer = writers.get(slot) ?? { next: nowNanos - 200n * second, start: 0n };
    writers.set(slot, writer);
    const times = new Set<bigint>();
    for (let i = 0; i < rowsEach; i++) {
      const kind = numbers.below(20);
      let nanos = writer.next;
      if (kind < 17) writer.next += BigInt(1 + numbers.below(4)) * (second / 4n);
      else if (kind < 18) nanos -= BigInt(numbers.below(40)) * (second / 4n);
      else if (kind < 19) nanos -= BigInt(numbers.below(1_000_000)) * 1_000_000n;
      else nanos = nowNanos + BigInt(numbers.below(400_000) - 200_000) * 1_000_003n;
      times.add(nanos);
    }
    const generation = pair.store.generation[slot]! + (numbers.below(200) === 0 ? 1 : 0);
    for (const nanos of times) {
      const start = hasStarts ? startOf(numbers, slot, nanos, writer) : 0n;
      rows.push([slot, generation, nanos, valueOf(numbers), start]);
    }
  }
  if (numbers.below(10) === 0) rows.push([numbers.below(100), 1, nowNanos, 1, 0n]);
  if (pair.keepsRowVersions && numbers.below(4) === 0) {
    for (const [slot, generation, nanos, , start] of [...rows]) {
      if (numbers.below(4) === 0) rows.push([slot, generation, nanos, valueOf(numbers), start]);
    }
    numbers.shuffle(rows);
  }
  return {
    ...(hasStarts ? { startNanos: BigInt64Array.from(rows, (row) => row[4]) } : {}),
    rowCount: rows.length,
    slots: Uint32Array.from(rows, (row) => row[0]),
    generations: Uint32Array.from(rows, (row) => row[1]),
    timestamps: BigInt64Array.from(rows, (row) => row[2]),
    timeUnitNanos: 1,
    values: Float64Array.from(rows, (row) => row[3]),
  };
}

const rowVersionsApart = 100;

/**
 * Chunks from elsewhere. Where a sealed chunk has one version they are newer than everything that
 * the store has or older than everything: between these it cannot always tell.
 */
function insertSome(
  numbers: SeededNumbers,
  pair: Pair,
  slot: number,
  nowNanos: bigint,
  version: number,
): void {
  const size = namespaces[pair.slots.get(slot)!]!.blockSizeNanos;
  const start = ((nowNanos - BigInt(numbers.below(8000)) * second) / size) * size;
  const times = new Set<bigint>();
  for (let i = 1 + numbers.below(200); i > 0; i--) {
    times.add(start + BigInt(numbers.below(600)) * second);
  }
  const rows = {
    timestampNanos: BigInt64Array.from(times).sort(),
    values: Float64Array.from(times, () => valueOf(numbers)),
    version,
  };
  const rowVersions = rows.values.map(() => Math.max(0, version - numbers.below(rowVersionsApart)));
  const startNanos = rows.timestampNanos.map((nanos) =>
    numbers.below(3) === 0 ? 0n : nanos - BigInt(numbers.below(5)) * second,
  );
  const chunk = [
    () => encodeRawChunk(rows),
    () => encodeRowsChunk({ ...rows, rowVersions }),
    () => encodeFloatChunk(rows),
    () => encodeFloatLagsChunk({ ...rows, rowVersions }),
    () => encodeFloatStartsChunk({ ...rows, rowVersions, startNanos }),
  ][numbers.below(pair.keepsRowVersions ? 5 : 3)]!();
  pair.store.insertChunks(slot, chunk);
  pair.twin.insertChunks(slot, chunk);
}

interface Expiry {
  readonly store: Generator<void, Uint32Array>;
  readonly twin: Generator<void, Uint32Array>;
}

/** By a clock that is right, or off by moments or minutes. */
function versionAbout(numbers: SeededNumbers, nowNanos: bigint): number {
  const spread = [64, 6400, 2 ** 17, 2 ** 21][numbers.below(4)]!;
  return Number(versionAtNanos(nowNanos)) + numbers.below(spread) - (spread >> 1);
}

/** In any order of versions, derived or the batch's own, and again when it is superseded or with other start times. */
function writeVersioned(
  numbers: SeededNumbers,
  pair: Pair,
  rows: StoreRows,
  ordinal: number,
  nowNanos: bigint,
): void {
  const version = versionAbout(numbers, nowNanos);
  const isDerived = numbers.below(4) > 0;
  pair.write(rows, ordinal, nowNanos, version, isDerived);
  if (isDerived && numbers.below(4) === 0) pair.write(rows, ordinal, nowNanos, version, false);
  if (numbers.below(5) === 0) {
    const startNanos = rows.timestamps.map((nanos) => nanos - BigInt(numbers.below(3)) * second);
    pair.write({ ...rows, startNanos }, ordinal, nowNanos, version, isDerived);
  }
  if (numbers.below(100) === 0) {
    const blockEnd = numbers.below(2) === 0 ? null : nowNanos - BigInt(numbers.below(60)) * second;
    pair.store.noteFiles(version, blockEnd);
    pair.twin.noteFiles(version, blockEnd);
  }
}

/** Batches follow each other within moments or hours. */
const versionSteps = [1000, 1000, 1000, 100_000, 2 ** 21, 2 ** 25, 2 ** 30, 2 ** 34];

/** @param size how many calls; each takes some milliseconds with the twin */
export function fuzz(seed: number, size: number): void {
  const numbers = new SeededNumbers(seed);
  const pair = new Pair(seed % 2 === 1);
  const writers = new Map<number, Writer>();
  let nowNanos = startNanos;
  let version = 1_000_000;
  let versionLowest = 1_000_000;
  /** The last flush; its series may be gone, and others may have their slots. */
  let flushed: { slots: readonly number[]; blockStart: bigint } = { slots: [], blockStart: 0n };
  for (let i = 0; i < 6; i++) pair.create(i % namespaces.length);
  /** One that goes on while other calls are made. */
  let expiry: Expiry | null = null;
  for (let round = 0; round < size; round++) {
    if (expiry !== null && numbers.below(3) === 0) {
      const step: IteratorResult<void, Uint32Array> = expiry.store.next();
      assert.deepEqual(step, expiry.twin.next());
      if (step.done === true) expiry = null;
    } else if (expiry === null && numbers.below(25) === 0) {
      const ordinal = numbers.below(namespaces.length);
      const slotsAStep = 1 + numbers.below(6);
      expiry = {
        store: pair.store.expireInSteps(ordinal, nowNanos, slotsAStep),
        twin: pair.twin.expireInSteps(ordinal, nowNanos, slotsAStep),
      };
    }
    const live = [...pair.slots.keys()];
    const slot = live[numbers.below(live.length)]!;
    const kind = numbers.below(100);
    if (kind < 70) {
      const ordinal = numbers.below(namespaces.length);
      const rows = batchOf(numbers, pair, ordinal, nowNanos, writers);
      version += 1 + numbers.below(versionSteps[numbers.below(versionSteps.length)]!);
      if (pair.keepsRowVersions) writeVersioned(numbers, pair, rows, ordinal, nowNanos);
      else pair.write(rows, ordinal, nowNanos, version, false);
      nowNanos += BigInt(numbers.below(20)) * second;
    } else if (kind < 82) {
      const start = nowNanos - BigInt(numbers.below(4000)) * second;
      pair.assertSameRead(live, start, start + BigInt(numbers.below(3000)) * second);
    } else if (kind < 84) pair.assertSameBlocks(slot);
    else if (kind < 86) {
      const [blockStart] = pair.store.blockStarts(slot);
      if (blockStart === undefined) continue;
      pair.flush(live, blockStart);
      flushed = { slots: live, blockStart };
      if (numbers.below(3) === 0) pair.dropFlushed(live, blockStart);
    } else if (kind < 87) pair.dropFlushed(flushed.slots, flushed.blockStart);
    else if (kind < 91) {
      const isNewer = numbers.below(2) === 0;
      // The rows of one chunk may be this far apart, and must not reach into another one's versions.
      if (isNewer) version += rowVersionsApart;
      else versionLowest -= rowVersionsApart;
      const chosen = isNewer ? version : versionLowest;
      const about = versionAbout(numbers, nowNanos);
      insertSome(numbers, pair, slot, nowNanos, pair.keepsRowVersions ? about : chosen);
    } else if (kind < 94) {
      const ordinal = numbers.below(namespaces.length);
      const empty = pair.store.expire(ordinal, nowNanos);
      assert.deepEqual(empty, pair.twin.expire(ordinal, nowNanos));
      pair.assertSameSums(ordinal);
      expiry = null;
    } else if (kind < 95) {
      const [blockStart] = pair.store.blockStarts(slot);
      if (blockStart === undefined) continue;
      pair.store.dropBlock(Uint32Array.of(slot), blockStart);
      pair.twin.dropBlock(Uint32Array.of(slot), blockStart);
    } else if (kind < 97 && live.length < 12) pair.create(numbers.below(namespaces.length));
    else if (kind < 98 && live.length > 3) {
      pair.release(slot);
      writers.delete(slot);
    } else if (kind < 99) nowNanos += BigInt(numbers.below(2000)) * second;
  }
  const live = [...pair.slots.keys()];
  pair.assertSameRead(live, -(2n ** 63n), 2n ** 63n - 1n);
  for (const slot of live) pair.assertSameBlocks(slot);
  assert.equal(pair.store.seriesCount, pair.twin.seriesCount);
  for (const slot of live) pair.release(slot);
  assert.equal(pair.store.sampleCount, 0);
}
