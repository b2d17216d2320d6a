/**
 * Holds what a store does with typed rows, alone and among floats of the same series, equal to its twin: in and out of
 * order, twice and again, large ones, chunks from elsewhere, reads, flushes and drops in between.
 */
import assert from 'node:assert/strict';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { chunkHeaders, chunkKind, kindsAll } from '../codec/chunk.ts';
import { encodeFloatLagsChunk } from '../codec/codec_twin.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { emptyBundle } from '../codec/series_bundle.ts';
import { decodeTypedChunk, encodeTypedChunk } from '../typed/chunk_twin.ts';
import { deviceValues, histogramValues, mixedValues } from '../typed/samples_testing.ts';
import {
  type OrderedTypedRow,
  orderOfTypedRows,
  TypedValueWriter,
  valueKind,
} from '../typed/typed_value.ts';
import { Decoder } from './decoder.ts';
import { Store, type StoreNamespace, type StoreRows, type StoreTypedRows } from './store.ts';
import { StoreTwin } from './store_twin.ts';

const second = 1_000_000_000n;
const startNanos = 1_700_000_000n * second;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

const namespace: StoreNamespace = {
  blockSizeNanos: 1200n * second,
  bufferPastNanos: 600n * second,
  bufferFutureNanos: 600n * second,
  retentionNanos: 10_000n * second,
  coldWrites: true,
};

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** What chunks of a series hold, of each time the row that wins; floats and typed rows apart. */
function rowsOf(decoder: Decoder, chunks: Uint8Array, start: bigint, end: bigint): string[] {
  const floats: Uint8Array[] = [];
  const typed = new Map<bigint, OrderedTypedRow>();
  let from = 0;
  for (const header of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
    if (header.kind !== chunkKind.typed) floats.push(chunks.subarray(from, header.end));
    else {
      const rows = decodeTypedChunk(chunks, header);
      for (const [i, nanos] of rows.timestampNanos.entries()) {
        if (nanos < start || nanos >= end) continue;
        const row = {
          version: rows.rowVersions[i]!,
          value: rows.values[i]!,
          startNanos: rows.startNanos?.[i] ?? 0n,
        };
        const held = typed.get(nanos);
        if (held === undefined || orderOfTypedRows(row, held) > 0) typed.set(nanos, row);
      }
    }
    from = header.end;
  }
  const chunkData = new Uint8Array(Buffer.concat(floats));
  const bundle = { ...emptyBundle, chunkData, chunkOffset: Uint32Array.of(0, chunkData.length) };
  const count = decoder.decode(bundle, 0, start, end);
  const lines = Array.from({ length: count }, (_, i) => {
    const words = decoder.valueWords;
    return `${decoder.timestampNanos[i]}: ${words[2 * i]} ${words[2 * i + 1]}`;
  });
  const typedLines = [...typed]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([nanos, row]) => lineOf(nanos, row.version, row.value, row.startNanos));
  return [...lines, ...typedLines];
}

function lineOf(nanos: bigint, version: number, value: Uint8Array, start: bigint): string {
  return `${nanos}: ${version} ${hex(value)} ${start}`;
}

class Pair {
  readonly store: Store;
  readonly twin = new StoreTwin({ memoryBytesMax: 1 << 30 });
  readonly decoder = new Decoder();
  readonly slots: number[] = [];

  constructor() {
    const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
    this.store = new Store({ random, memoryBytesMax: 128 << 20 });
    this.store.keepRowVersions(true);
    this.store.setNamespace(0, namespace);
    this.twin.setNamespace(0, namespace);
    for (let i = 0; i < 4; i++) {
      this.slots.push(this.store.createSeries(0));
      this.twin.createSeries(0);
    }
  }

  writeTyped(rows: StoreTypedRows, nowNanos: bigint, version: number, isDerived: boolean): void {
    const [outcomes, twinOutcomes] = [new Uint8Array(rows.rowCount), new Uint8Array(rows.rowCount)];
    const refused = this.store.checkTyped(rows, 0, nowNanos, outcomes);
    assert.equal(refused, this.twin.checkTyped(rows, 0, nowNanos, twinOutcomes));
    assert.deepEqual(outcomes, twinOutcomes);
    this.store.appendTyped(rows, version, outcomes, isDerived);
    this.twin.appendTyped(rows, version, twinOutcomes, isDerived);
    assert.deepEqual(outcomes, twinOutcomes);
  }

