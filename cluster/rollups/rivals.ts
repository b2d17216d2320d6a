/** Rules that make one series in different ways, as far as their outputs tell of them. */
import {
  isSamePolicy,
  metricNameTemplate,
  type RollupTarget,
  type StoragePolicy,
} from '../aggregation_rules/rules.ts';
import type { RuleSetsOverTime } from '../aggregation_rules/sets/over_time.ts';

/** That are named at most. */
const namesMax = 8;

/**
 * Rules of a time that may make a rollup of a name.
 * @param beginNanos of the window
 */
export function namesOfRulesThatMake(
  metricName: string,
  policy: StoragePolicy,
  beginNanos: bigint,
  sets: RuleSetsOverTime,
): string[] {
  const names: string[] = [];
  for (const set of sets.all) {
    for (const { name, targets } of set.around(beginNanos).rules.rollupRules) {
      if (names.length === namesMax) return names;
      if (targets.some((target) => makes(target, metricName, policy))) names.push(name);
    }
  }
  return names;
}

function makes(
  { operations, storagePolicies }: RollupTarget,
  metricName: string,
  policy: StoragePolicy,
): boolean {
  if (!storagePolicies.some((each) => isSamePolicy(each, policy))) return false;
  const last = operations.findLast((operation) => operation.type === 'rollup');
  const [before, after] = (last?.metricName ?? '').split(metricNameTemplate);
  if (after === undefined) return before === metricName;
  const hasRoom = metricName.length >= before!.length + after.length;
  return hasRoom && metricName.startsWith(before!) && metricName.endsWith(after);
}
