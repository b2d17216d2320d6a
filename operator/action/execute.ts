/** Carries out planned actions: one switch, each case one call. */
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { EtcdAdmin } from '../etcd/etcd_admin.ts';
import { apiVersion } from '../resource/keys.ts';
import {
  type KubeObject,
  type OwnerReference,
  type Pod,
  type ResourceRequirements,
  resource,
} from '../resource/kube_objects.ts';
import { pathOf, type TsdbCluster } from '../resource/tsdb_cluster.ts';
import type { AppliedMemory } from '../kube/applied_memory.ts';
import type { Coordinator } from '../coordinator/coordinator_client.ts';
import { contentHash } from '../resource/content_hash.ts';
import { contains } from '../resource/merge.ts';
import { type KubeClient, KubeError, resourceOf } from '../kube/kube_api.ts';
import { type Action, objectOf } from './action.ts';
import type { Failpoints } from './failpoints.ts';

/** Of each shard set of aggregators. */
const pairSize = 2;
/** Less than a pod takes to end, be made again and serve. */
const togetherMillisMax = 2_000;

export interface Executor {
  readonly api: KubeClient;
  readonly coordinator: Coordinator;
  readonly etcd: EtcdAdmin;
  readonly env: Env;
  readonly log: Log;
  readonly applied: AppliedMemory;
  readonly failpoints: Failpoints;
  /** Throws when this process may not act any more. */
  readonly mayWrite: () => void;
}

export async function execute(
  action: Action,
  cluster: TsdbCluster,
  executor: Executor,
  signal: AbortSignal,
): Promise<void> {
  const { failpoints } = executor;
  executor.log.info({ cluster: pathOf(cluster), ...summaryOf(action) }, action.kind);
  // Stops before the call when leadership was lost meanwhile.
  signal.throwIfAborted();
  executor.mayWrite();
  const send = () => carryOut(action, executor, signal);
  await failpoints.around(action.kind, objectOf(action), send, signal);
}

async function carryOut(action: Action, executor: Executor, signal: AbortSignal): Promise<void> {
  const { api, coordinator, etcd } = executor;
  switch (action.kind) {
    case 'apply':
      await apply(action.object, executor, signal);
      break;
    case 'delete':
      await remove(action.object, action.orphan, api, signal);
      break;
    case 'scale-set': {
      const { namespace, name } = action.set.metadata;
      const { replicas, whenScaled } = action;
      const persistentVolumeClaimRetentionPolicy = { whenScaled };
      const patch = { spec: { replicas, persistentVolumeClaimRetentionPolicy } };
      await api.mergePatch(resource.statefulSet, namespace!, name, '', patch, signal);
      break;
    }
    case 'etcd-add':
      await etcd.addLearner(action.peerUrl, signal);
      break;
    case 'etcd-promote':
      await etcd.promote(action.memberId, signal);
      break;
    case 'etcd-remove':
      await etcd.remove(action.memberId, signal);
      break;
    case 'etcd-move-leader':
      await etcd.moveLeader(action.pod, action.toMemberId, signal);
      break;
    case 'etcd-defragment':
      await etcd.defragment(action.pod, signal);
      break;
    case 'etcd-compact':
      await etcd.compact(action.revision, signal);
      break;
    case 'etcd-disarm':
      await etcd.disarm(action.alarm, signal);
      break;
    case 'evict-pod':
      await evict(action.pod, api, signal);
      await removeTogether(action.together, executor, signal);
      break;
    case 'resize-pod': {
      const { namespace, name, resourceVersion } = action.pod.metadata;
      const { containers } = action.pod['spec'] as { readonly containers: { name: string }[] };
      const resized = containers.map((container) => ({
        ...container,
        ...action.containers.find((one) => one.name === container.name),
      }));
      // With the version it is this very pod, with nothing changed meanwhile.
      const patch = { metadata: { resourceVersion }, spec: { containers: resized } };
      const answer = await api.mergePatch(resource.pod, namespace!, name, 'resize', patch, signal);
      refuseOtherResources(answer as Pod, action.containers);
      break;
    }
    case 'replace-pod':
      // The claim goes when its pod has gone, and the set makes both anew.
      if (action.evict === 'first') await evict(action.pod, api, signal);
      if (action.claim !== null) await remove(action.claim, false, api, signal);
      if (action.evict === 'last') await evict(action.pod, api, signal);
      if (action.evict === null) await removeAtOnce(action.pod, api, signal);
      break;
    case 'expand-claim': {
      const { namespace, name } = action.claim.metadata;
      const patch = { spec: { resources: { requests: { storage: action.size } } } };
      await api.mergePatch(resource.volumeClaim, namespace!, name, '', patch, signal);
      break;
    }
    case 'own-claim':
      await own(action, api, signal);
      break;
    case 'placement-init':
      await coordinator.placementInit(
        {
          num_shards: action.numberOfShards,
          replication_factor: action.replicationFactor,
          instances: action.instances,
        },
        signal,
      );
      break;
    case 'placement-add':
      await coordinator.placementAdd(action.instances, signal);
      break;
    case 'placement-remove':
      await coordinator.placementRemove(action.instanceIds, action.force, signal);
      break;
    case 'placement-approve':
      await coordinator.placementApprove(signal);
      break;
    case 'aggregators-init':
      await coordinator.aggregatorsInit(
        {
          num_shards: action.numberOfShards,
          replication_factor: pairSize,
          instances: action.instances,
        },
        signal,
      );
      break;
    case 'aggregators-add':
      await coordinator.aggregatorsAdd(action.instances, signal);
      break;
    case 'aggregators-remove':
      await coordinator.aggregatorsRemove(action.instanceIds, signal);
      break;
    case 'aggregators-delete':
      await coordinator.aggregatorsDelete(signal);
      break;
    case 'upgrade-finish':
      await coordinator.upgradeFinish(signal);
      break;
    case 'namespace-add':
      await coordinator.namespaceAdd(action.name, action.options, signal);
      break;
    case 'namespace-update':
      await coordinator.namespaceUpdate(action.name, action.options, signal);
      break;
    case 'namespace-ready':
      await coordinator.namespaceReady(action.name, signal);
      break;
    case 'namespace-delete':
      await coordinator.namespaceDelete(action.name, signal);
      break;
    default:
      action satisfies never;
  }
}

