/**
 * What the pods of a component were last allowed to be made from: the resource as it was, and the images
 * of the operator. A set, or Deployment, that is away while a change of it is held comes back with that, or
 * whoever deletes it would pass the approval, the window or the turn that the change waits for.
 */
import type { Component } from '../resource/names.ts';
import { type ClusterRecord, inputsCharactersMax, type RecordedInputs } from '../record/record.ts';
import { childKey, type Observed } from '../observe/observe.ts';
import { annotation, label } from '../resource/keys.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import type { IsolationGroupSpec, TsdbCluster } from '../resource/tsdb_cluster.ts';
import { type ImageDefaults, templateOf } from './common.ts';

export const componentOf = ({ metadata }: KubeObject): string =>
  metadata.labels?.[label.component] ?? '';

/** What is built from one resource. */
interface Built {
  readonly objects: readonly KubeObject[];
  readonly nodeSets: ReadonlyMap<string, KubeObject>;
  readonly nodeSetOf: (group: IsolationGroupSpec) => KubeObject;
}

export interface Former {
  /** Workloads that are away and were another thing before, by `kind/name`. */
  readonly workloads: ReadonlyMap<string, KubeObject>;
  /** Their configuration. */
  readonly configs: readonly KubeObject[];
}

type Known = Pick<Observed, 'cluster' | 'children' | 'record'>;

/** @param build as the operator builds what is wanted now, with its refusals */
export function formerOf(
  { cluster, children, record }: Known,
  wanted: readonly KubeObject[],
  build: (cluster: TsdbCluster, images: ImageDefaults) => Built,
): Former {
  const workloads = new Map<string, KubeObject>();
  const configs = new Map<string, KubeObject>();
  for (const { components, spec, images } of inputsOf(cluster, record)) {
    const away = wanted.filter(
      (object) =>
        templateOf(object) !== undefined &&
        !children.has(childKey(object)) &&
        Object.hasOwn(components, componentOf(object)),
    );
    if (away.length === 0) continue;
    const built = build({ ...cluster, spec }, images);
    for (const object of away) {
      const before = builtFor(object, built, cluster);
      if (before === undefined || isOfSameTemplate(before, object)) continue;
      const template = templateOf(before);
      const metadata = { ...object.metadata, annotations: before.metadata.annotations! };
      const merged = { ...object, metadata, spec: { ...(object['spec'] as object), template } };
      workloads.set(childKey(object), merged);
      for (const one of built.objects) {
        const isConfig = one.kind === 'ConfigMap' && componentOf(one) === componentOf(object);
        if (isConfig) configs.set(childKey(one), one);
      }
    }
  }
  return { workloads, configs: [...configs.values()] };
}

/** Undefined when what it was made from is refused now. */
function builtFor(object: KubeObject, built: Built, cluster: TsdbCluster): KubeObject | undefined {
  const group = object.metadata.labels?.[label.group];
  if (group === undefined) return built.objects.find((one) => childKey(one) === childKey(object));
  if (built.nodeSets.size === 0) return undefined;
  // A group that is new since then is made like the others.
  const spec = cluster.spec.isolationGroups.find(({ name }) => name === group) ?? { name: group };
  return built.nodeSets.get(group) ?? built.nodeSetOf(spec);
}

const isOfSameTemplate = (a: KubeObject, b: KubeObject): boolean =>
  a.metadata.annotations?.[annotation.template] === b.metadata.annotations?.[annotation.template];

/** Of this very resource: one that was deleted and applied again is asked for as it is. */
const inputsOf = (
  { metadata }: TsdbCluster,
  record: ClusterRecord | null,
): readonly RecordedInputs[] => (record?.clusterUid === metadata.uid ? (record?.inputs ?? []) : []);

/**
 * What is to be written down after this pass; nothing when that would not fit beside the rest of the
 * record.
 * @param made components that are made from what is asked for now, with the hash of that
 */
export function recordedInputs(
  { cluster, record }: Known,
  made: ReadonlyMap<Component, string>,
  images: ImageDefaults,
): { readonly inputs?: readonly RecordedInputs[] } {
  // Nothing of a pod is made of these.
  const {
    namespaces: _namespaces,
    deletionPolicy: _deletionPolicy,
    updatePolicy: _updatePolicy,
    maintenanceWindows: _maintenanceWindows,
    paused: _paused,
    ...spec
  } = cluster.spec;
  const written = new Set<string>();
  const before = inputsOf(cluster, record).flatMap((one) => {
    const kept = Object.entries(one.components).filter(
      ([component, hash]) => (made.get(component as Component) ?? hash) === hash,
    );
    for (const [component] of kept) written.add(component);
    return kept.length === 0 ? [] : [{ ...one, components: Object.fromEntries(kept) }];
  });
  const others = [...made].filter(([component]) => !written.has(component));
  const now = { components: Object.fromEntries(others), spec, images };
  const inputs = [...before, ...(others.length === 0 ? [] : [now])];
  const isKept = inputs.length > 0 && JSON.stringify(inputs).length <= inputsCharactersMax;
  return isKept ? { inputs } : {};
}
