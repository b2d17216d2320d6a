/**
 * Rules with their history: which rules there are at a time. Each rule has versions, each of which
 * holds from its cut-over on; one that was deleted has a last version without a rule.
 */
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import type { MappingRule, RollupRule, Rules } from '../rules.ts';

export interface RuleVersion<R> {
  /** Null from when the rule is deleted. */
  readonly rule: R | null;
  readonly cutoverNanos: bigint;
  readonly updatedAtMillis: number;
  readonly updatedBy: string;
}

export interface RuleHistory<R> {
  /** Of the rule, whatever its name is. */
  readonly id: string;
  /** By ascending cut-over; at least one. */
  readonly versions: readonly RuleVersion<R>[];
}

export interface RuleSet {
  /** Grows by one with each change. */
  readonly version: number;
  /** It has no rules, and is kept for those that it had. */
  readonly isDeleted: boolean;
  /** Coordinators publish it at their start: others are not to change it. */
  readonly isOfConfiguration: boolean;
  readonly mappingRules: readonly RuleHistory<MappingRule>[];
  readonly rollupRules: readonly RuleHistory<RollupRule>[];
}

export const emptyRuleSet: RuleSet = {
  version: 0,
  isDeleted: false,
  isOfConfiguration: false,
  mappingRules: [],
  rollupRules: [],
};

/** When a change comes, and who makes it. */
export interface ChangeMoment {
  readonly cutoverNanos: bigint;
  readonly nowMillis: number;
  readonly by: string;
  /** Of a rule that is new. */
  newId(): string;
}

/** The rules at a time. */
export function rulesAt(set: RuleSet, nanos: bigint): Rules {
  const active = <R>(histories: readonly RuleHistory<R>[]): R[] =>
    histories.flatMap(({ versions }) => {
      const rule = versions.findLast(({ cutoverNanos }) => cutoverNanos <= nanos)?.rule ?? null;
      return rule === null ? [] : [rule];
    });
  return { mappingRules: active(set.mappingRules), rollupRules: active(set.rollupRules) };
}

