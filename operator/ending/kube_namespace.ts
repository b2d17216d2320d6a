/**
 * A Kubernetes namespace that is deleted takes everything in it along, in no order: a cluster must not
 * wait there for an operator that goes too.
 */
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { messageOf } from '#lib/errors.ts';
import { type KubeClient, KubeError } from '../kube/kube_api.ts';
import { finalizer } from '../resource/keys.ts';
import { resource } from '../resource/kube_objects.ts';

/** Within the 30 s that a pod has to end. */
const lastDutyMillisMax = 20_000;
const lookMillis = 500;
/** A server that does not answer keeps no process from ending. */
const lookMillisMax = 3_000;

/** Whether the namespace is on its way out; false for who may not look. */
export async function isNamespaceEnding(
  api: Pick<KubeClient, 'get'>,
  namespace: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const live = await api.get(resource.kubeNamespace, null, namespace, signal);
    return live?.metadata.deletionTimestamp !== undefined;
  } catch (error) {
    if (error instanceof KubeError && error.status === 403) return false;
    throw error;
  }
}

/**
 * An operator that is told to stop since its own namespace is deleted goes on until the clusters in it
 * have been let go.
 * @param stop from the system
 * @returns aborts when this process is to stop
 */
export function afterLastDuty(
  stop: AbortSignal,
  options: {
    readonly api: Pick<KubeClient, 'get' | 'list'>;
    readonly env: Env;
    readonly log: Log;
    readonly namespace: string;
  },
): AbortSignal {
  const { env, log } = options;
  const done = new AbortController();
  const end = async (): Promise<void> => {
    const deadline = env.clock.deadline(lastDutyMillisMax, done.signal);
    try {
      while (await hasDuty(options, env.clock.deadline(lookMillisMax, deadline)))
        await env.clock.sleep(lookMillis, deadline);
    } catch (error) {
      // Its rights may be gone already.
      log.warn({ error: messageOf(error) }, 'stopping without having looked after all clusters');
    }
    done.abort(stop.reason);
  };
  if (stop.aborted) void end();
  else stop.addEventListener('abort', () => void end(), { once: true });
  return done.signal;
}

async function hasDuty(
  {
    api,
    namespace,
  }: { readonly api: Pick<KubeClient, 'get' | 'list'>; readonly namespace: string },
  signal: AbortSignal,
): Promise<boolean> {
  if (!(await isNamespaceEnding(api, namespace, signal))) return false;
  const { items } = await api.list(resource.cluster, namespace, '', signal);
  return items.some(({ metadata }) => metadata.finalizers?.includes(finalizer) === true);
}
