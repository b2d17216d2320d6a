/**
 * Rules in the JSON of M3's API of rules (r2): policies as text ("10s:2d"), pipelines of operations,
 * numbers for kinds of drops and of rollups. Reading is strict, as of every request.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { nanosPerMilli, formatDurationNanos, parseDurationNanos } from '#lib/time.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import type { Fields } from '../../fields.ts';
import { pathToJson } from './json.ts';
import type { RuleChange, RuleHistory, RuleSet, RuleVersion } from './set.ts';
import {
  type DropPolicy,
  inOrderOfNames,
  type MappingRule,
  type Operation,
  type RollupRule,
  type RollupTarget,
  type Rules,
  type StoragePolicy,
} from '../rules.ts';
import {
  aggregationOf,
  aggregationsOf,
  checkMapping,
  checkMetricName,
  checkOperations,
  checkSums,
  checkStoragePolicies,
  checkPatternsInSteps,
  checkStoragePolicy,
  checkTagNames,
  seriesOf,
  sharedOf,
  transformOf,
} from './file.ts';
import { checkSetSize, PathRoom } from './size.ts';

/** By M3's numbers of them. */
const dropPolicyOfNumber: readonly DropPolicy[] = ['none', 'must', 'ifOnlyMatch'];

/** What a rule of an answer says beside the rule; of a request nothing of it counts. */
const answeredFields = [
  'id',
  'warnings',
  'tombstoned',
  'cutoverMillis',
  'lastUpdatedBy',
  'lastUpdatedAtMillis',
] as const;

/** @throws {TsdbError} BAD_REQUEST naming field, reason and value */
export function mappingRuleOfR2(fields: Fields): MappingRule {
  const shared = namedOf(fields);
  const number = fields.uint('dropPolicy', 0);
  const drop = dropPolicyOfNumber[number];
  if (drop === undefined) {
    throw fields.bad('dropPolicy', 'not 0 (none), 1 (must) or 2 (if it is the only match)', number);
  }
  // Ours: r2 has no place for them.
  const series = seriesOf(fields, shared);
  const aggregations = aggregationsOf(fields, 'aggregation');
  const storagePolicies = policiesOf(fields);
  fields.end();
  const rule = { ...shared, ...series, drop, aggregations, storagePolicies };
  checkMapping(rule, fields.path, 'aggregation');
  return rule;
}

/** @throws {TsdbError} BAD_REQUEST naming field, reason and value */
export function rollupRuleOfR2(fields: Fields): RollupRule {
  const shared = namedOf(fields);
  const keepOriginal = fields.boolean('keepOriginal', false);
  const targets = fields.list('targets', targetOf);
  fields.end();
  if (targets.length === 0) throw fields.bad('targets', 'none is given', []);
  return { ...shared, keepOriginal, targets };
}

interface NamedRules {
  readonly name: string;
  readonly rules: Rules;
}

/**
 * A set as `ruleSetToR2` gives it: its rules as they stand.
 * @throws {TsdbError} BAD_REQUEST naming field, reason and value
 */
export function ruleSetOfR2(fields: Fields): NamedRules {
  return inOneGo(ruleSetOfR2InSteps(fields));
}

/** As `ruleSetOfR2`, for who has others to look after. */
export function* ruleSetOfR2InSteps(fields: Fields): Generator<void, NamedRules> {
  const name = fields.string('id', '');
  for (const key of ['version', 'cutoverMillis', 'warnings']) fields.ignore(key);
  const room = new PathRoom('');
  const rules = {
    mappingRules: yield* fields.listInSteps('mappingRules', (each) => {
      const rule = mappingRuleOfR2(each);
      room.add(rule);
      return rule;
    }),
    rollupRules: yield* fields.listInSteps('rollupRules', rollupRuleOfR2),
  };
  fields.end();
  for (const key of ['mappingRules', 'rollupRules'] as const) {
    const seen = new Set<string>();
    for (const { name: each } of rules[key]) {
      if (seen.has(each)) throw badRequest(`${key}: two rules have one name: ${shownText(each)}`);
      seen.add(each);
    }
  }
  checkSetSize(rules, '');
  yield* checkPatternsInSteps(rules.mappingRules);
  return { name, rules };
}

