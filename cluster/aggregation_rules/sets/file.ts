/**
 * Rules as a configuration has them (`downsample.rules`), read and checked. What nothing could be
 * made of is refused with its field, reason and value.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { fieldPath, shownJson } from '#lib/json_fields.ts';
import type { Tag } from '#lib/tags.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { Fields } from '../../fields.ts';
import { type AggregationType, aggregationTypeOf, aggregationTypes } from '../aggregation_types.ts';
import { parseFilter, withoutKinds } from '../filter.ts';
import { type PathCondition, pathCondition } from '../path_condition.ts';
import { checkDistinctOutputsInSteps } from './distinct_outputs.ts';
import { checkFilter, checkSetSize, PathRoom } from './size.ts';
import {
  dropPolicies,
  metricNameTemplate,
  transformTypes,
  type DropPolicy,
  type MappingRule,
  type Operation,
  type RollupRule,
  type RollupTarget,
  type Rules,
  type StoragePolicy,
  type TransformType,
} from '../rules.ts';

/** More rules of one kind are refused. */
export const rulesMax = 100_000;
/** Operations of a rollup rule; more are refused. */
export const operationsMax = 16;

/**
 * @param value an object as of YAML or JSON
 * @param path of it in what it came with, '' when it is all of that
 * @throws {TsdbError} BAD_REQUEST naming field, reason and value
 */
export function rulesOfFile(value: unknown, path: string): Rules {
  return inOneGo(rulesOfFileInSteps(value, path));
}

/** As `rulesOfFile`, for who has others to look after: a file of a request has as many rules as a client likes. */
export function* rulesOfFileInSteps(value: unknown, path: string): Generator<void, Rules> {
  const fields = Fields.of(value, path);
  const room = new PathRoom(path);
  const mappingRules = yield* fields.listInSteps('mappingRules', (each) => {
    const rule = mappingRuleOf(each);
    room.add(rule);
    return rule;
  });
  const rollupRules = yield* fields.listInSteps('rollupRules', rollupRuleOf);
  fields.end();
  yield* checkRulesInSteps({ mappingRules, rollupRules }, path);
  yield* checkPatternsInSteps(mappingRules);
  return { mappingRules, rollupRules };
}

/**
 * That all patterns of paths can be compiled, one in a step. For rules that may stand in one set (`checkSetSize`), or this takes
 * long.
 * @throws {TsdbError} BAD_REQUEST naming field, reason and pattern
 */
export function* checkPatternsInSteps(rules: readonly MappingRule[]): Generator<void, void> {
  for (const { path } of rules) if (path?.check() === true) yield;
}

/**
 * That rules can be those of one set; their patterns are not looked at.
 * @throws {TsdbError} BAD_REQUEST naming field, reason and value
 */
export function checkRules(rules: Rules, path: string): void {
  inOneGo(checkRulesInSteps(rules, path));
}

function* checkRulesInSteps(
  { mappingRules, rollupRules }: Rules,
  path: string,
): Generator<void, void> {
  for (const [kind, rules] of Object.entries({ mappingRules, rollupRules })) {
    const field = fieldPath(path, kind);
    if (rules.length > rulesMax) {
      throw badRequest(`${field}: more than ${rulesMax}: ${rules.length}`);
    }
    const indexOf = new Map<string, number>();
    for (const [index, { name }] of rules.entries()) {
      const first = indexOf.get(name);
      if (first !== undefined) {
        throw badRequest(
          `${field}[${index}].name: ${kind}[${first}] has the same name: ${shownJson(name)}`,
        );
      }
      indexOf.set(name, index);
    }
  }
  checkSetSize({ mappingRules, rollupRules }, path);
  yield* checkDistinctOutputsInSteps(rollupRules);
}

/** A mapping rule of a file, or of a stored set. */
export function mappingRuleOf(fields: Fields): MappingRule {
  const shared = sharedOf(fields);
  const series = seriesOf(fields, shared);
  const drop = dropOf(fields);
  const aggregations = aggregationsOf(fields, 'aggregations');
  const storagePolicies = storagePoliciesOf(fields);
  fields.end();
  const rule = { ...shared, ...series, drop, aggregations, storagePolicies };
  checkMapping(rule, fields.path, 'aggregations');
  return rule;
}

