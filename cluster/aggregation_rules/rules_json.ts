/** Rules as they are stored: as a file has them, so that there is one reader. */
import { formatDurationNanos } from '#lib/time.ts';
import type { MappingRule, Operation, RollupRule, StoragePolicy } from './rules.ts';

/** What `mappingRuleOf` reads. */
export function mappingRuleToJson(rule: MappingRule): object {
  const { drop, aggregations, storagePolicies } = rule;
  return {
    ...sharedToJson(rule),
    ...(drop === 'none' ? {} : { drop }),
    ...(aggregations.length === 0 ? {} : { aggregations }),
    ...(storagePolicies.length === 0 ? {} : { storagePolicies: storagePolicies.map(policyToJson) }),
  };
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
