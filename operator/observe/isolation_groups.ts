/** Isolation groups: those that the resource names, and those that it does not name any more. */
import { annotation, label } from '../resource/keys.ts';
import type { StatefulSet } from '../resource/kube_objects.ts';
import { Names } from '../resource/names.ts';
import type { IsolationGroupSpec } from '../resource/tsdb_cluster.ts';
import { isOurs, type Observed } from './observe.ts';

type Groups = Pick<Observed, 'cluster' | 'statefulSets' | 'pods' | 'coordinator' | 'record'>;

/**
 * The sets of groups that the resource does not name, by group; null where only pods or
 * instances are left of one, as while it is made anew. Only of ours, so that nobody's instances are taken for those of a former
 * group.
 */
export function leavingGroups(observed: Groups): ReadonlyMap<string, StatefulSet | null> {
  const names = new Names(observed.cluster);
  const named = new Set(observed.cluster.spec.isolationGroups.map(({ name }) => name));
  const found = new Map<string, StatefulSet | null>();
  const own = [...observed.statefulSets.values()].filter((set) => isOurs(observed, set));
  for (const { metadata } of [...own, ...observed.pods]) {
    const { [label.group]: group, [label.component]: component } = metadata.labels ?? {};
    if (group === undefined || component !== 'node' || named.has(group)) continue;
    const set = own.find((one) => one.metadata.name === names.group(group)) ?? null;
    if (set !== null || names.ordinalIn(group, metadata.name) !== null) found.set(group, set);
  }
  for (const group of groupsSeen(observed)) {
    if (!named.has(group) && !found.has(group)) found.set(group, null);
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Of instances that this very resource has had in its placement, and that are still in it. */
function groupsSeen({ cluster, coordinator, record }: Groups): string[] {
  if (!coordinator.reachable || record?.clusterUid !== cluster.metadata.uid) return [];
  const names = new Names(cluster);
  const seen = new Set(record?.placement?.instanceIds);
  return Object.values(coordinator.placement?.instances ?? {})
    .filter(
      ({ id, isolationGroup }) => seen.has(id) && names.ordinalIn(isolationGroup, id) !== null,
    )
    .map(({ isolationGroup }) => isolationGroup);
}

/** Names of the groups that the resource names, and of those that leave. */
export const allGroups = (observed: Groups): string[] => [
  ...observed.cluster.spec.isolationGroups.map(({ name }) => name),
  ...leavingGroups(observed).keys(),
];

/** What the resource said of the group when it named it last. */
export function groupSpecOf(name: string, set: StatefulSet | null): IsolationGroupSpec {
  const text = set?.metadata.annotations?.[annotation.groupSpec];
  if (text === undefined) return { name };
  try {
    return { ...(JSON.parse(text) as IsolationGroupSpec), name };
  } catch {
    return { name };
  }
}