/** One of the changes of a set. `ruleOf` reads its rule. */
export function ruleChangeOfR2<R>(fields: Fields, ruleOf: (fields: Fields) => R): RuleChange<R> {
  const op = fields.string('op', '');
  const id = fields.string('ruleID', '');
  const data = fields.object('ruleData');
  const rule = data === null ? null : ruleOf(data);
  fields.end();
  if (op !== 'add' && op !== 'change' && op !== 'delete') {
    throw fields.bad('op', 'not one of add, change and delete', op);
  }
  if (op !== 'add' && id === '') throw fields.bad('ruleID', 'it is not given', id);
  if (op === 'delete') return { op, id };
  if (rule === null) throw fields.bad('ruleData', 'it is not given', null);
  return op === 'add' ? { op, rule } : { op, id, rule };
}

function namedOf(fields: Fields): ReturnType<typeof sharedOf> {
  for (const key of answeredFields) fields.ignore(key);
  if (!fields.has('name')) throw fields.bad('name', 'it is not given', null);
  return sharedOf(fields);
}

function targetOf(fields: Fields): RollupTarget {
  const operations = fields.list('pipeline', operationOf);
  const storagePolicies = policiesOf(fields);
  const resendEnabled = fields.boolean('resendEnabled', false);
  fields.end();
  checkStoragePolicies(storagePolicies, `${fields.path}.storagePolicies`);
  checkOperations(operations, `${fields.path}.pipeline`, 'tags');
  checkSums(operations, `${fields.path}.pipeline`);
  return { operations, storagePolicies, resendEnabled };
}

function operationOf(fields: Fields): Operation {
  const aggregation = fields.string('aggregation', '');
  const transformation = fields.string('transformation', '');
  const rollup = fields.object('rollup');
  fields.end();
  const given = [aggregation !== '', transformation !== '', rollup !== null].filter(Boolean).length;
  if (given !== 1) {
    throw badRequest(
      `${fields.path}: not one of aggregation, transformation and rollup: ${given} of them`,
    );
  }
  if (rollup !== null) return rollupOf(rollup);
  if (transformation === '') {
    const path = `${fields.path}.aggregation`;
    return { type: 'aggregate', aggregation: aggregationOf(aggregation, path) };
  }
  const path = `${fields.path}.transformation`;
  return { type: 'transform', transform: transformOf(transformation, path) };
}

function rollupOf(fields: Fields): Operation {
  const type = fields.uint('type', 0);
  const metricName = fields.string('newName', '');
  const tags = fields.strings('tags');
  const aggregations = aggregationsOf(fields, 'aggregation');
  fields.end();
  if (type > 1) throw fields.bad('type', 'not 0 (tags stay) or 1 (tags go)', type);
  checkMetricName(metricName, `${fields.path}.newName`);
  checkTagNames(tags, `${fields.path}.tags`);
  const by = type === 0 ? 'group' : 'exclude';
  return { type: 'rollup', metricName, by, tags: tags.sort(), aggregations };
}

function policiesOf(fields: Fields): StoragePolicy[] {
  return fields.strings('storagePolicies').map((text, index) => {
    const path = `${fields.path}.storagePolicies[${index}]`;
    // A precision of times ("10s@1s:2d") says nothing here, where it is one: times are kept as they are.
    const match = /^([^:@]+)(?:@(?:1(?:ns|us|ms|s|m|h|d)|1h0m0s|1m0s))?:([^:]+)$/.exec(text);
    if (match === null) throw badRequest(`${path}: not as "10s:2d": ${shownText(text)}`);
    const resolutionNanos = parseDurationNanos(match[1]!, path);
    const retentionNanos = parseDurationNanos(match[2]!, path);
    const policy = { resolutionNanos, retentionNanos };
    checkStoragePolicy(policy, `${path}, resolution`, `${path}, retention`);
    return policy;
  });
}

