/**
 * What writers of a simulation know of each row, and what every answer must therefore hold: a row
 * that was acknowledged is in every read that counts, with its value, until its retention ends; no
 * row is there that nobody wrote.
 */

export interface Written {
  readonly value: number;
  readonly writer: string;
  readonly startedMillis: number;
  /** When its outcome was known; Infinity before. */
  settledMillis: number;
  /** Acknowledged at the level that was asked for; else it may be there or not. */
  isAcknowledged: boolean;
}

type SeriesRows = readonly (readonly [timeMillis: number, value: number])[];

export type Rows = ReadonlyMap<string, SeriesRows>;

export interface ReadFacts {
  readonly what: string;
  readonly startedMillis: number;
  /** Unix milliseconds, both inclusive: rows of this time must be in the answer. */
  readonly fromMillis: number;
  readonly toMillis: number;
  /** Of one series; null for all. */
  readonly series: string | null;
}

/** Rows of so many milliseconds lie together. */
const stretchMillis = 10_000;

/** Writes of one series in one stretch, by Unix milliseconds. */
type Stretch = Map<number, Written[]>;

export class History {
  /** By series and number of the stretch. */
  readonly #series = new Map<string, Map<number, Stretch>>();
  acknowledged = 0;
  unknown = 0;
  refused = 0;
  /** Rows that answers were asked for and held. */
  checked = 0;

  /** Notes that a row is about to be sent. */
  begin(series: string, millis: number, written: Written): void {
    let stretches = this.#series.get(series);
    if (stretches === undefined) this.#series.set(series, (stretches = new Map()));
    const number = Math.floor(millis / stretchMillis);
    let stretch = stretches.get(number);
    if (stretch === undefined) stretches.set(number, (stretch = new Map()));
    const others = stretch.get(millis);
    if (others === undefined) stretch.set(millis, [written]);
    else others.push(written);
  }

  /** Rows that will never be asked for again. */
  forgetBefore(millis: number): void {
    for (const stretches of this.#series.values()) {
      for (const number of stretches.keys()) {
        if ((number + 1) * stretchMillis <= millis) stretches.delete(number);
      }
    }
  }

  /**
   * Holds an answer against what was written.
   * @returns what is wrong with it, in words; empty when nothing is
   */
  problemsOf(answer: Rows, facts: ReadFacts): string[] {
    const problems: string[] = [];
    for (const [series, rows] of answer) this.#checkWritten(series, rows, facts, problems);
    for (const [series, stretches] of this.#series) {
      if (facts.series !== null && facts.series !== series) continue;
      this.#checkThere(series, stretches, answer.get(series) ?? [], facts, problems);
    }
    return problems;
  }

  /** Each row of an answer was written by somebody. */
  #checkWritten(series: string, rows: SeriesRows, facts: ReadFacts, problems: string[]): void {
    const stretches = this.#series.get(series);
    for (const [millis, value] of rows) {
      if (millis < facts.fromMillis || millis > facts.toMillis) continue;
      const writes = stretches?.get(Math.floor(millis / stretchMillis))?.get(millis);
      if (writes?.some((each) => each.value === value) === true) continue;
      problems.push(`${facts.what}: ${series} @ ${millis} = ${value} was never written`);
    }
  }

  /** Each row that was acknowledged before the read began is in the answer. */
  #checkThere(
    series: string,
    stretches: ReadonlyMap<number, Stretch>,
    rows: SeriesRows,
    facts: ReadFacts,
    problems: string[],
  ): void {
    const found = new Map(rows);
    const { what, fromMillis, toMillis, startedMillis } = facts;
    const end = Math.floor(toMillis / stretchMillis);
    for (let number = Math.floor(fromMillis / stretchMillis); number <= end; number += 1) {
      for (const [millis, writes] of stretches.get(number) ?? []) {
        if (millis < fromMillis || millis > toMillis) continue;
        const last = lastAcknowledged(writes, startedMillis);
        if (last === null) continue;
        this.checked += 1;
        const value = found.get(millis);
        const settled = (last.settledMillis / 1000).toFixed(3);
        const acknowledged = `acknowledged to ${last.writer} at ${settled} s`;
        if (value === undefined) {
          problems.push(
            `${what}: ${series} @ ${millis} = ${last.value} is missing, ${acknowledged}`,
          );
        } else if (isOverwritten(writes, value, last)) {
          problems.push(
            `${what}: ${series} @ ${millis} = ${value} is stale, ${last.value} was ${acknowledged}`,
          );
        }
      }
    }
  }
}

/** The write that was begun last of those that were acknowledged when the read began. */
function lastAcknowledged(writes: readonly Written[], startedMillis: number): Written | null {
  let last: Written | null = null;
  for (const each of writes) {
    if (each.isAcknowledged && each.settledMillis < startedMillis) last = each;
  }
  return last;
}

/** Whether all writes of the value were over before the last acknowledged one began. */
function isOverwritten(writes: readonly Written[], value: number, last: Written): boolean {
  return writes.every(
    (each) =>
      each.value !== value ||
      (each.settledMillis < last.startedMillis && each.writer === last.writer),
  );
}