/** What mapping rules alone have to say of which series they are about, and where else these are. */
export function seriesOf(
  fields: Fields,
  { filter }: Pick<MappingRule, 'filter'>,
): Pick<MappingRule, 'filter' | 'path' | 'onlyNamed'> {
  const given = fields.object('path');
  const path = given === null ? null : pathConditionOf(given);
  const onlyNamed = fields.boolean('onlyNamed', false);
  return { filter: path === null ? filter : [...filter, ...path.implied], path, onlyNamed };
}

function pathConditionOf(fields: Fields): PathCondition {
  const kinds = (['pattern', 'contains'] as const).filter((kind) => fields.has(kind));
  const [kind] = kinds;
  if (kind === undefined || kinds.length > 1) {
    throw badRequest(`${fields.path}: not one of pattern and contains: ${kinds.length} of them`);
  }
  const text = fields.string(kind, '');
  const order = fields.uint('order', 0);
  const continues = fields.boolean('continue', false);
  fields.end();
  return pathCondition({ kind, text, order, continues }, `${fields.path}.${kind}`);
}

/**
 * @param path of the rule
 * @param aggregationsKey under which the rule has its aggregations
 */
export function checkMapping(
  rule: Pick<MappingRule, 'path' | 'onlyNamed' | 'drop' | 'aggregations' | 'storagePolicies'>,
  path: string,
  aggregationsKey: string,
): void {
  if (rule.drop === 'none') {
    const saysHowToRead = rule.path !== null && rule.aggregations.length > 0 && !rule.onlyNamed;
    if (rule.storagePolicies.length === 0 && saysHowToRead) return;
    checkStoragePolicies(rule.storagePolicies, `${path}.storagePolicies`);
    return;
  }
  if (rule.storagePolicies.length > 0) {
    throw badRequest(`${path}.storagePolicies: a rule that drops has none`);
  }
  if (rule.aggregations.length > 0) {
    throw badRequest(`${path}.${aggregationsKey}: a rule that drops has none`);
  }
  if (rule.onlyNamed) throw badRequest(`${path}.onlyNamed: a rule that drops names nothing`);
}

/** M3's files say true or false. */
function dropOf(fields: Fields): DropPolicy {
  const value = fields.any('drop');
  if (value === undefined || value === false) return 'none';
  if (value === true) return 'ifOnlyMatch';
  const policy = dropPolicies.find((each) => each === value);
  if (policy !== undefined) return policy;
  throw fields.bad('drop', `not true, false or one of ${dropPolicies.join(', ')}`, value);
}

/** A rollup rule of a file, with what it makes beside its name; or with several of these as `targets`. */
export function rollupRuleOf(fields: Fields): RollupRule {
  const shared = sharedOf(fields);
  const keepOriginal = fields.boolean('keepOriginal', false);
  const targets = fields.has('targets')
    ? fields.list('targets', (target) => {
        const read = targetOf(target);
        target.end();
        return read;
      })
    : [targetOf(fields)];
  fields.end();
  if (targets.length === 0) throw badRequest(`${fields.path}.targets: none is given`);
  return { ...shared, keepOriginal, targets };
}

function targetOf(fields: Fields): RollupTarget {
  const operations = fields.list('transforms', operationOf);
  const storagePolicies = storagePoliciesOf(fields);
  const resendEnabled = fields.boolean('resendEnabled', false);
  checkStoragePolicies(storagePolicies, `${fields.path}.storagePolicies`);
  checkOperations(operations, `${fields.path}.transforms`);
  // What stands is as it was taken then.
  if (!fields.isStored) checkSums(operations, `${fields.path}.transforms`);
  return { operations, storagePolicies, resendEnabled };
}

