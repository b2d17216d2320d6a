/** Resolutions that rules name, and which no namespace has. */
import type { Rules, StoragePolicy } from '#cluster/aggregation_rules/rules.ts';
import {
  aggregationOf,
  type Namespace,
  type NamespaceRegistry,
} from '#cluster/namespaces/namespaces.ts';
import { isOfSamples } from '#cluster/namespaces/samples.ts';
import { formatDurationNanos } from '#lib/time.ts';

/** As `1m0s:720h0m0s`; without those of mapping rules for as long as samples are kept, which are there all the same. */
export function missingPolicies(
  { mappingRules, rollupRules }: Rules,
  registry: NamespaceRegistry,
): string[] {
  const namespaces = [...registry.values()];
  const there = namespaces.map(textOfNamespace);
  const samplesNanos = namespaces.filter(isOfSamples).reduce((longest, { options }) => {
    const { retentionPeriodNanos } = options.retentionOptions;
    return retentionPeriodNanos > longest ? retentionPeriodNanos : longest;
  }, 0n);
  const mapped = mappingRules.flatMap(({ storagePolicies }) =>
    storagePolicies.filter(({ retentionNanos }) => retentionNanos > samplesNanos),
  );
  const rolledUp = rollupRules.flatMap(({ targets }) =>
    targets.flatMap(({ storagePolicies }) => storagePolicies),
  );
  const named = new Set([...mapped, ...rolledUp].map(textOfPolicy));
  return [...named].filter((policy) => !there.includes(policy));
}

function textOfPolicy({ resolutionNanos, retentionNanos }: StoragePolicy): string {
  return `${formatDurationNanos(resolutionNanos)}:${formatDurationNanos(retentionNanos)}`;
}

function textOfNamespace(namespace: Namespace): string | null {
  const aggregation = aggregationOf(namespace);
  if (aggregation === null) return null;
  const { retentionPeriodNanos: retentionNanos } = namespace.options.retentionOptions;
  return textOfPolicy({ resolutionNanos: aggregation.resolutionNanos, retentionNanos });
}