  write(rows: StoreRows, nowNanos: bigint, version: number, isDerived: boolean): void {
    const [outcomes, twinOutcomes] = [new Uint8Array(rows.rowCount), new Uint8Array(rows.rowCount)];
    this.store.check(rows, 0, nowNanos, outcomes);
    this.twin.check(rows, 0, nowNanos, twinOutcomes);
    assert.deepEqual(outcomes, twinOutcomes);
    this.store.append(rows, version, outcomes, isDerived);
    this.twin.append(rows, version, twinOutcomes, isDerived);
    assert.deepEqual(outcomes, twinOutcomes);
  }

  /** What the twin has, as `rowsOf` tells it. */
  wanted(slot: number, chunks: Uint8Array, start: bigint, end: bigint): string[] {
    return [
      ...rowsOf(this.decoder, chunks, start, end),
      ...this.twin
        .typedRowsOf(slot, start, end)
        .map(([nanos, row]) => lineOf(nanos, row.version, row.value, row.startNanos)),
    ];
  }

  assertSameRead(start: bigint, end: bigint): void {
    const asked = Uint32Array.from(this.slots);
    const [kernel, twin] = [this.store.read(asked, start, end), this.twin.read(asked, start, end)];
    for (const [i, slot] of this.slots.entries()) {
      const chunks = kernel.chunkData.subarray(kernel.chunkOffset[i], kernel.chunkOffset[i + 1]);
      const ofTwin = twin.chunkData.subarray(twin.chunkOffset[i], twin.chunkOffset[i + 1]);
      const rows = rowsOf(this.decoder, chunks, start, end);
      assert.deepEqual(rows, this.wanted(slot, ofTwin, start, end), `rows of slot ${slot}`);
    }
  }

  /** Blocks merged for a file: chunks that do not overlap. */
  assertSameBlocks(slot: number, isFlush: boolean): bigint[] {
    const starts = this.store.blockStarts(slot);
    assert.deepEqual(starts, this.twin.blockStarts(slot));
    const asked = Uint32Array.of(slot);
    for (const start of starts) {
      const read = isFlush ? 'flushBlock' : 'readBlock';
      const { chunkData } = this.store[read](asked, start);
      const ofTwin = this.twin[read](asked, start).chunkData;
      const end = start + namespace.blockSizeNanos;
      const rows = rowsOf(this.decoder, chunkData, start, end);
      assert.deepEqual(rows, this.wanted(slot, ofTwin, start, end), `block ${start} of ${slot}`);
      let last = -(2n ** 63n);
      for (const header of chunkHeaders(chunkData, 0, chunkData.length, kindsAll)) {
        if (header.kind !== chunkKind.typed) continue;
        assert.ok(header.firstNanos > last, 'merged chunks follow each other');
        last = header.lastNanos;
      }
    }
    return starts;
  }
}

function someValues(numbers: SeededNumbers, count: number): Uint8Array[] {
  const kind = numbers.below(20);
  if (kind < 9) return histogramValues(numbers, count, { perRow: 20, schema: numbers.below(4) });
  if (kind < 16) return deviceValues(numbers, count);
  if (kind < 19) return mixedValues(numbers, count);
  // A chunk has 1 MiB of values at most.
  const length = 1000 + numbers.below(15_000);
  return Array.from({ length: count }, () =>
    new TypedValueWriter().begin(valueKind.message, 2).bytes(1, new Uint8Array(length)).finish(),
  );
}

interface Writer {
  next: bigint;
}

