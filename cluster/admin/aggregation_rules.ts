/**
 * Sets of aggregation rules as the admin API has them, in the shape of M3's r2: read, checked, and
 * changed from a cut-over on (docs/AGGREGATION.md, Rules).
 */
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { withRests } from '#lib/turns/steps.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import {
  mappingRuleOfR2,
  mappingRuleToR2,
  rollupRuleOfR2,
  rollupRuleToR2,
  ruleChangeOfR2,
  ruleSetOfR2InSteps,
  ruleSetToR2,
} from '../aggregation_rules/sets/r2_json.ts';
import {
  type ChangeMoment,
  type RuleChange,
  type RuleHistory,
  ruleOfId,
  type RuleSet,
  type RuleVersion,
  withChanges,
  withoutBefore,
  withRules,
  withRulesInSteps,
} from '../aggregation_rules/sets/set.ts';
import { RuleSetStore } from '../aggregation_rules/sets/store.ts';
import type { MappingRule, RollupRule, Rules } from '../aggregation_rules/rules.ts';
import { checkPatternsInSteps, rulesOfFileInSteps } from '../aggregation_rules/sets/file.ts';
import { ruleSetToStoredInSteps } from '../aggregation_rules/sets/json.ts';
import { defaultRuleSet, nextCutoverNanos } from '../aggregation_rules/sets/over_time.ts';
import {
  checkSetSize,
  PathRoom,
  pathProgramsMax,
  pathProgramsOf,
} from '../aggregation_rules/sets/size.ts';
import { Fields } from '../fields.ts';
import type { ClusterName } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import { aggregationOf, type Namespace, type NamespaceRegistry } from '../namespaces/namespaces.ts';
import { isOfSamples, readySamples } from '../namespaces/samples.ts';
import { nameLengthMax, ruleSetBytesMax } from '../limits.ts';
import { NamespaceStore } from '../namespaces/store.ts';
import { ruleWarningsInSteps } from './rule_warnings.ts';

export interface RulesTarget {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly clock: Clock;
  /** Gives rules their IDs. */
  readonly random: Random;
}

export interface RulesChange {
  /** Check it and write nothing. */
  readonly dryRun: boolean;
  /** Also of a set that comes from the configuration, which it does not do then. */
  readonly force: boolean;
  /** Who changes it, for its history. */
  readonly by: string;
  /** It comes from the configuration: others are not to change it. */
  readonly isOfConfiguration?: boolean;
}

/** All sets, sorted by name. */
export async function ruleSetsGet(target: RulesTarget, signal: AbortSignal): Promise<object> {
  const sets = await storeOf(target).each(
    (name, set) => (set.isDeleted ? null : aboutSet(name, set)),
    signal,
  );
  const namespaces = sets.filter((about) => about !== null);
  return { version: namespaces.length, namespaces };
}

function aboutSet(name: string, set: RuleSet): object {
  const histories: readonly RuleHistory<unknown>[] = [...set.mappingRules, ...set.rollupRules];
  const last = histories
    .flatMap(({ versions }) => versions)
    .reduce<RuleVersion<unknown> | null>(
      (a, b) => (a === null || b.updatedAtMillis > a.updatedAtMillis ? b : a),
      null,
    );
  return {
    id: name,
    forRuleSetVersion: set.version,
    tombstoned: false,
    lastUpdatedBy: last?.updatedBy ?? '',
    lastUpdatedAtMillis: last?.updatedAtMillis ?? 0,
  };
}

/** @throws {TsdbError} NOT_FOUND */
export async function ruleSetGet(
  target: RulesTarget,
  name: string,
  signal: AbortSignal,
): Promise<object> {
  return ruleSetToR2(name, await standing(target, name, signal));
}

/** Body `{id}`. @throws {TsdbError} CONFLICT when there is one of the name */
export async function ruleSetCreate(
  target: RulesTarget,
  body: unknown,
  change: RulesChange,
  signal: AbortSignal,
): Promise<object> {
  const fields = Fields.of(body, '');
  const name = fields.string('id', '');
  for (const key of ['forRuleSetVersion', 'tombstoned', 'lastUpdatedBy', 'lastUpdatedAtMillis']) {
    fields.ignore(key);
  }
  fields.end();
  if (name === '') throw badRequest('missing required field: id');
  const { set: created } = await changed(target, name, change, signal, (set) => {
    if (isThere(set)) {
      throw new TsdbError('CONFLICT', `a set of rules has this name already: ${name}`);
    }
    return { ...set, version: set.version + 1, isDeleted: false };
  });
  return aboutSet(name, created);
}

