/**
 * What the rules of a set may come to, and those of all sets of a cluster together: every process that follows them holds all in
 * memory, and tries them on series, one after the other. Looked at before anything is compiled.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { fieldPath } from '#lib/json_fields.ts';
import type { Filter } from '../filter.ts';
import { patternStepsMax } from '../pattern.ts';
import type { MappingRule, RollupRule, Rules } from '../rules.ts';
import type { RuleHistory, RuleSet, RuleVersion } from './set.ts';

/** Mapping rules of a set with conditions on paths, which are tried one after the other; more are refused. */
export const pathRulesMax = 1_000;
/**
 * Instructions of the patterns of paths of a set together, told by their texts (a character that is written is one): some 200 ms to
 * compile them, and 30 MB.
 */
export const pathProgramsMax = 100_000;
/** Steps that the patterns of all filters of a set take at most on one series, of some nanoseconds each. */
export const filterStepsMax = 1_000_000;

/** Of one set with all versions of its rules, or of several. */
export interface SetsSize {
  /** Each as often as it was changed. */
  readonly rules: number;
  /** As JSON. */
  readonly bytes: number;
  /** As `pathProgramsMax`. */
  readonly pathPrograms: number;
}

export const noSize: SetsSize = { rules: 0, bytes: 0, pathPrograms: 0 };

/** Of all sets of a cluster: in memory they take some six times their bytes. */
export const allMax: SetsSize = {
  rules: 200_000,
  bytes: 32 << 20,
  pathPrograms: 2 * pathProgramsMax,
};

/** What sets that were written within the limits may have come to: it is written when rules end, too, whatever there is. */
export const followedBytesMax: number = 2 * allMax.bytes;

const whatOfSize: Readonly<Record<keyof SetsSize, string>> = {
  rules: 'rules, each as often as it was changed',
  bytes: 'bytes',
  pathPrograms: 'instructions of patterns of paths',
};

/** @param bytes of it as it is stored, not compressed */
export function sizeOfSet({ mappingRules, rollupRules }: RuleSet, bytes: number): SetsSize {
  const rules = [...versionsOf(mappingRules), ...versionsOf(rollupRules)].length;
  return { rules, bytes, pathPrograms: pathProgramsOf({ mappingRules }) };
}

/** Those with a rule. */
function versionsOf<R>(histories: readonly RuleHistory<R>[]): RuleVersion<R>[] {
  return histories.flatMap(({ versions }) => versions.filter(({ rule }) => rule !== null));
}

/** Whether it has a version of a rule that the other one has not; it is made of it, with what it has in common. */
export function addsRules(next: RuleSet, before: RuleSet): boolean {
  return (['mappingRules', 'rollupRules'] as const).some((key) => {
    const known = new Set<object>(versionsOf<object>(before[key]));
    return versionsOf<object>(next[key]).some((version) => !known.has(version));
  });
}

/** Of all versions. */
export function pathProgramsOf({ mappingRules }: Pick<RuleSet, 'mappingRules'>): number {
  return versionsOf(mappingRules).reduce(
    (sum, { rule }) => sum + (rule?.path?.programSize ?? 0),
    0,
  );
}

export function addedSizes(a: SetsSize, b: SetsSize): SetsSize {
  return {
    rules: a.rules + b.rules,
    bytes: a.bytes + b.bytes,
    pathPrograms: a.pathPrograms + b.pathPrograms,
  };
}

/**
 * That a set to which rules are added may be written beside the others.
 * @param before what it was: one that stands and is too large may become smaller
 * @throws {TsdbError} BAD_REQUEST naming the set, what is too much, and how much it is
 */
export function checkAllSets(
  name: string,
  next: SetsSize,
  before: SetsSize,
  others: SetsSize,
): void {
  const all = addedSizes(next, others);
  for (const key of ['rules', 'bytes', 'pathPrograms'] as const) {
    if (all[key] <= allMax[key] || next[key] <= before[key]) continue;
    throw badRequest(
      `all sets of rules with their history would have ${all[key]} ${whatOfSize[key]}, ${next[key]} of them in set ${shownText(name)}, and ${allMax[key]} is the most`,
    );
  }
}