/** Times of a writer, most of them in order. */
function timesOf(
  numbers: SeededNumbers,
  writer: Writer,
  count: number,
  nowNanos: bigint,
): bigint[] {
  const times = new Set<bigint>();
  for (let i = 0; i < count; i++) {
    const kind = numbers.below(20);
    let nanos = writer.next;
    if (kind < 16) writer.next += BigInt(1 + numbers.below(3)) * second;
    else if (kind < 18) nanos -= BigInt(numbers.below(40)) * second;
    else if (kind < 19) nanos -= BigInt(numbers.below(900_000)) * 1_000_000n;
    else nanos = nowNanos + BigInt(numbers.below(400_000) - 300_000) * 1_000_003n;
    times.add(nanos);
  }
  return [...times];
}

function typedBatch(
  numbers: SeededNumbers,
  pair: Pair,
  writers: readonly Writer[],
  nowNanos: bigint,
): StoreTypedRows {
  const rows: [slot: number, nanos: bigint, value: Uint8Array, start: bigint][] = [];
  for (const slot of pair.slots.slice(0, 3)) {
    const count = 1 + numbers.below(numbers.below(4) === 0 ? 60 : 4);
    const times = timesOf(numbers, writers[slot]!, count, nowNanos);
    const values = someValues(numbers, times.length);
    const hasStarts = numbers.below(3) === 0;
    for (const [i, nanos] of times.entries()) {
      const start = hasStarts && numbers.below(4) > 0 ? startNanos - second : 0n;
      rows.push([slot, nanos, values[i]!, start]);
      // Some times again, with another value.
      if (numbers.below(12) === 0) rows.push([slot, nanos, values[numbers.below(i + 1)]!, start]);
    }
  }
  if (numbers.below(4) === 0) numbers.shuffle(rows);
  let end = 0;
  return {
    rowCount: rows.length,
    slots: Uint32Array.from(rows, (row) => row[0]),
    generations: Uint32Array.from(rows, (row) => pair.store.generation[row[0]]!),
    timestamps: BigInt64Array.from(rows, (row) => row[1]),
    timeUnitNanos: 1,
    startNanos: BigInt64Array.from(rows, (row) => row[3]),
    valueEnds: Uint32Array.from(rows, (row) => (end += row[2].length)),
    valueBytes: new Uint8Array(Buffer.concat(rows.map((row) => row[2]))),
  };
}

function withOtherValues(numbers: SeededNumbers, rows: StoreTypedRows): StoreTypedRows {
  const values = someValues(numbers, rows.rowCount);
  let end = 0;
  return {
    ...rows,
    startNanos:
      numbers.below(2) === 0 ? rows.startNanos : rows.startNanos.map((start) => start + 1n),
    valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
    valueBytes: new Uint8Array(Buffer.concat(values)),
  };
}

/** Floats of the same series and times. */
function asFloats(rows: StoreTypedRows): StoreRows {
  return { ...rows, values: Float64Array.from(rows.slots, (slot) => slot) };
}

/** Floats of the last two series, so that one has both kinds and one floats alone. */
function floatBatch(
  numbers: SeededNumbers,
  pair: Pair,
  writers: readonly Writer[],
  nowNanos: bigint,
): StoreRows {
  const rows: [slot: number, nanos: bigint][] = [];
  for (const slot of pair.slots.slice(2)) {
    const count = 1 + numbers.below(numbers.below(5) === 0 ? 100 : 4);
    for (const nanos of timesOf(numbers, writers[slot]!, count, nowNanos)) {
      rows.push([slot, nanos]);
      if (numbers.below(12) === 0) rows.push([slot, nanos]);
    }
  }
  if (numbers.below(4) === 0) numbers.shuffle(rows);
  return {
    rowCount: rows.length,
    slots: Uint32Array.from(rows, (row) => row[0]),
    generations: Uint32Array.from(rows, (row) => pair.store.generation[row[0]]!),
    timestamps: BigInt64Array.from(rows, (row) => row[1]),
    timeUnitNanos: 1,
    values: Float64Array.from(rows, () => numbers.below(50)),
  };
}

function versionAbout(numbers: SeededNumbers, nowNanos: bigint): number {
  const spread = [64, 6400, 2 ** 17, 2 ** 21][numbers.below(4)]!;
  return Number(versionAtNanos(nowNanos)) + numbers.below(spread) - (spread >> 1);
}

