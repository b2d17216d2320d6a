/**
 * Volume claims that are not ours under names that ours would have. Kubernetes mounts a claim by its
 * name alone, whoever made it: a pod of ours would get the data of others, and our deletions them.
 */
import type { KubeClient } from '../kube/kube_api.ts';
import { label } from '../resource/keys.ts';
import { type KubeObject, resource } from '../resource/kube_objects.ts';
import { Names } from '../resource/names.ts';
import { etcdReplicasOf, type TsdbCluster } from '../resource/tsdb_cluster.ts';

/** Names that the resource will have claims under. */
function wantedNames(cluster: TsdbCluster): string[] {
  const names = new Names(cluster);
  const { spec } = cluster;
  const pods = spec.isolationGroups.flatMap(({ name }) =>
    Array.from({ length: spec.nodes.replicasPerGroup }, (_, at) => names.pod(name, at)),
  );
  if (spec.etcd?.external !== undefined) return pods.map((pod) => `data-${pod}`);
  const members = Array.from({ length: etcdReplicasOf(cluster) }, (_, at) => names.etcdPod(at));
  const claims = [...pods, ...members].map((pod) => `data-${pod}`);
  return spec.etcd?.snapshots === undefined ? claims : [...claims, names.etcdSnapshots];
}

/** @param own claims with our label; while one is missing all of the namespace are looked at */
export async function foreignClaims(
  cluster: TsdbCluster,
  own: readonly KubeObject[],
  api: Pick<KubeClient, 'list'>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const known = new Set(own.map(({ metadata }) => metadata.name));
  const missing = new Set(wantedNames(cluster).filter((name) => !known.has(name)));
  if (missing.size === 0) return [];
  const { name, namespace } = cluster.metadata;
  const { items } = await api.list(resource.volumeClaim, namespace!, '', signal);
  return items
    .filter(
      ({ metadata }) => missing.has(metadata.name) && metadata.labels?.[label.cluster] !== name,
    )
    .map(({ metadata }) => metadata.name)
    .sort();
}
