/**
 * One pass over one cluster: observe, build what is desired, plan, publish the status, execute.
 * Whatever happened between two passes, the next one starts from what is there.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { type ClusterStatus, pathOf, podsHash, type TsdbCluster } from './resource/tsdb_cluster.ts';
import { ClusterEnd } from './ending/cluster_end.ts';
import { toldAs } from './action_events.ts';
import { managementOf, type SeenLeases } from './management.ts';
import { clearing } from './resource/merge.ts';
import { RolloutTurns } from './rollout_turns.ts';
import { annotation } from './resource/keys.ts';
import { type KubeObject, resource } from './resource/kube_objects.ts';
import type { TsdbNamespace } from './resource/tsdb_namespace.ts';
import { AppliedMemory } from './kube/applied_memory.ts';
import { type Coordinator, CoordinatorClient } from './coordinator/coordinator_client.ts';
import { LargeAnswers } from './coordinator/large_answers.ts';
import type { ImageDefaults } from './desired/common.ts';
import { Names } from './resource/names.ts';
import { blueprintOf, desiredOf } from './desired/desired.ts';
import { ActionFailures, isRefusal } from './action/failures.ts';
import { type Failpoints, noFailpoints } from './action/failpoints.ts';
import { type EtcdAdmin, EtcdClient } from './etcd/etcd_admin.ts';
import { deleteClusterKeys } from './ending/cluster_keys.ts';
import { type ClusterFigures, figuresOf, unseenFigures } from './cluster_metrics.ts';
import { EventRecorder, isoSeconds } from './kube/events.ts';
import { execute, type Executor } from './action/execute.ts';
import { type KubeClient, KubeError } from './kube/kube_api.ts';
import { observe, type Observed } from './observe/observe.ts';
import { AwaySince, Machines } from './observe/volume_reach.ts';
import { awaitsRestoredPlacement } from './plan/placement.ts';
import { approvedSnapshot, restoreProgress } from './observe/etcd_restore.ts';
import { unreadAnnotations } from './observe/unread_annotations.ts';
import { restoreJobName } from './desired/etcd_snapshots.ts';
import { noTlsSecrets, readTlsSecrets, type TlsSecrets } from './observe/tls_secrets.ts';
import type { PodRight } from './overlay/pod_rules.ts';
import { isFinished } from './plan/formats.ts';
import { plan } from './plan/plan.ts';
import { isProving } from './plan/rollout.ts';
import { type Action, keyOf } from './action/action.ts';
import type { Plan } from './part/part.ts';
import {
  clusterStatus,
  conditionsOf,
  lostText,
  namespaceStatus,
  type Pass,
  transitionsOf,
} from './status.ts';

/**
 * How soon to look again while something is under way that Kubernetes does not tell: shards,
 * namespaces.
 */
const pollMillis = 2_000;
/** And when all is as wanted. */
const resyncMillis = 60_000;
/** How often it is looked, at least, while an action that has failed waits for its next attempt. */
const lookMillisMax = 10_000;
/** And when its rollout waits for those of other clusters, which no watch of its objects tells. */
const heldMillis = 10_000;
/**
 * A status that differs only in the text of its messages is not written sooner after the last one.
 */
const messageMillisMin = 10_000;
const rolloutsMaxDefault = 1;
/** Of coordinators at a time. */
const largeAnswersMax = 2;
/** Annotations that are good for one loss. */
const approvals: readonly string[] = [annotation.approvePlacement, annotation.restoreEtcd];

export interface ControllerOptions {
  readonly api: KubeClient;
  readonly env: Env;
  readonly log: Log;
  readonly images: ImageDefaults;
  /** `namespace/name` of this operator's lease. */
  readonly operatorId: string;
  /** What a podTemplate may do beside what all may; nothing when not given. */
  readonly podsMay?: ReadonlySet<PodRight>;
  /** Clusters that are rolled out at a time because the operator has changed. */
  readonly rolloutsMax?: number;
  /** Throws when this process may not act any more. */
  readonly mayWrite: () => void;
  /** The coordinator behind a base URL; tests give a fake one. */
  readonly connect?: (baseUrl: string) => Coordinator;
  /** Members of its own etcd; tests give a fake one. */
  readonly etcd?: EtcdAdmin;
  /** Takes a cluster's keys from an external etcd; tests give a fake one. */
  readonly deleteKeys?: typeof deleteClusterKeys;
  /** None when not given. */
  readonly failpoints?: Failpoints;
  /** Called after each look at a cluster; null when it is gone. */
  readonly onPass?: (key: string, figures: ClusterFigures | null) => void;
  /** Called for each action that failed. */
  readonly onFailure?: (action: Action) => void;
}

