/**
 * The race campaign: threads read a store all the time while this one appends, in order and late
 * and again, inserts chunks, flushes, drops, expires, releases series, reuses their slots and ends
 * readers in the midst of a read. Every answer of the readers is held against a ledger: what was
 * acknowledged before the read began is there, with its value and no older one; nothing is there
 * that was never written or was dropped before. The seed decides what this thread does; how the
 * threads meet is left to the machine.
 */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { encodeRawChunk } from '../codec/chunk.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { encodeFloatChunk } from '../codec/codec_twin.ts';
import { Decoder } from './decoder.ts';
import {
  attemptsMax,
  Check,
  fillingStart,
  Ledger,
  millisOf,
  type RaceAnswer,
  type RaceCounts,
  type RaceFlush,
  rangeOf,
  rowsEach,
  rowsOfBlock,
  seriesMax,
  valueOf,
} from './race_testing.ts';
import { Store, type StoreWindow } from './store.ts';

const second = 1_000_000_000n;
const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
const retentionBlocks = 4;
const liveMax = 40;
const fillingRows = 20_000;
const filling = encodeRawChunk({
  timestampNanos: BigInt64Array.from({ length: fillingRows }, (_, i) => fillingStart + BigInt(i)),
  values: new Float64Array(fillingRows),
  version: 1,
});
/** Readers of a run; a short one has one, since threads take longer to start than it takes. */
const readersOf = (size: number): number => (size > 20 ? 2 : 1);

interface Reader {
  readonly window: StoreWindow;
  readonly worker: Worker;
  readonly isReady: Promise<void>;
  readonly isDone: Promise<RaceCounts>;
  /** Of the flush that it reads for. */
  flushed: ((left: number) => void) | null;
  fail: (error: Error) => void;
  isAbandoned: boolean;
}

/** A series that is written to. */
interface Writer {
  readonly slot: number;
  readonly generation: number;
  next: number;
}

class Race {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly numbers: SeededNumbers;
  readonly writers: Map<number, Writer>;
  readonly readers: Reader[];
  readonly seed: number;
  seriesCount: number;
  version: number;
  /** Row of all series that is now. */
  now: number;
  rowExpired: number;
  failure: Error | null;
  flush: { block: number; clean: Set<number>; reader: Reader; left: number | null } | null;
  total: RaceCounts;

  constructor(seed: number) {
    this.seed = seed;
    this.numbers = new SeededNumbers(seed);
    this.store = new Store({ random, memoryBytesMax: 68 << 20 });
    this.store.setNamespace(0, {
      blockSizeNanos: 600n * second,
      bufferPastNanos: 600n * second,
      bufferFutureNanos: 600n * second,
      retentionNanos: BigInt(retentionBlocks) * 600n * second,
      coldWrites: true,
    });
    this.ledger = new Ledger();
    this.writers = new Map();
    this.readers = [];
    this.seriesCount = 0;
    this.version = 1_000_000;
    this.now = 1;
    this.rowExpired = 0;
    this.failure = null;
    this.flush = null;
    this.total = { reads: 0, rows: 0, left: 0, waits: 0 };
  }

  openReader(): void {
    const window = this.store.openReader();
    const seed = this.seed * 1000 + this.numbers.below(1000);
    const worker = new Worker(new URL('race_testing.ts', import.meta.url), {
      workerData: { isRace: true, window, ledger: this.ledger.buffer, seed },
    });
    const { promise, resolve, reject } = Promise.withResolvers<RaceCounts>();
    const ready = Promise.withResolvers<void>();
    const reader: Reader = {
      window,
      worker,
      isReady: ready.promise,
      isDone: promise,
      flushed: null,
      isAbandoned: false,
      fail: (error) => {
        if (reader.isAbandoned) return;
        this.failure ??= error;
        reject(error);
        ready.resolve();
      },
    };
    promise.catch(() => null);
    worker.on('error', (error) => reader.fail(error as Error));
    worker.on('exit', () => reader.fail(new Error('a reader ended before it was told to')));
    worker.on('message', (answer: RaceAnswer) => {
      if (answer.kind === 'ready') ready.resolve();
      else if (answer.kind === 'failed') reader.fail(new Error(answer.reason));
      else if (answer.kind === 'done') {
        reader.isAbandoned = true;
        resolve(answer);
      } else reader.flushed?.(answer.left);
    });
    this.readers.push(reader);
  }

