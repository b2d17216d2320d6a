/** TSDBNamespaces, and coordinators that do not serve while they are made ready. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { namespace } from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import { openCoordinatorProxy, operatorGoes } from '../operators.ts';
import {
  applySmall,
  coordinator,
  type Ending,
  ready,
  removeSmall,
  says,
  type Scenario,
  smallName,
  smallReady,
  type Stage,
} from './scenario.ts';

async function registered(kube: Kube, cluster: string): Promise<string[]> {
  const { registry } = await coordinator(kube, cluster, 'namespace');
  return Object.keys(registry.namespaces).sort();
}

/** Of the small cluster: the checker reads the namespace of longest retention of the other one. */
const applyNamespace = (kube: Kube, name: string, spec: object): Promise<string> =>
  kube.ok(
    ['apply', '-n', namespace, '-f', '-'],
    stringify({
      apiVersion: 'tsdb.io/v1alpha1',
      kind: 'TSDBNamespace',
      metadata: { name },
      spec: { clusterRef: { name: smallName }, ...spec },
    }),
  );

const removeNamespace = (kube: Kube, name: string) =>
  kube.ok(['delete', 'tsdbnamespace', name, '-n', namespace, '--timeout=20s']);

const namespaceSays = (kube: Kube, name: string, status: string, reason: string) =>
  waitFor(`TSDBNamespace ${name} ${reason}`, 90_000, async () => {
    const one = condition(await kube.get('tsdbnamespace', name, namespace), 'Ready');
    return one?.status === status && one.reason === reason
      ? null
      : `${one?.reason}: ${one?.message}`;
  });

async function resources(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await applyNamespace(kube, 'early', { retentionTime: '24h' });
  await namespaceSays(kube, 'early', 'False', 'ClusterNotFound');
  await applySmall(kube);
  await namespaceSays(kube, 'early', 'True', 'NamespaceReady');
  await smallReady(kube);
  await applyNamespace(kube, 'long-term', { retentionTime: '30d', reclaimPolicy: 'Retain' });
  await applyNamespace(kube, 'experiments', { retentionTime: '12h', reclaimPolicy: 'Delete' });
  await namespaceSays(kube, 'long-term', 'True', 'NamespaceReady');
  await namespaceSays(kube, 'experiments', 'True', 'NamespaceReady');
  await applyNamespace(kube, 'windows', {
    resolution: '5m',
    retentionTime: '90d',
    reclaimPolicy: 'Delete',
  });
  await namespaceSays(kube, 'windows', 'True', 'NamespaceReady');
  const made = (await coordinator(kube, smallName, 'namespace')).registry.namespaces['windows'];
  const [aggregation] = made.aggregationOptions.aggregations;
  assert.equal(aggregation.attributes.resolutionNanos, String(300e9));
  await applyNamespace(kube, 'copy', { name: 'experiments', reclaimPolicy: 'Delete' });
  await namespaceSays(kube, 'copy', 'False', 'NameConflict');
  await removeNamespace(kube, 'copy');
  const retentionOptions = {
    retentionPeriodDuration: '720h',
    blockSizeDuration: '12h',
    bufferFutureDuration: '2m',
    bufferPastDuration: '10m',
  };
  const options = { retentionOptions };
  await coordinator(kube, smallName, 'namespace', { name: 'by-hand', options });
  await applyNamespace(kube, 'by-hand', { retentionTime: '24h', reclaimPolicy: 'Delete' });
  await namespaceSays(kube, 'by-hand', 'False', 'NotOwned');
  await removeNamespace(kube, 'by-hand');
  const patch = ['patch', 'tsdbnamespace', 'long-term', '-n', namespace, '--type=merge'];
  const blockSize = await kube.kubectl([...patch, '-p', '{"spec":{"blockSize":"4h"}}']);
  assert.match(blockSize.output, /blockSize is immutable/);
  for (const name of ['long-term', 'experiments', 'windows', 'early']) {
    await removeNamespace(kube, name);
  }
  await waitFor('Delete takes the namespace away, Retain leaves it', 30_000, async () => {
    const left = (await registered(kube, smallName)).join(', ');
    return left === 'by-hand, default, early, long-term' ? null : left;
  });
  const { registry } = await coordinator(kube, smallName, 'namespace');
  const nanos = registry.namespaces['by-hand'].retentionOptions.retentionPeriodNanos;
  assert.equal(Number(nanos), 720 * 3_600e9, 'what a person made is left alone');
  await smallReady(kube);
  await removeSmall(kube);
  const added = ['default', 'early', 'long-term', 'experiments', 'windows'];
  return {
    calls: [
      'placement-init small-zone-a-0',
      ...added.map((name) => `namespace-add ${name}`),
      'namespace-delete experiments',
      'namespace-delete windows',
    ],
  };
}

async function readyRefused(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const proxy = await openCoordinatorProxy(kube, smallName);
  try {
    await operatorGoes(kube, { coordinatorsOf: [smallName] });
    const path = /^POST .*\/namespace\/ready/;
    const dropped = proxy.on({ request: path, effect: { kind: 'drop' }, times: 1 });
    const failed = proxy.on({ request: path, effect: { kind: 'answer', status: 503 } });
    await applySmall(kube);
    await waitFor('it was asked again', 120_000, async () =>
      dropped() === 1 && failed() >= 2 ? null : `${dropped()} dropped, ${failed()} failed`,
    );
    await delay(5_000);
    await says(kube, smallName, 'ReadNotesy', /^False/);
    await says(kube, smallName, 'Ready', /^False/);
    proxy.clear();
    await smallReady(kube);
  } finally {
    await operatorGoes(kube, {});
    await proxy.close();
  }
  await removeSmall(kube);
  return {};
}

export const namespaces: readonly Scenario[] = [
  {
    name: '35-namespaces',
    what: 'TSDBNamespaces: before their cluster, conflict, Retain and Delete; what the API made is left alone',
    millisMax: 500_000,
    run: resources,
  },
  {
    name: '36-coordinator-away-at-ready',
    what: 'a namespace whose readying fails is not counted ready, and is readied later',
    millisMax: 500_000,
    run: readyRefused,
  },
];
