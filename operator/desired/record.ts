/** The record of a cluster (record/record.ts) as it is to stand in Kubernetes. */
import type { PlacementView } from '../coordinator/coordinator_client.ts';
import { type ClusterRecord, dataKey, type RecordedPlacement } from '../record/record.ts';
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

/** What is written down of a placement. */
export function recordedPlacement(placement: PlacementView): RecordedPlacement {
  const { numberOfShards, replicationFactor, version, instances } = placement;
  const instanceIds = Object.keys(instances).sort();
  return { numberOfShards, replicationFactor, version, instanceIds };
}
