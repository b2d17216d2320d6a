/**
 * Remote write of all series every few seconds. Some rows are held back, some are sent twice, counters begin again now and
 * then, and a request is sent again until it is taken, while others go on.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { call } from '../../integration/process.ts';
import type { SeededRandom } from '../../seeded_random.ts';
import { allSeries, bufferPastMillis, latenessMillis, windowMillis } from './data.ts';
import type { Ledger, LedgerRow } from './ledger.ts';

const writePath = '/api/v1/compat/remote/write';
const everyMillis = 2_500;
/** One row of so many comes late. */
const lateOneIn = 10;
const lateMillisMin = 2_000;
/** Windows of what is held back for longer than their lateness are made without it at first; in time it is all the same. */
const lateMillisUsual = bufferPastMillis - latenessMillis;
const twiceOneIn = 20;
const twiceMillisMax = 5_000;
/** A series has no row now and then. */
const skippedOneIn = 8;
/** A row at the very end of a window is in that one. */
const atEndOneIn = 4;
const resetOneIn = 40;
const levelMax = 1_000;
const attemptTimeoutMillis = 10_000;
const backoffMillisMin = 100;
const backoffMillisMax = 2_000;
const problemsMax = 50;

export interface WriteCounts {
  rows: number;
  late: number;
  twice: number;
  requests: number;
  attemptsFailed: number;
  /** Rows of requests that are bad for good. */
  refused: number;
  /** The longest time from when a row was sent first until it was acknowledged. */
  slowestMillis: number;
}

interface Due {
  readonly row: LedgerRow;
  readonly dueMillis: number;
}

export class SoakWriter {
  readonly #url: string;
  readonly #ledger: Ledger;
  readonly #random: SeededRandom;
  readonly #report: (line: string) => void;
  readonly #lateMillisMax: number;
  readonly #values: number[];
  #waiting: Due[] = [];
  readonly #open = new Set<Promise<void>>();
  readonly #problems = new Set<string>();
  /** All rows up to this time were made. */
  endMillis = 0;
  readonly counts: WriteCounts = {
    rows: 0,
    late: 0,
    twice: 0,
    requests: 0,
    attemptsFailed: 0,
    refused: 0,
    slowestMillis: 0,
  };

  /**
   * @param url of a coordinator
   * @param lateMillisMax for so long a row is held back
   */
  constructor(
    url: string,
    ledger: Ledger,
    random: SeededRandom,
    report: (line: string) => void,
    lateMillisMax: number = lateMillisUsual,
  ) {
    this.#url = url;
    this.#ledger = ledger;
    this.#random = random;
    this.#report = report;
    this.#lateMillisMax = lateMillisMax;
    this.#values = allSeries.map(() => random.below(levelMax));
  }