/** Ends all rules of a set; what they were stays for as long as windows are made by them. */
export async function ruleSetDelete(
  target: RulesTarget,
  name: string,
  change: RulesChange,
  signal: AbortSignal,
): Promise<object> {
  await changed(target, name, change, signal, (set, moment) => {
    refuseMissing(name, set);
    const ended = withRules(set, { mappingRules: [], rollupRules: [] }, moment);
    return { ...ended, version: set.version + 1, isDeleted: true };
  });
  return { code: 200, message: `Deleted namespace ${name}` };
}

/**
 * Body: a set as `ruleSetGet` answers, which is checked as if it were to be written.
 * @throws {TsdbError} BAD_REQUEST naming the field, or the rules of another set that it contradicts
 */
export async function ruleSetValidate(
  target: RulesTarget,
  name: string,
  body: unknown,
  signal: AbortSignal,
): Promise<object> {
  const { name: id, rules } = await withRests(ruleSetOfR2InSteps(Fields.of(body, '')), ownTurn);
  if (id !== name) throw badRequest(`id: not ${shownText(name)} as of the path: ${shownText(id)}`);
  // Whose set it is says nothing of the rules.
  const change = { dryRun: true, force: true, by: '' };
  const { registry } = await changed(target, name, change, signal, (set, moment) =>
    withRests(withRulesInSteps(set, rules, moment), ownTurn),
  );
  return withWarnings({ code: 200, message: 'Ruleset is valid' }, rules, registry);
}

/**
 * Body `{rulesetChanges: {namespace, mappingRuleChanges, rollupRuleChanges}, rulesetVersion}`: all of
 * the changes, or none.
 * @throws {TsdbError} CONFLICT when the set is of another version
 */
export async function ruleSetUpdate(
  target: RulesTarget,
  name: string,
  body: unknown,
  change: RulesChange,
  signal: AbortSignal,
): Promise<object> {
  const fields = Fields.of(body, '');
  const changes = fields.object('rulesetChanges') ?? Fields.of({}, 'rulesetChanges');
  const version = fields.uint('rulesetVersion', 0);
  fields.end();
  const namespace = changes.string('namespace', name);
  const room = new PathRoom('rulesetChanges');
  const mappings = await withRests(
    changes.listInSteps('mappingRuleChanges', (each) => {
      const read = ruleChangeOfR2(each, mappingRuleOfR2);
      if (read.op !== 'delete') room.add(read.rule);
      return read;
    }),
    ownTurn,
  );
  const rollups = await withRests(
    changes.listInSteps('rollupRuleChanges', (each) => ruleChangeOfR2(each, rollupRuleOfR2)),
    ownTurn,
  );
  changes.end();
  if (namespace !== name) {
    throw badRequest(
      `rulesetChanges.namespace: not ${shownText(name)} as of the path: ${shownText(namespace)}`,
    );
  }
  if (mappings.length + rollups.length === 0) throw badRequest('rulesetChanges: no change in it');
  // No set takes more, whatever else it has.
  const given = { mappingRules: rulesGiven(mappings), rollupRules: rulesGiven(rollups) };
  checkSetSize(given, 'rulesetChanges');
  await withRests(checkPatternsInSteps(given.mappingRules), ownTurn);
  const { set: next, registry } = await changed(target, name, change, signal, (set, moment) => {
    refuseMissing(name, set);
    if (set.version !== version) {
      throw new TsdbError(
        'CONFLICT',
        `rulesetVersion: the set of rules is of version ${set.version}: ${version}`,
      );
    }
    return {
      ...set,
      version: version + 1,
      mappingRules: withChanges(set.mappingRules, mappings, moment),
      rollupRules: withChanges(set.rollupRules, rollups, moment),
    };
  });
  return withWarnings(ruleSetToR2(name, next), lastRules(next), registry);
}

function rulesGiven<R>(changes: readonly RuleChange<R>[]): R[] {
  return changes.flatMap((change) => (change.op === 'delete' ? [] : [change.rule]));
}

/**
 * Body: a file of rules (`downsample.rules`), which are all that the set is to have. Makes the set
 * when there is none.
 */
export async function ruleSetApply(
  target: RulesTarget,
  name: string,
  body: unknown,
  change: RulesChange,
  signal: AbortSignal,
): Promise<object> {
  const rules = await withRests(rulesOfFileInSteps(body, ''), ownTurn);
  const { set: next, registry } = await changed(
    target,
    name,
    change,
    signal,
    async (set, moment) => {
      const applied = await withRests(withRulesInSteps(set, rules, moment), ownTurn);
      if (isThere(applied)) return applied;
      return { ...applied, version: set.version + 1, isDeleted: false };
    },
  );
  return withWarnings(ruleSetToR2(name, next), rules, registry);
}

/**
 * Has the rules of the coordinators' configuration be all that the set has which is meant where none is
 * named; nobody but they changes it then.
 * @returns its version
 */
