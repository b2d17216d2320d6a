/** Reads everything about one cluster, live, into one plain object. */
import { messageOf } from '#lib/errors.ts';
import {
  type Deployment,
  type KubeObject,
  label,
  type Pod,
  resource,
  type StatefulSet,
  type TsdbCluster,
  type TsdbNamespace,
} from './api.ts';
import type { CoordinatorClient, NamespaceView, PlacementView } from './coordinator_client.ts';
import type { KubeApi } from './kube_api.ts';

/** What the coordinator said, or why it could not be asked. */
export type CoordinatorView =
  | { readonly reachable: false; readonly problem: string }
  | {
      readonly reachable: true;
      /** null: there is none yet. */
      readonly placement: PlacementView | null;
      readonly namespaces: ReadonlyMap<string, NamespaceView>;
    };

export interface Observed {
  readonly cluster: TsdbCluster;
  /** TSDBNamespaces that name this cluster. */
  readonly claims: readonly TsdbNamespace[];
  /** Services, ConfigMaps and disruption budgets, by `kind/name`. */
  readonly children: ReadonlyMap<string, KubeObject>;
  readonly statefulSets: ReadonlyMap<string, StatefulSet>;
  readonly deployments: ReadonlyMap<string, Deployment>;
  readonly pods: readonly Pod[];
  readonly volumeClaims: readonly KubeObject[];
  readonly coordinator: CoordinatorView;
}

export const childKey = (object: KubeObject): string => `${object.kind}/${object.metadata.name}`;

export async function observe(
  cluster: TsdbCluster,
  claims: readonly TsdbNamespace[],
  api: KubeApi,
  coordinator: CoordinatorClient,
  signal: AbortSignal,
): Promise<Observed> {
  const namespace = cluster.metadata.namespace!;
  const selector = `${label.cluster}=${cluster.metadata.name}`;
  const listed = async (kind: keyof typeof resource) =>
    (await api.list(resource[kind], namespace, selector, signal)).items;
  const [services, configMaps, budgets, statefulSets, deployments, pods, volumeClaims, view] =
    await Promise.all([
      listed('service'),
      listed('configMap'),
      listed('disruptionBudget'),
      listed('statefulSet'),
      listed('deployment'),
      listed('pod'),
      listed('volumeClaim'),
      coordinatorView(coordinator, signal),
    ]);
  const byName = <T extends KubeObject>(objects: readonly KubeObject[]) =>
    new Map(objects.map((object) => [object.metadata.name, object as T]));
  return {
    cluster,
    claims,
    children: new Map(
      [...services, ...configMaps, ...budgets].map((object) => [childKey(object), object]),
    ),
    statefulSets: byName<StatefulSet>(statefulSets),
    deployments: byName<Deployment>(deployments),
    pods: pods as readonly KubeObject[] as readonly Pod[],
    volumeClaims,
    coordinator: view,
  };
}

async function coordinatorView(
  coordinator: CoordinatorClient,
  signal: AbortSignal,
): Promise<CoordinatorView> {
  try {
    const [placement, namespaces] = await Promise.all([
      coordinator.placement(signal),
      coordinator.namespaces(signal),
    ]);
    return { reachable: true, placement, namespaces };
  } catch (error) {
    if (signal.aborted) throw error;
    return { reachable: false, problem: messageOf(error) };
  }
}
