/**
 * Keys of a cluster in an etcd that is not its own: they go with its data. Directly where etcd lets
 * everybody in, since the cluster's coordinators may be gone before; else by them, for what etcd asks
 * for is theirs and not the operator's.
 */
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { clusterPrefix } from '#cluster/kv/keys.ts';
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { Coordinator } from '../coordinator/coordinator_client.ts';
import { etcdEndpoints } from '../desired/etcd.ts';
import { Names, placementZone } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

const millisMax = 15_000;

export interface ClusterKeysOptions {
  readonly coordinator: Pick<Coordinator, 'registry' | 'namespaceDelete' | 'placementDelete'>;
  readonly env: Env;
  readonly log: Log;
}

/** Whether the operator deletes them itself: its coordinators must have ended, or they write some anew. */
export function deletesDirectly({ spec }: TsdbCluster): boolean {
  return spec.etcd?.external !== undefined && spec.etcd.external.tlsSecret === undefined;
}

/** @throws {TsdbError} UNAVAILABLE when etcd, or the coordinator, does not answer */
export async function deleteClusterKeys(
  cluster: TsdbCluster,
  { coordinator, env, log }: ClusterKeysOptions,
  signal: AbortSignal,
): Promise<void> {
  const deadline = env.clock.deadline(millisMax, signal);
  if (!deletesDirectly(cluster)) {
    const { namespaces } = await coordinator.registry(deadline);
    for (const name of namespaces.keys()) await coordinator.namespaceDelete(name, deadline);
    await coordinator.placementDelete(deadline);
    return;
  }
  await using kv = openEtcdKv({ endpoints: etcdEndpoints(cluster), env, log });
  const { environment } = new Names(cluster);
  const prefix = clusterPrefix({ environment, zone: placementZone });
  await kv.transact([], [{ kind: 'deletePrefix', prefix }], deadline);
}
