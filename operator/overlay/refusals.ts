/**
 * What a resource lays over pods and is not given. The pods of that component stay as they are, and
 * everything else goes on.
 */
import type { Component } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { configProblems } from './config.ts';
import { type PodRight, podTemplateProblems } from './pod_rules.ts';
import { podTemplatesOf } from './pod_template.ts';

export interface Refusal {
  readonly component: Component;
  readonly reason: 'PodTemplateRefused' | 'ConfigRefused';
  /** Names the fields. */
  readonly message: string;
}

const components: readonly Component[] = ['etcd', 'node', 'coordinator', 'aggregator'];
/** So many are named; when they are mended the others are. */
const problemsMax = 5;

/** @param podsMay what a podTemplate may do beside what all may */
export function refusalsOf(
  cluster: TsdbCluster,
  podsMay: ReadonlySet<PodRight>,
): readonly Refusal[] {
  return components.flatMap((component) => {
    const ofTemplates = [...podTemplatesOf(cluster, component)].flatMap(([field, template]) =>
      podTemplateProblems(template, component, podsMay).map((problem) => `${field}.${problem}`),
    );
    return [
      ...refusal(component, 'PodTemplateRefused', ofTemplates),
      ...refusal(component, 'ConfigRefused', configProblems(cluster, component)),
    ];
  });
}

function refusal(
  component: Component,
  reason: Refusal['reason'],
  problems: readonly string[],
): Refusal[] {
  return problems.length === 0 ? [] : [{ component, reason, message: shortened(problems) }];
}

function shortened(problems: readonly string[]): string {
  const more = problems.length - problemsMax;
  const list = problems.slice(0, problemsMax).join('; ');
  return more > 0 ? `${list}; and ${more} more` : list;
}
