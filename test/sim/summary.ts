/**
 * What a campaign has done so far, as a file: whoever goes on takes other seeds, and summaries of
 * the same campaign can be added up, over processes, machines and days.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

export interface Failure {
  readonly seed: number;
  /** The first line of the error. */
  readonly error: string;
  /** The command that runs it again. */
  readonly again: string;
}

/** Seeds from the first to the last, both inclusive. */
export type SeedRange = readonly [first: number, last: number];

export interface Summary {
  readonly campaign: string;
  readonly size: number;
  /** Of git; `-changed` behind it when files differed from it. */
  readonly commits: readonly string[];
  /** What was run (`code.ts`): the same one for all commits that change nothing of it. */
  readonly codes: readonly string[];
  /** Ascending, with gaps between them. */
  readonly seeds: readonly SeedRange[];
  /** Those that failed are among them. */
  readonly runs: number;
  readonly failures: readonly Failure[];
  /** Seconds of CPU time. */
  readonly cpuSeconds: number;
  /** By what was counted (`counts.ts`). */
  readonly counts: Readonly<Record<string, number>>;
}

export function emptySummary(
  campaign: string,
  size: number,
  commit: string,
  code: string,
): Summary {
  return {
    campaign,
    size,
    commits: [commit],
    codes: [code],
    seeds: [],
    runs: 0,
    failures: [],
    cpuSeconds: 0,
    counts: {},
  };
}

/** @throws {Error} when they are of other campaigns or sizes, or have a seed of one code in common */
export function added(one: Summary, other: Summary): Summary {
  for (const field of ['campaign', 'size'] as const) {
    if (one[field] !== other[field]) {
      throw new Error(`summaries of another ${field}: ${one[field]} and ${other[field]}`);
    }
  }
  const isOfSameCode = other.codes.some((code) => one.codes.includes(code));
  const twice = other.seeds.find((range) => one.seeds.some((each) => overlap(each, range)));
  if (isOfSameCode && twice !== undefined) {
    throw new Error(`seeds ${twice[0]} to ${twice[1]} are in both summaries, or some of them are`);
  }
  const counts = new Map(Object.entries(one.counts));
  for (const [what, number] of Object.entries(other.counts)) {
    counts.set(what, (counts.get(what) ?? 0) + number);
  }
  return {
    campaign: one.campaign,
    size: one.size,
    commits: [...new Set([...one.commits, ...other.commits])],
    codes: [...new Set([...one.codes, ...other.codes])],
    seeds: joined([...one.seeds, ...other.seeds]),
    runs: one.runs + other.runs,
    failures: [...one.failures, ...other.failures].sort((a, b) => a.seed - b.seed),
    cpuSeconds: one.cpuSeconds + other.cpuSeconds,
    counts: Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** The seeds of a range that a summary lacks, in ranges of so many at most. */
export function* missingSeeds(
  summary: Summary,
  range: SeedRange,
  lengthMax: number,
): Generator<SeedRange, void, void> {
  let [next, last] = range;
  // One by one: a range without an end is all the numbers that there are.
  const until = function* (end: number): Generator<SeedRange, void, void> {
    for (; next <= end; next += lengthMax) yield [next, Math.min(next + lengthMax - 1, end)];
  };
  for (const [from, to] of summary.seeds) {
    if (to < next) continue;
    yield* until(Math.min(from - 1, last));
    next = Math.max(next, to + 1);
  }
  yield* until(last);
}

/** Null when there is none. @throws {Error} that names the file */
export function readSummary(path: string): Summary | null {
  if (!existsSync(path)) return null;
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Summary;
  } catch (error) {
    throw new Error(`${path} is no summary`, { cause: error });
  }
}

/** All of it, or what was there before. */
export function writeSummary(path: string, summary: Summary): void {
  writeFileSync(`${path}.next`, `${JSON.stringify(summary, null, 1)}\n`);
  renameSync(`${path}.next`, path);
}

function overlap(one: SeedRange, other: SeedRange): boolean {
  return one[0] <= other[1] && other[0] <= one[1];
}

function joined(ranges: readonly SeedRange[]): SeedRange[] {
  const all: [number, number][] = [];
  for (const [first, last] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const before = all.at(-1);
    if (before === undefined || first > before[1] + 1) all.push([first, last]);
    else before[1] = Math.max(before[1], last);
  }
  return all;
}
