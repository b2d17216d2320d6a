/** What a scenario is, how it begins, and what is asserted when it has ended. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import {
  applyCluster,
  ask,
  clusterName,
  clusterReady,
  exampleCluster,
  installByManifests,
  namespace,
  operatorHome,
  operatorNamespace,
  startLoad,
  stopLoad,
  uninstallManifests,
} from '../install.ts';
import { condition, type Kube, say, waitFor } from '../kube.ts';
import type { Journal } from '../journal.ts';
import { operatorGoes } from '../operators.ts';

/** What a scenario plays on. */
export interface Stage {
  readonly kube: Kube;
  readonly journal: Journal;
  /** Since when what the operator does is of the scenario, and not of what it begins from. */
  sinceMillis: number;
}

export interface Ending {
  /**
   * Calls that change placement, namespaces or members, as `callsOf` gives them, each as often as it
   * was to be made; in any order. Not asserted when not given.
   */
  readonly calls?: readonly string[];
  /** The cluster is not there, or not Ready: that is what the scenario is about. */
  readonly isUnready?: boolean;
  /** The longest time in which no query was answered. */
  readonly withoutChecksMillisMax?: number;
  /** An API server that has just started forbids what it has not read yet that it may allow. */
  readonly isServerNew?: boolean;
}

export interface Scenario {
  /** With its number in the list of what an operator must stand. */
  readonly name: string;
  readonly what: string;
  readonly millisMax: number;
  readonly run: (stage: Stage) => Promise<Ending>;
}

/** For so long a settled operator writes nothing. */
export const restMillisDefault = 30_000;
const withoutChecksMillisMax = 30_000;
/** What the rights of an operator do not allow; a namespace that ends forbids what it has room for. */
const forbiddenByRules = /forbidden: User/;
/** Removes what a scenario that failed has left. */
const resetMillisMax = 240_000;
export const groups: readonly string[] = ['zone-a', 'zone-b', 'zone-c'];
export const smallName = 'small';
export const ownLabel = (cluster: string): string => `tsdb.io/cluster=${cluster}`;

/** A cluster that is Ready with so many nodes in each group, with writer and checker on it. */
export async function ready(stage: Stage, perGroup = 1): Promise<void> {
  const { kube } = stage;
  if ((await operatorHome(kube)) === null) await installByManifests(kube);
  if ((await kube.get('tsdbcluster', clusterName, namespace)) === null) await applyCluster(kube);
  await scaleTo(kube, perGroup);
  await clusterReady(kube, perGroup, 300_000);
  if ((await kube.get('pod', 'checker', namespace)) === null) await startLoad(kube);
  await rested(stage);
  await ask(kube, 'checker', 'begin');
  stage.sinceMillis = Date.now();
}

/** Until the operator has nothing to do: what a scenario asserts is of what it does itself. */
async function rested({ journal }: Stage): Promise<void> {
  await waitFor('the operator rests', 90_000, async () => {
    const last = journal.writesSince(Date.now() - 5_000).at(-1);
    return last === undefined ? null : `${last.verb} ${last.object}`;
  });
}

/**
 * The last thing that the operator notes is what the images of nodes read: when they have run for 30 s,
 * at its next look, which may be that of each minute.
 */
async function imagesNoted({ kube }: Stage): Promise<void> {
  await waitFor('images are noted', 100_000, async () => {
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    if (cluster === null || condition(cluster, 'Ready')?.status !== 'True') return null;
    const selector = `${ownLabel(clusterName)},tsdb.io/component=node`;
    const pods = await kube.list('pods', namespace, selector);
    const record = await kube.get('configmap', `${clusterName}-record`, namespace);
    const text = Object.values<string>(record?.data ?? {})[0];
    const known = text === undefined ? {} : (JSON.parse(text).formats?.images ?? {});
    const images = pods.map(({ spec }) => String(spec.containers[0].image));
    return images.find((one) => !Object.hasOwn(known, one)) ?? null;
  });
}

export async function scaleTo(kube: Kube, perGroup: number): Promise<void> {
  const args = ['scale', 'tsdbcluster', clusterName, '-n', namespace];
  await kube.ok([...args, `--replicas=${perGroup}`]);
}