export function sharedOf(
  fields: Fields,
): Pick<MappingRule, 'name' | 'filterText' | 'filter' | 'tags'> {
  // One without a name is told by its place.
  const name = fields.string('name', '') || fields.path;
  const path = `${fields.path}.filter`;
  const given = fields.string('filter', '');
  // What stands is as it was taken then: one that asks for a kind of metric has matched nothing, and goes on so.
  const filterText = fields.isStored ? given : withoutKinds(given, path);
  const filter = parseFilter(filterText, path);
  if (!fields.isStored) checkFilter(filter, filterText, path);
  const tags = fields.list('tags', tagOf);
  return { name, filterText, filter, tags };
}

function tagOf(fields: Fields): Tag {
  const name = fields.string('name', '');
  const value = fields.string('value', '');
  fields.end();
  if (name === '') throw badRequest(`${fields.path}.name: a tag needs a name`);
  return { name, value };
}

export function storagePoliciesOf(fields: Fields, key = 'storagePolicies'): StoragePolicy[] {
  return fields.list(key, (each) => {
    const resolutionNanos = each.duration('resolution') ?? 0n;
    const retentionNanos = each.duration('retention') ?? 0n;
    each.end();
    const policy = { resolutionNanos, retentionNanos };
    checkStoragePolicy(policy, `${each.path}.resolution`, `${each.path}.retention`);
    return policy;
  });
}

export function checkStoragePolicy(
  { resolutionNanos, retentionNanos }: StoragePolicy,
  resolutionPath: string,
  retentionPath: string,
): void {
  if (resolutionNanos <= 0n) throw badRequest(`${resolutionPath}: not a time above 0`);
  if (retentionNanos <= resolutionNanos) {
    throw badRequest(`${retentionPath}: not longer than the resolution`);
  }
}

export function checkStoragePolicies(
  storagePolicies: readonly StoragePolicy[],
  path: string,
): void {
  if (storagePolicies.length === 0) {
    throw badRequest(`${path}: none is given: what matches would be kept nowhere`);
  }
  const seen = new Map<string, number>();
  for (const [index, { resolutionNanos, retentionNanos }] of storagePolicies.entries()) {
    const key = `${resolutionNanos} ${retentionNanos}`;
    const first = seen.get(key);
    if (first !== undefined) throw badRequest(`${path}[${index}]: the same as ${path}[${first}]`);
    seen.set(key, index);
  }
}

export function aggregationsOf(fields: Fields, key: string): AggregationType[] {
  return fields
    .strings(key)
    .map((name, index) => aggregationOf(name, `${fields.path}.${key}[${index}]`));
}

export function aggregationOf(name: string, path: string): AggregationType {
  const type = aggregationTypeOf(name);
  if (type !== null) return type;
  throw badRequest(`${path}: not one of ${aggregationTypes.join(', ')}: ${shownText(name)}`);
}

function operationOf(fields: Fields): Operation {
  const rollup = fields.object('rollup');
  const transform = fields.object('transform');
  const aggregate = fields.object('aggregate');
  fields.end();
  const given = [rollup, transform, aggregate].filter((each) => each !== null).length;
  if (given !== 1) {
    throw badRequest(
      `${fields.path}: not one of rollup, transform and aggregate: ${given} of them`,
    );
  }
  if (rollup !== null) return rollupOf(rollup);
  if (transform !== null) {
    const name = transform.string('type', '');
    transform.end();
    return { type: 'transform', transform: transformOf(name, `${transform.path}.type`) };
  }
  const type = aggregate!.string('type', '');
  aggregate!.end();
  return { type: 'aggregate', aggregation: aggregationOf(type, `${aggregate!.path}.type`) };
}

export function transformOf(name: string, path: string): TransformType {
  const type = transformTypes.find((each) => each === name);
  if (type !== undefined) return type;
  throw badRequest(`${path}: not one of ${transformTypes.join(', ')}: ${shownText(name)}`);
}

