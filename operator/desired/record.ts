/** The record of a cluster (record/record.ts) as it is to stand in Kubernetes. */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import { type ClusterRecord, dataKey } from '../record/record.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import { Names } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { childMetadata } from './common.ts';

export function recordObject(cluster: TsdbCluster, record: ClusterRecord): KubeObject {
  const metadata = childMetadata(cluster, new Names(cluster).record, 'record');
  const { ownerReferences: _, ...unowned } = metadata;
  const data = { [dataKey]: `${JSON.stringify(record, null, 1)}\n` };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: unowned, data };
}

/** The record after this placement was seen. */
export function recordAfter(
  cluster: TsdbCluster,
  placement: PlacementView,
  namespaces: ClusterRecord['namespaces'],
): ClusterRecord {
  return {
    clusterUid: cluster.metadata.uid!,
    numberOfShards: placement.numberOfShards,
    replicationFactor: placement.replicationFactor,
    placementVersion: placement.version,
    instanceIds: Object.keys(placement.instances).sort(),
    namespaces,
  };
}
