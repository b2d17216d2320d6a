/** Rules and their history as they are stored: each rule as a file has it, so that there is one reader. */
import { formatDurationNanos } from '#lib/time.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { Fields } from '../../fields.ts';
import type { UnreadKeys } from '../../unread_keys.ts';
import type { RuleHistory, RuleSet, RuleVersion } from './set.ts';
import type { PathCondition } from '../path_condition.ts';
import type { MappingRule, Operation, RollupRule, StoragePolicy } from '../rules.ts';
import { mappingRuleOf, rollupRuleOf } from './file.ts';

export function ruleSetToStored(set: RuleSet): object {
  return inOneGo(ruleSetToStoredInSteps(set));
}

/** As `ruleSetToStored`, for who has others to look after. */
export function* ruleSetToStoredInSteps(set: RuleSet): Generator<void, object> {
  return {
    version: set.version,
    isDeleted: set.isDeleted,
    isOfConfiguration: set.isOfConfiguration,
    mappingRules: yield* historiesToJson(set.mappingRules, mappingRuleToJson),
    rollupRules: yield* historiesToJson(set.rollupRules, rollupRuleToJson),
  };
}

/** Of some ten microseconds each. */
const historiesOfStep = 256;

function* historiesToJson<R>(
  histories: readonly RuleHistory<R>[],
  ruleToJson: (rule: R) => object,
): Generator<void, object[]> {
  const all: object[] = [];
  for (const history of histories) {
    all.push(historyToJson(history, ruleToJson));
    if (all.length % historiesOfStep === 0) yield;
  }
  return all;
}

/**
 * In steps, of many rules.
 * @throws {TsdbError} BAD_REQUEST naming what is not as `ruleSetToStored` writes it
 */
export function* ruleSetFromStored(json: unknown, unread: UnreadKeys[]): Generator<void, RuleSet> {
  const fields = Fields.ofStored(json, '', unread);
  const version = fields.uint('version', 0);
  const isDeleted = fields.boolean('isDeleted', false);
  const isOfConfiguration = fields.boolean('isOfConfiguration', false);
  const mappingRules = yield* fields.listInSteps('mappingRules', (each) =>
    historyOf(each, mappingRuleOf),
  );
  const rollupRules = yield* fields.listInSteps('rollupRules', (each) =>
    historyOf(each, rollupRuleOf),
  );
  fields.end();
  return { version, isDeleted, isOfConfiguration, mappingRules, rollupRules };
}

function historyToJson<R>(
  { id, versions }: RuleHistory<R>,
  ruleToJson: (rule: R) => object,
): object {
  return {
    id,
    versions: versions.map(({ rule, cutoverNanos, updatedAtMillis, updatedBy }) => ({
      cutoverNanos: String(cutoverNanos),
      updatedAtMillis,
      updatedBy,
      rule: rule === null ? null : ruleToJson(rule),
    })),
  };
}

function historyOf<R>(fields: Fields, ruleOf: (fields: Fields) => R): RuleHistory<R> {
  const id = fields.string('id', '');
  const versions = fields.list('versions', (version): RuleVersion<R> => {
    const rule = version.object('rule');
    const read = {
      rule: rule === null ? null : ruleOf(rule),
      cutoverNanos: version.int64('cutoverNanos', 0n),
      updatedAtMillis: Number(version.int64('updatedAtMillis', 0n)),
      updatedBy: version.string('updatedBy', ''),
    };
    version.end();
    return read;
  });
  fields.end();
  if (versions.length === 0) throw fields.bad('versions', 'a rule has at least one', []);
  return { id, versions };
}

/** What `mappingRuleOf` reads. */
export function mappingRuleToJson(rule: MappingRule): object {
  const { path, onlyNamed, drop, aggregations, storagePolicies } = rule;
  return {
    ...sharedToJson(rule),
    ...(path === null ? {} : { path: pathToJson(path) }),
    ...(onlyNamed ? { onlyNamed } : {}),
    ...(drop === 'none' ? {} : { drop }),
    ...(aggregations.length === 0 ? {} : { aggregations }),
    ...(storagePolicies.length === 0 ? {} : { storagePolicies: storagePolicies.map(policyToJson) }),
  };
}

/** What `pathConditionOf` reads. */
export function pathToJson({ kind, text, order, continues }: PathCondition): object {
  return { [kind]: text, order, ...(continues ? { continue: true } : {}) };
}

/** What `rollupRuleOf` reads. */
export function rollupRuleToJson(rule: RollupRule): object {
  return {
    ...sharedToJson(rule),
    ...(rule.keepOriginal ? { keepOriginal: true } : {}),
    targets: rule.targets.map(({ operations, storagePolicies, resendEnabled }) => ({
      transforms: operations.map(operationToJson),
      storagePolicies: storagePolicies.map(policyToJson),
      ...(resendEnabled ? { resendEnabled } : {}),
    })),
  };
}

function sharedToJson({ name, filterText, tags }: MappingRule | RollupRule): object {
  return { name, filter: filterText, ...(tags.length === 0 ? {} : { tags }) };
}

function policyToJson({ resolutionNanos, retentionNanos }: StoragePolicy): object {
  return {
    resolution: formatDurationNanos(resolutionNanos),
    retention: formatDurationNanos(retentionNanos),
  };
}

function operationToJson(operation: Operation): object {
  switch (operation.type) {
    case 'aggregate':
      return { aggregate: { type: operation.aggregation } };
    case 'transform':
      return { transform: { type: operation.transform } };
    case 'rollup': {
      const { metricName, by, tags, aggregations } = operation;
      const named = by === 'group' ? { groupBy: tags } : { excludeBy: tags };
      const types = aggregations.length === 0 ? {} : { aggregations };
      return { rollup: { metricName, ...named, ...types } };
    }
    default:
      return operation satisfies never;
  }
}
