/** Namespaces of the database: added, changed within what they allow, readied, and taken away. */
import type { NamespaceView } from '../coordinator/coordinator_client.ts';
import type { Desired } from '../desired/desired.ts';
import {
  changeRefused,
  type DesiredNamespace,
  namespaceOptions,
  namespaceProblem,
  retentionNanosOf,
} from '../desired/namespaces.ts';
import type { Observed } from '../observe/observe.ts';
import type { ClusterRecord, NamespaceOwner } from '../record/record.ts';
import { annotation } from '../resource/keys.ts';
import type { TsdbNamespace } from '../resource/tsdb_namespace.ts';
import { isSettled } from './readiness.ts';
import type { Action } from '../action/action.ts';
import { nothing, type Part, type Reason } from '../part/part.ts';

/** Why a namespace that is asked for is left as it is; null when it is not. */
export function namespaceStall(
  observed: Observed,
  { name, spec, claim }: DesiredNamespace,
): Reason | null {
  const problem = namespaceProblem(spec);
  if (problem !== null) return { reason: 'InvalidSpec', message: problem };
  const live = liveOf(observed, name);
  if (live === undefined) return refusalOf(observed, name);
  const refused = changeRefused(spec, live);
  if (claim !== null && !isOwned(observed, name, claim)) {
    const message = `namespace ${name} is there already and was not made by this resource: annotate ${annotation.adopt}=true to make it its own${refused === null ? '' : `; even then, ${refused}`}`;
    return { reason: 'NotOwned', message };
  }
  if (refused !== null) return { reason: 'ImmutableChange', message: refused };
  return refusalOf(observed, name);
}

function liveOf({ coordinator }: Observed, name: string): NamespaceView | undefined {
  return coordinator.reachable ? coordinator.namespaces.get(name) : undefined;
}

/** Whether some namespace takes samples. */
export function hasSamples({ coordinator }: Observed): boolean {
  if (!coordinator.reachable) return false;
  return coordinator.namespaces
    .values()
    .some(({ ready, resolutionNanos }) => ready && resolutionNanos === null);
}

/** Windows are made of samples: it is not ready before a namespace of these is. */
export function awaitsSamples(
  observed: Observed,
  { ready, resolutionNanos }: NamespaceView,
): boolean {
  return !ready && resolutionNanos !== null && !hasSamples(observed);
}

/** The database will not have it as it is asked for. */
function refusalOf(observed: Observed, name: string): Reason | null {
  for (const kind of ['namespace-add', 'namespace-update', 'namespace-ready'] as const) {
    const failure = observed.failureOfKey(`${kind} ${name}`);
    if (failure?.isRefused) return { reason: 'Refused', message: failure.message };
  }
  return null;
}

/**
 * Whoever asked first decides, as long as its resource is there. One that an operator without records
 * has made Ready has asked first.
 */
function isOwned(observed: Observed, name: string, claim: TsdbNamespace): boolean {
  const owners = observed.record?.namespaces ?? {};
  if (!Object.hasOwn(owners, name)) return wasReady(claim);
  const owner = owners[name]!;
  return owner.claim === claim.metadata.name || isOwnerGone(observed, name, owner);
}

function isOwnerGone(
  { cluster, claims }: Observed,
  name: string,
  { claim }: NamespaceOwner,
): boolean {
  return claim === null
    ? (cluster.spec.namespaces ?? []).every((one) => one.name !== name)
    : claims.every(({ metadata }) => metadata.name !== claim);
}

const wasReady = ({ status }: TsdbNamespace): boolean =>
  (status?.conditions ?? []).some((one) => one.type === 'Ready' && one.status === 'True');