/**
 * That rules can stand in one set.
 * @param path of what they are in, for errors
 * @param before those that stood: a set that has too much may come to have less
 * @throws {TsdbError} BAD_REQUEST naming the rule with which they are too much
 */
export function checkSetSize(rules: Rules, path: string, before: Rules = noRules): void {
  checkPathRules(rules.mappingRules, before.mappingRules, fieldPath(path, 'mappingRules'));
  for (const key of ['mappingRules', 'rollupRules'] as const) {
    checkSum<MappingRule | RollupRule>({
      rules: rules[key],
      before: before[key],
      of: ({ filter }) => stepsOf(filter),
      most: filterStepsMax,
      place: fieldPath(path, key),
      what: 'steps to match the filters of all up to this one on a series',
    });
  }
}

const noRules: Rules = { mappingRules: [], rollupRules: [] };

function checkPathRules(
  rules: readonly MappingRule[],
  before: readonly MappingRule[],
  place: string,
): void {
  const countOf = (all: readonly MappingRule[]): number =>
    all.filter((rule) => rule.path !== null).length;
  const count = countOf(rules);
  if (count > pathRulesMax && count > countOf(before)) {
    throw badRequest(`${place}: more than ${pathRulesMax} with conditions on paths: ${count}`);
  }
  checkSum({
    rules,
    before,
    of: ({ path }) => path?.programSize ?? 0,
    most: pathProgramsMax,
    place,
    what: 'instructions in the patterns of paths of all up to this one',
  });
}

/** What rules with paths of a list that is being read have left: no more is read of a list that no set can have. */
export class PathRoom {
  readonly #place: string;
  readonly #read: MappingRule[] = [];
  #programs = 0;

  /** @param path of what the rules are in, for errors */
  constructor(path: string) {
    this.#place = fieldPath(path, 'mappingRules');
  }

  /** @throws {TsdbError} BAD_REQUEST as `checkSetSize` */
  add(rule: MappingRule): void {
    if (rule.path === null) return;
    this.#read.push(rule);
    this.#programs += rule.path.programSize;
    if (this.#read.length <= pathRulesMax && this.#programs <= pathProgramsMax) return;
    checkPathRules(this.#read, [], this.#place);
  }
}

interface Sum<R> {
  readonly rules: readonly R[];
  readonly before: readonly R[];
  readonly of: (rule: R) => number;
  readonly most: number;
  readonly place: string;
  readonly what: string;
}

function checkSum<R extends MappingRule | RollupRule>(all: Sum<R>): void {
  const { rules, before, of, most, place, what } = all;
  let sum = 0;
  let first: { readonly name: string; readonly sum: number } | null = null;
  for (const rule of rules) {
    sum += of(rule);
    if (sum > most) first ??= { name: rule.name, sum };
  }
  if (first === null || sum <= before.reduce((total, rule) => total + of(rule), 0)) return;
  throw badRequest(
    `${place}: rule ${shownText(first.name)}: ${first.sum} ${what}, and ${most} is the most`,
  );
}

/** On one series. */
function stepsOf(filter: Filter): number {
  return filter.reduce((sum, { pattern }) => sum + pattern.steps, 0);
}

/**
 * That a match of each of its patterns takes little.
 * @param text of it
 * @throws {TsdbError} BAD_REQUEST naming field, tag and filter
 */
export function checkFilter(filter: Filter, text: string, path: string): void {
  for (const { name, pattern } of filter) {
    if (pattern.steps <= patternStepsMax) continue;
    throw badRequest(
      `${path}: ${shownText(name)}: a match of the pattern takes up to ${pattern.steps} steps, and ${patternStepsMax} is the most: ${shownText(text)}`,
    );
  }
}
