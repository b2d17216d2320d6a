/** Which changes in Kubernetes are a reason to look at which cluster. */
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { type KubeObject, type Resource, resource } from '../resource/kube_objects.ts';
import { label } from '../resource/keys.ts';
import { isObjectName } from '../resource/names.ts';
import type { TsdbNamespace } from '../resource/tsdb_namespace.ts';
import { contentHash } from '../resource/content_hash.ts';
import type { KubeClient } from './kube_api.ts';
import { listAndWatch } from './list_watch.ts';

export interface WatchOptions {
  readonly api: Pick<KubeClient, 'list' | 'watch'>;
  readonly env: Env;
  readonly log: Log;
  /** Namespaces to watch; empty for all. */
  readonly namespaces: readonly string[];
  /** `namespace/name` of a cluster, which need not exist. */
  readonly onKey: (key: string) => void;
  /** Called when all objects of a kind are known, and when they are not any more. */
  readonly onListed: (kind: string, isListed: boolean) => void;
}

interface Watched {
  readonly kind: Resource;
  readonly labelSelector: string;
  /** Name of the cluster that an object says it belongs to. */
  readonly clusterOf: (object: KubeObject) => string | undefined;
  /**
   * The status is ours: its change is no reason to look again, or every pass would call for the
   * next one.
   */
  readonly statusIsOurs: boolean;
}

const children: readonly Resource[] = [
  resource.statefulSet,
  resource.deployment,
  resource.service,
  resource.configMap,
  resource.disruptionBudget,
  resource.networkPolicy,
  resource.cronJob,
  resource.job,
  resource.pod,
];

const watchedKinds: readonly Watched[] = [
  {
    kind: resource.cluster,
    labelSelector: '',
    clusterOf: ({ metadata }) => metadata.name,
    statusIsOurs: true,
  },
  {
    kind: resource.namespace,
    labelSelector: '',
    clusterOf: (object) => (object as TsdbNamespace).spec.clusterRef.name,
    statusIsOurs: true,
  },
  ...children.map((kind) => ({
    kind,
    labelSelector: label.cluster,
    clusterOf: ({ metadata }: KubeObject) => metadata.labels?.[label.cluster],
    statusIsOurs: false,
  })),
];

/**
 * Any change of a cluster, of what belongs to one, or of a namespace's resource. Resolves when the
 * signal aborts.
 */
export async function watchChanges(options: WatchOptions, signal: AbortSignal): Promise<void> {
  const scopes = options.namespaces.length === 0 ? [null] : options.namespaces;
  await Promise.all(
    scopes.flatMap((scope) =>
      watchedKinds.map((watched) => watchKind(options, scope, watched, signal)),
    ),
  );
}

function watchKind(
  { api, env, log, onKey, onListed }: WatchOptions,
  namespace: string | null,
  { kind, labelSelector, clusterOf, statusIsOurs }: Watched,
  signal: AbortSignal,
): Promise<void> {
  /** What is not status, by uid; only of objects that exist. */
  const seen = new Map<string, string>();
  return listAndWatch(
    {
      api,
      env,
      log,
      resource: kind,
      namespace,
      labelSelector,
      onListed: (isListed) =>
        onListed(namespace === null ? kind.plural : `${namespace}/${kind.plural}`, isListed),
      onObject(object, isGone) {
        const uid = object.metadata.uid ?? '';
        if (isGone) seen.delete(uid);
        else if (statusIsOurs) {
          const hash = hashWithoutStatus(object);
          if (seen.get(uid) === hash) return;
          seen.set(uid, hash);
        }
        const cluster = clusterOf(object);
        // A key with more in it would be another one of the same cluster: two would work on that at once.
        if (cluster === undefined || !isObjectName(cluster)) return;
        onKey(`${object.metadata.namespace}/${cluster}`);
      },
    },
    signal,
  );
}

function hashWithoutStatus({ metadata }: KubeObject): string {
  const { generation, deletionTimestamp, annotations, labels, finalizers } = metadata;
  return contentHash([generation, deletionTimestamp, annotations, labels, finalizers]);
}
