/**
 * What writers of a simulation know of each row of a namespace, and what every answer must
 * therefore hold: a row that was acknowledged is in every read that counts, with its value, until
 * its retention ends or it is deleted; no row is there that nobody wrote, or that is deleted.
 */

/** Between which Unix milliseconds a version lies, both inclusive. */
export interface VersionTime {
  readonly fromMillis: number;
  readonly toMillis: number;
}

export interface Written {
  readonly value: number;
  readonly writer: string;
  readonly startedMillis: number;
  /** Its version is of this time: a later one beats an earlier one. */
  version: VersionTime;
  /** When its outcome was known; Infinity before. */
  settledMillis: number;
  /** Acknowledged at the level that was asked for; else it may be there or not. */
  isAcknowledged: boolean;
}

/** A request that rows be gone. */
export interface Deleted {
  readonly what: string;
  /** Of one series; null for all. */
  readonly series: string | null;
  /** Unix milliseconds, both inclusive. */
  readonly fromMillis: number;
  readonly toMillis: number;
  /** Rows of later versions stay, also where it comes late. */
  version: VersionTime;
  /** When its outcome was known; Infinity before. Rows that were begun later stay. */
  settledMillis: number;
  /** From then on no read has the rows; Infinity as long as that is not known. */
  confirmedMillis: number;
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
  #deletions: Deleted[] = [];
  /** Those that are forgotten, too. */
  readonly #everDeleted: Deleted[] = [];
  /** So long rows are kept at least; as usual when not set. */
  retentionMillis: number | undefined = undefined;
  acknowledged = 0;
  unknown = 0;
  refused = 0;
  /** Rows that answers were asked for and held. */
  checked = 0;
  /** Rows that were deleted, and that answers did not have. */
  checkedAbsent = 0;

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

  /** Notes that a deletion is about to be asked for. */
  beginDeletion(deleted: Deleted): void {
    this.#deletions.push(deleted);
    this.#everDeleted.push(deleted);
  }

  /** Writes of the rows of a stretch, both ends inclusive, in the order of their times, by series. */
  *rowsIn(
    fromMillis: number,
    toMillis: number,
  ): Iterable<[series: string, rows: (readonly [timeMillis: number, writes: Written[]])[]]> {
    for (const [series, stretches] of this.#series) {
      const found: [number, Written[]][] = [];
      const last = Math.floor(toMillis / stretchMillis);
      for (let number = Math.floor(fromMillis / stretchMillis); number <= last; number += 1) {
        for (const [millis, writes] of stretches.get(number) ?? []) {
          if (millis >= fromMillis && millis <= toMillis) found.push([millis, writes]);
        }
      }
      if (found.length > 0) yield [series, found.sort(([a], [b]) => a - b)];
    }
  }