async function apply(object: KubeObject, executor: Executor, signal: AbortSignal): Promise<void> {
  const answer = await applyOrReplaceLists(object, executor.api, signal);
  if (!contains(answer, object)) executor.applied.note(answer, contentHash(object));
}

async function own(
  { claim, cluster, goesWithIt }: Action & { readonly kind: 'own-claim' },
  api: KubeClient,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace, uid } = claim.metadata;
  // A new claim is changed some times while its volume comes.
  const live = await api.get(resource.volumeClaim, namespace!, name, signal);
  if (live === null || live.metadata.uid !== uid) return;
  const { resourceVersion, ownerReferences = [] } = live.metadata;
  const others = ownerReferences.filter((owner) => owner.uid !== cluster.metadata.uid);
  // With the version it is a compare-and-set: the list is written as a whole.
  const metadata = {
    resourceVersion,
    ownerReferences: goesWithIt ? [...others, ownerOf(cluster)] : others,
  };
  await api.mergePatch(resource.volumeClaim, namespace!, name, '', { metadata }, signal);
}

/**
 * Lists of the server are merged by their keys: after somebody has given a port another number there
 * would be two of its name, which is refused, for ever. Then our lists stand in place of theirs.
 */
async function applyOrReplaceLists(
  object: KubeObject,
  api: KubeClient,
  signal: AbortSignal,
): Promise<KubeObject> {
  try {
    return await api.apply(object, signal);
  } catch (error) {
    if (!(error instanceof KubeError && error.status === 422) || object['spec'] === undefined) {
      throw error;
    }
    const kind = resourceOf(object);
    const { namespace, name } = object.metadata;
    if ((await api.get(kind, namespace!, name, signal)) === null) throw error;
    try {
      return await api.mergePatch(kind, namespace!, name, '', { spec: object['spec'] }, signal);
    } catch (again) {
      // What is refused is ours: the first answer names it as a person knows it.
      throw again instanceof KubeError && again.status === 422 ? error : again;
    }
  }
}

/** As an owner that is no controller. */
const ownerOf = ({ metadata: { name, uid } }: TsdbCluster): OwnerReference => ({
  apiVersion,
  kind: 'TSDBCluster',
  name,
  uid: uid!,
});

async function remove(
  object: KubeObject,
  orphan: boolean,
  api: KubeClient,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace, uid } = object.metadata;
  await api.delete(resourceOf(object), namespace!, name, { uid: uid ?? null, orphan }, signal);
}

