/**
 * What the threads of the race campaign share, and the thread that reads: a ledger of what was
 * written to the store and what was dropped, by which every answer is checked.
 */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { Decoder } from './decoder.ts';
import { emptyBundle } from '../codec/series_bundle.ts';
import { StoreReader } from './reader.ts';
import type { StoredChunks, StoreWindow } from './store.ts';

export const blockMillis = 600_000;
const stepMillis = 500;
export const rowsOfBlock: number = blockMillis / stepMillis;
export const rowsEach: number = 8 * rowsOfBlock;
export const seriesMax = 384;
export const attemptsMax = 6;
const startMillis: number = 1_700_000_000_000 - (1_700_000_000_000 % blockMillis);
/** Of a row that is gone with its series. */
const neverAgain = 255;

/**
 * Every series of the campaign has a number that is never used again; its rows are numbered from 0.
 */
export function millisOf(series: number, row: number): number {
  return startMillis + row * stepMillis + (series % 2 === 0 ? 0 : (row * 7) % 5);
}

/**
 * A row may be written several times; each attempt has a value of its own, which no other row has.
 */
export function valueOf(series: number, row: number, attempt: number): number {
  const number = (series * 16_384 + row) * 8 + attempt;
  if (series % 3 === 0) return number;
  return series % 3 === 1 ? number / 100 : Math.sin(number) * 1000;
}

function attemptOf(series: number, row: number, value: number): number {
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    if (valueOf(series, row, attempt) === value) return attempt;
  }
  assert.fail(`series ${series} has a value in row ${row} that was never written: ${value}`);
}

/** Attempts by row and places of series, in shared memory. */
export class Ledger {
  readonly buffer: SharedArrayBuffer;
  /** Attempts that began, that were acknowledged, and that are gone by row. */
  readonly issued: Uint8Array;
  readonly acknowledged: Uint8Array;
  readonly dropped: Uint8Array;
  readonly slot: Int32Array;
  readonly generation: Int32Array;
  /** By series; odd while something of it is being dropped. */
  readonly drops: Int32Array;
  /** 0: series so far; 1: whether the readers stop; 2: the series that is changed most. */
  readonly flags: Int32Array;

  constructor(buffer?: SharedArrayBuffer) {
    const rows = seriesMax * rowsEach;
    this.buffer = buffer ?? new SharedArrayBuffer(3 * rows + 12 * seriesMax + 12);
    this.issued = new Uint8Array(this.buffer, 0, rows);
    this.acknowledged = new Uint8Array(this.buffer, rows, rows);
    this.dropped = new Uint8Array(this.buffer, 2 * rows, rows);
    const numbers = (index: number, length: number) =>
      new Int32Array(this.buffer, 3 * rows + 4 * index * seriesMax, length);
    this.slot = numbers(0, seriesMax);
    this.generation = numbers(1, seriesMax);
    this.drops = numbers(2, seriesMax);
    this.flags = numbers(3, 3);
  }

  /** Takes rows of a series back while `drop` runs. */
  drop(series: number, rowFirst: number, rowEnd: number, drop: () => void, isAll = false): void {
    const from = series * rowsEach + rowFirst;
    const end = series * rowsEach + rowEnd;
    Atomics.add(this.drops, series, 1);
    for (let at = from; at < end; at++) Atomics.store(this.acknowledged, at, 0);
    drop();
    for (let at = from; at < end; at++) {
      Atomics.store(this.dropped, at, isAll ? neverAgain : this.issued[at]!);
    }
    Atomics.add(this.drops, series, 1);
  }
}

/** What the ledger said of some series when a read began. */
export class Check {
  readonly #ledger: Ledger;
  readonly #series: readonly number[];
  readonly #rowFirst: number;
  readonly #rowEnd: number;
  readonly #drops: number[];
  readonly #acknowledged: Uint8Array;
  readonly #dropped: Uint8Array;

  constructor(ledger: Ledger, series: readonly number[], rowFirst: number, rowEnd: number) {
    this.#ledger = ledger;
    this.#series = series;
    this.#rowFirst = rowFirst;
    this.#rowEnd = rowEnd;
    this.#drops = series.map((each) => Atomics.load(ledger.drops, each));
    const rows = rowEnd - rowFirst;
    this.#acknowledged = new Uint8Array(series.length * rows);
    this.#dropped = new Uint8Array(series.length * rows);
    let o = 0;
    for (const each of series) {
      const base = each * rowsEach;
      for (let row = rowFirst; row < rowEnd; row++, o++) {
        this.#dropped[o] = Atomics.load(ledger.dropped, base + row);
        this.#acknowledged[o] = Atomics.load(ledger.acknowledged, base + row);
      }
    }
  }