/**
 * The rules that are to stand, sorted by name.
 * @param name of the set
 */
export function ruleSetToR2(name: string, set: RuleSet): object {
  const standing = <R extends MappingRule | RollupRule>(
    histories: readonly RuleHistory<R>[],
    toR2: (id: string, version: RuleVersion<R>) => object[],
  ): object[] => {
    const named = histories.flatMap(({ id, versions }) => {
      const version = versions.at(-1)!;
      return version.rule === null ? [] : [{ name: version.rule.name, id, version }];
    });
    return inOrderOfNames(named).flatMap(({ id, version }) => toR2(id, version));
  };
  const cutovers = [...set.mappingRules, ...set.rollupRules].map(({ versions }) =>
    cutoverMillisOf(versions.at(-1)!),
  );
  return {
    id: name,
    version: set.version,
    cutoverMillis: cutovers.reduce((a, b) => Math.max(a, b), 0),
    mappingRules: standing(set.mappingRules, mappingRuleToR2),
    rollupRules: standing(set.rollupRules, rollupRuleToR2),
  };
}

/**
 * A rule as it is written; nothing of a version from which on it is deleted.
 * @param last of such a version, the rule as it was before
 */
export function mappingRuleToR2(
  id: string,
  version: RuleVersion<MappingRule>,
  last: MappingRule | null = null,
): object[] {
  const rule = version.rule ?? last;
  if (rule === null) return [];
  return [
    {
      ...aboutToR2(id, version, rule),
      aggregation: rule.aggregations.length === 0 ? null : rule.aggregations,
      storagePolicies: rule.storagePolicies.map(policyToR2),
      dropPolicy: dropPolicyOfNumber.indexOf(rule.drop),
      ...(rule.path === null ? {} : { path: pathToJson(rule.path) }),
      ...(rule.onlyNamed ? { onlyNamed: true } : {}),
    },
  ];
}

/** As `mappingRuleToR2`. */
export function rollupRuleToR2(
  id: string,
  version: RuleVersion<RollupRule>,
  last: RollupRule | null = null,
): object[] {
  const rule = version.rule ?? last;
  if (rule === null) return [];
  const targets = rule.targets.map(({ operations, storagePolicies, resendEnabled }) => ({
    pipeline: operations.map(operationToR2),
    storagePolicies: storagePolicies.map(policyToR2),
    resendEnabled,
  }));
  return [{ ...aboutToR2(id, version, rule), targets, keepOriginal: rule.keepOriginal }];
}

function aboutToR2(
  id: string,
  version: RuleVersion<unknown>,
  { name, filterText, tags }: MappingRule | RollupRule,
): object {
  return {
    id,
    name,
    tombstoned: version.rule === null,
    cutoverMillis: cutoverMillisOf(version),
    filter: filterText,
    tags,
    lastUpdatedBy: version.updatedBy,
    lastUpdatedAtMillis: version.updatedAtMillis,
  };
}

function cutoverMillisOf({ cutoverNanos }: RuleVersion<unknown>): number {
  return Number(cutoverNanos / nanosPerMilli);
}

function operationToR2(operation: Operation): object {
  switch (operation.type) {
    case 'aggregate':
      return { aggregation: operation.aggregation };
    case 'transform':
      return { transformation: operation.transform };
    case 'rollup': {
      const { by, metricName, tags, aggregations } = operation;
      const aggregation = aggregations.length === 0 ? null : aggregations;
      return { rollup: { type: by === 'group' ? 0 : 1, newName: metricName, tags, aggregation } };
    }
    default:
      return operation satisfies never;
  }
}

function policyToR2({ resolutionNanos, retentionNanos }: StoragePolicy): string {
  return `${formatDurationNanos(resolutionNanos)}:${formatDurationNanos(retentionNanos)}`;
}
