/**
 * The obvious store: a map of timestamps for each series. It says what a store means; the kernel
 * behind store.ts is held equal to it by store_fuzz.ts.
 */
import { assert } from '#lib/assert.ts';
import {
  blockStartOf,
  isBlockExpired,
  rowNanosMax,
  sideOfWindow,
  writeWindow,
} from '#lib/block_time.ts';
import { TsdbError } from '#lib/errors.ts';
import { derivedVersion, liveLagMax, versionAtNanos } from '#lib/hybrid_clock.ts';
import { chunkHeaders, chunkKind, encodeRawChunk, kindsAll } from '../codec/chunk.ts';
import { decodeChunkRows, replaces } from '../codec/decoder_twin.ts';
import { malformed } from '../codec/chunk.ts';
import { encodeFloatStartsChunk } from '../codec/codec_twin.ts';
import { decodeTypedChunk } from '../typed/chunk_twin.ts';
import { type OrderedTypedRow as TypedRow, orderOfTypedRows } from '../typed/typed_value.ts';
import {
  type HeldBlock,
  storeOutcome,
  type StoredBlock,
  type StoredChunks,
  type StoreNamespace,
  type StoreRows,
  type StoreTypedRows,
} from './rows.ts';

interface Row {
  readonly version: number;
  readonly bits: bigint;
  /** Unix nanoseconds, 0 for none. */
  readonly start: bigint;
}

interface Series {
  readonly namespaceOrdinal: number;
  readonly rows: Map<bigint, Row>;
  /** Beside the floats: which of two of one time stays, whoever reads both decides. */
  readonly typed: Map<bigint, TypedRow>;
  /** Starts of blocks to which nothing came since they were read for a file. */
  readonly flushed: Set<bigint>;
  /**
   * A row was admitted since the last expiry: it may still be on its way through the commit log.
   */
  admitted: boolean;
}

function* timesOf({ rows, typed }: Series): Generator<bigint> {
  yield* rows.keys();
  yield* typed.keys();
}

function rowCountOf({ rows, typed }: Series): number {
  return rows.size + typed.size;
}

const noValues = new Float64Array(0);
const seriesBytes = 128;
const rowBytes = 32;

export class StoreTwin {
  readonly #memoryBytesMax: number;
  readonly #namespaces: Map<number, StoreNamespace>;
  readonly #series: (Series | null)[];
  readonly #freeSlots: number[];
  #generation: Uint32Array;
  #batchVersionHighest: number;
  /** Versions of rows in files are not above: of blocks that were open or had just ended, and others. */
  #versionRecentFiles: number;
  #versionOtherFiles: number;

  constructor(options: { memoryBytesMax: number }) {
    this.#memoryBytesMax = options.memoryBytesMax;
    this.#namespaces = new Map();
    this.#series = [];
    this.#freeSlots = [];
    this.#generation = new Uint32Array(16);
    this.#batchVersionHighest = 0;
    this.#versionRecentFiles = 0;
    this.#versionOtherFiles = 0;
  }

  get generation(): Uint32Array {
    return this.#generation;
  }

  get seriesCount(): number {
    return this.#series.length - this.#freeSlots.length;
  }

