/**
 * The store of a node's samples: heads and sealed chunks of all series, in one memory of its own
 * with a fixed maximum. It holds no names: a series is a slot here, and the caller maps IDs to
 * slots. The kernel does the work; store_twin.ts says in plain code what it must do.
 */
import { assert, BrokenInvariant } from '#lib/assert.ts';
import { writeWindow } from '#lib/block_time.ts';
import type { Random } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { ByteCollector } from './byte_collector.ts';
import { clampInt64, loadStoreKernel } from './kernel.ts';
import { type SampleStore, TooManyValues, type WriteGroup } from './sample_store.ts';
import type { StoreExports } from './store_exports.ts';
import {
  BlockSums,
  type HeldBlock,
  joinSlots,
  namespaceCountMax,
  resultOf,
  type StoredBlock,
  type StoredChunks,
  type StoreNamespace,
  type StoreRows,
  type StoreTypedRows,
} from './rows.ts';

export { mergeChunks } from './chunk_merge.ts';
export type {
  HeldBlock,
  StoredBlock,
  StoredChunks,
  StoreNamespace,
  StoreRows,
  StoreTypedRows,
} from './rows.ts';
export { storeOutcome } from './rows.ts';

const noSlot = 2 ** 32 - 1;
/** `answerNoMemory` of the kernel. */
const answerNoMemory = 2 ** 32;
const readRoomBytesMin = 256 << 10;
/** A series that needs more gets what it needs: twice that may not be there. */
const readRoomBytesDoubled = 8 << 20;
/** Rows of a batch at once; a longer one is taken in parts. The kernel has numbers of 16 bits for them. */
const stageRowsMax = 65_536;
/** The stage of rows has room for so many at least. */
const stageRowsMin = 8192;
/** Slots that a walk over all series gives in one call of the kernel. */
const slotsAtOnce = 65_536;
/** Blocks of series that a step of such a walk looks at for each of its slots: a backfill writes many. */
const nodesOfSlot = 4;
/** Blocks of a namespace that the kernel tells in one call. */
const blocksAtOnce = 1024;
const blockEntryBytes = 16;
const blockSumsBytes = 32;

/** Memory that admission keeps free for what was admitted and is not applied yet. */
export function reserveOf(memoryBytesMax: number): number {
  return Math.min(Math.max(Math.floor(memoryBytesMax / 8), 1 << 20), 256 << 20);
}

/**
 * Memory beyond all budgets. Admission looks at series as they are, and several batches with
 * several rows of a series are admitted before the first one is applied: what they need together is
 * an estimate, and a row that was acknowledged must find room.
 */
function headroomOf(memoryBytesMax: number): number {
  return Math.min(Math.max(reserveOf(memoryBytesMax), 32 << 20), 2 ** 32 - memoryBytesMax);
}

const insertNoMemory = 4;
const insertTooLarge = 5;
const insertFailures: Record<number, string> = {
  1: 'it is malformed',
  2: 'it spans two blocks',
  3: 'it has a time that no store takes',
};

export class Store implements SampleStore {
  readonly #memory: WebAssembly.Memory;
  readonly #kernel: StoreExports;
  readonly #namespaces: Map<number, StoreNamespace>;
  readonly #budgetBytes: number;
  readonly #reserveBytes: number;
  #generation: Uint32Array;
  #rowStage: RowStage | null;
  /** Null for a store whose batches come one after the other. */
  #writeGroup: WriteGroup | null = null;

  /**
   * @param options.memoryBytesMax what the store admits rows and series for: 8 MiB to 4 GiB; see
   * `headroomOf`
   */
  constructor(options: { random: Random; memoryBytesMax: number }) {
    const { memoryBytesMax } = options;
    assert(memoryBytesMax >= 8 << 20 && memoryBytesMax <= 2 ** 32, 'a store has 8 MiB to 4 GiB');
    const { memory, kernel } = loadStoreKernel(memoryBytesMax + headroomOf(memoryBytesMax));
    this.#memory = memory;
    this.#kernel = kernel;
    this.#namespaces = new Map();
    this.#reserveBytes = reserveOf(memoryBytesMax);
    this.#budgetBytes = memoryBytesMax - this.#reserveBytes;
    this.#generation = new Uint32Array(1024);
    this.#rowStage = null;
  }

