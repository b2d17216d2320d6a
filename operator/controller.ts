/**
 * One pass over one cluster: observe, build what is desired, plan, publish the status, execute.
 * Whatever happened between two passes, the next one starts from what is there.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { ClusterStatus, TsdbCluster } from './resource/tsdb_cluster.ts';
import { finalizer, label } from './resource/keys.ts';
import { type KubeObject, resource } from './resource/kube_objects.ts';
import type { TsdbNamespace } from './resource/tsdb_namespace.ts';
import { AppliedMemory } from './kube/applied_memory.ts';
import { type Coordinator, CoordinatorClient } from './coordinator/coordinator_client.ts';
import type { ImageDefaults } from './desired/common.ts';
import { Names } from './desired/names.ts';
import { blueprintOf, desiredOf } from './desired/desired.ts';
import { nameOfNamespace } from './desired/namespaces.ts';
import { EventRecorder, isoSeconds } from './kube/events.ts';
import { execute, type Executor } from './execute.ts';
import type { KubeClient } from './kube/kube_api.ts';
import { observe } from './observe/observe.ts';
import { type Plan, plan } from './plan/plan.ts';
import { clusterStatus, namespaceStatus, type Pass, transitionsOf } from './status.ts';

/**
 * How soon to look again while something is under way that Kubernetes does not tell: shards,
 * namespaces.
 */
const pollMillis = 2_000;
/** And when all is as wanted. */
const resyncMillis = 60_000;
/**
 * A status that differs only in the text of its messages is not written sooner after the last one.
 */
const messageMillisMin = 10_000;
/** Metadata in an external etcd is not waited for longer than this when the cluster goes. */
const finalizeMillisMax = 120_000;
/** And a namespace's data not longer than this when its resource goes. */
const namespaceFinalizeMillisMax = 600_000;

const errorCharactersMax = 500;

export interface ControllerOptions {
  readonly api: KubeClient;
  readonly env: Env;
  readonly log: Log;
  readonly images: ImageDefaults;
  /** Throws when this process may not act any more. */
  readonly mayWrite: () => void;
  /** The coordinator behind a base URL; tests give a fake one. */
  readonly connect?: (baseUrl: string) => Coordinator;
}

