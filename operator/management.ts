/**
 * Which operator looks after a cluster: the first that saw it, as long as it is alive. Two releases
 * that watch one namespace would take each other's images for drift, for ever.
 */
import type { Env } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { type KubeClient, KubeError } from './kube/kube_api.ts';
import type { LeaseObject } from './kube/lease.ts';
import { annotation } from './resource/keys.ts';
import { resource } from './resource/kube_objects.ts';
import type { TsdbCluster } from './resource/tsdb_cluster.ts';

/** An operator whose lease was not renewed for so long is gone. */
const goneMillisMin = 300_000;

export interface ManagementOptions {
  readonly api: Pick<KubeClient, 'get' | 'mergePatch'>;
  readonly env: Env;
  /** `namespace/name` of this operator's lease. */
  readonly operatorId: string;
  /** When leases of others were seen to change last, by their operators. */
  readonly seenLeases: SeenLeases;
}

export type SeenLeases = Map<string, { readonly text: string; readonly sinceMillis: number }>;

export interface Management {
  /** The operator that looks after the cluster instead of this one; null when this one does. */
  readonly another: string | null;
  /** As it is now. */
  readonly cluster: TsdbCluster;
}

export async function managementOf(
  cluster: TsdbCluster,
  { api, env, operatorId, seenLeases }: ManagementOptions,
  signal: AbortSignal,
): Promise<Management> {
  const other = cluster.metadata.annotations?.[annotation.managedBy];
  if (other === operatorId) return { another: null, cluster };
  if (other !== undefined && (await isAlive(other, api, env, seenLeases, signal))) {
    return { another: other, cluster };
  }
  const { name, namespace, resourceVersion } = cluster.metadata;
  const annotations = { [annotation.managedBy]: operatorId };
  // With the version it is a compare-and-set: of two operators one is the first.
  const patch = { metadata: { annotations, resourceVersion } };
  const marked = await api.mergePatch(resource.cluster, namespace!, name, '', patch, signal);
  return { another: null, cluster: marked as TsdbCluster };
}

async function isAlive(
  operatorId: string,
  api: Pick<KubeClient, 'get'>,
  env: Env,
  seenLeases: SeenLeases,
  signal: AbortSignal,
): Promise<boolean> {
  const [namespace, name] = operatorId.split('/');
  if (namespace === undefined || name === undefined) return false;
  try {
    const lease = (await api.get(resource.lease, namespace, name, signal)) as LeaseObject | null;
    const text = lease?.spec?.renewTime ?? '';
    const renewed = Date.parse(text);
    if (Number.isNaN(renewed) || env.clock.nowMillis() - renewed >= goneMillisMin) return false;
    // Another clock may be days ahead: of what is renewed the text changes.
    const nowMillis = env.clock.monotonicMillis();
    const seen = seenLeases.get(operatorId);
    if (seen?.text === text) return nowMillis - seen.sinceMillis < goneMillisMin;
    seenLeases.set(operatorId, { text, sinceMillis: nowMillis });
    return true;
  } catch (error) {
    // What no object can be called nobody is.
    if (error instanceof TsdbError && error.code === 'BAD_REQUEST') return false;
    // Who may not look cannot know: a person takes the annotation away.
    if (error instanceof KubeError && error.status === 403) return true;
    throw error;
  }
}