  get sampleCount(): number {
    return this.#series.reduce(
      (sum, series) => sum + (series === null ? 0 : rowCountOf(series)),
      0,
    );
  }

  get memoryBytes(): number {
    return this.seriesCount * seriesBytes + this.sampleCount * rowBytes;
  }

  setNamespace(ordinal: number, options: StoreNamespace): void {
    this.#namespaces.set(ordinal, options);
  }

  createSeries(namespaceOrdinal: number): number {
    assert(
      this.#namespaces.has(namespaceOrdinal),
      'a series is created in a namespace that is set',
    );
    if (this.memoryBytes + seriesBytes > this.#memoryBytesMax) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'cannot create series: memory is over its budget');
    }
    const slot = this.#freeSlots.pop() ?? this.#series.length;
    this.#series[slot] = {
      namespaceOrdinal,
      rows: new Map(),
      typed: new Map(),
      flushed: new Set(),
      admitted: true,
    };
    if (slot >= this.#generation.length) {
      const larger = new Uint32Array(this.#generation.length * 2);
      larger.set(this.#generation);
      this.#generation = larger;
    }
    if (this.#generation[slot] === 0) this.#generation[slot] = 1;
    return slot;
  }

  releaseSeries(slot: number): void {
    this.#at(slot);
    this.#series[slot] = null;
    this.#freeSlots.push(slot);
    this.#generation[slot]!++;
    if (this.#generation[slot] === 0) this.#generation[slot] = 1;
  }

  check(rows: StoreRows, namespaceOrdinal: number, nowNanos: bigint, outcomes: Uint8Array): number {
    const namespace = this.#namespace(namespaceOrdinal);
    const full = this.memoryBytes + rows.rowCount * rowBytes > this.#memoryBytesMax;
    let refused = 0;
    for (let i = 0; i < rows.rowCount; i++) {
      if (outcomes[i] === storeOutcome.written) {
        const series = this.#series[rows.slots[i]!];
        const known =
          series?.namespaceOrdinal === namespaceOrdinal &&
          this.#generation[rows.slots[i]!] === rows.generations[i];
        const nanos = rows.timestamps[i]! * BigInt(rows.timeUnitNanos);
        const outcome = known ? timeOutcome(namespace, nanos, nowNanos) : 1;
        outcomes[i] = outcome === 0 && full ? storeOutcome.resourceExhausted : outcome;
        if (outcomes[i] === storeOutcome.written) series!.admitted = true;
      }
      if (outcomes[i] !== storeOutcome.written) refused++;
    }
    return refused;
  }

  noteFiles(version: number, blockEndNanos: bigint | null): void {
    const isRecent =
      blockEndNanos === null || Number(versionAtNanos(blockEndNanos)) + liveLagMax > version;
    if (isRecent) this.#versionRecentFiles = Math.max(this.#versionRecentFiles, version);
    else this.#versionOtherFiles = Math.max(this.#versionOtherFiles, version);
  }

  append(rows: StoreRows, version: number, outcomes: Uint8Array, isDerived = false): number {
    const bits = new BigUint64Array(rows.rowCount);
    new Float64Array(bits.buffer).set(rows.values.subarray(0, rows.rowCount));
    if (rows.rowCount > 0) {
      this.#batchVersionHighest = Math.max(this.#batchVersionHighest, version);
    }
    let superseded = 0;
    for (let i = 0; i < rows.rowCount; i++) {
      if (outcomes[i] !== storeOutcome.written) continue;
      const slot = rows.slots[i]!;
      const series = this.#series[slot];
      if (!series || this.#generation[slot] !== rows.generations[i]) continue;
      const nanos = rows.timestamps[i]! * BigInt(rows.timeUnitNanos);
      const row = {
        version: isDerived ? derivedVersion(version, nanos) : version,
        bits: bits[i]!,
        start: rows.startNanos?.[i] ?? 0n,
      };
      if (!isDerived) this.#put(series, nanos, row);
      else if (!this.#putDerived(series, nanos, row)) {
        outcomes[i] = storeOutcome.superseded;
        superseded++;
      }
    }
    return superseded;
  }

  /** @returns false when another value of the time supersedes it, or one in a file may */
  #putDerived(series: Series, nanos: bigint, row: Row): boolean {
    const isLive = row.version === Number(versionAtNanos(nanos));
    const ofFiles = Math.max(this.#versionRecentFiles, isLive ? 0 : this.#versionOtherFiles);
    if (row.version <= ofFiles) return false;
    const typed = series.typed.get(nanos);
    if (typed !== undefined && typed.version >= row.version) return false;
    // A float that comes to a block takes its mark away, also when it changes nothing.
    const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
    series.flushed.delete(blockStartOf(nanos, blockSizeNanos));
    const held = series.rows.get(nanos);
    if (held?.bits === row.bits && held.start === row.start && held.version >= row.version) {
      return true;
    }
    if (held !== undefined && replaces(held, row)) return false;
    this.#put(series, nanos, row);
    return true;
  }

  checkTyped(
    rows: StoreTypedRows,
    namespaceOrdinal: number,
    nowNanos: bigint,
    outcomes: Uint8Array,
  ): number {
    return this.check({ ...rows, values: noValues }, namespaceOrdinal, nowNanos, outcomes);
  }

  appendTyped(
    rows: StoreTypedRows,
    version: number,
    outcomes: Uint8Array,
    isDerived = false,
  ): number {
    if (rows.rowCount > 0) {
      this.#batchVersionHighest = Math.max(this.#batchVersionHighest, version);
    }
    let superseded = 0;
    for (let i = 0; i < rows.rowCount; i++) {
      if (outcomes[i] !== storeOutcome.written) continue;
      const slot = rows.slots[i]!;
      const series = this.#series[slot];
      if (!series || this.#generation[slot] !== rows.generations[i]) continue;
      const nanos = rows.timestamps[i]! * BigInt(rows.timeUnitNanos);
      const row: TypedRow = {
        version: isDerived ? derivedVersion(version, nanos) : version,
        value: rows.valueBytes.slice(i === 0 ? 0 : rows.valueEnds[i - 1]!, rows.valueEnds[i]!),
        startNanos: rows.startNanos[i]!,
      };
      if (!isDerived) this.#putTyped(series, nanos, row);
      else if (!this.#putTypedDerived(series, nanos, row)) {
        outcomes[i] = storeOutcome.superseded;
        superseded++;
      }
    }
    return superseded;
  }

  /** As `#putDerived`. */
  #putTypedDerived(series: Series, nanos: bigint, row: TypedRow): boolean {
    const isLive = row.version === Number(versionAtNanos(nanos));
    const ofFiles = Math.max(this.#versionRecentFiles, isLive ? 0 : this.#versionOtherFiles);
    if (row.version <= ofFiles) return false;
    if ((series.rows.get(nanos)?.version ?? -1) > row.version) return false;
    const held = series.typed.get(nanos);
    if (held !== undefined && held.version >= row.version) {
      if (orderOfTypedRows({ ...held, version: row.version }, row) === 0) return true;
      if (orderOfTypedRows(held, row) > 0) return false;
    }
    this.#putTyped(series, nanos, row);
    return true;
  }

  #putTyped(series: Series, nanos: bigint, row: TypedRow): void {
    const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
    series.flushed.delete(blockStartOf(nanos, blockSizeNanos));
    const held = series.typed.get(nanos);
    if (held === undefined || orderOfTypedRows(row, held) > 0) series.typed.set(nanos, row);
  }

  /** Typed rows of a series in a range, by ascending time. */
  typedRowsOf(slot: number, startNanos: bigint, endNanos: bigint): [bigint, TypedRow][] {
    return [...this.#at(slot).typed]
      .filter(([nanos]) => nanos >= startNanos && nanos < endNanos)
      .sort(([a], [b]) => (a < b ? -1 : 1));
  }

  read(slots: Uint32Array, startNanos: bigint, endNanos: bigint): StoredChunks {
    return this.#chunksOf(slots, (nanos) => nanos >= startNanos && nanos < endNanos);
  }

  insertChunks(slot: number, chunks: Uint8Array): void {
    const series = this.#at(slot);
    const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
    const inserted: [bigint, Row][] = [];
    const insertedTyped: [bigint, TypedRow][] = [];
    for (const header of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
      if (header.firstNanos <= -rowNanosMax || header.lastNanos >= rowNanosMax) {
        throw malformed('has a time that no store takes', header.payloadStart);
      }
      if (
        blockStartOf(header.firstNanos, blockSizeNanos) !==
        blockStartOf(header.lastNanos, blockSizeNanos)
      ) {
        throw malformed('spans two blocks', header.payloadStart);
      }
      if (header.kind === chunkKind.typed) {
        const { timestampNanos, values, rowVersions, startNanos } = decodeTypedChunk(
          chunks,
          header,
        );
        timestampNanos.forEach((nanos, i) => {
          const start = startNanos?.[i] ?? 0n;
          const version = rowVersions[i]!;
          insertedTyped.push([nanos, { version, value: values[i]!, startNanos: start }]);
        });
        continue;
      }
      const rows = decodeChunkRows(chunks, header);
      const bits = new BigUint64Array(rows.values.buffer, rows.values.byteOffset);
      rows.timestampNanos.forEach((nanos, i) => {
        const start = rows.startNanos[i]!;
        inserted.push([nanos, { version: rows.rowVersions[i]!, bits: bits[i]!, start }]);
      });
    }
    for (const [nanos, row] of inserted) this.#put(series, nanos, row);
    for (const [nanos, row] of insertedTyped) this.#putTyped(series, nanos, row);
  }

  readBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    return this.#chunksOf(slots, (_, blockStart) => blockStart === blockStartNanos);
  }

  flushBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    for (const slot of slots) this.#at(slot).flushed.add(blockStartNanos);
    return this.readBlock(slots, blockStartNanos);
  }

  dropFlushed(slots: Uint32Array, blockStartNanos: bigint): number {
    let dropped = 0;
    for (const slot of slots) {
      const series = this.#series[slot];
      if (!series?.flushed.delete(blockStartNanos)) continue;
      const rowsBefore = rowCountOf(series);
      this.#drop(series, (start) => start === blockStartNanos);
      if (rowCountOf(series) === rowsBefore) continue;
      dropped++;
      const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
      this.noteFiles(this.#batchVersionHighest, blockStartNanos + blockSizeNanos);
    }
    return dropped;
  }

  blocks(namespaceOrdinal: number): HeldBlock[] {
    return this.#sums(namespaceOrdinal).map(({ blockStartNanos, seriesCount }) => {
      return { blockStartNanos, seriesCount };
    });
  }

  // oxlint-disable-next-line require-yield -- one step
  *sumsInSteps(namespaceOrdinal: number, _slotsAStep: number): Generator<void, StoredBlock[]> {
    return this.#sums(namespaceOrdinal);
  }

  #sums(namespaceOrdinal: number): StoredBlock[] {
    const { blockSizeNanos } = this.#namespace(namespaceOrdinal);
    const rowsOf = new Map<bigint, number[]>();
    for (const series of this.#series) {
      if (series?.namespaceOrdinal !== namespaceOrdinal) continue;
      const times = Map.groupBy(timesOf(series), (nanos) => blockStartOf(nanos, blockSizeNanos));
      for (const [start, { length }] of times) {
        rowsOf.set(start, [...(rowsOf.get(start) ?? []), length]);
      }
    }
    return [...rowsOf]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([blockStartNanos, rowsOfSeries]) => {
        const rowCount = rowsOfSeries.reduce((sum, rows) => sum + rows, 0);
        const seriesCount = rowsOfSeries.length;
        return { blockStartNanos, seriesCount, rowCount, bytes: rowCount * rowBytes };
      });
  }

  slotsOfBlock(namespaceOrdinal: number, blockStartNanos: bigint): Uint32Array {
    return Uint32Array.from(
      this.#series.keys().filter((slot) => {
        if (this.#series[slot]?.namespaceOrdinal !== namespaceOrdinal) return false;
        return this.blockStarts(slot).includes(blockStartNanos);
      }),
    );
  }

  *slotsInSteps(
    namespaceOrdinal: number,
    blockStartNanos: bigint | null,
    _slotsAStep: number,
  ): Generator<Uint32Array, void> {
    if (blockStartNanos !== null) yield this.slotsOfBlock(namespaceOrdinal, blockStartNanos);
    else {
      const slots = this.#series.keys().filter((slot) => {
        const series = this.#series[slot];
        return series?.namespaceOrdinal === namespaceOrdinal && rowCountOf(series) > 0;
      });
      yield Uint32Array.from(slots);
    }
  }

  blockStarts(slot: number): bigint[] {
    const series = this.#at(slot);
    const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
    const starts = new Set<bigint>();
    for (const nanos of timesOf(series)) starts.add(blockStartOf(nanos, blockSizeNanos));
    return [...starts].sort((a, b) => (a < b ? -1 : 1));
  }

  dropBlock(slots: Uint32Array, blockStartNanos: bigint): void {
    for (const slot of slots) this.#drop(this.#at(slot), (start) => start === blockStartNanos);
  }

  expire(namespaceOrdinal: number, nowNanos: bigint): Uint32Array {
    return this.expireInSteps(namespaceOrdinal, nowNanos, Infinity).next().value as Uint32Array;
  }

  *expireInSteps(
    namespaceOrdinal: number,
    nowNanos: bigint,
    slotsAStep: number,
  ): Generator<void, Uint32Array> {
    const { blockSizeNanos, retentionNanos } = this.#namespace(namespaceOrdinal);
    const empty: number[] = [];
    for (let slot = 0; slot < this.#series.length; slot++) {
      if (slot > 0 && slot % slotsAStep === 0) yield;
      const series = this.#series[slot];
      if (series?.namespaceOrdinal !== namespaceOrdinal) continue;
      this.#drop(series, (start) =>
        isBlockExpired(start, blockSizeNanos, retentionNanos, nowNanos),
      );
      if (rowCountOf(series) === 0 && !series.admitted) empty.push(slot);
      series.admitted = false;
    }
    return Uint32Array.from(empty);
  }

  #put(series: Series, nanos: bigint, row: Row): void {
    const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
    series.flushed.delete(blockStartOf(nanos, blockSizeNanos));
    const held = series.rows.get(nanos);
    if (held === undefined || replaces(row, held)) series.rows.set(nanos, row);
  }

  #drop(series: Series, isDropped: (blockStart: bigint) => boolean): void {
    const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
    for (const rows of [series.rows, series.typed]) {
      for (const nanos of rows.keys()) {
        if (isDropped(blockStartOf(nanos, blockSizeNanos))) rows.delete(nanos);
      }
    }
  }

  #chunksOf(
    slots: Uint32Array,
    isRead: (nanos: bigint, blockStart: bigint) => boolean,
  ): StoredChunks {
    const parts: Uint8Array[] = [];
    const chunkOffset = new Uint32Array(slots.length + 1);
    slots.forEach((slot, i) => {
      const series = this.#at(slot);
      const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
      const times = BigInt64Array.from(series.rows.keys()).sort();
      const timesOfBlock = Map.groupBy(times, (nanos) => blockStartOf(nanos, blockSizeNanos));
      let length = 0;
      for (const [blockStart, all] of timesOfBlock) {
        const wanted = all.filter((nanos) => isRead(nanos, blockStart));
        if (wanted.length === 0) continue;
        // Rows of one version a chunk: versions of rows in a chunk must not be too far apart.
        for (const times of Map.groupBy(
          wanted,
          (nanos) => series.rows.get(nanos)!.version,
        ).values()) {
          const chunk = chunkOf(times, series);
          parts.push(chunk);
          length += chunk.length;
        }
      }
      chunkOffset[i + 1] = chunkOffset[i]! + length;
    });
    return { chunkData: new Uint8Array(Buffer.concat(parts)), chunkOffset };
  }

  /** Version and start time of each row of a series' block, by ascending time. */
  attributesOf(slot: number, blockStartNanos: bigint): [version: number, startNanos: bigint][] {
    const series = this.#at(slot);
    const { blockSizeNanos } = this.#namespace(series.namespaceOrdinal);
    const times = BigInt64Array.from(series.rows.keys()).sort();
    return Array.from(
      times.filter((nanos) => blockStartOf(nanos, blockSizeNanos) === blockStartNanos),
      (nanos) => {
        const { version, start } = series.rows.get(nanos)!;
        return [version, start];
      },
    );
  }

  #at(slot: number): Series {
    const series = this.#series[slot];
    assert(series !== undefined && series !== null, 'the slot is of a series that was created');
    return series;
  }

  #namespace(ordinal: number): StoreNamespace {
    const namespace = this.#namespaces.get(ordinal);
    assert(namespace !== undefined, 'the namespace is set');
    return namespace;
  }
}

/** @param times of rows that have one version */
function chunkOf(times: readonly bigint[], series: Series): Uint8Array {
  const rows = times.map((nanos) => series.rows.get(nanos)!);
  const bits = BigUint64Array.from(rows, (row) => row.bits);
  const startNanos = BigInt64Array.from(rows, (row) => row.start);
  const columns = {
    timestampNanos: BigInt64Array.from(times),
    values: new Float64Array(bits.buffer),
    version: rows[0]!.version,
  };
  if (startNanos.every((start) => start === 0n)) return encodeRawChunk(columns);
  const rowVersions = Float64Array.from(rows, (row) => row.version);
  return encodeFloatStartsChunk({ ...columns, rowVersions, startNanos });
}

function timeOutcome(namespace: StoreNamespace, nanos: bigint, nowNanos: bigint): number {
  const side = sideOfWindow(writeWindow(namespace, nowNanos), nanos);
  return side === 'inside' ? storeOutcome.written : storeOutcome[side];
}
