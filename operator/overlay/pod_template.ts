/** Lays the podTemplates of a resource over the operator's own template of a component. */
import { overlay } from '../resource/merge.ts';
import type { Component } from '../resource/names.ts';
import type { PodTemplate, TsdbCluster } from '../resource/tsdb_cluster.ts';

/** By their fields of spec, in the order in which they are laid over each other. */
export function podTemplatesOf(
  { spec }: TsdbCluster,
  component: Component,
): ReadonlyMap<string, PodTemplate> {
  const given: Readonly<Record<Component, Readonly<Record<string, PodTemplate | undefined>>>> = {
    node: { podTemplate: spec.podTemplate, 'nodes.podTemplate': spec.nodes.podTemplate },
    etcd: { 'etcd.podTemplate': spec.etcd?.podTemplate },
    coordinator: { 'coordinator.podTemplate': spec.coordinator?.podTemplate },
    aggregator: { 'aggregator.podTemplate': spec.aggregator?.podTemplate },
  };
  return new Map(
    Object.entries(given[component]).flatMap(([field, template]) =>
      template === undefined ? [] : [[field, template] as const],
    ),
  );
}

/** What containers that are not ours have unless they say otherwise: the restricted standard. */
const leastSecurity = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
} as const;

/** @param template with the component's container, which is named after it */
export function overlaidTemplate(
  cluster: TsdbCluster,
  component: Component,
  template: { readonly metadata: object; readonly spec: object },
): unknown {
  const templates = [...podTemplatesOf(cluster, component).values()];
  if (templates.length === 0) return template;
  const merged = templates.reduce(overlay, template) as typeof template;
  const { spec } = merged as { readonly spec: Readonly<Record<string, unknown>> };
  const secured = ['containers', 'initContainers'].flatMap((field) => {
    const containers = spec[field];
    return Array.isArray(containers)
      ? [[field, containers.map((one) => securedContainer(one, component))] as const]
      : [];
  });
  return { ...merged, spec: { ...spec, ...Object.fromEntries(secured) } };
}

function securedContainer(
  container: { readonly name: string; readonly securityContext?: object },
  own: string,
): object {
  if (container.name === own) return container;
  const securityContext = overlay(leastSecurity, container.securityContext ?? {});
  return { ...container, securityContext };
}
