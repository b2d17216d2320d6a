/**
 * Settings of nodes, coordinators and aggregators in a resource, in the words of their configuration files: a
 * file of their own, which the process reads before the operator's. It is checked here by the very
 * code that reads it there, so that a slip is said by the resource and not by a pod that ends.
 */
import {
  type Config,
  ConfigError,
  type ConfigRole,
  type CoordinatorConfig,
  parseConfig,
} from '#lib/config/config.ts';
import { isRecord } from '../resource/merge.ts';
import type { Component } from '../resource/names.ts';
import type { ComponentConfig, TsdbCluster } from '../resource/tsdb_cluster.ts';

type Section = 'db' | 'coordinator' | 'aggregator';

interface GivenConfig {
  /** Of spec. */
  readonly field: string;
  readonly section: Section;
  readonly role: ConfigRole;
  readonly config: ComponentConfig;
}

/**
 * Of its text, and of objects, lists and single values in it. What is larger is not read: that would
 * take seconds and a gigabyte, in which this process does nothing for others and loses its lease.
 */
const textBytesMax = 32 * 1024;
const valuesMax = 1_000;
/** Texts whose problems are known, by field; the one that was asked for longest ago is forgotten. */
const checkedMax = 256;

/** What the resource says of this component; null when it says nothing. */
function givenConfig({ spec }: TsdbCluster, component: Component): GivenConfig | null {
  switch (component) {
    case 'node':
      return given('nodes.config', 'db', 'node', spec.nodes.config);
    case 'coordinator':
    case 'aggregator':
      return given(`${component}.config`, component, component, spec[component]?.config);
    default:
      return null;
  }
}

function given(
  field: string,
  section: Section,
  role: ConfigRole,
  config: ComponentConfig | undefined,
): GivenConfig | null {
  return config === undefined ? null : { field, section, role, config };
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
    'carbon.ingester.listenAddress',
    'carbon.ingester.pickleListenAddress',
    'opentsdb.ingester.listenAddress',
    'statsd.ingester.listenAddress',
    'statsd.ingester.sharing',
    'otlp.grpcListenAddress',
    'metrics.prometheus.listenAddress',
    'metrics.prometheus.handlerPath',
    'discovery',
    'clusters.*.client.config',
    'clusterManagement',
  ],
  aggregator: [
    'hostID',
    'listenAddress',
    'httpListenAddress',
    'metrics.prometheus.listenAddress',
    'metrics.prometheus.handlerPath',
    'discovery',
    'client.config',
    // That of the coordinators.
    'tagOptions',
  ],
};

/** @returns what is wrong, each with the path of the field; empty when all may be as it is */
export function configProblems(cluster: TsdbCluster, component: Component): readonly string[] {
  const given = givenConfig(cluster, component);
  if (given === null) return [];
  const { field, section, config } = given;
  if (hasMoreValues(config, valuesMax)) {
    return [`${field} is too large: at most ${valuesMax} values are taken`];
  }
  const text = configText(cluster, component)!;
  const bytes = Buffer.byteLength(text);
  if (bytes > textBytesMax) {
    return [`${field} is too large: its text has ${bytes} bytes of at most ${textBytesMax}`];
  }
  // Another process has other variables than this one.
  const variable = pathOf(config, (value) => typeof value === 'string' && value.includes('${'));
  if (variable !== null || text.includes('${')) {
    return [
      `${[field, ...(variable ?? [])].join('.')}: variables of the environment are not read here`,
    ];
  }
  if (isGiven(config, [section])) {
    return [
      `${field}.${section}: ${field} has what stands below ${section} in a configuration file`,
    ];
  }
  const owned = ownedBySection[section].filter((path) => isGiven(config, path.split('.')));
  if (owned.length > 0) return owned.map((path) => `${field}.${path} is set by the operator`);
  return checked(given, text).problems;
}

const sharingFile = {
  path: 'operator',
  text: 'coordinator: {statsd: {ingester: {sharing: {advertiseAddress: "0.0.0.0:8127"}}}}',
};

interface Checked {
  readonly problems: readonly string[];
  /** As it is read; null when it cannot be. */
  readonly read: Config | null;
}

const known = new Map<string, Checked>();

/** The same text has the same problems at every pass. */
function checked(given: GivenConfig, text: string): Checked {
  const key = `${given.field} ${text}`;
  const result = known.get(key) ?? check(given, text);
  // The last one was asked for last.
  known.delete(key);
  known.set(key, result);
  if (known.size > checkedMax) known.delete(known.keys().next().value!);
  return result;
}

function check({ field, section, role, config }: GivenConfig, text: string): Checked {
  try {
    const files = [{ path: field, text }];
    // The operator says so of each (listeners.ts), and not all settings go with it.
    if (role === 'coordinator' && isGiven(config, ['statsd', 'ingester'])) files.push(sharingFile);
    return { problems: [], read: parseConfig(files, role, {}) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const problems = error.problems.map((problem) => asField(problem, field, section));
    return { problems, read: null };
  }
}

/** Ends as soon as there are more. */
function hasMoreValues(value: unknown, max: number): boolean {
  const open = [value];
  let count = 0;
  while (open.length > 0 && count + open.length <= max) {
    const next = open.pop();
    count++;
    if (typeof next !== 'object' || next === null) continue;
    for (const member of Object.values(next)) {
      open.push(member);
      if (count + open.length > max) break;
    }
  }
  return open.length > 0;
}

/** How long a query may take; the process's own default where the resource's settings cannot be read. */
export function queryMillisMax(cluster: TsdbCluster): number {
  return coordinatorConfig(cluster).queryTimeoutMillis;
}

/** How coordinators make IDs, and which names they take, as a setting of aggregators. */
export function tagOptionsOf(cluster: TsdbCluster): string {
  const { idScheme, nameValidation } = coordinatorConfig(cluster);
  // The default is not named, so that nobody is rolled for it.
  const names = nameValidation === 'legacy' ? '' : `, nameValidation: ${nameValidation}`;
  return `{idScheme: ${idScheme}${names}}`;
}

/** As the resource's settings say it, or the process's own defaults where they cannot be read. */
export function coordinatorConfig(cluster: TsdbCluster): CoordinatorConfig {
  const given = givenConfig(cluster, 'coordinator');
  const isGood = configProblems(cluster, 'coordinator').length === 0;
  const read =
    given !== null && isGood ? checked(given, configText(cluster, 'coordinator')!).read : null;
  return (read ?? parseConfig([], 'coordinator', {})).coordinator!;
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

/** To the first value of which it holds; null when there is none. */
function pathOf(value: unknown, holds: (value: unknown) => boolean): readonly string[] | null {
  if (holds(value)) return [];
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, member] of Object.entries(value)) {
    const path = pathOf(member, holds);
    if (path !== null) return [key, ...path];
  }
  return null;
}

/** @param path '*' stands for each item of a list */
function isGiven(value: unknown, path: readonly string[]): boolean {
  const [first, ...rest] = path;
  if (first === undefined) return true;
  if (first === '*') return Array.isArray(value) && value.some((item) => isGiven(item, rest));
  return isRecord(value) && Object.hasOwn(value, first) && isGiven(value[first], rest);
}