  /** As when a thread dies: nothing of it is left but its region. */
  async endReader(): Promise<void> {
    const at = this.numbers.below(this.readers.length);
    const [reader] = this.readers.splice(at, 1);
    reader!.isAbandoned = true;
    await reader!.worker.terminate();
    if (this.flush?.reader === reader) this.flush = null;
    this.store.closeReader(reader!.window);
    this.openReader();
    await this.readers.at(-1)!.isReady;
  }

  create(): void {
    if (this.seriesCount === seriesMax || this.writers.size === liveMax) return;
    const series = this.seriesCount++;
    const slot = this.store.createSeries(0);
    const generation = this.store.generation[slot]!;
    this.ledger.slot[series] = slot;
    this.ledger.generation[series] = generation;
    Atomics.store(this.ledger.flags, 0, this.seriesCount);
    this.writers.set(series, { slot, generation, next: this.now });
  }

  release(series: number): void {
    const { slot } = this.writers.get(series)!;
    this.writers.delete(series);
    this.flush?.clean.delete(series);
    this.ledger.drop(series, 0, rowsEach, () => this.store.releaseSeries(slot), true);
  }

  /** A row of the series to be written next, or -1. */
  nextRow(writer: Writer): number {
    const { numbers, now } = this;
    const kind = numbers.below(20);
    const oldest = Math.max(this.rowExpired, now - 3 * rowsOfBlock);
    writer.next = Math.max(writer.next, oldest);
    if (kind < 16) return writer.next < now ? writer.next++ : -1;
    if (kind < 17) return writer.next > oldest ? writer.next - 1 : -1;
    return oldest + numbers.below(now - oldest);
  }

  /** Rows that may be written once more, with their attempts, as begun. */
  begin(series: number, rowCount: number): Map<number, number> {
    const { ledger } = this;
    const writer = this.writers.get(series)!;
    const rows = new Map<number, number>();
    for (let i = 0; i < rowCount; i++) {
      const row = this.nextRow(writer);
      if (row === -1 || rows.has(row)) continue;
      const at = series * rowsEach + row;
      const attempt = ledger.issued[at]! + 1;
      if (attempt > attemptsMax) continue;
      Atomics.store(ledger.issued, at, attempt);
      rows.set(row, attempt);
      if (this.flush !== null && Math.floor(row / rowsOfBlock) === this.flush.block) {
        this.flush.clean.delete(series);
      }
    }
    return rows;
  }

  acknowledge(series: number, rows: Map<number, number>): void {
    for (const [row, attempt] of rows) {
      Atomics.store(this.ledger.acknowledged, series * rowsEach + row, attempt);
    }
  }

  append(): void {
    const { numbers } = this;
    const rowsMax = [2, 8, 30][numbers.below(3)]!;
    const begun = [...this.writers.keys()].map(
      (series) => [series, this.begin(series, 1 + numbers.below(rowsMax))] as const,
    );
    const rows = begun.flatMap(([series, some]) =>
      [...some].map(([row, attempt]) => ({ series, row, attempt })),
    );
    const columns = {
      rowCount: rows.length,
      slots: Uint32Array.from(rows, ({ series }) => this.writers.get(series)!.slot),
      generations: Uint32Array.from(rows, ({ series }) => this.writers.get(series)!.generation),
      timestamps: BigInt64Array.from(rows, ({ series, row }) => BigInt(millisOf(series, row))),
      timeUnitNanos: 1_000_000,
      values: Float64Array.from(rows, ({ series, row, attempt }) => valueOf(series, row, attempt)),
    };
    const outcomes = new Uint8Array(rows.length);
    const [nowNanos] = rangeOf(this.now, 0);
    assert.equal(this.store.check(columns, 0, nowNanos, outcomes), 0);
    this.store.append(columns, ++this.version, outcomes);
    for (const [series, some] of begun) this.acknowledge(series, some);
  }

  /** One row a batch, one batch right after the other. */
  burst(series: number): void {
    const { slot, generation } = this.writers.get(series)!;
    const rows = this.begin(series, 100);
    const batches = [...rows].map(([row, attempt]) => ({
      rowCount: 1,
      slots: Uint32Array.of(slot),
      generations: Uint32Array.of(generation),
      timestamps: BigInt64Array.of(BigInt(millisOf(series, row))),
      timeUnitNanos: 1_000_000,
      values: Float64Array.of(valueOf(series, row, attempt)),
    }));
    const outcomes = new Uint8Array(1);
    for (const batch of batches) this.store.append(batch, ++this.version, outcomes);
    this.acknowledge(series, rows);
  }