export class Controller {
  readonly #options: ControllerOptions;
  readonly #events: EventRecorder;
  readonly #applied = new AppliedMemory();
  /** Why an action of a cluster's last pass failed, by its key; only of clusters that exist. */
  readonly #lastErrors = new Map<string, string>();
  /** When a cluster's status was written last, by its key; only of clusters that exist. */
  readonly #publishedAtMillis = new Map<string, number>();

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#events = new EventRecorder(options);
  }

  /**
   * @param key `namespace/name` of a cluster, which need not exist
   * @returns milliseconds after which to look again, null when only a change is a reason
   */
  async reconcile(key: string, signal: AbortSignal): Promise<number | null> {
    const { api } = this.#options;
    const [namespace, name] = key.split('/') as [string, string];
    const cluster = (await api.get(
      resource.cluster,
      namespace,
      name,
      signal,
    )) as TsdbCluster | null;
    const claims = await this.#claimsOf(namespace, name, signal);
    if (cluster === null) {
      this.#lastErrors.delete(key);
      this.#publishedAtMillis.delete(key);
      for (const claim of claims) {
        if (claim.metadata.deletionTimestamp === undefined) {
          await this.#publishNamespace(claim, null, signal);
        } else await this.#dropFinalizer(claim, signal);
      }
      return null;
    }
    if (cluster.metadata.deletionTimestamp !== undefined) return this.#finalize(cluster, signal);
    if (!(cluster.metadata.finalizers ?? []).includes(finalizer)) {
      await this.#setFinalizers(
        cluster,
        [...(cluster.metadata.finalizers ?? []), finalizer],
        signal,
      );
    }
    return this.#reconcileLive(key, cluster, claims, signal);
  }

  async #reconcileLive(
    key: string,
    cluster: TsdbCluster,
    claims: readonly TsdbNamespace[],
    signal: AbortSignal,
  ): Promise<number> {
    const { api, images } = this.#options;
    const executor = this.#executorOf(cluster);
    const memory = {
      appliedAs: (live: KubeObject) => this.#applied.hashOf(live),
      lastError: this.#lastErrors.get(key) ?? null,
    };
    const blueprint = blueprintOf(cluster, images);
    const wanted = [...blueprint.objects, ...blueprint.nodeSets.values()];
    const sources = { api, coordinator: executor.coordinator, wanted, memory };
    const observed = await observe(cluster, claims, sources, signal);
    const pass = { observed, desired: desiredOf(blueprint, observed) };
    const next = plan(observed, pass.desired);
    await this.#publish(key, pass, next, signal);

    const steps = [
      ...next.actions.map((action) => ({
        what: action.kind as string,
        run: () => execute(action, cluster, executor, signal),
      })),
      ...claims.map((claim) => ({
        what: `TSDBNamespace ${claim.metadata.name}`,
        run: () => this.#reconcileClaim(claim, pass, executor, signal),
      })),
    ];
    const errors: unknown[] = [];
    const problems: string[] = [];
    for (const { what, run } of steps) {
      try {
        await run();
      } catch (error) {
        if (signal.aborted) throw error;
        errors.push(error);
        problems.push(`${what}: ${messageOf(error)}`);
      }
    }
    if (errors.length > 0) {
      const message = problems.join('; ').slice(0, errorCharactersMax);
      this.#lastErrors.set(key, message);
      const event = { reason: 'ActionFailed', message, type: 'Warning' } as const;
      // A namespace cannot be readied before its nodes have bootstrapped it: that is no news.
      if (problems.some((problem) => !problem.startsWith('namespace-ready'))) {
        await this.#events.record(cluster, event, signal);
      }
      throw new Error(message, { cause: errors[0] });
    }
    this.#lastErrors.delete(key);
    const busy = next.actions.length > 0 || next.waiting !== null;
    return busy ? pollMillis : resyncMillis;
  }

  #executorOf(cluster: TsdbCluster): Executor {
    const { api, env, log, mayWrite } = this.#options;
    const connect = this.#options.connect ?? ((url: string) => new CoordinatorClient(url, env));
    const coordinator = connect(new Names(cluster).coordinatorUrl);
    return { api, coordinator, env, log, applied: this.#applied, mayWrite };
  }

  async #claimsOf(
    namespace: string,
    cluster: string,
    signal: AbortSignal,
  ): Promise<TsdbNamespace[]> {
    const { items } = await this.#options.api.list(resource.namespace, namespace, '', signal);
    return (items as readonly KubeObject[] as readonly TsdbNamespace[]).filter(
      ({ spec }) => spec.clusterRef.name === cluster,
    );
  }

  async #publish(key: string, pass: Pass, next: Plan, signal: AbortSignal): Promise<void> {
    const { cluster } = pass.observed;
    const { env } = this.#options;
    const status = clusterStatus(pass, next, isoSeconds(env));
    if (isSame(status, cluster.status ?? {})) return;
    // Errors name now this endpoint and now that one: that is not worth a write each time.
    const nowMillis = env.clock.monotonicMillis();
    const lastMillis = this.#publishedAtMillis.get(key) ?? Number.NEGATIVE_INFINITY;
    const soon = nowMillis - lastMillis < messageMillisMin;
    if (soon && isSame(withoutMessages(status), withoutMessages(cluster.status ?? {}))) return;
    this.#publishedAtMillis.set(key, nowMillis);
    const cleared = Object.fromEntries(
      Object.keys(cluster.status ?? {})
        .filter((key) => !(key in status))
        .map((key) => [key, null]),
    );
    const { name, namespace } = cluster.metadata;
    const patch = { status: { ...cleared, ...status } };
    await this.#options.api.mergePatch(resource.cluster, namespace!, name, 'status', patch, signal);
    for (const event of transitionsOf(cluster, status)) {
      await this.#events.record(cluster, event, signal);
    }
  }

  async #publishNamespace(
    claim: TsdbNamespace,
    pass: Pass | null,
    signal: AbortSignal,
  ): Promise<void> {
    const status = namespaceStatus(claim, pass, isoSeconds(this.#options.env));
    if (isSame(status, claim.status ?? {})) return;
    const { name, namespace } = claim.metadata;
    await this.#options.api.mergePatch(
      resource.namespace,
      namespace!,
      name,
      'status',
      { status },
      signal,
    );
  }

  /**
   * A claim that deletes its data on its way out needs a finalizer; what no claim made is never
   * touched.
   */
  async #reconcileClaim(
    claim: TsdbNamespace,
    pass: Pass,
    executor: Executor,
    signal: AbortSignal,
  ): Promise<void> {
    const finalizers = claim.metadata.finalizers ?? [];
    if (claim.metadata.deletionTimestamp === undefined) {
      const wanted = claim.spec.reclaimPolicy === 'Delete';
      if (wanted && !finalizers.includes(finalizer)) {
        await this.#setFinalizers(claim, [...finalizers, finalizer], signal);
      } else if (!wanted) await this.#dropFinalizer(claim, signal);
      await this.#publishNamespace(claim, pass, signal);
      return;
    }
    if (!finalizers.includes(finalizer)) return;
    const name = nameOfNamespace(claim);
    const stillWanted = pass.desired.namespaces.desired.some((desired) => desired.name === name);
    if (claim.spec.reclaimPolicy === 'Delete' && !stillWanted) {
      try {
        await execute({ kind: 'namespace-delete', name }, pass.observed.cluster, executor, signal);
      } catch (error) {
        const since = millisSinceDeletion(claim, this.#options.env);
        if (signal.aborted || since < namespaceFinalizeMillisMax) throw error;
        const message = `namespace ${name} stays in the database: ${messageOf(error)}`;
        const event = { reason: 'NamespaceLeft', message, type: 'Warning' } as const;
        await this.#events.record(claim, event, signal);
      }
    }
    await this.#dropFinalizer(claim, signal);
  }

  async #dropFinalizer(object: KubeObject, signal: AbortSignal): Promise<void> {
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
   * Does what the deletion policy says, then lets the resource go; its children follow by their
   * owner references. Never waits for the coordinator longer than a limit.
   */
  async #finalize(cluster: TsdbCluster, signal: AbortSignal): Promise<number | null> {
    if (!(cluster.metadata.finalizers ?? []).includes(finalizer)) return null;
    const { env, log, mayWrite } = this.#options;
    const policy = cluster.spec.deletionPolicy ?? {};
    const { coordinator } = this.#executorOf(cluster);
    const external = cluster.spec.etcd?.external !== undefined;
    if (external && policy.metadata !== 'Retain') {
      try {
        for (const name of (await coordinator.namespaces(signal)).keys()) {
          mayWrite();
          await coordinator.namespaceDelete(name, signal);
        }
        mayWrite();
        await coordinator.placementDelete(signal);
      } catch (error) {
        if (signal.aborted || millisSinceDeletion(cluster, env) < finalizeMillisMax) throw error;
        const message = `keys stay in the external etcd: ${messageOf(error)}`;
        const event = { reason: 'MetadataLeft', message, type: 'Warning' } as const;
        await this.#events.record(cluster, event, signal);
      }
    }
    if (policy.data === 'Delete') await this.#deleteClaims(cluster, 'node', signal);
    if (!external && policy.metadata !== 'Retain')
      await this.#deleteClaims(cluster, 'etcd', signal);
    await this.#dropFinalizer(cluster, signal);
    log.info({ cluster: cluster.metadata.name }, 'cluster released');
    return null;
  }

  async #deleteClaims(cluster: TsdbCluster, component: string, signal: AbortSignal): Promise<void> {
    const { api } = this.#options;
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

function millisSinceDeletion({ metadata }: KubeObject, env: Env): number {
  return env.clock.nowMillis() - Date.parse(metadata.deletionTimestamp!);
}

const isSame = (a: object, b: object): boolean =>
  JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));

function withoutMessages(status: ClusterStatus): object {
  return {
    ...status,
    conditions: (status.conditions ?? []).map((condition) => ({ ...condition, message: '' })),
  };
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
