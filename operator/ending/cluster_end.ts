/**
 * The end of a cluster: what goes with it by its deletion policy, in the order in which nothing is made
 * anew meanwhile, and the finalizer that lets the operator see to it.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Failpoints } from '../action/failpoints.ts';
import { type deleteClusterKeys, deletesDirectly } from './cluster_keys.ts';
import type { Coordinator } from '../coordinator/coordinator_client.ts';
import { recordOf } from '../record/record.ts';
import { Names } from '../resource/names.ts';
import { isNamespaceEnding } from './kube_namespace.ts';
import { volumesGoWith, wouldLeaveEtcdVolumes } from '../etcd_part/claims.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { KubeClient } from '../kube/kube_api.ts';
import type { Observed } from '../observe/observe.ts';
import type { Plan } from '../part/part.ts';
import { annotation, finalizer, label } from '../resource/keys.ts';
import { type KubeObject, type Resource, resource } from '../resource/kube_objects.ts';
import { pathOf, type TsdbCluster } from '../resource/tsdb_cluster.ts';

/** Metadata in an external etcd is not waited for longer than this when the cluster goes. */
const finalizeMillisMax = 120_000;
/** The same when its namespace goes, and perhaps this operator with it. */
const endingKeysMillisMax = 3_000;
/** How long past its time a pod of a cluster that goes is waited for. */
const terminationMillisMax = 90_000;
/** How soon to look again whether the pods of a cluster that goes have ended. */
const finalizePollMillis = 1_000;

export interface ClusterEndOptions {
  readonly api: KubeClient;
  readonly env: Env;
  readonly log: Log;
  readonly events: EventRecorder;
  readonly failpoints: Failpoints;
  readonly connect: (cluster: TsdbCluster) => Coordinator;
  readonly deleteKeys: typeof deleteClusterKeys;
  /** Throws when this process may not act any more. */
  readonly mayWrite: () => void;
}

export class ClusterEnd {
  readonly #options: ClusterEndOptions;

  constructor(options: ClusterEndOptions) {
    this.#options = options;
  }

