/**
 * Rules of aggregation name a namespace by its resolution and retention, so a change of that retention takes it from them:
 * nothing more is kept there of what they drop or roll up, and what is stored is not found by the rules of its time.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { isSamePolicy, type StoragePolicy } from '../aggregation_rules/rules.ts';
import type { RuleHistory, RuleSet } from '../aggregation_rules/sets/set.ts';
import type { RuleSetStore } from '../aggregation_rules/sets/store.ts';
import type { Compare } from '../kv/kv.ts';
import { formatDurationNanos } from '#lib/time.ts';
import { isReady, type Namespace } from '../namespaces/namespaces.ts';
import { policyOfNamespace, policyText } from './rule_warnings.ts';

/** So many rules are named. */
const shownMax = 3;
/** Characters of a name: the operator shows some hundred of the whole. */
const nameCharactersMax = 60;

/**
 * That no rule of the key-value store names what a namespace was, nor has named it as long as it is known what rules were.
 * @returns what has to hold still when the change is written
 * @throws {TsdbError} BAD_REQUEST naming both policies, the rules, and what to do
 */
export async function checkNoRulesDetached(
  rules: RuleSetStore,
  before: Namespace,
  after: Namespace,
  signal: AbortSignal,
): Promise<Compare[]> {
  const [was, is] = [policyOfNamespace(before), policyOfNamespace(after)];
  // One that was never READY has nothing of what rules say.
  if (was === null || is === null || isSamePolicy(was, is) || !isReady(before)) return [];
  const sameRules = await rules.unchangedSince(signal);
  const named = (await rules.each((name, set) => rulesNaming(name, set, was), signal)).flat();
  if (named.length === 0) return [sameRules];
  const more = named.length > shownMax ? ` and ${named.length - shownMax} more` : '';
  throw badRequest(
    `options.retentionOptions: cannot change the retention of namespace ${before.name} from ${formatDurationNanos(was.retentionNanos)} to ${formatDurationNanos(is.retentionNanos)}: aggregation rules name it by ${policyText(was)}, or have named it so, and would find it no more: ${named.slice(0, shownMax).join(', ')}${more}; add another namespace of ${policyText(is)} and name it in them, too; by force it is changed all the same`,
  );
}

function rulesNaming(set: string, { mappingRules, rollupRules }: RuleSet, policy: StoragePolicy) {
  const namesOf = <R extends { readonly name: string }>(
    kind: string,
    histories: readonly RuleHistory<R>[],
    policiesOf: (rule: R) => readonly StoragePolicy[],
  ): string[] =>
    histories.flatMap(({ versions }) => {
      const rule = versions.findLast(
        (version) =>
          version.rule !== null &&
          policiesOf(version.rule).some((each) => isSamePolicy(each, policy)),
      )?.rule;
      if (rule === undefined || rule === null) return [];
      const name = JSON.stringify(shownText(rule.name).slice(0, nameCharactersMax));
      return [`${kind} ${name} of set ${set.slice(0, nameCharactersMax)}`];
    });
  return [
    ...namesOf('mapping rule', mappingRules, ({ storagePolicies }) => storagePolicies),
    ...namesOf('rollup rule', rollupRules, ({ targets }) =>
      targets.flatMap(({ storagePolicies }) => storagePolicies),
    ),
  ];
}
