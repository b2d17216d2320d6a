/** Honest clients beside an attack: their process, and what it measured. */
import { Child } from './child.ts';

/** A query and a write each, once that time since the last one is over and it was answered. */
export const periodMillis = 20;

/** What is kept to be read back in the end: some six hours. */
export const acknowledgedStepsMax = 1_000_000;

export const honest = {
  name: 'honest',
  seriesCount: 10,
  valueOf: (series: number, step: number): number => step * 16 + series,
};

export interface Measured {
  readonly queryMillis: number[];
  /** Until the write was acknowledged, however often it was refused before. */
  readonly writeMillis: number[];
  /**
   * The most that the victim's main thread worked while one request was under way, whatever the answer: unlike
   * the time that it took, this does not grow with what else the machine does.
   */
  heldCpuMillisMax: number;
  /** Requests that were answered 429 or 503. */
  refused: number;
  /** Requests that had another error, or none in a minute. */
  failed: number;
  /** The first of them. */
  readonly failures: string[];
  /** Answers with other values than were written. */
  wrong: number;
  readonly wrongAnswers: string[];
}

/** Of failures and of wrong answers, so many are told. */
export const toldMax = 3;

export function noneMeasured(): Measured {
  return {
    queryMillis: [],
    writeMillis: [],
    heldCpuMillisMax: 0,
    refused: 0,
    failed: 0,
    failures: [],
    wrong: 0,
    wrongAnswers: [],
  };
}

export function addMeasured(to: Measured, more: Measured): void {
  for (const millis of more.queryMillis) to.queryMillis.push(millis);
  for (const millis of more.writeMillis) to.writeMillis.push(millis);
  to.heldCpuMillisMax = Math.max(to.heldCpuMillisMax, more.heldCpuMillisMax);
  to.refused += more.refused;
  to.failed += more.failed;
  to.failures.push(...more.failures);
  to.wrong += more.wrong;
  to.wrongAnswers.push(...more.wrongAnswers);
}

export type ToProbe =
  | { readonly what: 'take' }
  | { readonly what: 'read'; readonly isAll: boolean };

export type FromProbe =
  | { readonly what: 'measured'; readonly measured: Measured }
  | { readonly what: 'read'; readonly problems: string[] };

export class Probe {
  readonly #child: Child<ToProbe, FromProbe>;

  constructor(coordinatorPort: number, victimPid: number) {
    this.#child = new Child('probe_process.ts', [String(coordinatorPort), String(victimPid)]);
  }

  /** What was measured since the last call, requests that are under way included. */
  async take(): Promise<Measured> {
    const answer = await this.#child.ask({ what: 'take' });
    if (answer.what !== 'measured') throw new Error('the probe answers another question');
    return answer.measured;
  }

  /** Reads back what was acknowledged since the last call, or all of it; says what is not there. */
  async readBack(isAll: boolean): Promise<string[]> {
    const answer = await this.#child.ask({ what: 'read', isAll });
    if (answer.what !== 'read') throw new Error('the probe answers another question');
    return answer.problems;
  }

  stop(): void {
    this.#child.stop();
  }
}
