/**
 * A supervised list and watch: tells which objects changed, for as long as the signal lives,
 * whatever fails meanwhile. It keeps no copy: a change is only the reason to look at the live
 * state.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { KubeObject, Resource } from '../resource/kube_objects.ts';
import type { KubeClient } from './kube_api.ts';

const backoffMillisMin = 500;
const backoffMillisMax = 30_000;
/** A watch that ends sooner than this is not followed by the next one at once. */
const watchMillisMin = 1_000;

export interface ListWatchOptions {
  readonly api: Pick<KubeClient, 'list' | 'watch'>;
  readonly env: Env;
  readonly log: Log;
  readonly resource: Resource;
  /** null for all namespaces. */
  readonly namespace: string | null;
  readonly labelSelector: string;
  /**
   * Called for each object of a list, and for each that was added, changed or deleted (`isGone`).
   */
  readonly onObject: (object: KubeObject, isGone: boolean) => void;
  /** Called when all objects are known, and when they are not any more. */
  readonly onListed?: (isListed: boolean) => void;
}

/** Resolves when the signal aborts. */
export async function listAndWatch(options: ListWatchOptions, signal: AbortSignal): Promise<void> {
  const { env, log, resource } = options;
  /**
   * Names seen, so that a deletion that happened between two watches is noticed by the next list.
   */
  let known = new Map<string, KubeObject>();
  let hasListed = false;
  let backoffMillis = backoffMillisMin;
  const keyOf = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`;

  options.onListed?.(false);
  while (!signal.aborted) {
    try {
      const list = await options.api.list(
        resource,
        options.namespace,
        options.labelSelector,
        signal,
      );
      const listed = new Map(list.items.map((item) => [keyOf(item), item]));
      for (const [key, object] of known) if (!listed.has(key)) options.onObject(object, true);
      known = listed;
      for (const object of listed.values()) options.onObject(object, false);
      options.onListed?.(true);
      hasListed = true;
      await watchUntilBroken(
        options,
        list.resourceVersion,
        known,
        keyOf,
        () => {
          backoffMillis = backoffMillisMin;
        },
        signal,
      );
    } catch (error) {
      if (signal.aborted) return;
      options.onListed?.(false);
      const fields = { resource: resource.plural, error: messageOf(error) };
      // As long as its kind, or the right to see it, is only being made.
      if (hasListed) log.warn(fields, 'watch broken, listing again');
      else log.info(fields, 'cannot list yet');
    }
    const jitter = 0.5 + env.random.fraction();
    await env.clock.sleep(backoffMillis * jitter, signal).catch(() => {});
    backoffMillis = Math.min(backoffMillis * 2, backoffMillisMax);
  }
}

/** Follows watch after watch from the version on; returns when a new list is needed. */
async function watchUntilBroken(
  options: ListWatchOptions,
  fromVersion: string,
  known: Map<string, KubeObject>,
  keyOf: (object: KubeObject) => string,
  onProgress: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = options.env;
  let resourceVersion = fromVersion;
  while (!signal.aborted) {
    const { resource, namespace, labelSelector } = options;
    const startedAtMillis = clock.monotonicMillis();
    for await (const event of options.api.watch(
      resource,
      namespace,
      labelSelector,
      resourceVersion,
      signal,
    )) {
      if (event.type === 'ERROR') {
        // 410: the version is no longer kept. Anything else is answered by a new list too.
        options.log.debug({ resource: resource.plural, message: event.message }, 'watch ended');
        return;
      }
      onProgress();
      resourceVersion = event.object.metadata.resourceVersion ?? resourceVersion;
      if (event.type === 'BOOKMARK') continue;
      const isGone = event.type === 'DELETED';
      if (isGone) known.delete(keyOf(event.object));
      else known.set(keyOf(event.object), event.object);
      options.onObject(event.object, isGone);
    }
    const lastedMillis = clock.monotonicMillis() - startedAtMillis;
    if (lastedMillis < watchMillisMin) {
      await clock.sleep(watchMillisMin - lastedMillis, signal).catch(() => {});
    }
  }
}
