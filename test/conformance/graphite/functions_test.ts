/** Targets with what graphite-web 1.1.10 answers: names, grids, values and tags of all series. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { evaluate } from '#coordinator/graphite/evaluate/evaluate.ts';
import type { Series } from '#coordinator/graphite/series/series.ts';
import { MemoryDataset } from './dataset.ts';
import { hasSuites, readSuite } from '../suites.ts';

interface ExpectedSeries {
  readonly target: string;
  readonly start: number;
  readonly end: number;
  readonly step: number;
  /** Of cases with the tag `random` there is `n` alone. */
  readonly values?: readonly (number | string | null)[];
  readonly n?: number;
  readonly tags: Readonly<Record<string, string>>;
  readonly pathExpression: string;
  readonly options?: Readonly<Record<string, unknown>>;
  readonly xFilesFactor?: number;
  readonly consolidate?: string;
}

interface FunctionCase {
  readonly id: string;
  readonly target: string;
  readonly from: number;
  readonly until: number;
  readonly now: number;
  readonly functions: readonly string[];
  readonly expected: readonly ExpectedSeries[];
}

/** Cases in which we differ, and why; docs/GRAPHITE.md has the same. */
const differences: ReadonlyMap<string, string> = new Map([
  ['delay(ramp.up,0)', 'a delay of 0 leaves the series as it is; graphite-web answers no rows'],
]);

const tolerance = 1e-9;

function numberOf(value: number | string | null): number | null {
  if (typeof value !== 'string') return value;
  return value === 'NaN' ? NaN : value === 'Inf' ? Infinity : -Infinity;
}

function isNear(actual: number | null, expected: number | null): boolean {
  if (actual === null || expected === null) return actual === expected;
  if (Object.is(actual, expected) || actual === expected) return true;
  const size = Math.max(Math.abs(actual), Math.abs(expected));
  return Math.abs(actual - expected) <= tolerance * size;
}

/** What is wrong with a series, null when nothing is. */
function difference(actual: Series, expected: ExpectedSeries): string | null {
  const plain: readonly (readonly [string, unknown, unknown])[] = [
    ['name', actual.name, expected.target],
    ['start', actual.startSeconds, expected.start],
    ['end', actual.endSeconds, expected.end],
    ['step', actual.stepSeconds, expected.step],
    ['rows', actual.values.length, expected.values?.length ?? expected.n],
    ['tags', sorted(Object.fromEntries(actual.tags)), sorted(expected.tags)],
    ['pathExpression', actual.pathExpression, expected.pathExpression],
    ['options', sorted(actual.options), sorted(expected.options ?? {})],
    ['xFilesFactor', actual.xFilesFactor, expected.xFilesFactor ?? 0],
    ['consolidation', actual.consolidation, expected.consolidate ?? 'average'],
  ];
  for (const [what, is, should] of plain) {
    if (is !== should) return `${what} is ${JSON.stringify(is)}, not ${JSON.stringify(should)}`;
  }
  for (const [index, value] of (expected.values ?? []).entries()) {
    const is = actual.present[index] === 1 ? actual.values[index]! : null;
    if (!isNear(is, numberOf(value))) return `row ${index} is ${is}, not ${value}`;
  }
  return null;
}

function sorted(record: object): string {
  return JSON.stringify(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

async function failureOf(case_: FunctionCase): Promise<string | null> {
  const dataset = new MemoryDataset();
  const context = dataset.context(case_.from, case_.until, case_.now);
  const [list] = await evaluate([case_.target], context);
  const names = list!.map(({ name }) => name).join(' | ');
  if (list!.length !== case_.expected.length) {
    return `${list!.length} series, not ${case_.expected.length}: ${names}`;
  }
  for (const [index, expected] of case_.expected.entries()) {
    const found = difference(list![index]!, expected);
    if (found !== null) return `series ${index}: ${found}`;
  }
  return null;
}

if (hasSuites('graphite')) {
  const { cases } = readSuite<{ cases: readonly FunctionCase[] }>('graphite/functions.json');

  test('targets answer what graphite-web answers', async () => {
    const failures: string[] = [];
    const passed = new Map<string, number>();
    const all = new Map<string, number>();
    const count = (counts: Map<string, number>, name: string) =>
      counts.set(name, (counts.get(name) ?? 0) + 1);
    for (const case_ of cases) {
      let failure: string | null;
      try {
        failure = await failureOf(case_);
      } catch (error) {
        failure = error instanceof Error ? (error.stack ?? error.message) : String(error);
      }
      const isDifference = differences.has(case_.target);
      if (isDifference) assert.notEqual(failure, null, `${case_.target} is no difference any more`);
      for (const name of case_.functions) {
        count(all, name);
        if (failure === null) count(passed, name);
      }
      const window = `${case_.from - 1704110400}..${case_.until - 1704110400}`;
      if (failure !== null && !isDifference)
        failures.push(`${case_.target} [${window}]: ${failure}`);
    }
    const table = [...all].toSorted(([a], [b]) => (a < b ? -1 : 1));
    console.log(
      table.map(([name, total]) => `${name} ${passed.get(name) ?? 0}/${total}`).join('  '),
    );
    const alike = cases.length - failures.length - differences.size;
    console.log(`targets: ${alike}/${cases.length}, ${differences.size} differ for a reason`);
    assert.deepEqual(failures, []);
  });
}