  /** What the readers look at most. */
  hot(): number {
    const live = [...this.writers.keys()];
    if (!this.writers.has(this.ledger.flags[2]!) || this.numbers.below(20) === 0) {
      const series = live[this.numbers.below(live.length)]!;
      const { slot } = this.writers.get(series)!;
      if (this.store.blockStarts(slot)[0] !== fillingStart) this.store.insertChunks(slot, filling);
      Atomics.store(this.ledger.flags, 2, series);
    }
    return this.ledger.flags[2]!;
  }

  insert(series: number): void {
    const begun = [...this.begin(series, 40)].sort(([a], [b]) => a - b);
    const blocks = Map.groupBy(begun, ([row]) => Math.floor(row / rowsOfBlock));
    for (const some of blocks.values()) {
      const rows = {
        timestampNanos: BigInt64Array.from(
          some,
          ([row]) => BigInt(millisOf(series, row)) * 1_000_000n,
        ),
        values: Float64Array.from(some, ([row, attempt]) => valueOf(series, row, attempt)),
        version: ++this.version,
      };
      const chunk = this.version % 2 === 0 ? encodeRawChunk(rows) : encodeFloatChunk(rows);
      this.store.insertChunks(this.writers.get(series)!.slot, chunk);
      this.acknowledge(series, new Map(some));
    }
  }

  blocks(): number[] {
    const first = this.rowExpired / rowsOfBlock;
    const end = Math.floor((this.now - 1) / rowsOfBlock) + 1;
    return Array.from({ length: end - first }, (_, i) => first + i);
  }

  someBlock(): number {
    const blocks = this.blocks();
    return blocks[this.numbers.below(blocks.length)]!;
  }

  dropBlock(series: number): void {
    const block = this.someBlock();
    const from = block * rowsOfBlock;
    const [start] = rangeOf(from, 0);
    const slots = Uint32Array.of(this.writers.get(series)!.slot);
    if (this.flush?.block === block) this.flush.clean.delete(series);
    this.ledger.drop(series, from, from + rowsOfBlock, () => this.store.dropBlock(slots, start));
  }

  /** A reader is asked for a block; what is not written to until its answer is dropped then. */
  beginFlush(): void {
    const block = this.someBlock();
    const [start] = rangeOf(block * rowsOfBlock, 0);
    const series = [...this.writers.keys()];
    const slots = Uint32Array.from(series, (each) => this.writers.get(each)!.slot);
    const held = new Set(this.store.slotsOfBlock(0, start));
    const clean = series.filter((each) => held.has(this.writers.get(each)!.slot));
    const reader = this.readers[this.numbers.below(this.readers.length)]!;
    this.store.markFlush(slots, start);
    const flush = { block, clean: new Set(clean), reader, left: null as number | null };
    reader.flushed = (left) => {
      flush.left = left;
    };
    reader.worker.postMessage({ series, block } satisfies RaceFlush);
    this.flush = flush;
  }

  endFlush(): void {
    const { block, clean, left } = this.flush!;
    this.flush = null;
    if (left !== 0) return;
    const from = block * rowsOfBlock;
    const [start] = rangeOf(from, 0);
    const slots = Uint32Array.from(this.writers.values(), ({ slot }) => slot);
    let dropped = -1;
    this.dropRows([...clean], from, from + rowsOfBlock, () => {
      dropped = this.store.dropFlushed(slots, start);
    });
    assert.equal(dropped, clean.size, 'what was not written to since is dropped, and nothing else');
  }

  expire(): void {
    const cutoff = Math.floor(this.now / rowsOfBlock) - retentionBlocks;
    const [from, end] = [this.rowExpired, cutoff * rowsOfBlock];
    if (end <= from || this.flush !== null) return;
    this.rowExpired = end;
    const [nowNanos] = rangeOf(this.now, 0);
    this.dropRows([...this.writers.keys()], from, end, () => {
      this.store.expire(0, nowNanos);
    });
  }

  /** Takes rows of several series back in one call of the store. */
  dropRows(series: readonly number[], rowFirst: number, rowEnd: number, drop: () => void): void {
    let all = drop;
    for (const each of series) {
      const inner = all;
      all = () => this.ledger.drop(each, rowFirst, rowEnd, inner);
    }
    all();
  }