export async function ruleSetPublish(
  target: RulesTarget,
  rules: Rules,
  signal: AbortSignal,
): Promise<number> {
  const change = { dryRun: false, force: true, by: 'configuration', isOfConfiguration: true };
  const { set } = await changed(target, defaultRuleSet, change, signal, async (before, moment) => {
    const applied = await withRests(withRulesInSteps(before, rules, moment), ownTurn);
    if (isThere(applied) && (applied !== before || before.isOfConfiguration)) return applied;
    return { ...applied, version: before.version + 1, isDeleted: false };
  });
  return set.version;
}

/** What the API does with rules of one kind. */
export interface RulesOfKind {
  /** @throws {TsdbError} NOT_FOUND */
  get(target: RulesTarget, name: string, id: string, signal: AbortSignal): Promise<object>;
  /** What the rule has been, the oldest first. @throws {TsdbError} NOT_FOUND */
  history(target: RulesTarget, name: string, id: string, signal: AbortSignal): Promise<object>;
  add(
    target: RulesTarget,
    name: string,
    body: unknown,
    change: RulesChange,
    signal: AbortSignal,
  ): Promise<object>;
  update(
    target: RulesTarget,
    name: string,
    id: string,
    body: unknown,
    change: RulesChange,
    signal: AbortSignal,
  ): Promise<object>;
  remove(
    target: RulesTarget,
    name: string,
    id: string,
    change: RulesChange,
    signal: AbortSignal,
  ): Promise<object>;
}

interface Kind<R> {
  readonly key: 'mappingRules' | 'rollupRules';
  readonly what: string;
  read(fields: Fields): R;
  toR2(id: string, version: RuleVersion<R>, last?: R | null): object[];
  of(set: RuleSet): readonly RuleHistory<R>[];
  /** The rule alone. */
  alone(rule: R): Rules;
  with(set: RuleSet, histories: readonly RuleHistory<R>[]): RuleSet;
}

export const mappingRules: RulesOfKind = rulesOf<MappingRule>({
  key: 'mappingRules',
  what: 'mapping rule',
  read(fields) {
    const rule = mappingRuleOfR2(fields);
    rule.path?.check();
    return rule;
  },
  toR2: mappingRuleToR2,
  of: (set) => set.mappingRules,
  alone: (rule) => ({ mappingRules: [rule], rollupRules: [] }),
  with: (set, histories) => ({ ...set, mappingRules: histories }),
});

export const rollupRules: RulesOfKind = rulesOf<RollupRule>({
  key: 'rollupRules',
  what: 'rollup rule',
  read: rollupRuleOfR2,
  toR2: rollupRuleToR2,
  of: (set) => set.rollupRules,
  alone: (rule) => ({ mappingRules: [], rollupRules: [rule] }),
  with: (set, histories) => ({ ...set, rollupRules: histories }),
});

function rulesOf<R extends { readonly name: string }>(kind: Kind<R>): RulesOfKind {
  const written = async (
    target: RulesTarget,
    name: string,
    ofRule: RuleChange<R>,
    change: RulesChange,
    signal: AbortSignal,
  ): Promise<Changed> =>
    changed(target, name, change, signal, (set, moment) => {
      refuseMissing(name, set);
      const next = withChanges(kind.of(set), [ofRule], moment);
      return { ...kind.with(set, next), version: set.version + 1 };
    });
  const shown = (set: RuleSet, id: string): object => kind.toR2(id, ruleOfId(kind.of(set), id))[0]!;
  return {
    async get(target, name, id, signal) {
      return shown(await standing(target, name, signal), id);
    },
    async history(target, name, id, signal) {
      const set = await standing(target, name, signal);
      const versions = kind.of(set).find((history) => history.id === id)?.versions;
      if (versions === undefined) {
        throw new TsdbError('NOT_FOUND', `no rule has the ID ${shownText(id)}`);
      }
      const shownVersions = versions.flatMap((version, at) =>
        kind.toR2(id, version, versions[at - 1]?.rule),
      );
      return { [kind.key]: shownVersions };
    },
    async add(target, name, body, change, signal) {
      const rule = kind.read(Fields.of(body, ''));
      const { set, registry } = await written(target, name, { op: 'add', rule }, change, signal);
      return withWarnings(shown(set, kind.of(set).at(-1)!.id), kind.alone(rule), registry);
    },
    async update(target, name, id, body, change, signal) {
      const rule = kind.read(Fields.of(body, ''));
      const ofRule = { op: 'change', id, rule } as const;
      const { set, registry } = await written(target, name, ofRule, change, signal);
      return withWarnings(shown(set, id), kind.alone(rule), registry);
    },
    async remove(target, name, id, change, signal) {
      await written(target, name, { op: 'delete', id }, change, signal);
      return { code: 200, message: `Deleted ${kind.what}: ${id} in namespace ${name}` };
    },
  };
}

