/**
 * What of aggregation rules does nothing, and is taken all the same: a namespace may come later than the rules that name it,
 * and files of M3 are to be of use as they are. Whoever writes the rules is told.
 */
import { inOneGo } from '#lib/turns/steps.ts';
import { formatDurationNanos } from '#lib/time.ts';
import { isWindowType } from '../aggregation_rules/aggregation_types.ts';
import { ruleTagPrefix } from '../aggregation_rules/match.ts';
import {
  type MappingRule,
  type Rules,
  type StoragePolicy,
  windowTypeOf,
} from '../aggregation_rules/rules.ts';
import {
  aggregationOf,
  isReady,
  type Namespace,
  type NamespaceRegistry,
} from '../namespaces/namespaces.ts';
import { isOfSamples, isOfWindows } from '../namespaces/samples.ts';

/** Of more the last one says how many there are. */
const warningsMax = 20;
/** Of some microseconds each. */
const rulesOfStep = 1024;

/** In words, as `storagePolicies` of r2 has it. */
export function policyText({ resolutionNanos, retentionNanos }: StoragePolicy): string {
  return `${formatDurationNanos(resolutionNanos)}:${formatDurationNanos(retentionNanos)}`;
}

/** How rules name the namespace; null for one without windows. */
export function policyOfNamespace(namespace: Namespace): StoragePolicy | null {
  const aggregation = aggregationOf(namespace);
  if (aggregation === null) return null;
  const { retentionPeriodNanos: retentionNanos } = namespace.options.retentionOptions;
  return { resolutionNanos: aggregation.resolutionNanos, retentionNanos };
}

/** Those of READY namespaces. */
export function readyPolicies(registry: NamespaceRegistry): StoragePolicy[] {
  return [...registry.values()].flatMap((namespace) =>
    isReady(namespace) && isOfWindows(namespace) ? (policyOfNamespace(namespace) ?? []) : [],
  );
}

/** The rules that do something in vain, by what it is. */
class Named {
  readonly #rules = new Map<string, { readonly first: string; count: number }>();

  add(what: string, rule: string): void {
    const known = this.#rules.get(what);
    if (known === undefined) this.#rules.set(what, { first: rule, count: 1 });
    else known.count += 1;
  }

  /** @param textOf one of them: who does it, and what it is */
  texts(textOf: (rules: string, what: string) => string): string[] {
    return [...this.#rules].map(([what, { first, count }]) =>
      textOf(count === 1 ? first : `${first} and ${count - 1} more`, what),
    );
  }
}

/**
 * One warning for each thing that is in vain, with the rule that is so first.
 * @param registry null where it is not known: then nothing is said of namespaces
 */
export function ruleWarnings(rules: Rules, registry: NamespaceRegistry | null): string[] {
  return inOneGo(ruleWarningsInSteps(rules, registry));
}

/** As `ruleWarnings`, for who has others to look after. */
export function* ruleWarningsInSteps(
  { mappingRules, rollupRules }: Rules,
  registry: NamespaceRegistry | null,
): Generator<void, string[]> {
  const there = new Set(registry === null ? [] : readyPolicies(registry).map(keyOf));
  const samplesNanos = registry === null ? 0n : longestSamplesNanos(registry);
  const missing = new Named();
  const policies = new Map<string, StoragePolicy>();
  const missingOf = (rule: string, policy: StoragePolicy): void => {
    const key = keyOf(policy);
    if (registry === null || there.has(key)) return;
    policies.set(key, policy);
    missing.add(key, rule);
  };
  const mappingTags = new Named();
  const mappingTypes = new Named();
  const ruleTags = new Named();
  let count = 0;
  for (const mappingRule of mappingRules) {
    const { name, tags, storagePolicies } = mappingRule;
    if (++count % rulesOfStep === 0) yield;
    const rule = `mapping rule ${JSON.stringify(name)}`;
    if (tags.length > 0) mappingTags.add('', rule);
    for (const what of typesInVain(mappingRule)) mappingTypes.add(what, rule);
    for (const policy of storagePolicies) {
      // As long as samples are kept what matches is there all the same.
      if (policy.retentionNanos > samplesNanos) missingOf(rule, policy);
    }
  }
  for (const { name, tags, targets } of rollupRules) {
    if (++count % rulesOfStep === 0) yield;
    const rule = `rollup rule ${JSON.stringify(name)}`;
    for (const tag of tags) if (tag.name.startsWith(ruleTagPrefix)) ruleTags.add(tag.name, rule);
    for (const { storagePolicies } of targets) {
      for (const policy of storagePolicies) missingOf(rule, policy);
    }
  }
  const warnings = [
    ...missing.texts(
      (rule, key) =>
        `${rule}: no READY namespace has ${policyText(policies.get(key)!)}: nothing is kept there`,
    ),
    ...mappingTags.texts((rule) => `${rule}: tags do nothing: a mapping rule makes no series`),
    ...mappingTypes.texts((rule, what) => `${rule}: ${what}`),
    ...ruleTags.texts(
      (rule, tag) => `${rule}: tag ${tag} does nothing: no series is stored with such a tag`,
    ),
  ];
  if (warnings.length <= warningsMax) return warnings;
  const left = warnings.length - (warningsMax - 1);
  return [...warnings.slice(0, warningsMax - 1), `and ${left} more of this kind`];
}

/** What of the types of a rule no reader sees. */
function typesInVain(rule: MappingRule): string[] {
  const { aggregations, storagePolicies } = rule;
  // Without policies they are about rows of paths, as Graphite reads them.
  const isOfWindows = storagePolicies.length > 0;
  const type = windowTypeOf(rule);
  const there = aggregations.filter(isWindowType);
  const missing = aggregations.filter((each) => !isWindowType(each));
  const what: string[] = [];
  if (missing.length > 0) {
    const why = isOfWindows ? 'windows do not have them' : 'Graphite reads no rows as these';
    const read = type === null ? '' : `, ${isOfWindows ? 'and are read' : 'but'} as ${type}`;
    what.push(`aggregations ${missing.join(', ')} do nothing: ${why}${read}`);
  }
  if (there.length > 1) {
    what.push(
      isOfWindows
        ? `of aggregations ${there.join(', ')} windows are read as ${type}: they have all of these, and functions of queries choose`
        : `of aggregations ${there.join(', ')} Graphite reads rows as ${type} alone`,
    );
  }
  return what;
}

function keyOf({ resolutionNanos, retentionNanos }: StoragePolicy): string {
  return `${resolutionNanos}:${retentionNanos}`;
}

function longestSamplesNanos(registry: NamespaceRegistry): bigint {
  return [...registry.values()].filter(isOfSamples).reduce((longest, { options }) => {
    const { retentionPeriodNanos } = options.retentionOptions;
    return retentionPeriodNanos > longest ? retentionPeriodNanos : longest;
  }, 0n);
}
