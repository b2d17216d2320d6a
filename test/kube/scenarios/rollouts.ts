/** New images, settings and sizes: one pod after the other, and back when they are bad. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterName, clusterReady, image, namespace } from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import { tagImage } from '../machines.ts';
import {
  claimsOf,
  type Ending,
  evictionsOf,
  groups,
  ownLabel,
  patchCluster,
  podUids,
  ready,
  says,
  type Scenario,
  type Stage,
} from './scenario.ts';

const otherTag = 'other';
const nodePods = groups.map((group) => `${clusterName}-${group}-0`);
const etcdPods = [0, 1, 2].map((at) => `${clusterName}-etcd-${at}`);
const once = (pods: readonly string[]): Record<string, number> =>
  Object.fromEntries(pods.map((pod) => [pod, 1]));

/** Every pod of the component has this in its container. */
async function podsHave(
  kube: Kube,
  component: string,
  what: string,
  has: (container: any) => boolean,
): Promise<void> {
  const selector = `${ownLabel(clusterName)},tsdb.io/component=${component}`;
  const pods = await kube.list('pods', namespace, selector);
  for (const { metadata, spec } of pods) {
    assert.ok(has(spec.containers[0]), `${metadata.name} has ${what}`);
  }
}

async function imageRolled(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const other = image('node').replace(/:[^:]*$/, `:${otherTag}`);
  await tagImage(image('node'), other);
  await patchCluster(kube, { nodes: { image: other } });
  await clusterReady(kube, 1, 300_000);
  await podsHave(kube, 'node', other, (container) => container.image === other);
  assert.deepEqual(evictionsOf(stage), once(nodePods), 'each is evicted once');
  return { calls: [], withoutChecksMillisMax: 15_000 };
}

async function downgraded(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const cluster = await kube.get('tsdbcluster', clusterName, namespace);
  const other = image('node').replace(/:[^:]*$/, `:${otherTag}`);
  await tagImage(image('node'), other);
  if (cluster.spec.nodes.image !== other) {
    await patchCluster(kube, { nodes: { image: other } });
    await clusterReady(kube, 1, 300_000);
    stage.sinceMillis = Date.now();
  }
  await patchCluster(kube, { nodes: { image: null } });
  await clusterReady(kube, 1, 300_000);
  await podsHave(kube, 'node', 'the image of before', ({ image: now }) => now === image('node'));
  assert.deepEqual(evictionsOf(stage), once(nodePods), 'each is evicted once');
  return { calls: [], withoutChecksMillisMax: 15_000 };
}

/** A change that starts no pod stops at the first, and taking it back cures that. */
async function haltsAtFirst(stage: Stage, bad: object, undo: object): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await patchCluster(kube, bad);
  await waitFor('a pod does not come back', 120_000, async () => {
    const pods = await kube.list(
      'pods',
      namespace,
      `${ownLabel(clusterName)},tsdb.io/component=node`,
    );
    const waiting = pods.flatMap(({ status }) =>
      (status.containerStatuses ?? []).map(({ state }: any) => String(state.waiting?.reason)),
    );
    return waiting.some((reason) => /Err|BackOff/.test(reason)) ? null : waiting.join(' ');
  });
  await delay(20_000);
  const evicted = Object.keys(evictionsOf(stage));
  assert.equal(evicted.length, 1, `one pod is taken: ${evicted.join(' ')}`);
  const message = await says(kube, clusterName, 'Ready', /^False/);
  assert.match(message, new RegExp(evicted[0]!), 'it is said which');
  const cluster = await kube.get('tsdbcluster', clusterName, namespace);
  assert.notEqual(condition(cluster, 'Available')?.status, 'False', 'a quorum serves');
  await patchCluster(kube, undo);
  await clusterReady(kube, 1, 240_000);
  assert.deepEqual(Object.keys(evictionsOf(stage)), evicted, 'no other pod is touched');
  return { calls: [] };
}

const badImage = (stage: Stage): Promise<Ending> =>
  haltsAtFirst(
    stage,
    { nodes: { image: image('node').replace(/:[^:]*$/, ':absent') } },
    { nodes: { image: null } },
  );