function insertSome(numbers: SeededNumbers, pair: Pair, nowNanos: bigint): void {
  const slot = pair.slots[numbers.below(4)]!;
  const { blockSizeNanos: size } = namespace;
  const start = ((nowNanos - BigInt(numbers.below(2000)) * second) / size) * size;
  const times = new Set<bigint>();
  for (let i = 1 + numbers.below(60); i > 0; i--) {
    times.add(start + BigInt(numbers.below(1200)) * second);
  }
  const timestampNanos = BigInt64Array.from(times).sort();
  const version = versionAbout(numbers, nowNanos);
  const rowVersions = Float64Array.from(timestampNanos, () => version - numbers.below(100));
  const chunk =
    numbers.below(4) === 0
      ? encodeFloatLagsChunk({
          timestampNanos,
          values: Float64Array.from(timestampNanos, () => numbers.below(9)),
          version,
          rowVersions,
        })
      : encodeTypedChunk({
          timestampNanos,
          values: someValues(numbers, timestampNanos.length),
          rowVersions,
          startNanos: numbers.below(2) === 0 ? null : timestampNanos.map(() => startNanos),
        });
  pair.store.insertChunks(slot, chunk);
  pair.twin.insertChunks(slot, chunk);
}

/** @param size how many calls; each takes some milliseconds with the twin */
export function fuzz(seed: number, size: number): void {
  const numbers = new SeededNumbers(seed);
  const pair = new Pair();
  let nowNanos = startNanos;
  const writers = pair.slots.map(() => ({ next: nowNanos - 100n * second }));
  let before: { rows: StoreTypedRows; version: number } | null = null;
  let flushed: bigint[] = [];
  for (let round = 0; round < size; round++) {
    const kind = numbers.below(100);
    if (kind < 55) {
      const rows = typedBatch(numbers, pair, writers, nowNanos);
      const version = versionAbout(numbers, nowNanos);
      pair.writeTyped(rows, nowNanos, version, numbers.below(4) > 0);
      before = { rows, version };
      nowNanos += BigInt(numbers.below(30)) * second;
    } else if (kind < 62) {
      // A batch that is sent twice, the second time perhaps by another clock, or by somebody who says something else.
      if (before === null) continue;
      const version = numbers.below(2) === 0 ? before.version : versionAbout(numbers, nowNanos);
      const rows = numbers.below(2) === 0 ? before.rows : withOtherValues(numbers, before.rows);
      pair.writeTyped(rows, nowNanos, version, numbers.below(4) > 0);
      if (numbers.below(3) === 0) {
        pair.write(asFloats(rows), nowNanos, version, numbers.below(4) > 0);
      }
      if (numbers.below(10) === 0) {
        pair.store.noteFiles(version, nowNanos);
        pair.twin.noteFiles(version, nowNanos);
      }
    } else if (kind < 75) {
      const rows = floatBatch(numbers, pair, writers, nowNanos);
      pair.write(rows, nowNanos, versionAbout(numbers, nowNanos), numbers.below(4) > 0);
    } else if (kind < 85) {
      const start = nowNanos - BigInt(numbers.below(3000)) * second;
      pair.assertSameRead(start, start + BigInt(numbers.below(2500)) * second);
    } else if (kind < 90) pair.assertSameBlocks(pair.slots[numbers.below(4)]!, false);
    else if (kind < 92) {
      flushed = pair.slots.flatMap((slot) => pair.assertSameBlocks(slot, true));
    } else if (kind < 94) {
      for (const start of flushed) {
        const asked = Uint32Array.from(pair.slots);
        assert.equal(pair.store.dropFlushed(asked, start), pair.twin.dropFlushed(asked, start));
      }
    } else if (kind < 97) insertSome(numbers, pair, nowNanos);
    else if (kind < 98) {
      assert.deepEqual(pair.store.expire(0, nowNanos), pair.twin.expire(0, nowNanos));
    } else nowNanos += BigInt(numbers.below(1500)) * second;
  }
  pair.assertSameRead(...allTimes);
  for (const slot of pair.slots) pair.assertSameBlocks(slot, false);
  for (const slot of pair.slots) pair.store.releaseSeries(slot);
  assert.equal(pair.store.sampleCount, 0);
}