interface Changed {
  /** As it stands now; of a dry run as it would. */
  readonly set: RuleSet;
  /** By which its cut-over was chosen. */
  readonly registry: NamespaceRegistry;
}

/** An answer, with what of the rules does nothing where there is something. */
async function withWarnings(
  answer: object,
  rules: Rules,
  registry: NamespaceRegistry,
): Promise<object> {
  const warnings = await withRests(ruleWarningsInSteps(rules, registry), ownTurn);
  return warnings.length === 0 ? answer : { ...answer, warnings };
}

async function changed(
  target: RulesTarget,
  name: string,
  { dryRun, force, by, isOfConfiguration = false }: RulesChange,
  signal: AbortSignal,
  next: (set: RuleSet, moment: ChangeMoment) => RuleSet | Promise<RuleSet>,
): Promise<Changed> {
  const { kv, cluster, clock, random } = target;
  const registry = (await new NamespaceStore(kv, cluster).get(signal)).value;
  const nowNanos = clock.nowNanos();
  const moment: ChangeMoment = {
    cutoverNanos: nextCutoverNanos(nowNanos, resolutionsOf(registry), aheadNanos(registry)),
    nowMillis: Math.floor(clock.nowMillis()),
    // It is kept with each version of a rule.
    by: by.slice(0, nameLengthMax),
    newId: () => Buffer.from(random.bytes(12)).toString('hex'),
  };
  const set = await storeOf(target).update(
    name,
    async (current) => {
      if (current.isOfConfiguration && !force) {
        throw new TsdbError(
          'CONFLICT',
          `the set of rules ${name} comes from the configuration of the coordinators (downsample.rules, and rules of Carbon), which publish it when they start: change it there`,
        );
      }
      const after = await next(current, moment);
      if (after === current) return current;
      checkSetSize(lastRules(after), '', lastRules(current));
      // By force it is of the API from now on, until a coordinator starts.
      return { ...(await keptHistory(after, registry, nowNanos)), isOfConfiguration };
    },
    signal,
    dryRun,
  );
  return { set, registry };
}

/** Those that are to stand. */
function lastRules({ mappingRules, rollupRules }: RuleSet): Rules {
  const last = <R>(histories: readonly RuleHistory<R>[]): R[] =>
    histories.flatMap(({ versions }) => versions.at(-1)!.rule ?? []);
  return { mappingRules: last(mappingRules), rollupRules: last(rollupRules) };
}

function resolutionsOf(registry: NamespaceRegistry): bigint[] {
  return [...registry.values()].flatMap((namespace) => {
    const aggregation = aggregationOf(namespace);
    return aggregation === null ? [] : [aggregation.resolutionNanos];
  });
}

/** How far rows may be ahead of the clock. */
function aheadNanos(registry: NamespaceRegistry): bigint {
  return readySamples(registry)
    .map(({ options }) => options.retentionOptions.bufferFutureNanos)
    .reduce((a, b) => (b > a ? b : a), 0n);
}

/** Bytes of a set up to which its history is kept for reads of old windows. */
const readHistoryBytesMax = ruleSetBytesMax / 4;

/**
 * Windows are made by what held while there are samples, and read by what held while there are
 * windows; for these alone a long history is not kept.
 */
async function keptHistory(
  set: RuleSet,
  registry: NamespaceRegistry,
  nowNanos: bigint,
): Promise<RuleSet> {
  const keptFor = (isMeant: (namespace: Namespace) => boolean): RuleSet =>
    withoutBefore(set, nowNanos - longestRetentionNanos(registry, isMeant));
  const ofReads = keptFor(() => true);
  const stored = await withRests(ruleSetToStoredInSteps(ofReads), ownTurn);
  const bytes = JSON.stringify(stored).length;
  const isLong = bytes > readHistoryBytesMax || pathProgramsOf(ofReads) > pathProgramsMax;
  return isLong ? keptFor(isOfSamples) : ofReads;
}

function longestRetentionNanos(
  registry: NamespaceRegistry,
  isMeant: (namespace: Namespace) => boolean,
): bigint {
  return [...registry.values()]
    .filter(isMeant)
    .map(({ options }) => options.retentionOptions.retentionPeriodNanos)
    .reduce((a, b) => (b > a ? b : a), 0n);
}

function storeOf({ kv, cluster }: RulesTarget): RuleSetStore {
  return new RuleSetStore(kv, cluster);
}

async function standing(target: RulesTarget, name: string, signal: AbortSignal): Promise<RuleSet> {
  const set = await storeOf(target).get(name, signal);
  refuseMissing(name, set);
  return set;
}

function isThere({ version, isDeleted }: RuleSet): boolean {
  return version > 0 && !isDeleted;
}

function refuseMissing(name: string, set: RuleSet): void {
  if (isThere(set)) return;
  throw new TsdbError('NOT_FOUND', `there is no set of rules of this name: ${shownText(name)}`);
}
