/**
 * One pass over one cluster: observe, plan, execute, publish the status. Whatever happened between two
 * passes, the next one starts from what is there.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import {
  finalizer,
  type KubeObject,
  label,
  resource,
  type TsdbCluster,
  type TsdbNamespace,
} from './api.ts';
import { CoordinatorClient } from './coordinator_client.ts';
import type { ImageDefaults } from './desired/common.ts';
import { Names } from './desired/names.ts';
import { nameOfNamespace, namespaceClaims } from './desired/namespaces.ts';
import { execute, type Executor, recordEvent } from './execute.ts';
import type { KubeApi } from './kube_api.ts';
import { type Observed, observe } from './observe.ts';
import { plan } from './plan.ts';
import { clusterStatus, namespaceStatus, transitionsOf } from './status.ts';

/** How soon to look again while something is under way that Kubernetes does not tell: shards, namespaces. */
const pollMillis = 2_000;
/** And when all is as wanted. */
const resyncMillis = 60_000;
/** Metadata in an external etcd is not waited for longer than this when the cluster goes. */
const finalizeMillisMax = 120_000;

export interface ControllerOptions {
  readonly api: KubeApi;
  readonly env: Env;
  readonly log: Log;
  readonly images: ImageDefaults;
}

export class Controller {
  private readonly options: ControllerOptions;

  constructor(options: ControllerOptions) {
    this.options = options;
  }

  /**
   * @param key `namespace/name` of a cluster, which need not exist
   * @returns milliseconds after which to look again, null when only a change is a reason
   */
  async reconcile(key: string, signal: AbortSignal): Promise<number | null> {
    const { api } = this.options;
    const [namespace, name] = key.split('/') as [string, string];
    const cluster = (await api.get(
      resource.cluster,
      namespace,
      name,
      signal,
    )) as TsdbCluster | null;
    const claims = await this.claimsOf(namespace, name, signal);
    if (cluster === null) {
      for (const claim of claims) {
        await this.publishNamespace(claim, null, signal);
        await this.dropFinalizerWhenDeleting(claim, signal);
      }
      return null;
    }
    if (cluster.metadata.deletionTimestamp !== undefined) return this.finalize(cluster, signal);
    if (!(cluster.metadata.finalizers ?? []).includes(finalizer)) {
      await this.setFinalizers(
        cluster,
        [...(cluster.metadata.finalizers ?? []), finalizer],
        signal,
      );
    }
    return this.reconcileLive(cluster, claims, signal);
  }

  private async reconcileLive(
    cluster: TsdbCluster,
    claims: readonly TsdbNamespace[],
    signal: AbortSignal,
  ): Promise<number> {
    const { api, env, log, images } = this.options;
    const coordinator = new CoordinatorClient(new Names(cluster).coordinatorUrl, env);
    const executor: Executor = { api, coordinator, env, log };
    const observed = await observe(cluster, claims, api, coordinator, signal);
    const next = plan(observed, images);
    await this.publish(observed, next, executor, signal);
    for (const action of next.actions) await execute(action, cluster, executor, signal);
    for (const claim of claims) await this.reconcileClaim(claim, observed, executor, signal);
    const busy = next.actions.length > 0 || next.waiting !== null;
    return busy ? pollMillis : resyncMillis;
  }

  private async claimsOf(
    namespace: string,
    cluster: string,
    signal: AbortSignal,
  ): Promise<TsdbNamespace[]> {
    const { items } = await this.options.api.list(resource.namespace, namespace, '', signal);
    return (items as readonly KubeObject[] as readonly TsdbNamespace[]).filter(
      ({ spec }) => spec.clusterRef.name === cluster,
    );
  }

  private nowIso(): string {
    return `${new Date(this.options.env.clock.nowMillis()).toISOString().slice(0, 19)}Z`;
  }

  private async publish(
    observed: Observed,
    next: ReturnType<typeof plan>,
    executor: Executor,
    signal: AbortSignal,
  ): Promise<void> {
    const { cluster } = observed;
    const status = clusterStatus(observed, next, this.nowIso());
    if (JSON.stringify(sorted(status)) === JSON.stringify(sorted(cluster.status ?? {}))) return;
    const cleared = Object.fromEntries(
      Object.keys(cluster.status ?? {})
        .filter((key) => !(key in status))
        .map((key) => [key, null]),
    );
    const { name, namespace } = cluster.metadata;
    const patch = { status: { ...cleared, ...status } };
    await this.options.api.mergePatch(resource.cluster, namespace!, name, 'status', patch, signal);
    for (const event of transitionsOf(cluster, status)) {
      await recordEvent(cluster, event, executor, signal);
    }
  }

