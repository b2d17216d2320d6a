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
/** Samples of one read, when everything is read. */
const samplesOfRead = 200_000;
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
   * Reads everything from one time to another, slice by slice; a piece that is refused is asked for
   * again, for some minutes.
   */
  async readAll(fromUnixMillis: number = 0, toUnixMillis: number = Infinity): Promise<void> {
    const { startUnixMillis, stepMillis, seriesCount } = this.#parts.grid;
    const stepsOfRead = Math.max(
      1,
      Math.floor(samplesOfRead / Math.min(seriesOfSlice, seriesCount)),
    );
    for (let slice = 0; slice < sliceCount(this.#parts.grid); slice += 1) {
      const newest = this.#parts.ledger.endOf(slice);
      const from = Math.max(0, Math.floor((fromUnixMillis - startUnixMillis) / stepMillis));
      const end = Math.min(newest, Math.ceil((toUnixMillis - startUnixMillis) / stepMillis));
      for (let fromStep = from; fromStep < end; fromStep += stepsOfRead) {
        await this.#holdWhenTaken({
          selector: `slice="${slice}"`,
          slice,
          firstSeries: slice * seriesOfSlice,
          endSeries: Math.min((slice + 1) * seriesOfSlice, seriesCount),
          fromStep,
          endStep: Math.min(end, fromStep + stepsOfRead),
        });
      }
    }
  }

  async #holdWhenTaken(piece: Piece): Promise<void> {
    const end = performance.now() + pieceTimeoutMillis;
    while (!(await this.#hold(piece))) {
      if (performance.now() > end) {
        const seconds = pieceTimeoutMillis / 1000;
        this.#fail(`${piece.selector} steps ${piece.fromStep}…: no read for ${seconds} s`);
        return;
      }
      await delay(this.#parts.againMillis);
    }
  }

  /** False: the read was refused. */
  async #hold(piece: Piece): Promise<boolean> {
    const begin = new Date().toISOString();
    const around = this.#parts.circumstances();
    const held = await this.#read(piece);
    if (held === null) return false;
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
    return true;
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
    const url = this.#parts.random.pick(this.#parts.urls);
    let result: readonly AnsweredSeries[];
    this.counts.reads += 1;
    try {
      const asked = `${url}/api/v1/query?${new URLSearchParams({ query, time })}`;
      const { status, text, json } = await call('GET', asked, undefined, readTimeoutMillis);
      if (status !== 200) throw new Error(`${status} ${text.slice(0, 300)}`);
      if (json.warnings !== undefined) throw new Error(`in part: ${json.warnings}`);
      result = json.data.result;
    } catch (error) {
      this.counts.readsRefused += 1;
      this.#noteRefusal(String(error));
      return null;
    }
    const after = this.#parts.ledger.statesOf(slice, fromStep, endStep);
    return this.#compare(piece, result, before, after);
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
