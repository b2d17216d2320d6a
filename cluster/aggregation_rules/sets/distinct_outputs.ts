/** Rollups that make one series in different ways: two values would be written for each window, and one of them would stay. */
import { badRequest } from '#lib/errors.ts';
import { sortTags } from '#lib/tags.ts';
import type { RollupRule } from '../rules.ts';

/** Of some ten microseconds each. */
const rulesOfStep = 256;

interface Made {
  /** Of the rule that makes it. */
  readonly name: string;
  readonly done: string;
}

/**
 * Two targets of one name and one choice of tags make the same series; they add up where all that is done from the first
 * rollup on is the same.
 * @param others rules of other sets by the names of these, which are not held against each other
 * @throws {TsdbError} BAD_REQUEST naming both rules
 */
export function* checkDistinctOutputsInSteps(
  rollupRules: readonly RollupRule[],
  others: ReadonlyMap<string, readonly RollupRule[]> = new Map(),
): Generator<void, void> {
  const seen = new Map<string, Made>();
  let count = 0;
  for (const [set, rules] of others) {
    for (const rule of rules) {
      const name = `${JSON.stringify(rule.name)} of set ${set}`;
      for (const { key, done } of madeBy(rule)) if (!seen.has(key)) seen.set(key, { name, done });
      if (++count % rulesOfStep === 0) yield;
    }
  }
  for (const rule of rollupRules) {
    if (++count % rulesOfStep === 0) yield;
    const name = JSON.stringify(rule.name);
    for (const { key, done, metricName } of madeBy(rule)) {
      const before = seen.get(key);
      if (before === undefined) seen.set(key, { name, done });
      else if (before.done !== done) {
        throw badRequest(
          `rollup rules ${before.name} and ${name} make the same series in different ways: ${metricName}`,
        );
      }
    }
  }
}

interface MadeAt {
  /** Of the series and the policy. */
  readonly key: string;
  readonly done: string;
  readonly metricName: string;
}

function madeBy({ tags, targets }: RollupRule): MadeAt[] {
  const ofRule = sortTags(tags);
  return targets.flatMap(({ operations, storagePolicies }) => {
    const first = operations.findIndex(({ type }) => type === 'rollup');
    const last = operations.findLast((operation) => operation.type === 'rollup');
    const output = JSON.stringify([last?.metricName, last?.by, last?.tags, ofRule]);
    const done = JSON.stringify(operations.slice(first));
    return storagePolicies.map(({ resolutionNanos, retentionNanos }) => ({
      key: `${resolutionNanos}:${retentionNanos} ${output}`,
      done,
      metricName: last?.metricName ?? '',
    }));
  });
}