  async dropFinalizer(object: KubeObject, signal: AbortSignal): Promise<void> {
    const finalizers = object.metadata.finalizers ?? [];
    if (!finalizers.includes(finalizer)) return;
    await this.#setFinalizers(
      object,
      finalizers.filter((other) => other !== finalizer),
      signal,
    );
  }

  async #setFinalizers(
    object: KubeObject,
    finalizers: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const kind = object.kind === 'TSDBCluster' ? resource.cluster : resource.namespace;
    const { name, namespace, resourceVersion } = object.metadata;
    // With the version it is a compare-and-set: a finalizer added by another meanwhile is kept.
    const patch = { metadata: { finalizers, resourceVersion } };
    await this.#options.api.mergePatch(kind, namespace!, name, '', patch, signal);
  }

  /**
   * Only a cluster that leaves something which is to go with it has something to do when it goes:
   * volumes, or pods whose set is away to be made anew.
   */
  async keepFinalizer(observed: Observed, { actions }: Plan, signal: AbortSignal): Promise<void> {
    const { cluster, pods, statefulSets } = observed;
    const finalizers = cluster.metadata.finalizers ?? [];
    const ofSets = pods.filter(({ metadata: { labels = {} } }) =>
      ['node', 'etcd'].includes(labels[label.component] ?? ''),
    );
    const isWanted =
      cluster.spec.deletionPolicy?.data === 'Delete' ||
      wouldLeaveEtcdVolumes(observed) ||
      actions.some((action) => action.kind === 'delete' && action.orphan) ||
      ofSets.some((pod) => !isOfSet(pod, statefulSets.values()));
    if (!isWanted) await this.dropFinalizer(cluster, signal);
    else if (!finalizers.includes(finalizer)) {
      await this.#setFinalizers(cluster, [...finalizers, finalizer], signal);
    }
  }

  /**
   * Does what the deletion policy says, then lets the resource go; its other children follow by their
   * owner references. With `data: Retain` everything that is needed to read the data stays: volumes,
   * record, and the keys of an external etcd.
   */
  async finalize(cluster: TsdbCluster, signal: AbortSignal): Promise<number | null> {
    const finalizers = cluster.metadata.finalizers ?? [];
    if (!finalizers.includes(finalizer)) return null;
    const { api, log } = this.#options;
    if (await isNamespaceEnding(api, cluster.metadata.namespace!, signal)) {
      await this.#releaseAtOnce(cluster, signal);
      return null;
    }
    const { data, metadata } = cluster.spec.deletionPolicy ?? {};
    // With --cascade=orphan all children stay, and so do their volumes.
    const isCascading =
      !finalizers.includes('orphan') && !(await this.#isOrphaned(cluster, signal));
    if (isCascading) await this.#deletePodsOfNobody(cluster, signal);
    const isAsked = isCascading && data === 'Delete';
    const kept = isAsked ? await this.#whyKept(cluster, signal) : null;
    if (kept !== null) {
      const event = { reason: 'VolumesKept', message: kept, type: 'Warning' } as const;
      await this.#options.events.record(cluster, event, signal);
    }
    if (isAsked && kept === null) {
      if (await this.#deletePods(cluster, resource.statefulSet, 'node', signal)) {
        return finalizePollMillis;
      }
      await this.#deleteAll(cluster, resource.volumeClaim, 'node', signal);
      await this.#deleteAll(cluster, resource.cronJob, 'etcd-snapshots', signal);
      await this.#deleteAll(cluster, resource.volumeClaim, 'etcd-snapshots', signal);
      await this.#deleteAll(cluster, resource.configMap, 'record', signal);
      if (metadata !== 'Retain') {
        const { deployment } = resource;
        const isBefore = deletesDirectly(cluster);
        if (isBefore && (await this.#deletePods(cluster, deployment, 'coordinator', signal))) {
          return finalizePollMillis;
        }
        await this.#deleteKeys(cluster, signal);
      }
    }
    if (isCascading && volumesGoWith(cluster)) {
      if (await this.#deletePods(cluster, resource.statefulSet, 'etcd', signal)) {
        return finalizePollMillis;
      }
      await this.#deleteAll(cluster, resource.volumeClaim, 'etcd', signal);
    }
    await this.dropFinalizer(cluster, signal);
    log.info({ cluster: pathOf(cluster) }, 'cluster released');
    return null;
  }

  /**
   * A cluster that has not taken over what one before it has left with Retain has nothing of its own there.
   * @returns why volumes stay; null when they are the cluster's
   */
  async #whyKept(cluster: TsdbCluster, signal: AbortSignal): Promise<string | null> {
    const { record: name } = new Names(cluster);
    const records = await this.#listOf(cluster, resource.configMap, 'record', signal);
    const record = recordOf(records.find(({ metadata }) => metadata.name === name));
    const kept = 'volumes of storage nodes and their record are kept';
    if (typeof record === 'string') return `${kept}: ${record}`;
    if (record === null || record.placement === null) return null;
    if (record.clusterUid === cluster.metadata.uid) return null;
    return `${kept}: they are of a TSDBCluster before, which kept them with deletionPolicy.data: Retain, and this one has not taken them over; delete them by hand: kubectl delete pvc,configmap -l ${label.cluster}=${cluster.metadata.name}`;
  }

  /**
   * Kubernetes has let all children go already, which is done in no time: its own finalizer says so only
   * until then.
   */
  async #isOrphaned(cluster: TsdbCluster, signal: AbortSignal): Promise<boolean> {
    const { namespace, name, uid } = cluster.metadata;
    const selector = `${label.cluster}=${name}`;
    const kinds = [resource.service, resource.statefulSet, resource.deployment];
    const lists = await Promise.all(
      kinds.map((kind) => this.#options.api.list(kind, namespace!, selector, signal)),
    );
    // Others may have our label, too.
    const isMade = ({ metadata }: KubeObject): boolean =>
      metadata.annotations?.[annotation.content] !== undefined;
    const children = lists.flatMap(({ items }) => items).filter(isMade);
    const isOwned = ({ metadata: { ownerReferences = [] } }: KubeObject): boolean =>
      ownerReferences.some((owner) => owner.uid === uid);
    return children.length > 0 && !children.some(isOwned);
  }

  /** Their set was deleted to be made anew over them, and now never is. */
  async #deletePodsOfNobody(cluster: TsdbCluster, signal: AbortSignal): Promise<void> {
    for (const component of ['node', 'etcd']) {
      const sets = await this.#listOf(cluster, resource.statefulSet, component, signal);
      const pods = await this.#listOf(cluster, resource.pod, component, signal);
      const left = pods.filter(
        (pod) => pod.metadata.deletionTimestamp === undefined && !isOfSet(pod, sets),
      );
      await this.#delete(resource.pod, left, signal);
    }
  }

  /** Its namespace takes all that it has; only keys in an external etcd are elsewhere. */
  async #releaseAtOnce(cluster: TsdbCluster, signal: AbortSignal): Promise<void> {
    const { env, log } = this.#options;
    const { data, metadata } = cluster.spec.deletionPolicy ?? {};
    try {
      const deadline = env.clock.deadline(endingKeysMillisMax, signal);
      if (data === 'Delete' && metadata !== 'Retain') await this.#deleteKeys(cluster, deadline);
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn({ cluster: pathOf(cluster), error: messageOf(error) }, 'keys stay in etcd');
    }
    await this.dropFinalizer(cluster, signal);
    log.info({ cluster: pathOf(cluster) }, 'cluster released with its namespace');
  }

  async #deleteKeys(cluster: TsdbCluster, signal: AbortSignal): Promise<void> {
    if (cluster.spec.etcd?.external === undefined) return;
    const { env, log, mayWrite, deleteKeys } = this.#options;
    const coordinator = this.#options.connect(cluster);
    try {
      mayWrite();
      const send = () => deleteKeys(cluster, { coordinator, env, log }, signal);
      await this.#options.failpoints.around('finalize-keys', cluster.metadata.name, send, signal);
    } catch (error) {
      if (signal.aborted || millisSinceDeletion(cluster, env) < finalizeMillisMax) throw error;
      const message = `keys stay in the external etcd: ${messageOf(error)}`;
      const event = { reason: 'MetadataLeft', message, type: 'Warning' } as const;
      await this.#options.events.record(cluster, event, signal);
    }
  }

  async #listOf(
    cluster: TsdbCluster,
    kind: Resource,
    component: string,
    signal: AbortSignal,
  ): Promise<readonly KubeObject[]> {
    const selector = `${label.cluster}=${cluster.metadata.name},${label.component}=${component}`;
    const { namespace } = cluster.metadata;
    return (await this.#options.api.list(kind, namespace!, selector, signal)).items;
  }

  /**
   * What makes pods goes before their volumes and keys: else there would be new ones meanwhile.
   *
   * @returns whether there are still some, or pods of theirs
   */
  async #deletePods(
    cluster: TsdbCluster,
    kind: Resource,
    component: string,
    signal: AbortSignal,
  ): Promise<boolean> {
    const left = await this.#deleteAll(cluster, kind, component, signal);
    const pods = await this.#listOf(cluster, resource.pod, component, signal);
    const nowMillis = this.#options.env.clock.nowMillis();
    return left > 0 || pods.some((pod) => !isOverdue(pod, nowMillis));
  }

  /** @returns how many there were */
  async #deleteAll(
    cluster: TsdbCluster,
    kind: Resource,
    component: string,
    signal: AbortSignal,
  ): Promise<number> {
    const items = await this.#listOf(cluster, kind, component, signal);
    await this.#delete(kind, items, signal);
    return items.length;
  }

  async #delete(kind: Resource, items: readonly KubeObject[], signal: AbortSignal): Promise<void> {
    for (const { metadata } of items) {
      const which = { uid: metadata.uid ?? null, orphan: false };
      const send = () =>
        this.#options.api.delete(kind, metadata.namespace!, metadata.name, which, signal);
      await this.#options.failpoints.around('finalize-delete', metadata.name, send, signal);
    }
  }
}

/** Whether the set that has made the pod is one of these. */
const isOfSet = ({ metadata: { ownerReferences = [] } }: KubeObject, sets: Iterable<KubeObject>) =>
  [...sets].some(({ metadata: { uid } }) => ownerReferences.some((owner) => owner.uid === uid));

/** Its machine does not say that it has ended: its volume goes with it, whenever that is. */
const isOverdue = ({ metadata }: KubeObject, nowMillis: number): boolean =>
  nowMillis - Date.parse(metadata.deletionTimestamp ?? '') > terminationMillisMax;

function millisSinceDeletion({ metadata }: KubeObject, env: Env): number {
  return env.clock.nowMillis() - Date.parse(metadata.deletionTimestamp!);
}