function rollupOf(fields: Fields): Operation {
  const metricName = fields.string('metricName', '');
  const groupBy = fields.strings('groupBy');
  const excludeBy = fields.strings('excludeBy');
  const aggregations = aggregationsOf(fields, 'aggregations');
  fields.end();
  checkMetricName(metricName, `${fields.path}.metricName`);
  if (groupBy.length > 0 && excludeBy.length > 0) {
    throw badRequest(`${fields.path}: groupBy and excludeBy are both given`);
  }
  const by = excludeBy.length > 0 ? 'exclude' : 'group';
  const tags = [...groupBy, ...excludeBy];
  checkTagNames(tags, `${fields.path}.${by === 'group' ? 'groupBy' : 'excludeBy'}`);
  return { type: 'rollup', metricName, by, tags: tags.sort(), aggregations };
}

/** Of what a rollup makes. */
export function checkMetricName(metricName: string, path: string): void {
  if (metricName === '') throw badRequest(`${path}: it is not given`);
  const rest = metricName.replace(metricNameTemplate, '');
  if (!rest.includes('{{') && !rest.includes('}}')) return;
  throw badRequest(
    `${path}: "${metricNameTemplate}" can stand in it once, and nothing else in braces: ${shownText(metricName)}`,
  );
}

/** Of tags that stay, or go. */
export function checkTagNames(names: readonly string[], path: string): void {
  const seen = new Set<string>();
  for (const [index, name] of names.entries()) {
    if (name === '') throw badRequest(`${path}[${index}]: a tag needs a name`);
    if (seen.has(name)) throw badRequest(`${path}[${index}]: given twice: ${shownText(name)}`);
    seen.add(name);
  }
}

/** @param rollupTagsKey under which a rollup has the tags that stay */
export function checkOperations(
  operations: readonly Operation[],
  path: string,
  rollupTagsKey = 'groupBy',
): void {
  if (operations.length === 0) throw badRequest(`${path}: none is given`);
  if (operations.length > operationsMax) {
    throw badRequest(`${path}: more than ${operationsMax}: ${operations.length}`);
  }
  const firstRollup = operations.findIndex(({ type }) => type === 'rollup');
  if (firstRollup < 0) throw badRequest(`${path}: none is a rollup, which alone makes a series`);
  let before: ReadonlySet<string> | null = null;
  for (const [index, operation] of operations.entries()) {
    if (operation.type === 'transform') {
      checkTransform(operation.transform, `${path}[${index}].transform`, {
        isOfRollup: index > firstRollup,
        isLast: index === operations.length - 1,
      });
    }
    if (operation.type === 'aggregate' && index > 0) {
      throw badRequest(`${path}[${index}]: aggregate can only be the first`);
    }
    if (operation.type !== 'rollup') continue;
    if (operation.by === 'exclude') {
      before = null;
      continue;
    }
    // Of what an earlier rollup has left out a later one knows nothing.
    const lost = before === null ? undefined : operation.tags.find((tag) => !before!.has(tag));
    if (lost !== undefined) {
      throw badRequest(
        `${path}[${index}].rollup.${rollupTagsKey}: the rollup before has left it out: ${lost}`,
      );
    }
    before = new Set(operation.tags);
  }
}

/**
 * Whoever makes a rollup next goes on from the sum that is stored, and none is that something else is done with.
 * @throws {TsdbError} BAD_REQUEST
 */
export function checkSums(operations: readonly Operation[], path: string): void {
  for (const [index, operation] of operations.entries()) {
    if (operation.type !== 'transform' || operation.transform !== 'Add') continue;
    if (index === operations.length - 1) continue;
    throw badRequest(
      `${path}[${index}].transform: Add can only be the last, for it goes on from what is stored`,
    );
  }
}

function checkTransform(
  transform: TransformType,
  path: string,
  { isOfRollup, isLast }: { readonly isOfRollup: boolean; readonly isLast: boolean },
): void {
  if (transform === 'Add' && !isOfRollup) {
    throw badRequest(`${path}: Add is of what a rollup makes, and comes after one`);
  }
  if (transform === 'Reset' && !(isOfRollup && isLast)) {
    throw badRequest(`${path}: Reset is of what a rollup makes, and can only be the last`);
  }
}
