/**
 * Reads at majority, and holds each sample that was acknowledged before a read began against its
 * answer. What was sent and not acknowledged may be there, nothing else may.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { SeededRandom } from '../seeded_random.ts';
import { call } from '../integration/process.ts';
import {
  clusterData,
  type Grid,
  metricName,
  seriesOfPart,
  sliceCount,
  timeOf,
} from './cluster_soak_data.ts';
import { acknowledged, type Ledger, notSent } from './cluster_soak_ledger.ts';
import { seriesOfSlice } from './soak_data.ts';

const readTimeoutMillis = 60_000;
/** When everything is read: two million samples of a slice in one read, as ten sums a series. */
const stepsOfWindow = 100;
const windowsOfRead = 10;
/** A random read has steps of a length between these. */
const windowStepsMin = 10;
const windowStepsMax = 2000;
/** Half of the random reads are of the newest steps, where most of the state is. */
const recentShare = 0.5;
const failuresKept = 50;
/** How long a piece of everything may be refused until that is a failure. */
const pieceTimeoutMillis = 300_000;

export interface ReadCounts {
  reads: number;
  readsRefused: number;
  samplesHeld: number;
  missing: number;
  wrong: number;
}

/** What is asked for: series of one slice, in steps from one to before another. */
interface Piece {
  readonly selector: string;
  readonly slice: number;
  readonly firstSeries: number;
  readonly endSeries: number;
  readonly fromStep: number;
  readonly endStep: number;
}

interface Held {
  readonly missing: number;
  readonly wrong: number;
  /** The first of what is missing or wrong. */
  readonly first: string | null;
}

interface AnsweredSeries {
  readonly metric: { readonly series: string };
  readonly values: readonly (readonly [number, string])[];
}

export interface CheckerParts {
  readonly grid: Grid;
  readonly ledger: Ledger;
  /** Coordinators that read at majority. */
  readonly urls: readonly string[];
  /** The fault of this moment and what state the nodes are in. */
  readonly circumstances: () => string;
  readonly random: SeededRandom;
  readonly report: (line: string) => void;
  /** How long after a failure, or a refusal of a piece of everything, the same is read again. */
  readonly againMillis: number;
}

export class ClusterChecker {
  readonly #parts: CheckerParts;
  readonly #refusals = new Set<string>();
  readonly failures: string[] = [];
  readonly counts: ReadCounts = {
    reads: 0,
    readsRefused: 0,
    samplesHeld: 0,
    missing: 0,
    wrong: 0,
  };

  constructor(parts: CheckerParts) {
    this.#parts = parts;
  }