  /** Makes rows until `ended` aborts, and sends what is due until all are acknowledged; `givenUp` leaves the rest. */
  async run(ended: AbortSignal, givenUp: AbortSignal): Promise<void> {
    this.endMillis = Date.now();
    while (!ended.aborted) {
      await delay(everyMillis, undefined, { signal: ended }).catch(() => {});
      const nowMillis = Date.now();
      this.#make(this.endMillis, nowMillis);
      this.endMillis = nowMillis;
      this.#sendDue(nowMillis, givenUp);
    }
    while (this.#waiting.length + this.#open.size > 0 && !givenUp.aborted) {
      await delay(everyMillis / 10);
      this.#sendDue(Date.now(), givenUp);
    }
    await Promise.all(this.#open);
  }

  /** Rows with times after one and up to another. */
  #make(afterMillis: number, nowMillis: number): void {
    const random = this.#random;
    const endMillis = Math.floor(nowMillis / windowMillis) * windowMillis;
    if (nowMillis <= afterMillis) return;
    for (const [series, { isCounter, isQuietAt }] of allSeries.entries()) {
      if (isQuietAt(nowMillis) || random.below(skippedOneIn) === 0) continue;
      const isAtEnd = endMillis > afterMillis && random.below(atEndOneIn) === 0;
      const millis = isAtEnd ? endMillis : nowMillis - random.below(nowMillis - afterMillis);
      const row: LedgerRow = {
        series,
        millis,
        value: this.#nextValue(series, isCounter),
        isLate: random.below(lateOneIn) === 0,
        isTwice: random.below(twiceOneIn) === 0,
        acknowledgedMillis: null,
      };
      this.#ledger.add(row);
      this.counts.rows += 1;
      if (row.isLate) this.counts.late += 1;
      if (row.isTwice) this.counts.twice += 1;
      const heldMillis = lateMillisMin + random.below(this.#lateMillisMax - lateMillisMin);
      this.#waiting.push({ row, dueMillis: row.isLate ? nowMillis + heldMillis : nowMillis });
    }
  }

  #nextValue(series: number, isCounter: boolean): number {
    const random = this.#random;
    const before = this.#values[series]!;
    const grown = random.below(resetOneIn) === 0 ? random.below(10) : before + random.below(20);
    return (this.#values[series] = isCounter ? grown : random.below(levelMax));
  }

  #sendDue(nowMillis: number, givenUp: AbortSignal): void {
    const due = this.#waiting.filter(({ dueMillis }) => dueMillis <= nowMillis);
    if (due.length === 0) return;
    this.#waiting = this.#waiting.filter(({ dueMillis }) => dueMillis > nowMillis);
    const sending = this.#send(
      due.map(({ row }) => row),
      givenUp,
    ).finally(() => this.#open.delete(sending));
    this.#open.add(sending);
  }

  async #send(rows: readonly LedgerRow[], givenUp: AbortSignal): Promise<void> {
    const { counts } = this;
    counts.requests += 1;
    const body = bodyOf(rows);
    const begin = performance.now();
    for (let backoff = backoffMillisMin; !givenUp.aborted; ) {
      let problem: string;
      try {
        const { status, text } = await call(
          'POST',
          `${this.#url}${writePath}`,
          body,
          attemptTimeoutMillis,
        );
        if (status < 300) {
          counts.slowestMillis = Math.max(counts.slowestMillis, performance.now() - begin);
          this.#acknowledge(rows, Date.now());
          return;
        }
        problem = `${status} ${text}`;
        if (status < 500 && status !== 429) {
          counts.refused += rows.length;
          this.#note(`refused for good: ${problem}`);
          return;
        }
      } catch (error) {
        problem = String(error);
      }
      counts.attemptsFailed += 1;
      this.#note(`sent again: ${problem}`);
      await delay(backoff, undefined, { signal: givenUp }).catch(() => {});
      backoff = Math.min(backoffMillisMax, 2 * backoff);
    }
  }

  #acknowledge(rows: readonly LedgerRow[], nowMillis: number): void {
    for (const row of rows) {
      if (row.acknowledgedMillis !== null) continue;
      row.acknowledgedMillis = nowMillis;
      if (!row.isTwice) continue;
      this.#waiting.push({ row, dueMillis: nowMillis + this.#random.below(twiceMillisMax) });
    }
  }

  #note(text: string): void {
    // One of each kind is enough to look into.
    const kind = text.replace(/\d+/g, '#').slice(0, 160);
    if (this.#problems.has(kind) || this.#problems.size >= problemsMax) return;
    this.#problems.add(kind);
    this.#report(`write ${text.slice(0, 400)}`);
  }
}

function bodyOf(rows: readonly LedgerRow[]): Uint8Array {
  const bySeries = Map.groupBy(rows, ({ series }) => series);
  return encodeRemoteWrite(
    [...bySeries].map(([series, of]) => ({
      tags: allSeries[series]!.tags,
      samples: of
        .toSorted((a, b) => a.millis - b.millis)
        .map(({ millis, value }) => ({ timestampMillis: millis, value })),
    })),
  );
}