  setNamespace(ordinal: number, options: StoreNamespace): void {
    assert(ordinal >= 0 && ordinal < namespaceCountMax, 'namespace ordinals are below 1024');
    assert(options.blockSizeNanos > 0n, 'a block has a size');
    const before = this.#namespaces.get(ordinal);
    if (before !== undefined && before.blockSizeNanos !== options.blockSizeNanos) {
      throw badRequest(
        `cannot change namespace: blockSize is fixed once it is set: ${options.blockSizeNanos}`,
      );
    }
    this.#namespaces.set(ordinal, options);
    this.#kernel.setNamespace(ordinal, options.blockSizeNanos);
  }

  forgetNamespace(ordinal: number): void {
    this.#namespaces.delete(ordinal);
  }

  createSeries(namespaceOrdinal: number): number {
    this.#namespace(namespaceOrdinal);
    const slot = this.#kernel.createSeries(namespaceOrdinal, this.#budgetBytes) >>> 0;
    if (slot === noSlot) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'cannot create series: memory is over its budget');
    }
    if (slot >= this.#generation.length) {
      const larger = new Uint32Array(this.#generation.length * 2);
      larger.set(this.#generation);
      this.#generation = larger;
    }
    this.#generation[slot] = this.#kernel.generationOf(slot);
    return slot;
  }

  releaseSeries(slot: number): void {
    this.#assertLive(slot);
    this.#kernel.releaseSeries(slot);
    this.#generation[slot] = this.#kernel.generationOf(slot);
  }

  get generation(): Uint32Array {
    return this.#generation;
  }

  check(rows: StoreRows, namespaceOrdinal: number, nowNanos: bigint, outcomes: Uint8Array): number {
    const { startNanos, endNanos } = writeWindow(this.#namespace(namespaceOrdinal), nowNanos);
    let refused = 0;
    for (let row = 0; row < rows.rowCount; row += stageRowsMax) {
      const stage = this.#stageRows(rows, row, outcomes, false);
      refused += this.#kernel.check(
        stage.slots.byteOffset,
        stage.generations.byteOffset,
        stage.times.byteOffset,
        stage.startsAt,
        stage.outcomes.byteOffset,
        stage.rowCount,
        BigInt(rows.timeUnitNanos),
        namespaceOrdinal,
        startNanos,
        endNanos,
        this.#budgetBytes,
        this.#reserveBytes,
      );
      outcomes.set(stage.outcomes.subarray(0, stage.rowCount), row);
    }
    return refused;
  }

  keepsRowVersions = false;

  keepRowVersions(keeps: boolean): void {
    this.keepsRowVersions = keeps;
    this.#kernel.setKeepsRowVersions(keeps ? 1 : 0);
  }

  noteFiles(version: number, blockEndNanos: bigint | null): void {
    this.#kernel.noteFiles(BigInt(version), clampInt64(blockEndNanos ?? 2n ** 63n));
  }

  append(rows: StoreRows, version: number, outcomes: Uint8Array, isDerived = false): number {
    return resultOf(this.appendInSteps(rows, version, outcomes, isDerived));
  }

  *appendInSteps(
    rows: StoreRows,
    version: number,
    outcomes: Uint8Array,
    isDerived: boolean,
  ): Generator<void, number> {
    assert(Number.isSafeInteger(version) && version >= 0, 'a version is an exact number');
    let superseded = 0;
    for (let row = 0; row < rows.rowCount; ) {
      if (row > 0) yield;
      const stage = this.#stageRows(rows, row, outcomes, true);
      const { byteOffset } = stage.outcomes;
      const count = this.#run(() =>
        this.#kernel.append(
          stage.slots.byteOffset,
          stage.generations.byteOffset,
          stage.times.byteOffset,
          stage.startsAt,
          stage.values.byteOffset,
          stage.outcomes.byteOffset,
          stage.lateAt,
          stage.rowCount,
          BigInt(rows.timeUnitNanos),
          BigInt(version),
          isDerived ? 1 : 0,
        ),
      );
      const done = this.#kernel.answer();
      // The memory may have grown.
      if (count > 0) outcomes.set(new Uint8Array(this.#memory.buffer, byteOffset, done), row);
      superseded += count;
      row += done;
    }
    return superseded;
  }

  checkTyped(
    rows: StoreTypedRows,
    namespaceOrdinal: number,
    nowNanos: bigint,
    outcomes: Uint8Array,
  ): number {
    const { startNanos, endNanos } = writeWindow(this.#namespace(namespaceOrdinal), nowNanos);
    let refused = 0;
    const group = this.#writeGroup ?? 0;
    if (this.#writeGroup === null) this.#kernel.clearTypedGroup(group);
    for (let row = 0, rowEnd = 0; row < rows.rowCount; row = rowEnd) {
      rowEnd = typedPartEnd(rows, row);
      const stage = this.#stageTyped(rows, row, rowEnd, outcomes);
      refused += this.#run(() =>
        this.#kernel.checkTyped(
          stage.slots,
          stage.generations,
          stage.times,
          stage.ends,
          stage.bytes,
          stage.outcomes,
          rowEnd - row,
          BigInt(rows.timeUnitNanos),
          namespaceOrdinal,
          startNanos,
          endNanos,
          this.#budgetBytes,
          group,
        ),
      );
      outcomes.set(new Uint8Array(this.#memory.buffer, stage.outcomes, rowEnd - row), row);
    }
    return refused;
  }

  beginGroup(group: WriteGroup): void {
    this.#writeGroup = group;
    this.#kernel.clearTypedGroup(group);
  }

  endGroup(group: WriteGroup): void {
    this.#kernel.clearTypedGroup(group);
  }

  appendTyped(
    rows: StoreTypedRows,
    version: number,
    outcomes: Uint8Array,
    isDerived = false,
  ): number {
    return resultOf(this.appendTypedInSteps(rows, version, outcomes, isDerived));
  }

  *appendTypedInSteps(
    rows: StoreTypedRows,
    version: number,
    outcomes: Uint8Array,
    isDerived: boolean,
  ): Generator<void, number> {
    assert(Number.isSafeInteger(version) && version >= 0, 'a version is an exact number');
    let superseded = 0;
    for (let row = 0; row < rows.rowCount; ) {
      if (row > 0) yield;
      const rowEnd = typedPartEnd(rows, row);
      const stage = this.#stageTyped(rows, row, rowEnd, outcomes);
      const count = this.#run(() =>
        this.#kernel.appendTyped(
          stage.slots,
          stage.generations,
          stage.times,
          stage.starts,
          stage.ends,
          stage.bytes,
          stage.outcomes,
          stage.late,
          rowEnd - row,
          BigInt(rows.timeUnitNanos),
          BigInt(version),
          isDerived ? 1 : 0,
        ),
      );
      const done = this.#kernel.answer();
      // The memory may have grown.
      if (count > 0) outcomes.set(new Uint8Array(this.#memory.buffer, stage.outcomes, done), row);
      superseded += count;
      row += done;
    }
    return superseded;
  }

  read(slots: Uint32Array, startNanos: bigint, endNanos: bigint): StoredChunks {
    const target = new ByteCollector();
    const chunkOffset = this.readInto(target, slots, startNanos, endNanos);
    return { chunkData: target.view(), chunkOffset };
  }

  readInto(
    target: ByteCollector,
    slots: Uint32Array,
    startNanos: bigint,
    endNanos: bigint,
  ): Uint32Array {
    const [start, end] = [clampInt64(startNanos), clampInt64(endNanos)];
    return this.#readAll(target, slots, (at, from, out, room, lengths) =>
      this.#kernel.read(at, from, slots.length, start, end, out, room, lengths),
    );
  }

  insertChunks(slot: number, chunks: Uint8Array): void {
    this.#assertLive(slot);
    const full = this.#kernel.memoryBytes() + 2 * chunks.length > this.#budgetBytes;
    const at = full ? 0 : this.#kernel.stage(chunks.length + 64) >>> 0;
    if (at === 0) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'cannot add chunks: memory is over its budget');
    }
    new Uint8Array(this.#memory.buffer, at, chunks.length).set(chunks);
    const outcome = this.#run(() => this.#kernel.insertChunks(slot, at, chunks.length));
    assert(outcome !== insertNoMemory, 'the memory has a reserve for work');
    if (outcome === insertTooLarge) {
      throw new TooManyValues(
        'RESOURCE_EXHAUSTED',
        `cannot add chunks: a block has more typed values than can be merged: slot ${slot}`,
      );
    }
    const failure = insertFailures[outcome];
    if (failure !== undefined) throw badRequest(`cannot add chunk: ${failure}: slot ${slot}`);
  }

  readBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    return this.#readBlock(slots, blockStartNanos, 0);
  }

  flushBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    return this.#readBlock(slots, blockStartNanos, 1);
  }

  dropFlushed(slots: Uint32Array, blockStartNanos: bigint): number {
    const at = this.#stageBytes(slots.length * 4);
    new Uint32Array(this.#memory.buffer, at, slots.length).set(slots);
    return this.#kernel.dropFlushed(at, slots.length, clampInt64(blockStartNanos));
  }

  blocks(namespaceOrdinal: number): HeldBlock[] {
    this.#namespace(namespaceOrdinal);
    const at = this.#stageBytes(blocksAtOnce * blockEntryBytes);
    const blocks: HeldBlock[] = [];
    for (;;) {
      const count = this.#kernel.blocks(namespaceOrdinal, blocks.length, at, blocksAtOnce);
      const starts = new BigInt64Array(this.#memory.buffer, at, count * 2);
      const counts = new Float64Array(this.#memory.buffer, at, count * 2);
      for (let i = 0; i < count; i++) {
        blocks.push({ blockStartNanos: starts[2 * i]!, seriesCount: counts[2 * i + 1]! });
      }
      if (count < blocksAtOnce) return blocks;
    }
  }

  *sumsInSteps(namespaceOrdinal: number, slotsAStep: number): Generator<void, StoredBlock[]> {
    this.#namespace(namespaceOrdinal);
    const sums = new BlockSums();
    // Some more may come on the way.
    const blocksMax = this.blocks(namespaceOrdinal).length + blocksAtOnce;
    for (let from = 0; from < this.#kernel.seriesEnd(); from = this.#kernel.answer()) {
      if (from > 0) yield;
      const some = this.#sumsOf(namespaceOrdinal, from, slotsAStep, blocksMax);
      for (const block of some) sums.add(block);
    }
    return sums.ascending();
  }

  /** Of slots from the one on; the kernel's answer is where to go on. */
  #sumsOf(ordinal: number, from: number, slotsAStep: number, blocksMax: number): StoredBlock[] {
    const end = from + slotsAStep;
    const nodesMax = slotsAStep * nodesOfSlot;
    for (let countMax = blocksMax; ; countMax *= 4) {
      const at = this.#stageBytes(countMax * blockSumsBytes);
      const count = this.#kernel.sums(ordinal, from, end, nodesMax, at, countMax);
      if (count > countMax) continue;
      const starts = new BigInt64Array(this.#memory.buffer, at, count * 4);
      const sums = new Float64Array(this.#memory.buffer, at, count * 4);
      return Array.from({ length: count }, (_, i) => ({
        blockStartNanos: starts[4 * i]!,
        seriesCount: sums[4 * i + 1]!,
        rowCount: sums[4 * i + 2]!,
        bytes: sums[4 * i + 3]!,
      }));
    }
  }

  slotsOfBlock(namespaceOrdinal: number, blockStartNanos: bigint): Uint32Array {
    return joinSlots([...this.slotsInSteps(namespaceOrdinal, blockStartNanos, slotsAtOnce)]);
  }

  *slotsInSteps(
    namespaceOrdinal: number,
    blockStartNanos: bigint | null,
    slotsAStep: number,
  ): Generator<Uint32Array, void> {
    this.#namespace(namespaceOrdinal);
    const start = clampInt64(blockStartNanos ?? 0n);
    const inAny = blockStartNanos === null ? 1 : 0;
    const nodesMax = slotsAStep * nodesOfSlot;
    for (let from = 0; from < this.#kernel.seriesEnd(); ) {
      const at = this.#stageBytes(slotsAStep * 4);
      const end = from + slotsAStep;
      const ordinal = namespaceOrdinal;
      const count = this.#kernel.slotsWithRows(ordinal, start, inAny, from, end, nodesMax, at);
      from = this.#kernel.answer();
      yield new Uint32Array(this.#memory.buffer, at, count).slice();
    }
  }

  blockStarts(slot: number): bigint[] {
    this.#assertLive(slot);
    for (let countMax = 64; ; ) {
      const at = this.#stageBytes(countMax * 8);
      const count = this.#kernel.blockStarts(slot, at, countMax);
      if (count <= countMax) return Array.from(new BigInt64Array(this.#memory.buffer, at, count));
      countMax = count;
    }
  }

  dropBlock(slots: Uint32Array, blockStartNanos: bigint): void {
    for (const slot of slots) this.#assertLive(slot);
    const at = this.#stageBytes(slots.length * 4);
    new Uint32Array(this.#memory.buffer, at, slots.length).set(slots);
    this.#kernel.dropBlock(at, slots.length, clampInt64(blockStartNanos));
  }

  expire(namespaceOrdinal: number, nowNanos: bigint): Uint32Array {
    return resultOf(this.expireInSteps(namespaceOrdinal, nowNanos, slotsAtOnce));
  }

  *expireInSteps(
    namespaceOrdinal: number,
    nowNanos: bigint,
    slotsAStep: number,
  ): Generator<void, Uint32Array> {
    const { retentionNanos } = this.#namespace(namespaceOrdinal);
    const cutoff = clampInt64(nowNanos - retentionNanos);
    const parts: Uint32Array[] = [];
    for (let from = 0; from < this.#kernel.seriesEnd(); from = this.#kernel.answer()) {
      if (from > 0) yield;
      const at = this.#stageBytes(slotsAStep * 4);
      const end = from + slotsAStep;
      const count = this.#kernel.expire(namespaceOrdinal, cutoff, from, end, at, slotsAStep);
      if (count > 0) parts.push(new Uint32Array(this.#memory.buffer, at, count).slice());
    }
    return joinSlots(parts);
  }

  get seriesCount(): number {
    return this.#kernel.seriesCount();
  }

  get memoryBytes(): number {
    return this.#kernel.memoryBytes();
  }

  get sampleCount(): number {
    return this.#kernel.sampleCount();
  }

  #namespace(ordinal: number): StoreNamespace {
    const namespace = this.#namespaces.get(ordinal);
    assert(namespace !== undefined, 'the namespace is set');
    return namespace;
  }

  #assertLive(slot: number): void {
    assert(this.#kernel.isLive(slot) === 1, 'the slot is of a series that was created');
  }

  /**
   * Calls the kernel for work of which a trap would leave the memory half changed: nothing may go on
   * then.
   */
  #run<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      throw new BrokenInvariant(
        `invariant broken: the kernel of the store does not trap: ${error.message}`,
      );
    }
  }

  /** Room in the kernel's memory until the next call of this. */
  #stageBytes(bytes: number): number {
    const at = this.#kernel.stage(bytes) >>> 0;
    assert(at !== 0, 'the memory has a reserve for answers');
    return at;
  }

  /** Copies rows [row, …) of the columns into the stage, at most `stageRowsMax`. */
  #stageRows(rows: StoreRows, row: number, outcomes: Uint8Array, withValues: boolean): RowStage {
    const rowCount = Math.min(rows.rowCount - row, stageRowsMax);
    const rowEnd = row + rowCount;
    const capacity = Math.max(rowCount, stageRowsMin);
    const at = this.#stageBytes(capacity * rowStageBytes + 8);
    // Making views costs as much as copying hundreds of rows. A memory that grows has a new buffer.
    const { buffer } = this.#memory;
    let stage = this.#rowStage;
    if (stage?.buffer !== buffer || stage.at !== at || stage.capacity < rowCount) {
      stage = new RowStage(buffer, at, capacity);
      this.#rowStage = stage;
    }
    stage.rowCount = rowCount;
    stage.times.set(partOf(rows.timestamps, row, rowEnd));
    stage.slots.set(partOf(rows.slots, row, rowEnd));
    stage.generations.set(partOf(rows.generations, row, rowEnd));
    stage.outcomes.set(partOf(outcomes, row, rowEnd));
    if (withValues) stage.values.set(partOf(rows.values, row, rowEnd));
    stage.startsAt = 0;
    if (rows.startNanos !== undefined) {
      assert(this.keepsRowVersions, 'rows with start times keep their versions');
      stage.starts.set(partOf(rows.startNanos, row, rowEnd));
      stage.startsAt = stage.starts.byteOffset;
    }
    return stage;
  }

  /** Copies typed rows [row, rowEnd) into the stage; gives the addresses of their columns. */
  #stageTyped(rows: StoreTypedRows, row: number, rowEnd: number, outcomes: Uint8Array): TypedStage {
    const count = rowEnd - row;
    const first = row === 0 ? 0 : rows.valueEnds[row - 1]!;
    const byteLength = rows.valueEnds[rowEnd - 1]! - first;
    const at = this.#stageBytes(count * 33 + byteLength + 64);
    const stage: TypedStage = {
      times: at,
      starts: at + count * 8,
      slots: at + count * 16,
      generations: at + count * 20,
      ends: at + count * 24,
      late: at + count * 28,
      outcomes: at + count * 32,
      bytes: at + count * 33,
    };
    const { buffer } = this.#memory;
    new BigInt64Array(buffer, stage.times, count).set(rows.timestamps.subarray(row, rowEnd));
    new BigInt64Array(buffer, stage.starts, count).set(rows.startNanos.subarray(row, rowEnd));
    new Uint32Array(buffer, stage.slots, count).set(rows.slots.subarray(row, rowEnd));
    new Uint32Array(buffer, stage.generations, count).set(rows.generations.subarray(row, rowEnd));
    const ends = new Uint32Array(buffer, stage.ends, count);
    for (let i = 0; i < count; i++) ends[i] = rows.valueEnds[row + i]! - first;
    new Uint8Array(buffer, stage.outcomes, count).set(outcomes.subarray(row, rowEnd));
    const bytes = rows.valueBytes.subarray(first, first + byteLength);
    new Uint8Array(buffer, stage.bytes, byteLength).set(bytes);
    return stage;
  }

  #readBlock(slots: Uint32Array, blockStartNanos: bigint, isFlush: number): StoredChunks {
    const start = clampInt64(blockStartNanos);
    const target = new ByteCollector();
    const chunkOffset = this.#readAll(target, slots, (at, from, out, room, lengths) =>
      this.#kernel.readBlock(at, from, slots.length, start, out, room, lengths, isFlush),
    );
    return { chunkData: target.view(), chunkOffset };
  }

  /** Fills the stage with chunks of as many slots as fit, again and again. */
  #readAll(
    target: ByteCollector,
    slots: Uint32Array,
    fill: (slots: number, from: number, out: number, room: number, lengths: number) => number,
  ): Uint32Array {
    for (const slot of slots) this.#assertLive(slot);
    const chunkOffset = new Uint32Array(slots.length + 1).fill(target.length, 0, 1);
    let room = readRoomBytesMin;
    for (let from = 0; from < slots.length; ) {
      const at = this.#kernel.stage(slots.length * 8 + room) >>> 0;
      if (at === 0) throw noMemoryToRead(slots[from]!);
      new Uint32Array(this.#memory.buffer, at, slots.length).set(slots);
      const lengthsAt = at + slots.length * 4;
      const out = lengthsAt + slots.length * 4;
      const next = this.#run(() => fill(at, from, out, room, lengthsAt));
      if (next === from) {
        const needed = this.#kernel.answer();
        if (needed >= answerNoMemory) throw noMemoryToRead(slots[from]!);
        room = Math.max(Math.min(room * 2, readRoomBytesDoubled), needed);
        continue;
      }
      const lengths = new Uint32Array(this.#memory.buffer, lengthsAt, slots.length);
      let length = 0;
      for (; from < next; from++) {
        length += lengths[from]!;
        chunkOffset[from + 1] = chunkOffset[from]! + lengths[from]!;
      }
      const bytesPerSlot = (target.length + length - chunkOffset[0]!) / from;
      target.expect(target.length + length + bytesPerSlot * 1.05 * (slots.length - from));
      target.append(new Uint8Array(this.#memory.buffer, out, length));
    }
    return chunkOffset;
  }
}

/** Addresses of columns in the stage. */
interface TypedStage {
  readonly times: number;
  readonly starts: number;
  readonly slots: number;
  readonly generations: number;
  readonly ends: number;
  /** Room for two u16 a row. */
  readonly late: number;
  readonly outcomes: number;
  readonly bytes: number;
}

/** Typed rows of a batch at once, and bytes of their values but for the last one's. */
const typedStageBytesMax: number = 4 << 20;

/** End of the rows from one on that are staged at once. */
function typedPartEnd({ rowCount, valueEnds }: StoreTypedRows, row: number): number {
  const first = row === 0 ? 0 : valueEnds[row - 1]!;
  let rowEnd = row + 1;
  while (
    rowEnd < rowCount &&
    rowEnd - row < stageRowsMax &&
    valueEnds[rowEnd]! - first <= typedStageBytesMax
  ) {
    rowEnd++;
  }
  return rowEnd;
}

function noMemoryToRead(slot: number): TsdbError {
  return new TsdbError(
    'RESOURCE_EXHAUSTED',
    `cannot read series: memory is over its budget: slot ${slot}`,
  );
}

function partOf<Column extends { length: number; subarray(from: number, end: number): Column }>(
  column: Column,
  from: number,
  end: number,
): Column {
  return from === 0 && end === column.length ? column : column.subarray(from, end);
}

const rowStageBytes = 37;

/** Columns in the stage, with room for `capacity` rows. */
class RowStage {
  readonly buffer: ArrayBuffer;
  readonly at: number;
  readonly capacity: number;
  rowCount: number;
  readonly times: BigInt64Array;
  readonly starts: BigInt64Array;
  /** Address of the start times; 0 when no row has one. */
  startsAt: number;
  readonly values: Float64Array;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  /** Address of room for two u16 a row. */
  readonly lateAt: number;
  readonly outcomes: Uint8Array;

  constructor(buffer: ArrayBuffer, at: number, capacity: number) {
    this.buffer = buffer;
    this.at = at;
    this.capacity = capacity;
    this.rowCount = 0;
    this.times = new BigInt64Array(buffer, at, capacity);
    this.values = new Float64Array(buffer, at + capacity * 8, capacity);
    this.starts = new BigInt64Array(buffer, at + capacity * 16, capacity);
    this.startsAt = 0;
    this.slots = new Uint32Array(buffer, at + capacity * 24, capacity);
    this.generations = new Uint32Array(buffer, at + capacity * 28, capacity);
    this.lateAt = at + capacity * 32;
    this.outcomes = new Uint8Array(buffer, at + capacity * 36, capacity);
  }
}
