/** Carries out planned actions: one switch, each case one call. */
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { type KubeObject, resource, type TsdbCluster } from './api.ts';
import type { CoordinatorClient } from './coordinator_client.ts';
import { type KubeApi, KubeError, resourceOf } from './kube_api.ts';
import { isoMicros } from './lease.ts';
import type { Action } from './plan.ts';

export interface Executor {
  readonly api: KubeApi;
  readonly coordinator: CoordinatorClient;
  readonly env: Env;
  readonly log: Log;
}

export async function execute(
  action: Action,
  cluster: TsdbCluster,
  executor: Executor,
  signal: AbortSignal,
): Promise<void> {
  const { api, coordinator } = executor;
  executor.log.info({ cluster: cluster.metadata.name, ...summaryOf(action) }, action.kind);
  // Stops before the call when leadership was lost meanwhile.
  signal.throwIfAborted();
  switch (action.kind) {
    case 'apply':
      await api.apply(action.object, signal);
      break;
    case 'delete':
      await remove(action.object, action.orphan, api, signal);
      break;
    case 'delete-pod':
      await remove(action.pod, false, api, signal);
      break;
    case 'expand-claim': {
      const { namespace, name } = action.claim.metadata;
      const patch = { spec: { resources: { requests: { storage: action.size } } } };
      await api.mergePatch(resource.volumeClaim, namespace!, name, '', patch, signal);
      break;
    }
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
      await coordinator.placementRemove(action.instanceIds, signal);
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

async function remove(
  object: KubeObject,
  orphan: boolean,
  api: KubeApi,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace, uid } = object.metadata;
  await api.delete(resourceOf(object), namespace!, name, { uid: uid ?? null, orphan }, signal);
}

/** What the log says of an action: names, not whole objects. */
export function summaryOf(action: Action): Record<string, string> {
  switch (action.kind) {
    case 'apply':
    case 'delete':
      return { object: `${action.object.kind}/${action.object.metadata.name}` };
    case 'delete-pod':
      return { pod: action.pod.metadata.name, reason: action.reason };
    case 'expand-claim':
      return { claim: action.claim.metadata.name, size: action.size };
    case 'placement-init':
    case 'placement-add':
      return { instances: action.instances.map(({ id }) => id).join(' ') };
    case 'placement-remove':
      return { instances: action.instanceIds.join(' ') };
    case 'namespace-add':
    case 'namespace-update':
    case 'namespace-ready':
    case 'namespace-delete':
      return { namespace: action.name };
    default:
      return action satisfies never;
  }
}

/** Records an event of the cluster; a lost one is no reason to fail. */
export async function recordEvent(
  cluster: TsdbCluster,
  event: { readonly reason: string; readonly message: string; readonly type: string },
  executor: Executor,
  signal: AbortSignal,
): Promise<void> {
  const { api, env, log } = executor;
  const { name, namespace, uid } = cluster.metadata;
  const now = `${isoMicros(env).slice(0, 19)}Z`;
  const suffix = Buffer.from(env.random.bytes(6)).toString('hex');
  try {
    await api.create(
      resource.event,
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { name: `${name}.${suffix}`, namespace: namespace! },
        involvedObject: {
          apiVersion: cluster.apiVersion,
          kind: cluster.kind,
          name,
          namespace,
          uid,
        },
        reason: event.reason,
        message: event.message.slice(0, 1024),
        type: event.type,
        source: { component: 'tsdb-operator' },
        firstTimestamp: now,
        lastTimestamp: now,
        count: 1,
      },
      signal,
    );
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    log.debug({ reason: event.reason, error: error.message }, 'event not recorded');
  }
}
