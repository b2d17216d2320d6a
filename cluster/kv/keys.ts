/**
 * Where everything shared lies in the key-value store:
 *
 *     _kv/<environment>/<zone>/placement/<service>
 *     _kv/<environment>/<zone>/placement/<service>/assignments
 *     _kv/<environment>/<zone>/placement/<service>/lineage
 *     _kv/<environment>/<zone>/placement_history/<service>/<version, ten digits>
 *     _kv/<environment>/<zone>/tsdb.node.namespaces
 *     _kv/<environment>/<zone>/tsdb.node.namespaces/numbers
 *     _kv/<environment>/<zone>/tsdb.node.deletions/head
 *     _kv/<environment>/<zone>/tsdb.node.deletions/entry/<sequence, 16 digits>
 *     _kv/<environment>/<zone>/tsdb.node.deletions_applied/<instance>
 *     _kv/<environment>/<zone>/tsdb.node.formats/finished
 *     _kv/<environment>/<zone>/tsdb.node.known/<instance>
 *     _kv/<environment>/<zone>/tsdb.aggregation_rules/<set>
 *     _kv/<environment>/<zone>/tsdb.graphite.events/<id, 16 digits>
 *     _kv/<environment>/<zone>/tsdb.statsd/receivers
 *     _kv/<environment>/<zone>/tsdb.statsd/registered/<address>
 *     _kv/<environment>/<zone>/tsdb.rollups/leader
 *     _kv/<environment>/<zone>/tsdb.rollups/leader/<shard set>
 *     _kv/<environment>/<zone>/tsdb.rollups/final/<resolution>:<retention>
 *     _kv/<environment>/<zone>/tsdb.rollups/final/<resolution>:<retention>/<shard set>
 */
import { badRequest } from '#lib/errors.ts';
import { segmentProblem } from '../names.ts';

export const environmentDefault = 'default_env';
export const zoneDefault = 'embedded';

/** The storage service's name in paths and keys. */
export const storageService = 'tsdb';
/** That of aggregators, as M3 has it. */
export const aggregatorService = 'm3aggregator';

/** Which cluster of a key-value store; from headers or the configuration. */
export interface ClusterName {
  readonly environment: string;
  readonly zone: string;
}

/**
 * Prefix of all keys of a cluster, with a slash at its end.
 * @throws {TsdbError} BAD_REQUEST when the zone is not one path segment, or the environment not several of them: M3's operator has
 * "namespace/cluster" there
 */
export function clusterPrefix(cluster: ClusterName): string {
  const { environment, zone } = cluster;
  const problem =
    environment
      .split('/')
      .map((segment) => segmentProblem(`environment ${JSON.stringify(environment)}`, segment))
      .find((each) => each !== null) ?? segmentProblem('zone', zone);
  if (problem !== null) throw badRequest(problem);
  // As one segment: keys of no environment begin with those of another one.
  return `_kv/${environment.replaceAll('/', '%2F')}/${zone}/`;
}

export function placementKey(cluster: ClusterName, service: string): string {
  return `${clusterPrefix(cluster)}placement/${service}`;
}

/** Changed with the placement, and read and watched with it: its key begins with the placement's. */
export function assignmentsKey(cluster: ClusterName, service: string): string {
  return `${placementKey(cluster, service)}/assignments`;
}

/** Read and watched with the placement: its key begins with the placement's. */
export function lineageKey(cluster: ClusterName, service: string): string {
  return `${placementKey(cluster, service)}/lineage`;
}

export function placementHistoryPrefix(cluster: ClusterName, service: string): string {
  return `${clusterPrefix(cluster)}placement_history/${service}/`;
}

export function placementHistoryKey(
  cluster: ClusterName,
  service: string,
  version: number,
): string {
  return placementHistoryPrefix(cluster, service) + String(version).padStart(10, '0');
}

export function namespacesKey(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.node.namespaces`;
}

/** Changed with the namespaces, and read and watched with them: its key begins with theirs. */
export function namespaceNumbersKey(cluster: ClusterName): string {
  return `${namespacesKey(cluster)}/numbers`;
}

/** All deletions with their head. */
export function deletionsPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.node.deletions/`;
}

/** What each instance has applied of them. */
export function deletionsAppliedPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.node.deletions_applied/`;
}

/** The level of formats (lib/format_level.ts) that every process of the cluster reads. */
export function finishedFormatsKey(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.node.formats/finished`;
}

/** What each instance knows of a lineage before the one that awaits approval. */
export function knownPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.node.known/`;
}

/** Of pairs of Prometheus: which replica of each cluster is taken. */
export function haPairsPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.ha_pairs/`;
}

export function rollupsPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.rollups/`;
}

/** Coordinators that keep series of statsd: those that are there, and who keeps series from when on. */
export function statsdPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.statsd/`;
}

/** Events of Graphite. */
export function eventsPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.graphite.events/`;
}

/** All sets of rules of aggregation. */
export function ruleSetsPrefix(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.aggregation_rules/`;
}

/** Written by every change of a set of rules, for what one says about the others holds only while they stay. */
export function ruleSetChangesKey(cluster: ClusterName): string {
  return `${clusterPrefix(cluster)}tsdb.aggregation_rules_changes`;
}