export function namespacesPart(observed: Observed, desired: Desired): Part {
  const { coordinator } = observed;
  if (!coordinator.reachable || coordinator.placement === null) return nothing;
  const settled = isSettled(coordinator.placement);
  const actions: Action[] = [];
  for (const wanted of desired.namespaces.desired) {
    const { name, spec, claim } = wanted;
    const live = coordinator.namespaces.get(name);
    const stall = namespaceStall(observed, wanted);
    if (stall !== null && stall.reason !== 'Refused') continue;
    if (live === undefined) {
      // First it is written down whose it is: what is there without an owner is left alone.
      if (claim === null || isOwned(observed, wanted.name, claim)) {
        actions.push({ kind: 'namespace-add', name, options: namespaceOptions(spec) });
      }
      continue;
    }
    const retentionPeriodNanos = retentionNanosOf(spec);
    if (retentionPeriodNanos !== null && live.retentionNanos !== String(retentionPeriodNanos)) {
      const options = { retentionOptions: { retentionPeriodNanos: String(retentionPeriodNanos) } };
      actions.push({ kind: 'namespace-update', name, options });
    }
    if (live.ready || !settled || awaitsSamples(observed, live)) continue;
    actions.push({ kind: 'namespace-ready', name });
  }
  for (const name of abandonedNamespaces(observed, desired)) {
    actions.push({ kind: 'namespace-delete', name });
  }
  const message = 'namespaces are brought to their wanted state';
  // What is refused is tried again now and then, and nobody waits for it.
  const isWaited = actions.some((action) => observed.failureOf(action)?.isRefused !== true);
  const waiting = isWaited ? { reason: 'NamespacesChanging', message } : null;
  return { actions, waiting, stalled: [] };
}

/** Namespaces of TSDBNamespaces with `reclaimPolicy: Delete` that are gone. */
function abandonedNamespaces(observed: Observed, desired: Desired): string[] {
  const { record, coordinator, cluster } = observed;
  // A cluster of former life may have known resources that this one has never seen.
  if (record === null || record.clusterUid !== cluster.metadata.uid) return [];
  const wanted = new Set(desired.namespaces.desired.map(({ name }) => name));
  return Object.entries(record.namespaces)
    .filter(
      ([name, { claim, reclaimPolicy }]) =>
        claim !== null &&
        reclaimPolicy === 'Delete' &&
        !wanted.has(name) &&
        coordinator.reachable &&
        coordinator.namespaces.has(name),
    )
    .map(([name]) => name);
}

/**
 * As they are written down, with what their resources say now: also while nothing else can be done, for
 * what was written down last decides once a resource is gone.
 */
export function knownOwners({ cluster, record, claims }: Observed): ClusterRecord['namespaces'] {
  // Resources that went while their cluster was away have asked nobody for anything.
  const isOfOther = record?.clusterUid !== cluster.metadata.uid;
  const owners = Object.entries(record?.namespaces ?? {}).map(([name, owner]) => {
    const claim = claims.find(({ metadata }) => metadata.name === owner.claim);
    const reclaimPolicy =
      claim === undefined
        ? isOfOther
          ? 'Retain'
          : owner.reclaimPolicy
        : (claim.spec.reclaimPolicy ?? 'Retain');
    return [name, { ...owner, reclaimPolicy }] as const;
  });
  return Object.fromEntries(owners);
}

/** Who decides over which namespace, after this pass. */
export function ownersOf(observed: Observed, desired: Desired): ClusterRecord['namespaces'] {
  const { coordinator } = observed;
  const registered = coordinator.reachable ? coordinator.namespaces : new Map();
  const owners = new Map<string, NamespaceOwner>();
  for (const [name, owner] of Object.entries(knownOwners(observed))) {
    // One that was deleted is nobody's.
    if (registered.has(name) || isWantedBy(desired, name, owner.claim)) owners.set(name, owner);
  }
  for (const { name, spec, claim } of desired.namespaces.desired) {
    if (namespaceProblem(spec) !== null) continue;
    const owner: NamespaceOwner = {
      claim: claim?.metadata.name ?? null,
      reclaimPolicy: claim?.spec.reclaimPolicy ?? 'Retain',
    };
    const known = owners.get(name);
    const isFree = known === undefined && !registered.has(name);
    const isAdopted = claim?.metadata.annotations?.[annotation.adopt] === 'true';
    // The list of the cluster says what the cluster is to have, and may take over what is there.
    if (isFree || isAdopted || claim === null || isOwned(observed, name, claim)) {
      owners.set(name, owner);
    }
  }
  return Object.fromEntries([...owners].sort(([a], [b]) => (a < b ? -1 : 1)));
}

const isWantedBy = (desired: Desired, name: string, claim: string | null): boolean =>
  desired.namespaces.desired.some(
    (wanted) => wanted.name === name && (wanted.claim?.metadata.name ?? null) === claim,
  );