  /** Large allocations come and go, so that pages change what they are used for. */
  fill(): void {
    const slot = this.store.createSeries(0);
    const rows = 2000 + this.numbers.below(4000);
    const [start] = rangeOf(0, 0);
    const chunk = encodeRawChunk({
      timestampNanos: BigInt64Array.from({ length: rows }, (_, i) => start + BigInt(i)),
      values: Float64Array.from({ length: rows }, () => this.numbers.normal()),
      version: 1,
    });
    this.store.insertChunks(slot, chunk);
    this.store.releaseSeries(slot);
  }

  /** All of it by the store's own thread. */
  verifyAll(): void {
    const series = [...this.writers.keys()];
    const check = new Check(this.ledger, series, 0, rowsEach);
    const slots = Uint32Array.from(series, (each) => this.writers.get(each)!.slot);
    const answer = this.store.read(slots, ...rangeOf(0, rowsEach));
    check.verify(new Decoder(), answer, new Uint32Array(0));
  }

  step(): void {
    const { numbers } = this;
    const live = [...this.writers.keys()];
    const hot = this.hot();
    const series = numbers.below(2) === 0 ? hot : live[numbers.below(live.length)]!;
    const kind = numbers.below(100);
    if (kind < 26) this.append();
    else if (kind < 66) this.burst(hot);
    else if (kind < 72) this.insert(series);
    else if (kind < 77) this.dropBlock(series);
    else if (kind < 82) {
      if (this.flush === null) this.beginFlush();
    } else if (kind < 86) this.create();
    else if (kind < 89) {
      if (live.length > 10) this.release(series);
    } else if (kind < 92) this.expire();
    else if (kind < 95) this.fill();
    else if (kind < 98)
      this.store.read(Uint32Array.of(this.writers.get(series)!.slot), ...rangeOf(0, rowsEach));
    else {
      const [start] = rangeOf(this.someBlock() * rowsOfBlock, 0);
      this.store.readBlock(Uint32Array.of(this.writers.get(series)!.slot), start);
    }
    if (this.flush !== null && this.flush.left !== null) this.endFlush();
  }

  async stop(): Promise<void> {
    Atomics.store(this.ledger.flags, 1, 1);
    for (const reader of this.readers) {
      if (this.failure === null) {
        const counts = await reader.isDone;
        this.total = {
          reads: this.total.reads + counts.reads,
          rows: this.total.rows + counts.rows,
          left: this.total.left + counts.left,
          waits: this.total.waits + counts.waits,
        };
      }
      reader.isAbandoned = true;
      await reader.worker.terminate();
      this.store.closeReader(reader.window);
    }
  }
}

/** Of all runs of this process, for whoever wants to know how much was read. */
export const raceCounts: { reads: number; rows: number; left: number; waits: number } = {
  reads: 0,
  rows: 0,
  left: 0,
  waits: 0,
};

/** @param size 8 calls each */
export async function fuzz(seed: number, size: number): Promise<void> {
  const race = new Race(seed);
  const memoryBefore = race.store.memoryBytes;
  for (let i = 0; i < 12; i++) race.create();
  for (let i = 0; i < readersOf(size); i++) race.openReader();
  await Promise.all(race.readers.map(({ isReady }) => isReady));
  const rounds = size * 8;
  try {
    for (let round = 0; round < rounds && race.failure === null; round++) {
      race.now = Math.max(race.now, 1 + Math.floor((round / rounds) * (rowsEach - 1)));
      race.step();
      if (round % 10 === 0) await setImmediate();
      if (round % 2000 === 1999) await race.endReader();
    }
    race.verifyAll();
  } finally {
    await race.stop();
  }
  if (race.failure !== null) throw race.failure;
  assert.ok(race.total.reads > 0, 'the readers have read');
  for (const series of [...race.writers.keys()]) race.release(series);
  race.store.expire(0, rangeOf(rowsEach, 0)[0]);
  assert.equal(race.store.sampleCount, 0);
  assert.ok(race.store.memoryBytes >= memoryBefore);
  raceCounts.reads += race.total.reads;
  raceCounts.rows += race.total.rows;
  raceCounts.left += race.total.left;
  raceCounts.waits += race.total.waits;
}