  /** @returns rows that were seen */
  verify(decoder: Decoder, answer: StoredChunks, left: Uint32Array): number {
    const ledger = this.#ledger;
    const series = this.#series;
    const rowFirst = this.#rowFirst;
    const rowEnd = this.#rowEnd;
    const isLeft = new Set(left);
    let seen = 0;
    series.forEach((each, i) => {
      if (isLeft.has(i)) return;
      const [start, end] = rangeOf(rowFirst, rowEnd);
      const count = decoder.decode({ ...emptyBundle, ...answer }, i, start, end);
      seen += count;
      const isWhole =
        this.#drops[i]! % 2 === 0 && Atomics.load(ledger.drops, each) === this.#drops[i];
      const base = i * (rowEnd - rowFirst) - rowFirst;
      let next = rowFirst;
      for (let at = 0; at <= count; at++) {
        const millis = at === count ? 0 : decoder.timestampMillis[at]!;
        const row = at === count ? rowEnd : Math.floor((millis - startMillis) / stepMillis);
        for (; next < row; next++) {
          const wanted = this.#acknowledged[base + next]!;
          if (isWhole && wanted > 0) assert.fail(`series ${each} lacks row ${next}: ${wanted}`);
        }
        if (at === count) break;
        assert.equal(millis, millisOf(each, row), 'a time that was written');
        const attempt = attemptOf(each, row, decoder.values[at]!);
        const issued = Atomics.load(ledger.issued, each * rowsEach + row);
        const where = `series ${each}, row ${row}, attempt ${attempt}`;
        assert.ok(attempt <= issued, `${where}: only ${issued} began`);
        assert.ok(attempt > this.#dropped[base + row]!, `${where}: it was dropped`);
        if (isWhole) {
          const wanted = this.#acknowledged[base + row]!;
          assert.ok(attempt >= wanted, `${where}: ${wanted} was acknowledged before`);
        }
        next = row + 1;
      }
    });
    return seen;
  }
}

export function rangeOf(rowFirst: number, rowEnd: number): [bigint, bigint] {
  const nanos = (row: number) => BigInt(startMillis + row * stepMillis) * 1_000_000n;
  return [nanos(rowFirst), nanos(rowEnd)];
}

/**
 * Of a block before all rows, which is filled for the series that is changed most: whoever reads
 * from here on is a long time between its record and the blocks that are being changed.
 */
export const fillingStart: bigint = rangeOf(-rowsOfBlock, 0)[0];

export interface RaceWorkerData {
  readonly window: StoreWindow;
  readonly ledger: SharedArrayBuffer;
  readonly seed: number;
}

/** Asks for a block of series as a flush does. */
export interface RaceFlush {
  readonly series: readonly number[];
  readonly block: number;
}

export type RaceAnswer =
  | { readonly kind: 'ready' }
  | { readonly kind: 'flushed'; readonly left: number }
  | { readonly kind: 'failed'; readonly reason: string }
  | ({ readonly kind: 'done' } & RaceCounts);

export interface RaceCounts {
  readonly reads: number;
  readonly rows: number;
  readonly left: number;
  readonly waits: number;
}

class ReadingThread {
  readonly #ledger: Ledger;
  readonly #reader: StoreReader;
  readonly #numbers: SeededNumbers;
  readonly #decoder: Decoder = new Decoder();
  #reads = 0;
  #rows = 0;
  #left = 0;

  constructor({ window, ledger, seed }: RaceWorkerData) {
    this.#ledger = new Ledger(ledger);
    this.#reader = new StoreReader(window);
    this.#numbers = new SeededNumbers(seed);
  }

  places(series: readonly number[]): [Uint32Array, Uint32Array] {
    const { slot, generation } = this.#ledger;
    return [
      Uint32Array.from(series, (each) => slot[each]!),
      Uint32Array.from(series, (each) => generation[each]!),
    ];
  }

  read(): void {
    const ledger = this.#ledger;
    const numbers = this.#numbers;
    const known = Atomics.load(ledger.flags, 0);
    const count = Math.min(known, numbers.below(4) === 0 ? 64 : 1 + numbers.below(4));
    const hot = Atomics.load(ledger.flags, 2);
    const series = Array.from({ length: count }, () => {
      const kind = numbers.below(16);
      if (kind < 8) return hot;
      return Math.max(0, known - 1 - numbers.below(kind < 9 ? known : 48));
    });
    // Mostly few rows of what is copied, so that more time goes into copies than into checks.
    const rowFirst = numbers.below(rowsEach);
    const rowsMax = rowsEach - rowFirst;
    const rowEnd =
      rowFirst + 1 + numbers.below(numbers.below(10) === 0 ? rowsMax : Math.min(rowsMax, 60));
    const check = new Check(ledger, series, rowFirst, rowEnd);
    const [start, end] = rangeOf(rowFirst, rowEnd);
    const from = numbers.below(2) === 0 ? fillingStart : start;
    const answer = this.#reader.read(...this.places(series), from, end);
    this.#rows += check.verify(this.#decoder, answer, answer.left);
    this.#reads += series.length;
    this.#left += answer.left.length;
  }

  flush({ series, block }: RaceFlush): number {
    const rowFirst = block * rowsOfBlock;
    const check = new Check(this.#ledger, series, rowFirst, rowFirst + rowsOfBlock);
    const [start] = rangeOf(rowFirst, 0);
    const answer = this.#reader.readBlock(...this.places(series), start);
    this.#rows += check.verify(this.#decoder, answer, answer.left);
    this.#reads += series.length;
    return answer.left.length;
  }

  counts(): RaceCounts {
    return { reads: this.#reads, rows: this.#rows, left: this.#left, waits: this.#reader.waits };
  }
}

async function readUntilStopped(data: RaceWorkerData): Promise<void> {
  const answer = (message: RaceAnswer) => parentPort!.postMessage(message);
  try {
    const thread = new ReadingThread(data);
    const { flags } = new Ledger(data.ledger);
    parentPort!.on('message', (flush: RaceFlush) => {
      try {
        answer({ kind: 'flushed', left: thread.flush(flush) });
      } catch (error) {
        answer({ kind: 'failed', reason: String(error) });
      }
    });
    thread.read();
    answer({ kind: 'ready' });
    while (Atomics.load(flags, 1) === 0) {
      for (let i = 0; i < 8; i++) thread.read();
      await setImmediate();
    }
    answer({ kind: 'done', ...thread.counts() });
  } catch (error) {
    answer({ kind: 'failed', reason: error instanceof Error ? error.stack! : String(error) });
  }
  parentPort!.close();
}

if (parentPort !== null && (workerData as { isRace?: boolean } | null)?.isRace === true) {
  await readUntilStopped(workerData as RaceWorkerData);
}
