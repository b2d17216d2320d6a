/** What is applied: refused, paused, applied twice. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import {
  applyCluster,
  clusterName,
  clusterReady,
  exampleCluster,
  installByManifests,
  namespace,
} from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import {
  applySmall,
  type Ending,
  evictionsOf,
  groups,
  patchCluster,
  podUids,
  ready,
  removeSmall,
  says,
  type Scenario,
  scaleTo,
  smallName,
  type Stage,
} from './scenario.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const definition = 'tsdbclusters.tsdb.io';
/** What is applied there, dry, changes no cluster that is there already. */
const emptyNamespace = 'kube-public';

async function refusals(kube: Kube): Promise<void> {
  for (const file of globSync(join(root, 'manifests/examples/*.yaml'))) {
    await kube.ok(['apply', '--dry-run=server', '-n', emptyNamespace, '-f', file]);
  }
  const refused = async (what: string, change: (spec: any) => void, expected: RegExp) => {
    const cluster = exampleCluster();
    change(cluster.spec);
    const args = ['apply', '--dry-run=server', '-n', emptyNamespace, '-f', '-'];
    const { code, output } = await kube.kubectl(args, stringify(cluster));
    assert.notEqual(code, 0, `${what} is refused`);
    assert.match(output, expected, what);
  };
  await refused(
    'a group less than copies',
    (spec) => spec.isolationGroups.pop(),
    /at least as many/,
  );
  await refused('two etcd members', (spec) => (spec.etcd.replicas = 2), /Unsupported value: 2/);
  for (const name of ['etcd', 'coordinator', 'nodes']) {
    const rename = (spec: any) => (spec.isolationGroups[0].name = name);
    await refused(`a group named ${name}`, rename, /names of other parts/);
  }
  const twice = (spec: any) => (spec.isolationGroups[1].name = 'zone-a');
  await refused('a group twice', twice, /Duplicate value/);
  const badDuration = (spec: any) => (spec.namespaces[0].retentionTime = '2 days');
  await refused('a bad duration', badDuration, /retentionTime/);
  await refused(
    'no node',
    (spec) => (spec.nodes.replicasPerGroup = 0),
    /greater than or equal to 1/,
  );
}

/** Without what the schema asks of values: as if it had been written before there were rules. */
function withoutRules(schema: any): any {
  if (Array.isArray(schema)) return schema.map(withoutRules);
  if (typeof schema !== 'object' || schema === null) return schema;
  const dropped = new Set(['x-kubernetes-validations', 'pattern', 'maxLength', 'minimum', 'enum']);
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([name]) => !dropped.has(name))
      .map(([name, value]) => [name, withoutRules(value)]),
  );
}

async function invalid(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await refusals(kube);
  const { spec } = await kube.get('crd', definition, namespace);
  const loose = structuredClone(spec);
  for (const version of loose.versions) version.schema = withoutRules(version.schema);
  const define = (wanted: object) =>
    waitFor('the definition is written', 20_000, async () => {
      const live = await kube.get('crd', definition, namespace);
      const text = JSON.stringify({ ...live, spec: wanted });
      const { code, output } = await kube.kubectl(['replace', '-f', '-'], text);
      return code === 0 ? null : output;
    });
  await define(loose);
  try {
    await waitFor('the old rules count', 30_000, async () => {
      const { code, output } = await kube.kubectl(
        ['apply', '-n', namespace, '-f', '-'],
        stringify({
          apiVersion: 'tsdb.io/v1alpha1',
          kind: 'TSDBCluster',
          metadata: { name: smallName },
          spec: {
            ...exampleCluster().spec,
            replicationFactor: 1,
            numberOfShards: 4,
            namespaces: [{ name: 'default', retentionTime: '2 days' }],
          },
        }),
      );
      return code === 0 ? null : output;
    });
  } finally {
    await define(spec);
  }
  await says(kube, smallName, 'Stalled', /^True InvalidSpec/);
  await clusterReady(kube, 1, 60_000);
  await removeSmall(kube);
  return {};
}

async function pausedAndChanged(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  const pods = await podUids(kube, 'node');
  await patchCluster(kube, { paused: true });
  await says(kube, clusterName, 'Paused', /^True/);
  const args = { nodes: { replicasPerGroup: 2, resources: { requests: { memory: '65Mi' } } } };
  await patchCluster(kube, args);
  await kube.ok(['delete', 'pdb', `${clusterName}-nodes`, '-n', namespace]);
  await says(kube, clusterName, 'Ready', /^False/);
  await delay(15_000);
  assert.deepEqual(journal.actions(stage.sinceMillis), [], 'nothing is done');
  assert.deepEqual(await podUids(kube, 'node'), pods);
  await patchCluster(kube, { paused: false });
  await clusterReady(kube, 2, 400_000);
  assert.notEqual(await kube.get('pdb', `${clusterName}-nodes`, namespace), null);
  for (const [pod, count] of Object.entries(evictionsOf(stage))) {
    assert.equal(count, 1, `${pod} is evicted once`);
  }
  return { calls: groups.map((group) => `placement-add ${clusterName}-${group}-1`) };
}

/** What kstatus makes of an object. */
function kstatusOf(object: any): string {
  const { metadata, status } = object;
  if (metadata.deletionTimestamp !== undefined) return 'Terminating';
  if (status?.observedGeneration !== metadata.generation) return 'InProgress';
  if (condition(object, 'Stalled')?.status === 'True') return 'Failed';
  if (condition(object, 'Reconciling')?.status === 'True') return 'InProgress';
  return condition(object, 'Ready')?.status === 'True' ? 'Current' : 'InProgress';
}

async function appliedTwice(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  await applyCluster(kube);
  await clusterReady(kube, 1, 300_000);
  const before = await kube.get('tsdbcluster', clusterName, namespace);
  stage.sinceMillis = Date.now();
  await applyCluster(kube);
  await installByManifests(kube);
  const after = await kube.get('tsdbcluster', clusterName, namespace);
  assert.equal(after.metadata.generation, before.metadata.generation);
  assert.deepEqual(journal.actions(stage.sinceMillis), [], 'the same again is nothing to do');
  assert.equal(kstatusOf(after), 'Current');
  const stages = new Set<string>();
  await scaleTo(kube, 2);
  const watching = new AbortController();
  const watch = (async () => {
    while (!watching.signal.aborted) {
      stages.add(kstatusOf(await kube.get('tsdbcluster', clusterName, namespace)));
      await delay(200);
    }
  })();
  await clusterReady(kube, 2, 300_000);
  watching.abort();
  await watch;
  assert.deepEqual([...stages].sort(), ['Current', 'InProgress'], 'never Failed on the way');
  await applySmall(kube, { isolationGroups: [{ name: 'zone-a', nodeAffinity: { no: 'where' } }] });
  await says(kube, smallName, 'Ready', /^False/);
  const pending = await kube.get('tsdbcluster', smallName, namespace);
  assert.equal(kstatusOf(pending), 'InProgress', 'a pod without a machine may still get one');
  await removeSmall(kube);
  return {};
}

export const specs: readonly Scenario[] = [
  {
    name: '31-invalid-specs',
    what: 'bad resources are refused by name; one that was stored before there were rules is Stalled',
    millisMax: 400_000,
    run: invalid,
  },
  {
    name: '40-paused-and-changed',
    what: 'paused, changed, a child deleted: nothing is done; then everything, once',
    millisMax: 700_000,
    run: pausedAndChanged,
  },
  {
    name: '41-applied-twice',
    what: 'the same again changes nothing, and kstatus says the right thing on the way',
    millisMax: 700_000,
    run: appliedTwice,
  },
];
