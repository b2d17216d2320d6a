/**
 * What coordinators see to in the registry: promises of since when a namespace of samples has every row
 * (../namespaces/samples.ts), made when every node refuses writers that have not heard of all of them; and that dropped
 * samples are kept for long enough.
 */
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { resolutionsFormatLevel } from '#lib/format_level.ts';
import type { NodeService } from '../node/service.ts';
import type { Instance } from '../placement/placement.ts';
import type { TopologySource, TopologyView } from '../topology/topology.ts';
import { withDroppedLongEnough } from '../namespaces/dropped.ts';
import { readySamples, withPromises } from '../namespaces/samples.ts';
import type { NamespaceRegistry } from '../namespaces/namespaces.ts';
import type { NamespaceStore } from '../namespaces/store.ts';

export interface PromiseTarget {
  readonly namespaces: NamespaceStore;
  readonly topology: TopologySource;
  readonly clock: Pick<Clock, 'nowNanos'>;
  readonly nodeOf: (instance: Instance) => Pick<NodeService, 'health'>;
}

/**
 * Makes those that are missing, when it can; whoever else makes them at the same time is as good.
 * @returns whether none is missing
 */
export async function promiseNamespaces(
  target: PromiseTarget,
  signal: AbortSignal,
): Promise<boolean> {
  const { topology, namespaces, clock } = target;
  if (!isMissing(topology.view)) return true;
  const view = await topology.refresh(signal);
  if (!isMissing(view)) return true;
  if (view.awaitsApproval || !(await haveHeard(target, view, signal))) return false;
  await namespaces.update((registry) => {
    // What was made ready since, nobody may have heard of.
    const isSame = readySamples(registry).every(({ name, number }) => {
      return readySamples(view.namespaces).some(
        (one) => one.name === name && one.number === number,
      );
    });
    return isSame ? withPromises(registry, clock.nowNanos()) : registry;
  }, signal);
  return !isMissing(await topology.refresh(signal));
}

/** Has dropped samples be kept for as long as windows need them that came later; whoever does it at the same time is as good. */
export async function keepDroppedLongEnough(
  { topology, namespaces, clock }: Pick<PromiseTarget, 'topology' | 'namespaces' | 'clock'>,
  signal: AbortSignal,
): Promise<void> {
  const { view } = topology;
  const longEnough = (registry: NamespaceRegistry): NamespaceRegistry =>
    withDroppedLongEnough(registry, clock.nowNanos());
  if (view.awaitsApproval || longEnough(view.namespaces) === view.namespaces) return;
  await namespaces.update(longEnough, signal);
}

function isMissing({ namespaces }: TopologyView): boolean {
  return readySamples(namespaces).some(
    ({ completeSinceNanos }) => completeSinceNanos === undefined,
  );
}

/** Whether all nodes of the placement have adopted these namespaces, or later ones. */
async function haveHeard(
  { nodeOf }: PromiseTarget,
  { placement, namespacesRevision, lineageId }: TopologyView,
  signal: AbortSignal,
): Promise<boolean> {
  const heard = await Promise.all(
    (placement?.instances ?? []).map(async (instance) => {
      try {
        const health = await nodeOf(instance).health(signal);
        // Before the upgrade is finished there may be writers that do not say what they know.
        return (
          health.formatLevelWritten >= resolutionsFormatLevel &&
          health.lineageId === lineageId &&
          (health.namespacesRevision ?? 0) >= namespacesRevision
        );
      } catch (error) {
        if (error instanceof TsdbError) return false;
        throw error;
      }
    }),
  );
  return heard.every((has) => has);
}
