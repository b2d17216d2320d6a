/** Rollups that make one series in different ways: two values would be written for each window, and one of them would stay. */
import { badRequest } from '#lib/errors.ts';
import { sortTags } from '#lib/tags.ts';
import type { RollupRule, RollupTarget } from '../rules.ts';

/**
 * Two targets of one name and one choice of tags make the same series; they add up where all that is done from the first
 * rollup on is the same.
 * @throws {TsdbError} BAD_REQUEST naming both rules
 */
export function checkDistinctOutputs(rollupRules: readonly RollupRule[]): void {
  const seen = new Map<string, { readonly rule: RollupRule; readonly done: string }>();
  for (const rule of rollupRules) {
    for (const target of rule.targets) {
      const { output, done } = madeBy(rule, target);
      for (const { resolutionNanos, retentionNanos } of target.storagePolicies) {
        const key = `${resolutionNanos}:${retentionNanos} ${output}`;
        const before = seen.get(key);
        if (before === undefined) seen.set(key, { rule, done });
        else if (before.done !== done) {
          throw badRequest(
            `rollup rules ${JSON.stringify(before.rule.name)} and ${JSON.stringify(rule.name)} make the same series in different ways: ${nameOf(target)}`,
          );
        }
      }
    }
  }
}

function madeBy(
  { tags }: RollupRule,
  { operations }: RollupTarget,
): { readonly output: string; readonly done: string } {
  const first = operations.findIndex(({ type }) => type === 'rollup');
  const last = operations.findLast((operation) => operation.type === 'rollup');
  const ofRule = sortTags(tags);
  const output = JSON.stringify([last?.metricName, last?.by, last?.tags, ofRule]);
  return { output, done: JSON.stringify(operations.slice(first)) };
}

function nameOf({ operations }: RollupTarget): string {
  return operations.findLast((operation) => operation.type === 'rollup')?.metricName ?? '';
}