const badConfiguration = (stage: Stage): Promise<Ending> =>
  haltsAtFirst(
    stage,
    { podTemplate: { spec: { containers: [{ name: 'node', args: ['-f', '/absent.yml'] }] } } },
    { podTemplate: null },
  );

async function resourcesChanged(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const coordinators = await podUids(kube, 'coordinator');
  const requests = (cpu: string) => ({ resources: { requests: { cpu } } });
  const change = { nodes: requests('11m'), etcd: requests('12m') };
  await patchCluster(kube, change);
  await waitFor('it has begun', 60_000, async () =>
    Object.keys(evictionsOf(stage)).length > 0 ? null : 'nothing is evicted',
  );
  await clusterReady(kube, 1, 400_000);
  await podsHave(kube, 'node', '11m', ({ resources }) => resources.requests.cpu === '11m');
  await podsHave(kube, 'etcd', '12m', ({ resources }) => resources.requests.cpu === '12m');
  assert.deepEqual(evictionsOf(stage), once([...etcdPods, ...nodePods]), 'each once');
  assert.deepEqual(await podUids(kube, 'coordinator'), coordinators, 'no other one');
  return { calls: [] };
}

async function storageClassAllows(kube: Kube, allowVolumeExpansion: boolean): Promise<void> {
  const patch = JSON.stringify({ allowVolumeExpansion });
  await kube.ok(['patch', 'storageclass', 'fast-disk', '--type=merge', '-p', patch]);
}

async function storageGrown(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const before = await podUids(kube, 'node');
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  const gibis = Number.parseInt(spec.nodes.storage.size, 10);
  const sized = (size: number) => patchCluster(kube, { nodes: { storage: { size: `${size}Gi` } } });
  await sized(gibis + 10);
  await waitFor('volumes are larger', 120_000, async () => {
    const claims = await kube.list(
      'pvc',
      namespace,
      `${ownLabel(clusterName)},tsdb.io/component=node`,
    );
    const sizes = claims.map(({ status }) => status.capacity.storage);
    return sizes.every((size) => size === `${gibis + 10}Gi`) ? null : sizes.join(' ');
  });
  await clusterReady(kube, 1, 120_000);
  assert.deepEqual(await podUids(kube, 'node'), before, 'no pod is touched');
  const claims = await claimsOf(kube, clusterName);
  await storageClassAllows(kube, false);
  try {
    await sized(gibis + 20);
    await says(kube, clusterName, 'Stalled', /^True VolumeGrowthRefused/);
    await sized(gibis + 10);
    await clusterReady(kube, 1, 120_000);
    await sized(gibis);
    await says(kube, clusterName, 'Stalled', /^True VolumesCannotShrink/);
    await sized(gibis + 10);
    await clusterReady(kube, 1, 120_000);
  } finally {
    await storageClassAllows(kube, true);
  }
  assert.deepEqual(await podUids(kube, 'node'), before);
  assert.deepEqual(await claimsOf(kube, clusterName), claims);
  return { calls: [] };
}

export const rollouts: readonly Scenario[] = [
  {
    name: '18-image-rolled',
    what: 'a new image: node after node, answers whole throughout',
    millisMax: 600_000,
    run: imageRolled,
  },
  {
    name: '19-bad-image',
    what: 'an image that is not there stops at the first pod; taking it back cures it',
    millisMax: 600_000,
    run: badImage,
  },
  {
    name: '20-bad-configuration',
    what: 'a node that ends at once stops at the first pod; taking it back cures it',
    millisMax: 600_000,
    run: badConfiguration,
  },
  {
    name: '21-image-taken-back',
    what: 'the image of before: node after node, and the data are read',
    millisMax: 600_000,
    run: downgraded,
  },
  {
    name: '22-resources-changed',
    what: 'requests of nodes and etcd: each pod is evicted once, etcd first',
    millisMax: 700_000,
    run: resourcesChanged,
  },
  {
    name: '23-storage-grown',
    what: 'volumes grow under running pods; what cannot be is said and taken back',
    millisMax: 600_000,
    run: storageGrown,
  },
];