async function evict({ metadata }: Pod, api: KubeClient, signal: AbortSignal): Promise<void> {
  await api.evict(metadata.namespace!, metadata.name, metadata.uid!, signal);
}

/**
 * The defaults of a LimitRange come back with each resize: such a pod is not changed as it runs.
 * @throws {KubeError} 422
 */
function refuseOtherResources(
  pod: Pod,
  wanted: readonly { readonly name: string; readonly resources?: ResourceRequirements }[],
): void {
  const { containers } = pod['spec'] as { readonly containers: typeof wanted };
  const other = wanted.find(({ name, resources }) => {
    const live = containers.find((container) => container.name === name)?.resources;
    return !contains(live, resources) || !contains(resources, live);
  });
  if (other === undefined) return;
  const message = `${pod.metadata.name}: Kubernetes gives container ${other.name} other resources than were asked for`;
  throw new KubeError(422, 'Invalid', message);
}

/**
 * At once after the eviction: as long as the pod that was evicted is away its budget lets nobody take
 * another one. What was not deleted in time goes later, by an eviction of its own.
 */
async function removeTogether(
  pods: readonly Pod[],
  { api, env, mayWrite }: Executor,
  signal: AbortSignal,
): Promise<void> {
  const deadline = env.clock.deadline(togetherMillisMax, signal);
  await Promise.all(
    pods.map((pod) => {
      mayWrite();
      const { name, namespace, uid } = pod.metadata;
      return api.delete(
        resource.pod,
        namespace!,
        name,
        { uid: uid ?? null, orphan: false },
        deadline,
      );
    }),
  );
}

/** Without waiting for its machine, which may never answer. */
async function removeAtOnce(pod: Pod, api: KubeClient, signal: AbortSignal): Promise<void> {
  const { name, namespace, uid } = pod.metadata;
  const which = { uid: uid ?? null, orphan: false, atOnce: true };
  await api.delete(resource.pod, namespace!, name, which, signal);
}

const podNames = (pods: readonly Pod[]): string =>
  pods.map(({ metadata }) => metadata.name).join(' ');

/** What the log says of an action: names, not whole objects. */
export function summaryOf(action: Action): Record<string, string> {
  switch (action.kind) {
    case 'apply':
    case 'delete':
      return { object: `${action.object.kind}/${action.object.metadata.name}` };
    case 'scale-set':
      return {
        object: `StatefulSet/${action.set.metadata.name}`,
        replicas: String(action.replicas),
        whenScaled: action.whenScaled,
      };
    case 'etcd-add':
    case 'etcd-defragment':
      return { pod: action.pod };
    case 'etcd-promote':
    case 'etcd-remove':
      return { pod: action.pod, member: action.memberId };
    case 'etcd-move-leader':
      return { pod: action.pod, to: action.toMemberId };
    case 'etcd-compact':
      return { revision: action.revision };
    case 'etcd-disarm':
      return { alarm: action.alarm.kind, member: action.alarm.memberId };
    case 'evict-pod':
      return { pod: podNames([action.pod, ...action.together]), reason: action.reason };
    case 'resize-pod':
      return { pod: action.pod.metadata.name, containers: JSON.stringify(action.containers) };
    case 'replace-pod':
      return { pod: action.pod.metadata.name, claim: action.claim?.metadata.name ?? 'kept' };
    case 'expand-claim':
      return { claim: action.claim.metadata.name, size: action.size };
    case 'own-claim':
      return {
        claim: action.claim.metadata.name,
        owner: action.goesWithIt ? action.cluster.metadata.name : 'nobody',
      };
    case 'placement-init':
    case 'placement-add':
    case 'aggregators-init':
    case 'aggregators-add':
      return { instances: action.instances.map(({ id }) => id).join(' ') };
    case 'aggregators-remove':
      return { instances: action.instanceIds.join(' ') };
    case 'placement-remove':
      return { instances: action.instanceIds.join(' '), force: String(action.force) };
    case 'placement-approve':
    case 'aggregators-delete':
    case 'upgrade-finish':
      return {};
    case 'namespace-add':
    case 'namespace-update':
    case 'namespace-ready':
    case 'namespace-delete':
      return { namespace: action.name };
    default:
      return action satisfies never;
  }
}