export const patchCluster = (
  kube: Kube,
  spec: object,
  name: string = clusterName,
): Promise<string> =>
  kube.ok([
    ...['patch', 'tsdbcluster', name, '-n', namespace, '--type=merge'],
    ...['-p', JSON.stringify({ spec })],
  ]);

/** One node, one member of etcd, one coordinator: comes and goes in seconds. */
export function smallCluster(over: object = {}): { metadata: object; spec: Record<string, any> } {
  const { spec, ...cluster } = exampleCluster();
  return {
    ...cluster,
    metadata: { name: smallName },
    spec: {
      ...spec,
      replicationFactor: 1,
      numberOfShards: 4,
      isolationGroups: [{ name: 'zone-a', nodeAffinity: { 'topology.kubernetes.io/zone': 'a' } }],
      etcd: { replicas: 1, storage: { className: 'fast-disk', size: '1Gi' } },
      coordinator: { replicas: 1 },
      deletionPolicy: { data: 'Delete', metadata: 'Delete' },
      ...over,
    },
  };
}

export const applySmall = (kube: Kube, over: object = {}): Promise<string> =>
  kube.ok(['apply', '-n', namespace, '-f', '-'], stringify(smallCluster(over)));

export const smallReady = (kube: Kube): Promise<void> => clusterReady(kube, 1, 180_000, smallName);

/** The condition of the small cluster has this reason. */
export async function says(
  kube: Kube,
  cluster: string,
  type: string,
  reason: RegExp,
  millisMax = 90_000,
): Promise<string> {
  let message = '';
  await waitFor(`${cluster} says ${type} ${reason}`, millisMax, async () => {
    const one = condition(await kube.get('tsdbcluster', cluster, namespace), type);
    message = `${one?.status} ${one?.reason}: ${one?.message}`;
    return reason.test(message) ? null : message;
  });
  return message;
}

/** The small cluster is gone with all that belonged to it. */
export async function removeSmall(kube: Kube): Promise<void> {
  await removeCluster(kube, smallName);
}

/** A cluster and all that belonged to it, whatever its policy says. */
export async function removeCluster(kube: Kube, name: string): Promise<void> {
  // The first scenario on a Kubernetes, or one that has removed them.
  if ((await kube.get('crd', 'tsdbclusters.tsdb.io', namespace)) === null) return;
  const cluster = ['tsdbcluster', name, '-n', namespace, '--ignore-not-found'];
  await kube.ok(['delete', ...cluster, '--wait=false']);
  await waitFor(`${name} is gone`, resetMillisMax, async () => {
    const left = await childrenOf(kube, name);
    if ((await kube.get('tsdbcluster', name, namespace)) !== null) left.push('the TSDBCluster');
    return left.length === 0 ? null : left.join(' ');
  });
  const rest = ['delete', 'pvc,configmap', '-n', namespace, '-l', ownLabel(name)];
  await kube.ok([...rest, '--timeout=20s']);
}

/** Without volumes and the record, which may outlive the cluster. */
export async function childrenOf(kube: Kube, cluster: string): Promise<string[]> {
  const kinds = 'statefulsets,deployments,pods,services,configmaps,poddisruptionbudgets';
  const selector = `${ownLabel(cluster)},tsdb.io/component!=record`;
  const objects = await kube.list(kinds, namespace, selector);
  return objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
}

export async function claimsOf(kube: Kube, cluster: string): Promise<string[]> {
  const objects = await kube.list('persistentvolumeclaims', namespace, ownLabel(cluster));
  return objects.map(({ metadata }) => String(metadata.name)).sort();
}

/** Until the claim of this pod is another one. */
export async function anotherClaim(kube: Kube, pod: string, uid: string): Promise<string> {
  let now = uid;
  await waitFor(`another volume of ${pod}`, 90_000, async () => {
    now = (await kube.get('pvc', `data-${pod}`, namespace))?.metadata.uid ?? uid;
    return now === uid ? 'the old claim' : null;
  });
  return now;
}

/** Of the claim of this pod. */
export async function claimUid(kube: Kube, pod: string): Promise<string> {
  return (await kube.get('pvc', `data-${pod}`, namespace)).metadata.uid;
}

/** Uids of pods, by name. */
export async function podUids(
  kube: Kube,
  component: 'node' | 'etcd' | 'coordinator' | 'aggregator',
  cluster: string = clusterName,
): Promise<Record<string, string>> {
  const selector = `${ownLabel(cluster)},tsdb.io/component=${component}`;
  const pods = await kube.list('pods', namespace, selector);
  return Object.fromEntries(pods.map(({ metadata }) => [metadata.name, metadata.uid]));
}

