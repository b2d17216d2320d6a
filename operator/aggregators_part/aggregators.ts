/**
 * The placement of aggregators follows their pods: pairs come when both of their pods serve, and leave before their pods do.
 * Nothing has to move with a shard, so none of it waits for nodes, and while coordinators are asked in vain all stays.
 */
import { Names } from '../resource/names.ts';
import { aggregatorPods, pairSize } from '../resource/tsdb_cluster.ts';
import type { Observed } from '../observe/observe.ts';
import { isStale } from '../resource/kube_objects.ts';
import { podReady } from '../resource/pod_state.ts';
import { withTroubles } from '../observe/pod_trouble.ts';
import { doing, nothing, type Part, stalledBy, waitingFor } from '../part/part.ts';

/** Of outputs: as many pairs can have some. */
const aggregatorShards = 64;

export function aggregatorsPart(observed: Observed): Part {
  const { cluster, coordinator } = observed;
  const wanted = aggregatorPods(cluster);
  if (!coordinator.reachable || coordinator.awaitsApproval) return nothing;
  const { aggregators: placement } = coordinator;
  if (typeof placement === 'string') {
    const message = `the placement of aggregators cannot be read: ${placement}`;
    return waitingFor('AggregatorsUnknown', message);
  }
  const names = new Names(cluster);
  const placed = new Set(Object.keys(placement?.instances ?? {}));
  const others = [...placed].filter((id) => names.aggregatorOrdinal(id) === null).sort();
  // Somebody else's alone are nobody's business here.
  if (wanted === 0 && others.length === placed.size) return nothing;
  if (others.length > 0) {
    const message = `the placement of aggregators has instances that this operator has not put there, and nothing is changed in it: ${others.join(', ')}: replace or remove them`;
    return stalledBy('ForeignAggregators', message);
  }
  if (wanted === 0) {
    const message = 'coordinators make rollups again, and aggregators end';
    return doing([{ kind: 'aggregators-delete' }], 'ScalingDown', message);
  }
  const ready = new Set(observed.pods.filter(podReady).map(({ metadata }) => metadata.name));
  const ids = Array.from({ length: wanted }, (_, ordinal) => names.aggregatorPod(ordinal));
  const pairs = Map.groupBy(ids.entries(), ([ordinal]) => Math.floor(ordinal / pairSize));
  const coming = [...pairs.values()].filter((pair) =>
    pair.every(([, id]) => !placed.has(id) && ready.has(id)),
  );
  const instances = coming.flat().map(([ordinal]) => names.aggregatorInstance(ordinal));
  const leaving = [...placed].filter((id) => !ids.includes(id)).sort();
  if (instances.length > 0) {
    const message = `aggregators come: ${instances.map(({ id }) => id).join(', ')}`;
    const action =
      placement === null
        ? ({ kind: 'aggregators-init', numberOfShards: aggregatorShards, instances } as const)
        : ({ kind: 'aggregators-add', instances } as const);
    return doing([action], 'ScalingUp', message);
  }
  if (leaving.length > 0) {
    const message = `aggregators leave: ${leaving.join(', ')}`;
    return doing([{ kind: 'aggregators-remove', instanceIds: leaving }], 'ScalingDown', message);
  }
  return nothing;
}

/** Aggregators that are not ready, or not of the newest revision; null when all are. */
export function aggregatorsReadiness(observed: Observed): Part | null {
  const { cluster, pods, aggregators } = observed;
  const wanted = aggregatorPods(cluster);
  if (wanted === 0) return null;
  const names = new Names(cluster);
  const ready = new Set(pods.filter(podReady).map(({ metadata }) => metadata.name));
  const unready = Array.from({ length: wanted }, (_, at) => names.aggregatorPod(at)).filter(
    (id) => !ready.has(id),
  );
  if (unready.length > 0) {
    const message = `aggregators are not ready: ${withTroubles(unready, observed)}`;
    return waitingFor('AggregatorsNotReady', message);
  }
  if (aggregators === null || isStale(aggregators)) return null;
  const { updatedReplicas = 0 } = aggregators.status ?? {};
  if (updatedReplicas >= wanted) return null;
  const message = `${updatedReplicas} of ${wanted} aggregators are of the newest revision`;
  return waitingFor('AggregatorsNotReady', message);
}
