/**
 * Settings of nodes and coordinators in a resource, in the words of their configuration files: a
 * file of their own, which the process reads before the operator's. It is checked here by the very
 * code that reads it there, so that a slip is said by the resource and not by a pod that ends.
 */
import { ConfigError, type ConfigRole, parseConfig } from '#lib/config/config.ts';
import { isRecord } from '../resource/merge.ts';
import type { Component } from '../resource/names.ts';
import type { ComponentConfig, TsdbCluster } from '../resource/tsdb_cluster.ts';

type Section = 'db' | 'coordinator';

interface GivenConfig {
  /** Of spec. */
  readonly field: string;
  readonly section: Section;
  readonly role: ConfigRole;
  readonly config: ComponentConfig;
}

/** What the resource says of this component; null when it says nothing. */
function givenConfig({ spec }: TsdbCluster, component: Component): GivenConfig | null {
  const { config } = (component === 'node' ? spec.nodes : spec.coordinator) ?? {};
  if (component === 'etcd' || config === undefined) return null;
  return component === 'node'
    ? { field: 'nodes.config', section: 'db', role: 'node', config }
    : { field: 'coordinator.config', section: 'coordinator', role: 'coordinator', config };
}

/** The text of its configuration file; null when the resource has no settings. */
export function configText(cluster: TsdbCluster, component: Component): string | null {
  const given = givenConfig(cluster, component);
  // JSON is YAML.
  return given === null ? null : `${JSON.stringify({ [given.section]: given.config }, null, 2)}\n`;
}

/** Where a process listens, who it is, where its data are and how it finds the others. */
const ownedBySection: Readonly<Record<Section, readonly string[]>> = {
  db: [
    'hostID',
    'listenAddress',
    'clusterListenAddress',
    'httpNodeListenAddress',
    'httpClusterListenAddress',
    'debugListenAddress',
    'discovery',
    'config',
    'client.config',
    'filesystem.filePathPrefix',
    'metrics.prometheus.listenAddress',
    'metrics.prometheus.handlerPath',
    'kv',
  ],
  coordinator: [
    'listenAddress',
    'metrics.prometheus.listenAddress',
    'metrics.prometheus.handlerPath',
    'discovery',
    'clusters.*.client.config',
    'clusterManagement',
  ],
};

/** @returns what is wrong, each with the path of the field; empty when all may be as it is */
export function configProblems(cluster: TsdbCluster, component: Component): string[] {
  const given = givenConfig(cluster, component);
  if (given === null) return [];
  const { field, section, role, config } = given;
  const text = configText(cluster, component)!;
  // Another process has other variables than this one.
  if (text.includes('${')) return [`${field}: variables of the environment are not read here`];
  const owned = ownedBySection[section].filter((path) => isGiven(config, path.split('.')));
  if (owned.length > 0) return owned.map((path) => `${field}.${path} is set by the operator`);
  try {
    parseConfig([{ path: field, text }], role, {});
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map((problem) => asField(problem, field, section));
  }
}

/** How long a query may take; the process's own default where the resource's settings cannot be read. */
export function queryMillisMax(cluster: TsdbCluster): number {
  const isGood = configProblems(cluster, 'coordinator').length === 0;
  const text = isGood ? configText(cluster, 'coordinator') : null;
  const files = text === null ? [] : [{ path: 'coordinator.config', text }];
  return parseConfig(files, 'coordinator', {}).coordinator!.queryTimeoutMillis;
}

/** Lines are those of a text that nobody has written. */
function asField(problem: string, field: string, section: Section): string {
  const start = `${field}:`;
  const plain = problem.startsWith(start) ? problem.slice(start.length) : problem;
  const unnumbered = plain.replace(/^\d+: /, '');
  return unnumbered.startsWith(section)
    ? `${field}${unnumbered.slice(section.length)}`
    : `${field} ${unnumbered}`;
}

/** @param path '*' stands for each item of a list */
function isGiven(value: unknown, path: readonly string[]): boolean {
  const [first, ...rest] = path;
  if (first === undefined) return true;
  if (first === '*') return Array.isArray(value) && value.some((item) => isGiven(item, rest));
  return isRecord(value) && Object.hasOwn(value, first) && isGiven(value[first], rest);
}