export async function placementVersion(kube: Kube): Promise<number> {
  return (await kube.get('tsdbcluster', clusterName, namespace)).status.placementVersion;
}

/** A question to a cluster's coordinator, or a call, as a person would make it. */
export async function coordinator(
  kube: Kube,
  cluster: string,
  path: string,
  body?: object,
): Promise<any> {
  const { clusterIP } = (await kube.get('service', `${cluster}-coordinator`, namespace)).spec;
  const response = await fetch(`http://${clusterIP}:7201/api/v1/services/tsdb/${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(20_000),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text.slice(0, 500)}`);
  return JSON.parse(text);
}

/** A volume and its pod are gone, as with the machine that had them. */
export async function loseVolume(kube: Kube, pod: string): Promise<void> {
  await kube.ok(['delete', 'pvc', `data-${pod}`, '-n', namespace, '--wait=false']);
  await deletePod(kube, pod);
}

export async function deletePod(kube: Kube, pod: string): Promise<void> {
  const args = ['delete', 'pod', pod, '-n', namespace, '--grace-period=0', '--force'];
  await kube.ok([...args, '--wait=false', '--ignore-not-found']);
}

const callKinds = /^(placement-|namespace-(add|update|delete)|etcd-(add|promote|remove))/;

/** The server's answer says that nothing was done. Etcd takes no member while the last one is new. */
const refusal = /^(\S+)(?: (\S+))?: .*(?: 4\d\d \{| 503 etcdserver: unhealthy cluster)/;

/**
 * Calls of the operator that change placement, namespaces or members, since the scenario began, but
 * those that were refused.
 */
export function callsOf({ journal, sinceMillis }: Stage): string[] {
  const calls: string[] = [];
  journal.read();
  for (const { atMillis, message, fields } of journal.records) {
    if (atMillis < sinceMillis) continue;
    const { instances, namespace: name, pod, error } = fields;
    if (callKinds.test(message)) {
      calls.push([message, instances ?? name ?? pod ?? ''].join(' ').trim());
    } else if (message === 'action failed') {
      const [, kind, of = ''] = refusal.exec(String(error)) ?? [];
      const at = calls.findLastIndex((call) => call.startsWith(`${kind} ${of}`.trim()));
      if (at >= 0) calls.splice(at, 1);
    }
  }
  return calls;
}

/** How often the operator has evicted which pod of the cluster since the scenario began. */
export function evictionsOf({ journal, sinceMillis }: Stage): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { verb, object, status } of journal.writesSince(sinceMillis)) {
    const pod = /^pods\/(.*)\/eviction$/.exec(object)?.[1];
    if (pod !== undefined && verb === 'create' && status < 300)
      counts[pod] = (counts[pod] ?? 0) + 1;
  }
  return counts;
}

/** Until the operator begins an action. */
export async function acts(stage: Stage, action: RegExp, millisMax = 120_000): Promise<void> {
  await waitFor(`the operator does ${action}`, millisMax, async () => {
    const texts = callsOf(stage);
    return texts.some((text) => action.test(text)) ? null : texts.join(', ') || 'nothing yet';
  });
}

/**
 * No answer lacked an acknowledged sample while it ran, and none lacks one now, from the first on.
 */
export async function nothingIsMissing(kube: Kube, withoutMillisMax: number): Promise<void> {
  const report = await ask(kube, 'checker', 'report');
  const status = await ask(kube, 'writer', 'status');
  say(`  writer ${JSON.stringify(status)}`);
  say(`  checker ${JSON.stringify(report)}`);
  assert.deepEqual(report.missing, [], 'every answer has every acknowledged sample');
  assert.equal(status.refused, 0, `nothing that was written is wrong: ${status.lastProblem}`);
  assert.ok(
    report.longestWithoutCheckMillis < withoutMillisMax,
    `queries were answered at least every ${withoutMillisMax} ms: ${JSON.stringify(report)}`,
  );
  await waitFor('full check answered', 60_000, async () => {
    const full = await ask(kube, 'checker', 'full');
    say(`  all samples: ${JSON.stringify(full)}`);
    assert.equal(full.samplesMissing, 0, full.missing.join('\n'));
    return full.samples > 0 ? null : 'no samples';
  });
}

