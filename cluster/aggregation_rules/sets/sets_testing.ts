/** Sets of rules for tests, of files as they came to hold one after the other. */
import { rulesOfFile } from './file.ts';
import { RulesOverTime, RuleSetsOverTime } from './over_time.ts';
import { emptyRuleSet, type RuleSet, withRules } from './set.ts';

/** All rules of a file, from a time on. */
export type RulesChange = readonly [cutoverNanos: bigint, file: object];

export function ruleSetOf(...changes: readonly RulesChange[]): RuleSet {
  let ids = 0;
  return changes.reduce(
    (set, change) => changedRuleSet(set, change, () => `${ids++}`),
    emptyRuleSet,
  );
}

export function changedRuleSet(
  set: RuleSet,
  [cutoverNanos, file]: RulesChange,
  newId: () => string,
): RuleSet {
  return withRules(set, rulesOfFile(file, ''), { cutoverNanos, nowMillis: 0, by: '', newId });
}

/** As the set of series that name none. */
export function ruleSetsOf(...changes: readonly RulesChange[]): RuleSetsOverTime {
  return new RuleSetsOverTime(new Map([['default', new RulesOverTime(ruleSetOf(...changes))]]));
}