export class Controller {
  readonly #options: ControllerOptions;
  readonly #events: EventRecorder;
  readonly #applied = new AppliedMemory();
  readonly #seenLeases: SeenLeases = new Map();
  readonly #turns: RolloutTurns;
  readonly #end: ClusterEnd;
  /** What failed of a cluster's actions, by its key; only of clusters that exist. */
  readonly #failures = new Map<string, ActionFailures>();
  /** Which of its volumes are out of reach, by its key; only of clusters that exist. */
  readonly #awaySince = new Map<string, AwaySince>();
  readonly #machines: Machines;
  readonly #largeAnswers = new LargeAnswers(largeAnswersMax);
  /** When a cluster's status was written last, by its key; only of clusters that exist. */
  readonly #publishedAtMillis = new Map<string, number>();

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#events = new EventRecorder(options);
    this.#machines = new Machines(options.api, options.env.clock);
    this.#turns = new RolloutTurns(options.env, options.rolloutsMax ?? rolloutsMaxDefault);
    const { api, env, log, mayWrite, deleteKeys = deleteClusterKeys } = options;
    this.#end = new ClusterEnd({
      ...{ api, env, log, mayWrite, deleteKeys },
      events: this.#events,
      failpoints: this.#failpoints,
      connect: (cluster) => this.#executorOf(cluster).coordinator,
    });
  }

  /**
   * @param key `namespace/name` of a cluster, which need not exist
   * @returns milliseconds after which to look again, null when only a change is a reason
   */
  async reconcile(key: string, signal: AbortSignal): Promise<number | null> {
    const { api } = this.#options;
    const [namespace, name] = key.split('/') as [string, string];
    const found = (await api.get(resource.cluster, namespace, name, signal)) as TsdbCluster | null;
    // Its end needs nothing of others, whose definition may be gone already.
    if (found?.metadata.deletionTimestamp !== undefined) return this.#end.finalize(found, signal);
    if (found === null) {
      const claims = await this.#claimsOf(namespace, name, signal);
      this.#failures.delete(key);
      this.#awaySince.delete(key);
      this.#publishedAtMillis.delete(key);
      this.#turns.leave(key);
      this.#options.onPass?.(key, null);
      for (const claim of claims) {
        await this.#end.dropFinalizer(claim, signal);
        await this.#unlessRefused(claim, () => this.#publishNamespace(claim, null, signal));
      }
      return null;
    }
    const { another, cluster } = await managementOf(
      found,
      { ...this.#options, seenLeases: this.#seenLeases },
      signal,
    );
    if (another !== null) {
      this.#turns.leave(key);
      const message = `operator ${another} looks after it: take the annotation ${annotation.managedBy} away when that is gone`;
      const event = { reason: 'ManagedByAnother', message, type: 'Warning' } as const;
      await this.#events.record(cluster, event, signal);
      return resyncMillis;
    }
    try {
      const claims = await this.#claimsOf(namespace, name, signal);
      return await this.#reconcileLive(key, cluster, claims, signal);
    } catch (error) {
      if (isDefect(error)) {
        this.#options.log.error(
          { cluster: pathOf(cluster), err: error },
          'a defect of the operator',
        );
        const message = `the operator fails at this resource, which is a defect of its own: ${error.message}; its log says where`;
        await this.#publishStalled(cluster, 'OperatorDefect', message, signal);
      } else if (isRefusal(error) || isNotFound(error)) {
        const message = `the operator cannot look at what belongs to this cluster, and does nothing for it: ${messageOf(error)}`;
        await this.#publishStalled(cluster, 'NotObserved', message, signal);
      }
      throw error;
    }
  }

  /** Nothing is done for this cluster until then, and its status must not look as if all were well. */
  async #publishStalled(
    cluster: TsdbCluster,
    reason: string,
    message: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { api, env } = this.#options;
    const { name, namespace, generation = 0 } = cluster.metadata;
    const verdicts = new Map([
      ['Stalled', { status: 'True', reason, message }],
      ['Ready', { status: 'False', reason, message }],
    ] as const);
    const before = cluster.status?.conditions ?? [];
    const others = before.filter(({ type }) => type !== 'Stalled' && type !== 'Ready');
    const changed = conditionsOf(verdicts, before, generation, isoSeconds(env));
    const conditions = [...others, ...changed];
    const patch = { status: { phase: 'Stalled', conditions } };
    let figures: ClusterFigures | null = unseenFigures(conditions);
    try {
      if (isSame(conditions, before)) return;
      await api.mergePatch(resource.cluster, namespace!, name, 'status', patch, signal);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // It has gone itself meanwhile.
      figures = null;
    } finally {
      this.#options.onPass?.(`${namespace}/${name}`, figures);
    }
  }

  async #reconcileLive(
    key: string,
    cluster: TsdbCluster,
    claims: readonly TsdbNamespace[],
    signal: AbortSignal,
  ): Promise<number> {
    const { api, images } = this.#options;
    const tlsSecrets = await readTlsSecrets(cluster, api, signal);
    const executor = this.#executorOf(cluster, tlsSecrets);
    const failures = this.#failuresOf(key);
    const mayRoll = !isRolledOut(cluster) || this.#turns.has(key);
    const rolledNow = this.#turns.holders();
    const appliedAs = (live: KubeObject): string | null => this.#applied.hashOf(live);
    const nowMillis = this.#options.env.clock.nowMillis();
    const awaySince = this.#awaySince.get(key) ?? new AwaySince();
    this.#awaySince.set(key, awaySince);
    const memory = { appliedAs, failures, awaySince, mayRoll, rolledNow, nowMillis };
    const [operatorNamespace] = this.#options.operatorId.split('/') as [string];
    const { podsMay } = this.#options;
    const blueprint = blueprintOf(cluster, images, operatorNamespace, podsMay);
    const wanted = [...blueprint.objects, ...blueprint.nodeSets.values()];
    const etcd = cluster.spec.etcd?.external === undefined ? executor.etcd : null;
    const sources = {
      ...{ api, coordinator: executor.coordinator, etcd, tlsSecrets, wanted, memory },
      machines: this.#machines,
    };
    const observed = await observe(cluster, claims, sources, signal);
    const pass = { observed, desired: desiredOf(blueprint, observed) };
    const next = plan(observed, pass.desired);
    await this.#end.keepFinalizer(observed, next, signal);
    failures.keepOnly([...next.actions, ...(next.refused ?? [])]);
    if (next.rollout === 'held') {
      this.#turns.ask(key, { hasBegun: hasNewPods(observed), isWell: isReady(cluster) });
    } else if (next.rollout === 'none' ? !isProving(observed) : next.rollout !== 'begun') {
      this.#turns.leave(key);
    }
    await this.#unlessRefused(cluster, () => this.#publish(key, pass, next, signal));
    await this.#useUpApprovals(observed, next, signal);
    const lost = lostText(observed);
    if (lost !== null) {
      const event = { reason: 'RowsLost', message: lost, type: 'Warning' } as const;
      await this.#events.record(cluster, event, signal);
    }
    for (const message of unreadAnnotations(observed)) {
      const event = { reason: 'AnnotationUnread', message, type: 'Warning' } as const;
      await this.#events.record(cluster, event, signal);
    }
    for (const claim of claims) {
      // Of an operator before this one.
      await this.#end.dropFinalizer(claim, signal);
      await this.#unlessRefused(claim, () => this.#publishNamespace(claim, pass, signal));
    }
    const isBusy = next.actions.length > 0 || (next.waiting !== null && !isResting(next));
    const restMillis = next.rollout === 'held' ? heldMillis : resyncMillis;
    // With the turn that it has just got there is something to do.
    const goesOn = next.rollout === 'held' && this.#turns.has(key);
    let afterMillis = isBusy || goesOn ? pollMillis : restMillis;
    for (const action of next.actions) {
      const dueInMillis = failures.dueInMillis(action);
      if (dueInMillis === 0) await this.#carryOut(action, pass, executor, failures, signal);
      // What is waited for may have come meanwhile.
      else if (next.actions.length === 1) {
        afterMillis = Math.max(afterMillis, Math.min(dueInMillis, lookMillisMax));
      }
    }
    return afterMillis;
  }

  /** A status that its schema refuses keeps nothing from being done. */
  async #unlessRefused(object: KubeObject, publish: () => Promise<void>): Promise<void> {
    try {
      await publish();
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const fields = { object: `${object.kind}/${object.metadata.name}`, error: messageOf(error) };
      this.#options.log.warn(fields, 'status refused');
    }
  }

  /**
   * What a person has approved once is not approved for the next time: an annotation that stays would
   * begin anew over data that are lost later.
   */
  async #useUpApprovals(
    observed: Observed,
    { rollout, actions, waiting }: Plan,
    signal: AbortSignal,
  ): Promise<void> {
    const { cluster, coordinator, etcd } = observed;
    const placement = coordinator.reachable ? coordinator.placement : null;
    if (placement === null || etcd?.reachable === false) return;
    if (awaitsRestoredPlacement(observed, placement)) return;
    // What was taken although it is older is written down first.
    if (placement.version < (observed.record?.placement?.version ?? 0)) return;
    const { name, namespace, annotations = {} } = cluster.metadata;
    // It may be asked for together with the image that has something to finish.
    const isAnyEnding = observed.pods.some(
      ({ metadata }) => metadata.deletionTimestamp !== undefined,
    );
    const done = [
      ...(rollout === 'none' && isFinished(observed) ? [annotation.finishUpgrade] : []),
      // Between two sets, of which the second is to be made, nothing is pending either; nor while the
      // last pod that was replaced ends.
      ...(rollout === 'none' && actions.length === 0 && waiting === null && !isAnyEnding
        ? [annotation.approve]
        : []),
    ];
    const used = [...approvals, ...done].filter((key) => annotations[key] !== undefined);
    if (used.length === 0) return;
    const patch = { metadata: { annotations: Object.fromEntries(used.map((key) => [key, null])) } };
    await this.#options.api.mergePatch(resource.cluster, namespace!, name, '', patch, signal);
    const snapshot = approvedSnapshot(cluster);
    if (snapshot === null) return;
    if (restoreProgress(observed, restoreJobName(cluster, snapshot)).state === 'done') return;
    const message = `snapshot ${snapshot} was not restored: etcd has data; annotation ${annotation.restoreEtcd} is taken away`;
    const event = { reason: 'EtcdNotRestored', message, type: 'Warning' } as const;
    await this.#events.record(cluster, event, signal);
  }

  /** One action that fails keeps no other from being done. */
  async #carryOut(
    action: Action,
    { observed }: Pass,
    executor: Executor,
    failures: ActionFailures,
    signal: AbortSignal,
  ): Promise<void> {
    const { log, onFailure } = this.#options;
    const { cluster } = observed;
    try {
      await execute(action, cluster, executor, signal);
      failures.noteSuccess(action);
    } catch (error) {
      if (signal.aborted) throw error;
      failures.noteFailure(action, error);
      const isEarly = failures.of(action)?.isEarly === true;
      if (!isEarly) onFailure?.(action);
      const message = `${keyOf(action)}: ${messageOf(error)}`;
      // Which request it was, where the server's words stand alone.
      const cause = (error as { readonly cause?: unknown }).cause;
      const because = cause === undefined ? {} : { cause: messageOf(cause) };
      log.warn({ cluster: pathOf(cluster), error: message, ...because }, 'action failed');
      // A namespace cannot be readied before its nodes have bootstrapped it, nor a pod be evicted
      // while its budget forbids it, and who writes at the same time comes first: that is no news.
      if (isEarly || action.kind === 'namespace-ready' || isNotNow(error)) return;
      const event = { reason: 'ActionFailed', message, type: 'Warning' } as const;
      await this.#events.record(cluster, event, signal);
      return;
    }
    const told = toldAs(action, observed);
    if (told !== null) await this.#events.record(cluster, told, signal);
  }

  #failuresOf(key: string): ActionFailures {
    const known = this.#failures.get(key);
    if (known !== undefined) return known;
    const failures = new ActionFailures(this.#options.env);
    this.#failures.set(key, failures);
    return failures;
  }

  get #failpoints(): Failpoints {
    return this.#options.failpoints ?? noFailpoints;
  }

  #executorOf(cluster: TsdbCluster, tlsSecrets: TlsSecrets = noTlsSecrets): Executor {
    const { api, env, log, mayWrite } = this.#options;
    const { numberOfShards, replicationFactor } = cluster.spec;
    const limits = { numberOfShards, replicationFactor, largeAnswers: this.#largeAnswers };
    const { connect = (url: string) => new CoordinatorClient(url, env, limits) } = this.#options;
    const names = new Names(cluster);
    const coordinator = connect(names.coordinatorUrl);
    const { certificates } = tlsSecrets;
    const etcd =
      this.#options.etcd ?? new EtcdClient(env, (pod) => names.etcdClientUrl(pod), certificates);
    const failpoints = this.#failpoints;
    return { api, coordinator, etcd, env, log, applied: this.#applied, failpoints, mayWrite };
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
    this.#options.onPass?.(key, figuresOf(pass.observed, status));
    if (isSame(status, cluster.status ?? {})) return;
    // Errors name now this endpoint and now that one: that is not worth a write each time.
    const nowMillis = env.clock.monotonicMillis();
    const lastMillis = this.#publishedAtMillis.get(key) ?? Number.NEGATIVE_INFINITY;
    const soon = nowMillis - lastMillis < messageMillisMin;
    if (soon && isSame(withoutMessages(status), withoutMessages(cluster.status ?? {}))) return;
    this.#publishedAtMillis.set(key, nowMillis);
    const { name, namespace } = cluster.metadata;
    const patch = { status: clearing(cluster.status, status) };
    await this.#options.api.mergePatch(resource.cluster, namespace!, name, 'status', patch, signal);
    for (const event of transitionsOf(cluster, status)) {
      await this.#events.record(cluster, { ...event, isNews: true }, signal);
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
}

/** Nothing but a change of the resource is a reason to look again. */
const isResting = ({ waiting }: Plan): boolean =>
  waiting?.reason === 'Paused' ||
  waiting?.reason === 'ApprovalRequired' ||
  waiting?.reason === 'OutsideMaintenanceWindow' ||
  waiting?.reason === 'RolloutHeld';

/** All pods are as the resource asks for: what changes now is the operator. */
function isRolledOut(cluster: TsdbCluster): boolean {
  const { metadata, status } = cluster;
  // Who scales, or asks for a namespace, has not asked for other pods.
  if (status?.rolledPods !== undefined && status.rolledPods === podsHash(cluster)) return true;
  // An operator that did not write it down has published Ready at least.
  const rolled =
    status?.rolledGeneration ?? (isReady(cluster) ? status?.observedGeneration : undefined);
  return rolled !== undefined && rolled === metadata.generation;
}

const isReady = ({ status }: TsdbCluster): boolean =>
  status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;

/** In the middle of a rollout that another process of this operator began. */
const hasNewPods = ({ cluster }: Observed): boolean =>
  cluster.status?.conditions?.some(
    ({ type, reason }) => type === 'Reconciling' && reason === 'Updating',
  ) ?? false;

/** Objects of a kind that the server does not know, as when its definition was deleted. */
const isNotFound = (error: unknown): boolean => error instanceof KubeError && error.status === 404;

/** Not what servers answer (also when that is no JSON), nor what a person asked for. */
const isDefect = (error: unknown): error is Error =>
  error instanceof TypeError || error instanceof RangeError;

const isNotNow = (error: unknown): boolean =>
  error instanceof KubeError && (error.status === 429 || error.reason === 'Conflict');

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