/** Then the operator writes nothing for a while; without renewals of its lease. */
async function nothingIsWritten({ journal }: Stage, restMillis: number): Promise<void> {
  const fromMillis = Date.now();
  await delay(restMillis);
  const writes = journal.writesSince(fromMillis).map(({ verb, object }) => `${verb} ${object}`);
  assert.deepEqual(writes, [], 'an operator that has nothing to do writes nothing');
}

export interface Outcome {
  readonly seconds: number;
  /** Of the operator to the API server, without renewals of its lease. */
  readonly writes: number;
}

/** Plays a scenario, and asserts what every one must leave. */
async function play(scenario: Scenario, stage: Stage, restMillis: number): Promise<Outcome> {
  const { kube, journal } = stage;
  const ending = await scenario.run(stage);
  const { sinceMillis } = stage;
  if (ending.calls !== undefined) {
    const made = callsOf(stage).sort();
    assert.deepEqual(made, ending.calls.toSorted(), 'exactly the calls that are needed are made');
  }
  if (ending.isUnready !== true) {
    const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
    await clusterReady(kube, spec.nodes.replicasPerGroup, 60_000);
  }
  if ((await kube.get('pod', 'checker', namespace)) !== null) {
    await nothingIsMissing(kube, ending.withoutChecksMillisMax ?? withoutChecksMillisMax);
    await ask(kube, 'checker', 'begin');
  }
  const forbidden = forbiddenOf(stage);
  if (ending.isServerNew !== true) {
    assert.deepEqual(forbidden, [], 'the rights of the manifests suffice');
  }
  const seconds = (Date.now() - sinceMillis) / 1000;
  await imagesNoted(stage);
  await rested(stage);
  const writes = journal.writesSince(sinceMillis).length;
  await nothingIsWritten(stage, restMillis);
  return { seconds, writes };
}

/**
 * What the operator was not allowed to do. A release that goes takes the operator's rights before its process has ended,
 * which then neither reads its lease, nor renews it, nor gives it back; without the right to it no operator would ever
 * have led.
 */
export function forbiddenOf({ journal, sinceMillis }: Stage): string[] {
  return journal
    .saying(forbiddenByRules, sinceMillis)
    .map(({ message, fields }) => `${message} ${JSON.stringify(fields)}`)
    .filter((text) => !/^lease not (given back|read|renewed)/.test(text));
}

/** @throws when the scenario fails or does not end in its time */
export async function runScenario(
  scenario: Scenario,
  kube: Kube,
  journal: Journal,
  restMillis: number = restMillisDefault,
): Promise<Outcome> {
  const timer = new AbortController();
  const late = delay(scenario.millisMax, null, { signal: timer.signal }).then(() => {
    throw new Error(`not done after ${scenario.millisMax / 1000} s`);
  });
  // Not waited for when the scenario ends first.
  late.catch(() => {});
  try {
    const stage = { kube, journal, sinceMillis: Date.now() };
    return await Promise.race([play(scenario, stage, restMillis), late]);
  } finally {
    timer.abort();
  }
}

/** A run on a Kubernetes that was kept: what is there may be of other images and manifests. */
export async function renew(kube: Kube): Promise<void> {
  if ((await operatorHome(kube)) === null) return;
  await reset(kube);
  await uninstallManifests(kube);
}

/** After a failure: the next scenario finds nothing of the one that failed. */
export async function reset(kube: Kube): Promise<void> {
  for (const machine of ['node1', 'node2', 'node3', 'node4']) {
    await kube.kubectl(['uncordon', machine]);
  }
  await kube.kubectl(['delete', 'tsdbclusters', '--all', '-n', namespace, '--wait=false']);
  if ((await kube.get('deployment', 'tsdb-operator', operatorNamespace)) === null) {
    await kube.helm(['uninstall', 'tsdb', '--namespace', namespace, '--ignore-not-found']);
    await installByManifests(kube);
  }
  await operatorGoes(kube, {});
  for (const name of ['doomed', 'other']) {
    await kube.kubectl(['delete', 'namespace', name, '--ignore-not-found', '--wait=false']);
  }
  await stopLoad(kube);
  for (const name of [smallName, clusterName]) await removeCluster(kube, name);
}