  /** Reads ranges of random series until the signal aborts. */
  async run(readsPerSecond: number, ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      await delay(1000 / readsPerSecond, undefined, { signal: ended }).catch(() => {});
      if (ended.aborted) return;
      const piece = this.#randomPiece();
      if (piece !== null) await this.#hold(piece);
    }
  }

  #randomPiece(): Piece | null {
    const firstSeries =
      this.#parts.random.below(Math.ceil(this.#parts.grid.seriesCount / seriesOfPart)) *
      seriesOfPart;
    const slice = Math.floor(firstSeries / seriesOfSlice);
    const newest = this.#parts.ledger.endOf(slice);
    if (newest === 0) return null;
    const length = Math.min(
      newest,
      Math.round(
        windowStepsMin * (windowStepsMax / windowStepsMin) ** this.#parts.random.fraction(),
      ),
    );
    const endStep =
      this.#parts.random.fraction() < recentShare
        ? newest
        : length + this.#parts.random.below(newest - length + 1);
    return {
      selector: `part="${firstSeries / seriesOfPart}"`,
      slice,
      firstSeries,
      endSeries: Math.min(firstSeries + seriesOfPart, this.#parts.grid.seriesCount),
      fromStep: endStep - length,
      endStep,
    };
  }

  /**
   * Reads everything from one time to another, slice by slice: windows of which all was
   * acknowledged by their sums, which tell every sample since no two values are alike; samples where
   * a sum is another one, or not all was acknowledged.
   */
  async readAll(fromUnixMillis: number = 0, toUnixMillis: number = Infinity): Promise<void> {
    const { grid, ledger } = this.#parts;
    const stepOf = (unixMillis: number): number =>
      (unixMillis - grid.startUnixMillis) / grid.stepMillis;
    for (let slice = 0; slice < sliceCount(grid); slice += 1) {
      const end = Math.min(ledger.endOf(slice), Math.ceil(stepOf(toUnixMillis)));
      let step = Math.max(0, Math.floor(stepOf(fromUnixMillis)));
      while (step < end) {
        const windows = this.#wholeWindows(slice, step, end);
        if (windows === 0) {
          await this.#holdWindow(slice, step, Math.min(end, step + stepsOfWindow));
          step += stepsOfWindow;
          continue;
        }
        const piece = this.#sliceSteps(slice, step, step + windows * stepsOfWindow);
        for (const other of await this.#whenTaken(piece, () => this.#otherSums(piece))) {
          const from = step + other * stepsOfWindow;
          if (await this.#holdWindow(slice, from, from + stepsOfWindow)) {
            this.#fail(`${piece.selector}: sum of steps ${from}… is wrong, and samples are right`);
          }
        }
        step += windows * stepsOfWindow;
      }
    }
  }

  /** How many windows from a step on have nothing but what was acknowledged. */
  #wholeWindows(slice: number, from: number, end: number): number {
    const windowsEnd = Math.min(end, from + windowsOfRead * stepsOfWindow);
    const states = this.#parts.ledger.statesOf(slice, from, windowsEnd);
    const other = states.findIndex((state) => state !== acknowledged);
    return Math.floor((other === -1 ? states.length : other) / stepsOfWindow);
  }

  #sliceSteps(slice: number, fromStep: number, endStep: number): Piece {
    return {
      selector: `slice="${slice}"`,
      slice,
      firstSeries: slice * seriesOfSlice,
      endSeries: Math.min((slice + 1) * seriesOfSlice, this.#parts.grid.seriesCount),
      fromStep,
      endStep,
    };
  }

  /** Whether all is right. */
  #holdWindow(slice: number, fromStep: number, endStep: number): Promise<boolean> {
    const piece = this.#sliceSteps(slice, fromStep, endStep);
    return this.#whenTaken(piece, () => this.#hold(piece));
  }

  /**
   * Asks until an answer is no refusal.
   *
   * @throws after minutes: then there is nothing to hold what was acknowledged against
   */
  async #whenTaken<T>(piece: Piece, read: () => Promise<T | null>): Promise<T> {
    const end = performance.now() + pieceTimeoutMillis;
    for (;;) {
      const answer = await read();
      if (answer !== null) return answer;
      if (performance.now() > end) {
        const seconds = pieceTimeoutMillis / 1000;
        const { selector, fromStep } = piece;
        throw new Error(`${selector} from step ${fromStep} on cannot be read for ${seconds} s`);
      }
      await delay(this.#parts.againMillis);
    }
  }

  /** Windows of which a series has another sum than it was sent; null when the read is refused. */
  async #otherSums(piece: Piece): Promise<number[] | null> {
    const { grid } = this.#parts;
    const { firstSeries, endSeries, fromStep, endStep } = piece;
    const windows = (endStep - fromStep) / stepsOfWindow;
    const windowMillis = stepsOfWindow * grid.stepMillis;
    const firstMillis = timeOf(grid, fromStep + stepsOfWindow - 1);
    const result = await this.#ask('query_range', {
      query: `sum_over_time(${metricName}{${piece.selector}}[${windowMillis}ms])`,
      start: String(firstMillis / 1000),
      end: String(timeOf(grid, endStep - 1) / 1000),
      step: String(windowMillis / 1000),
    });
    if (result === null) return null;
    const sums = new Float64Array((endSeries - firstSeries) * windows);
    for (const { metric, values } of result) {
      const row = (Number(metric.series) - firstSeries) * windows;
      for (const [seconds, text] of values) {
        sums[row + Math.round((seconds * 1000 - firstMillis) / windowMillis)] = Number(text);
      }
    }
    const others = new Set<number>();
    for (let series = firstSeries; series < endSeries; series += 1) {
      for (let window = 0; window < windows; window += 1) {
        let sum = 0;
        const from = fromStep + window * stepsOfWindow;
        for (let step = from; step < from + stepsOfWindow; step += 1) {
          sum += clusterData.valueOf(series, step);
        }
        if (sums[(series - firstSeries) * windows + window] !== sum) others.add(window);
      }
    }
    this.counts.samplesHeld += (windows - others.size) * stepsOfWindow * (endSeries - firstSeries);
    return [...others];
  }

  /** Whether all is right; null when the read is refused. */
  async #hold(piece: Piece): Promise<boolean | null> {
    const begin = new Date().toISOString();
    const around = this.#parts.circumstances();
    const held = await this.#read(piece);
    if (held === null) return null;
    this.counts.missing += held.missing;
    this.counts.wrong += held.wrong;
    if (held.first === null) return true;
    this.#fail(
      `${begin} ${held.missing} missing, ${held.wrong} wrong of ${piece.selector}: first ${held.first}; ` +
        `then ${around}; now ${this.#parts.circumstances()}`,
    );
    // Whether it is lost, or only this answer lacked it.
    await delay(this.#parts.againMillis);
    const again = await this.#read(piece);
    const seconds = this.#parts.againMillis / 1000;
    this.#parts.report(
      again === null
        ? `  ${seconds} s later the read is refused`
        : `  ${seconds} s later ${again.missing} missing, ${again.wrong} wrong`,
    );
    return false;
  }

  #fail(text: string): void {
    if (this.failures.length >= failuresKept) return;
    this.failures.push(text);
    this.#parts.report(`FAILURE ${text}`);
  }

  /** Null when the read is refused. */
  async #read(piece: Piece): Promise<Held | null> {
    const { slice, fromStep, endStep } = piece;
    const before = this.#parts.ledger.statesOf(slice, fromStep, endStep);
    const { stepMillis } = this.#parts.grid;
    const query = `${metricName}{${piece.selector}}[${(endStep - fromStep) * stepMillis}ms]`;
    const time = String(timeOf(this.#parts.grid, endStep - 1) / 1000);
    const result = await this.#ask('query', { query, time });
    if (result === null) return null;
    const after = this.#parts.ledger.statesOf(slice, fromStep, endStep);
    return this.#compare(piece, result, before, after);
  }

  /** Null when the read is refused. */
  async #ask(
    path: string,
    parameters: Record<string, string>,
  ): Promise<readonly AnsweredSeries[] | null> {
    const url = this.#parts.random.pick(this.#parts.urls);
    this.counts.reads += 1;
    try {
      const asked = `${url}/api/v1/${path}?${new URLSearchParams(parameters)}`;
      const { status, text, json } = await call('GET', asked, undefined, readTimeoutMillis);
      if (status !== 200) throw new Error(`${status} ${text.slice(0, 300)}`);
      if (json.warnings !== undefined) throw new Error(`in part: ${json.warnings}`);
      return json.data.result as readonly AnsweredSeries[];
    } catch (error) {
      this.counts.readsRefused += 1;
      this.#noteRefusal(String(error));
      return null;
    }
  }

  #compare(
    piece: Piece,
    result: readonly AnsweredSeries[],
    before: Uint8Array,
    after: Uint8Array,
  ): Held {
    const { startUnixMillis, stepMillis } = this.#parts.grid;
    const { firstSeries, endSeries, fromStep, endStep } = piece;
    const steps = endStep - fromStep;
    const found = new Uint8Array((endSeries - firstSeries) * steps);
    let missing = 0;
    let wrong = 0;
    let first: string | null = null;
    const named = (series: number, step: number, what: string): string =>
      `series ${series} step ${step} (request of slice ${piece.slice}) at ${new Date(timeOf(this.#parts.grid, step)).toISOString()}: ${what}`;
    for (const { metric, values } of result) {
      const series = Number(metric.series);
      for (const [seconds, text] of values) {
        const step = (Math.round(seconds * 1000) - startUnixMillis) / stepMillis;
        const isAsked =
          Number.isInteger(step) &&
          step >= fromStep &&
          step < endStep &&
          series >= firstSeries &&
          series < endSeries;
        const at = (series - firstSeries) * steps + step - fromStep;
        if (
          !isAsked ||
          found[at] === 1 ||
          after[step - fromStep] === notSent ||
          Number(text) !== clusterData.valueOf(series, step)
        ) {
          wrong += 1;
          first ??= named(series, step, `has ${text}`);
        }
        if (isAsked) found[at] = 1;
      }
    }
    for (let series = firstSeries; series < endSeries; series += 1) {
      const row = (series - firstSeries) * steps;
      for (let step = 0; step < steps; step += 1) {
        if (before[step] !== acknowledged) continue;
        this.counts.samplesHeld += 1;
        if (found[row + step] === 1) continue;
        missing += 1;
        first ??= named(series, fromStep + step, 'is missing');
      }
    }
    return { missing, wrong, first };
  }

  #noteRefusal(text: string): void {
    const kind = text.replace(/\d+/g, '#').slice(0, 160);
    if (this.#refusals.has(kind) || this.#refusals.size > failuresKept) return;
    this.#refusals.add(kind);
    this.#parts.report(`read refused: ${text.slice(0, 400)}`);
  }
}
