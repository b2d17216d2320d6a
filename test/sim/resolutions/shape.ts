/**
 * The namespaces of a run: 400 days of `2d`, `5m:90d` and `1h:2y`, as they would be if a day were a few seconds. Samples
 * expire many times in a run, the finest windows once or twice, the others never.
 */
import type { StoragePolicy } from '#cluster/aggregation_rules/rules.ts';
import { droppedNamespace } from '#cluster/namespaces/companions.ts';
import type { Namespace } from '#cluster/namespaces/namespaces.ts';
import { namespace, shortNamespace } from '../cluster/cluster.ts';
import { aggregatedNamespace, type WindowsShape } from '../cluster/windows/shape.ts';

const nanosPerMilli = 1_000_000n;

const fine: WindowsShape = {
  namespace: 'fine',
  windowMillis: 10_000,
  retentionMillis: 720_000,
  takesAll: true,
};
const coarse: WindowsShape = {
  namespace: 'coarse',
  windowMillis: 60_000,
  retentionMillis: 7_200_000,
  takesAll: true,
};
/** Of what rules name alone. */
const chosen: WindowsShape = {
  namespace: 'chosen',
  windowMillis: 20_000,
  retentionMillis: 3_600_000,
  takesAll: false,
};

export const resolutions: readonly WindowsShape[] = [fine, chosen, coarse];

/** Longer than until rollups are made first, so that they are made once more. */
export const bufferPastMillis = 45_000;

/** Kept for longer than samples, as the companion is that coordinators make. */
const droppedMillis = 900_000;

export const rowNamespaces: readonly string[] = [namespace, droppedNamespace];

export function besideSamples(): Namespace[] {
  const more = { coldWritesEnabled: true };
  const dropped = shortNamespace(droppedNamespace, more, droppedMillis, bufferPastMillis);
  return [dropped, ...resolutions.map(aggregatedNamespace)];
}

export function policyOf({ windowMillis, retentionMillis }: WindowsShape): StoragePolicy {
  return {
    resolutionNanos: BigInt(windowMillis) * nanosPerMilli,
    retentionNanos: BigInt(retentionMillis) * nanosPerMilli,
  };
}

/** As files of rules name it. */
export function policyTextOf({ windowMillis, retentionMillis }: WindowsShape): object {
  return { resolution: `${windowMillis / 1000}s`, retention: `${retentionMillis / 1000}s` };
}

export const seriesCount = 100;