  private async publishNamespace(
    claim: TsdbNamespace,
    observed: Observed | null,
    signal: AbortSignal,
  ): Promise<void> {
    const status = namespaceStatus(claim, observed, this.nowIso());
    if (JSON.stringify(sorted(status)) === JSON.stringify(sorted(claim.status ?? {}))) return;
    const { name, namespace } = claim.metadata;
    await this.options.api.mergePatch(
      resource.namespace,
      namespace!,
      name,
      'status',
      { status },
      signal,
    );
  }

  /** A claim that deletes its data on its way out needs a finalizer; what no claim made is never touched. */
  private async reconcileClaim(
    claim: TsdbNamespace,
    observed: Observed,
    executor: Executor,
    signal: AbortSignal,
  ): Promise<void> {
    const finalizers = claim.metadata.finalizers ?? [];
    if (claim.metadata.deletionTimestamp === undefined) {
      const wanted = claim.spec.reclaimPolicy === 'Delete';
      if (wanted && !finalizers.includes(finalizer)) {
        await this.setFinalizers(claim, [...finalizers, finalizer], signal);
      } else if (!wanted) await this.dropFinalizer(claim, signal);
      await this.publishNamespace(claim, observed, signal);
      return;
    }
    if (!finalizers.includes(finalizer)) return;
    const name = nameOfNamespace(claim);
    const stillWanted = namespaceClaims(observed.cluster, observed.claims).desired.some(
      (desired) => desired.name === name,
    );
    if (claim.spec.reclaimPolicy === 'Delete' && !stillWanted) {
      await execute({ kind: 'namespace-delete', name }, observed.cluster, executor, signal);
    }
    await this.dropFinalizer(claim, signal);
  }

  private async dropFinalizerWhenDeleting(
    claim: TsdbNamespace,
    signal: AbortSignal,
  ): Promise<void> {
    if (claim.metadata.deletionTimestamp !== undefined) await this.dropFinalizer(claim, signal);
  }

  private async dropFinalizer(object: KubeObject, signal: AbortSignal): Promise<void> {
    const finalizers = object.metadata.finalizers ?? [];
    if (!finalizers.includes(finalizer)) return;
    await this.setFinalizers(
      object,
      finalizers.filter((other) => other !== finalizer),
      signal,
    );
  }

  private async setFinalizers(
    object: KubeObject,
    finalizers: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const kind = object.kind === 'TSDBCluster' ? resource.cluster : resource.namespace;
    const { name, namespace, resourceVersion } = object.metadata;
    // With the version it is a compare-and-set: a finalizer added by another meanwhile is kept.
    const patch = { metadata: { finalizers, resourceVersion } };
    await this.options.api.mergePatch(kind, namespace!, name, '', patch, signal);
  }

  /**
   * Does what the deletion policy says, then lets the resource go; its children follow by their owner
   * references. Never waits for the coordinator longer than a limit.
   */
  private async finalize(cluster: TsdbCluster, signal: AbortSignal): Promise<number | null> {
    if (!(cluster.metadata.finalizers ?? []).includes(finalizer)) return null;
    const { api, env, log } = this.options;
    const policy = cluster.spec.deletionPolicy ?? {};
    const coordinator = new CoordinatorClient(new Names(cluster).coordinatorUrl, env);
    const executor: Executor = { api, coordinator, env, log };
    const external = cluster.spec.etcd?.external !== undefined;
    if (external && policy.metadata !== 'Retain') {
      try {
        for (const name of (await coordinator.namespaces(signal)).keys()) {
          await coordinator.namespaceDelete(name, signal);
        }
        await coordinator.placementDelete(signal);
      } catch (error) {
        const since = env.clock.nowMillis() - Date.parse(cluster.metadata.deletionTimestamp!);
        if (since < finalizeMillisMax) throw error;
        const message = `keys stay in the external etcd: ${messageOf(error)}`;
        await recordEvent(
          cluster,
          { reason: 'MetadataLeft', message, type: 'Warning' },
          executor,
          signal,
        );
      }
    }
    if (policy.data === 'Delete') await this.deleteClaims(cluster, 'node', signal);
    if (!external && policy.metadata !== 'Retain') await this.deleteClaims(cluster, 'etcd', signal);
    await this.dropFinalizer(cluster, signal);
    log.info({ cluster: cluster.metadata.name }, 'cluster released');
    return null;
  }

  private async deleteClaims(
    cluster: TsdbCluster,
    component: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { api } = this.options;
    const namespace = cluster.metadata.namespace!;
    const selector = `${label.cluster}=${cluster.metadata.name},${label.component}=${component}`;
    const { items } = await api.list(resource.volumeClaim, namespace, selector, signal);
    for (const { metadata } of items) {
      await api.delete(
        resource.volumeClaim,
        namespace,
        metadata.name,
        { uid: metadata.uid ?? null, orphan: false },
        signal,
      );
    }
  }
}

/** Members in order, so that two equal objects print alike. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => [key, sorted(member)]),
  );
}