/** When other rules begin to hold, ascending, each once. */
export function cutoversOf(set: RuleSet): bigint[] {
  const all = [...set.mappingRules, ...set.rollupRules].flatMap(({ versions }) =>
    versions.map(({ cutoverNanos }) => cutoverNanos),
  );
  return [...new Set(all)].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

/**
 * The set with other rules from the moment's cut-over on: rules are the same by their names. What was
 * to hold from then on or later, and has not begun to, never does.
 * @returns the same set when nothing changes
 */
export function withRules(set: RuleSet, rules: Rules, moment: ChangeMoment): RuleSet {
  return inOneGo(withRulesInSteps(set, rules, moment));
}

/** As `withRules`, for who has others to look after. */
export function* withRulesInSteps(
  set: RuleSet,
  rules: Rules,
  moment: ChangeMoment,
): Generator<void, RuleSet> {
  const mappingRules = yield* replaced(set.mappingRules, rules.mappingRules, moment);
  const rollupRules = yield* replaced(set.rollupRules, rules.rollupRules, moment);
  if (mappingRules === set.mappingRules && rollupRules === set.rollupRules) return set;
  return { ...set, version: set.version + 1, mappingRules, rollupRules };
}

export type RuleKind = 'mappingRules' | 'rollupRules';

/** Of one rule. */
export type RuleChange<R> =
  | { readonly op: 'add'; readonly rule: R }
  | { readonly op: 'change'; readonly id: string; readonly rule: R }
  | { readonly op: 'delete'; readonly id: string };

/**
 * Rules of one kind with some of them changed.
 * @throws {TsdbError} NOT_FOUND when no rule has the ID; CONFLICT when another one has the name; BAD_REQUEST when its
 *   condition on paths would be lost
 */
export function withChanges<R extends Named>(
  histories: readonly RuleHistory<R>[],
  changes: readonly RuleChange<R>[],
  moment: ChangeMoment,
): readonly RuleHistory<R>[] {
  const next = new Map(histories.map((history) => [history.id, history]));
  const idOf = new Map<string, string>();
  for (const [id, { versions }] of next) {
    const name = versions.at(-1)!.rule?.name;
    if (name !== undefined) idOf.set(name, id);
  }
  // What goes makes room for names that come.
  const order = { delete: 0, change: 1, add: 2 };
  for (const change of [...changes].sort((a, b) => order[a.op] - order[b.op])) {
    const id = change.op === 'add' ? moment.newId() : change.id;
    const before = next.get(id);
    if (change.op !== 'add') {
      const { rule } = standingOf(before, id);
      // Who knows M3's shape of a rule alone would make it one of all series.
      if (change.op === 'change' && hasPath(rule) && !hasPath(change.rule)) {
        throw badRequest('path: the rule has a condition on paths, which is not given');
      }
      idOf.delete(rule.name);
    }
    const rule = change.op === 'delete' ? null : change.rule;
    if (rule !== null) {
      const other = idOf.get(rule.name);
      if (other !== undefined) {
        throw new TsdbError(
          'CONFLICT',
          `a rule has this name already: ${shownText(rule.name)} (${other})`,
        );
      }
      idOf.set(rule.name, id);
    }
    const [after] = withVersion(before ?? { id, versions: [] }, rule, moment);
    if (after === undefined) next.delete(id);
    else next.set(id, after);
  }
  return [...next.values()];
}

/**
 * The rule that is to stand, as it was written last.
 * @throws {TsdbError} NOT_FOUND when there is none, or it is deleted
 */
export function ruleOfId<R>(
  histories: readonly RuleHistory<R>[],
  id: string,
): RuleVersion<R> & { readonly rule: R } {
  return standingOf(
    histories.find((history) => history.id === id),
    id,
  );
}

function standingOf<R>(
  history: RuleHistory<R> | undefined,
  id: string,
): RuleVersion<R> & { readonly rule: R } {
  const last = history?.versions.at(-1);
  if (last !== undefined && last.rule !== null) return { ...last, rule: last.rule };
  throw new TsdbError('NOT_FOUND', `no rule has the ID ${shownText(id)}`);
}

interface Named {
  readonly name: string;
  /** Mapping rules may have one. */
  readonly path?: object | null;
}

function hasPath({ path }: Named): boolean {
  return path !== undefined && path !== null;
}

/** Of some ten microseconds each. */
const rulesOfStep = 256;

function* replaced<R extends Named>(
  histories: readonly RuleHistory<R>[],
  rules: readonly R[],
  moment: ChangeMoment,
): Generator<void, readonly RuleHistory<R>[]> {
  const wanted = new Map(rules.map((rule) => [rule.name, rule]));
  let hasChanged = false;
  const next: RuleHistory<R>[] = [];
  for (const [index, history] of histories.entries()) {
    if (index % rulesOfStep === rulesOfStep - 1) yield;
    const last = history.versions.at(-1)!;
    // Who was deleted may come again under its name: as another one.
    if (last.rule === null) {
      next.push(history);
      continue;
    }
    const rule = wanted.get(last.rule.name) ?? null;
    wanted.delete(last.rule.name);
    if (rule !== null && isSameRule(rule, last.rule)) {
      next.push(history);
      continue;
    }
    hasChanged = true;
    next.push(...withVersion(history, rule, moment));
  }
  for (const rule of wanted.values()) {
    hasChanged = true;
    next.push({ id: moment.newId(), versions: [versionOf(rule, moment)] });
  }
  return hasChanged ? next : histories;
}

/** None when the rule never comes to hold. */
function withVersion<R>(
  history: RuleHistory<R>,
  rule: R | null,
  moment: ChangeMoment,
): RuleHistory<R>[] {
  const begun = history.versions.filter(({ cutoverNanos }) => cutoverNanos < moment.cutoverNanos);
  if (rule === null && begun.length === 0) return [];
  return [{ id: history.id, versions: [...begun, versionOf(rule, moment)] }];
}

function versionOf<R>(
  rule: R | null,
  { cutoverNanos, nowMillis, by }: ChangeMoment,
): RuleVersion<R> {
  return { rule, cutoverNanos, updatedAtMillis: nowMillis, updatedBy: by };
}

/** Compared as they are written: filters are of their texts. */
function isSameRule(a: object, b: object): boolean {
  const text = (rule: object): string =>
    JSON.stringify(rule, (key, value: unknown) => {
      if (key === 'filter') return undefined;
      return typeof value === 'bigint' ? String(value) : value;
    });
  return text(a) === text(b);
}

/** The set without versions that nothing of after that time was made by. */
export function withoutBefore(set: RuleSet, nanos: bigint): RuleSet {
  const kept = <R>(histories: readonly RuleHistory<R>[]): RuleHistory<R>[] =>
    histories.flatMap(({ id, versions }) => {
      const first = versions.findLastIndex(({ cutoverNanos }) => cutoverNanos <= nanos);
      const left = versions.slice(Math.max(0, first));
      return left.length === 1 && left[0]!.rule === null ? [] : [{ id, versions: left }];
    });
  return { ...set, mappingRules: kept(set.mappingRules), rollupRules: kept(set.rollupRules) };
}