  /** Whether a deletion ever concerned rows of the time, both ends inclusive. */
  wasDeletedIn(series: string, fromMillis: number, toMillis: number): boolean {
    return this.#everDeleted.some(
      (each) =>
        toMillis >= each.fromMillis &&
        fromMillis <= each.toMillis &&
        (each.series === null || each.series === series),
    );
  }

  /** Rows that will never be asked for again. */
  forgetBefore(millis: number): void {
    for (const stretches of this.#series.values()) {
      for (const number of stretches.keys()) {
        if ((number + 1) * stretchMillis <= millis) stretches.delete(number);
      }
    }
    this.#deletions = this.#deletions.filter(({ toMillis }) => toMillis >= millis);
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

  /** Each row of an answer was written by somebody, and is not deleted. */
  #checkWritten(series: string, rows: SeriesRows, facts: ReadFacts, problems: string[]): void {
    const stretches = this.#series.get(series);
    const { what, fromMillis, toMillis, startedMillis } = facts;
    const among = this.#deletionsIn(series, fromMillis, toMillis);
    for (const [millis, value] of rows) {
      if (millis < fromMillis || millis > toMillis) continue;
      const writes = stretches?.get(Math.floor(millis / stretchMillis))?.get(millis);
      if (writes?.some((each) => Object.is(each.value, value)) !== true) {
        problems.push(`${what}: ${series} @ ${millis} = ${value} was never written`);
        continue;
      }
      const deletions = deletionsAt(among, millis);
      if (deletions.length === 0) continue;
      const those = writes.filter((each) => Object.is(each.value, value));
      const deletionOf = (written: Written): Deleted | undefined =>
        deletions.find((each) => isGone(written, each, startedMillis));
      if (!those.every((each) => deletionOf(each) !== undefined)) continue;
      const { what: by, confirmedMillis } = deletionOf(those[0]!)!;
      const row = `${what}: ${series} @ ${millis} = ${value}`;
      problems.push(`${row} was deleted by ${by}, which stood ${secondsOf(confirmedMillis)}`);
    }
  }

  /** Those that may have rows of the time, both ends inclusive. */
  #deletionsIn(series: string, fromMillis: number, toMillis: number): readonly Deleted[] {
    return this.#deletions.filter(
      (each) =>
        toMillis >= each.fromMillis &&
        fromMillis <= each.toMillis &&
        (each.series === null || each.series === series),
    );
  }

  /** Each row that was acknowledged before the read began, and is not deleted, is in the answer. */
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
    const among = this.#deletionsIn(series, fromMillis, toMillis);
    for (let number = Math.floor(fromMillis / stretchMillis); number <= end; number += 1) {
      for (const [millis, writes] of stretches.get(number) ?? []) {
        if (millis < fromMillis || millis > toMillis) continue;
        const deletions = deletionsAt(among, millis);
        const value = found.get(millis);
        if (deletions.length > 0 && value === undefined) this.checkedAbsent += 1;
        const standing = writes.filter(
          (each) =>
            each.isAcknowledged &&
            each.settledMillis < startedMillis &&
            deletions.every((deletion) => stays(each, deletion)),
        );
        const last = standing.at(-1);
        if (last === undefined) continue;
        this.checked += 1;
        const row = (): string => `${what}: ${series} @ ${millis} =`;
        if (value === undefined) {
          problems.push(`${row()} ${last.value} is missing, ${acknowledgementOf(last)}`);
          continue;
        }
        if (writes.length === 1 && Object.is(last.value, value)) continue;
        const ofValue = writes.filter((each) => Object.is(each.value, value));
        const winner = standing.find((each) => ofValue.every((other) => beats(each, other)));
        if (winner === undefined) continue;
        problems.push(
          `${row()} ${value} is stale, ${winner.value} was ${acknowledgementOf(winner)}`,
        );
      }
    }
  }
}

/** Writes of the rows of a stretch in any of the namespaces, both ends inclusive, by series and time. */
export function rowsOfAll(
  histories: readonly History[],
  fromMillis: number,
  toMillis: number,
): ReadonlyMap<string, ReadonlyMap<number, readonly Written[]>> {
  const all = new Map<string, Map<number, readonly Written[]>>();
  for (const history of histories) {
    for (const [series, rows] of history.rowsIn(fromMillis, toMillis)) {
      const known = all.get(series) ?? new Map<number, readonly Written[]>();
      all.set(series, known);
      for (const [millis, writes] of rows) {
        known.set(millis, [...(known.get(millis) ?? []), ...writes]);
      }
    }
  }
  return all;
}

const none: readonly Deleted[] = [];

function deletionsAt(among: readonly Deleted[], millis: number): readonly Deleted[] {
  if (among.length === 0) return none;
  return among.filter(({ fromMillis, toMillis }) => millis >= fromMillis && millis <= toMillis);
}

function secondsOf(millis: number): string {
  return `at ${(millis / 1000).toFixed(3)} s`;
}

function acknowledgementOf({ writer, settledMillis }: Written): string {
  return `acknowledged to ${writer} ${secondsOf(settledMillis)}`;
}

/** Whether the row was certainly written after the deletion. */
function stays(written: Written, { settledMillis, version }: Deleted): boolean {
  if (written.startedMillis <= settledMillis) return false;
  return written.version.fromMillis > version.toMillis;
}

/** Whether no read that begins now may have the row. */
function isGone(written: Written, deleted: Deleted, nowMillis: number): boolean {
  const { version, confirmedMillis } = deleted;
  return confirmedMillis < nowMillis && written.version.toMillis < version.fromMillis;
}

/**
 * Whether a write certainly has the higher version of two: it was begun when the other one was over,
 * by the same process, or by one whose clock was ahead of all versions that the other one had given.
 */
function beats(written: Written, other: Written): boolean {
  if (other.settledMillis >= written.startedMillis) return false;
  return other.writer === written.writer || other.version.toMillis < written.version.fromMillis;
}
