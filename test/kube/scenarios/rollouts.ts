/** New images, settings and sizes: one pod after the other, and back when they are bad. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterName, clusterReady, image, namespace } from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import { tagImage } from '../machines.ts';
import {
  applySmall,
  type Ending,
  evictionsOf,
  groups,
  ownLabel,
  patchCluster,
  podUids,
  ready,
  removeSmall,
  says,
  type Scenario,
  smallName,
  smallReady,
  type Stage,
} from './scenario.ts';

/** The node's image under another tag than the one that the cluster has now. */
async function otherImage(kube: Kube): Promise<string> {
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  const [other, another] = ['other', 'another'].map((tag) => withTag(tag));
  const wanted = spec.nodes.image === other ? another! : other!;
  await tagImage(image('node'), wanted);
  return wanted;
}

const withTag = (tag: string): string => image('node').replace(/:[^:]*$/, `:${tag}`);
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
  const other = await otherImage(kube);
  await patchCluster(kube, { nodes: { image: other } });
  await clusterReady(kube, 1, 300_000);
  await podsHave(kube, 'node', other, (container) => container.image === other);
  assert.deepEqual(evictionsOf(stage), once(nodePods), 'each is evicted once');
  return { calls: [], withoutChecksMillisMax: 15_000 };
}

async function downgraded(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  if (spec.nodes.image === undefined) {
    await patchCluster(kube, { nodes: { image: await otherImage(kube) } });
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
async function haltsAtFirst(stage: Stage, bad: object): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  const { nodes, podTemplate = null } = spec;
  const undo = { nodes: { image: nodes.image ?? null }, podTemplate };
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
  haltsAtFirst(stage, { nodes: { image: withTag('absent') } });

const badConfiguration = (stage: Stage): Promise<Ending> =>
  haltsAtFirst(stage, {
    podTemplate: {
      spec: {
        containers: [{ name: 'node', env: [{ name: 'NODE_OPTIONS', value: '--no-such-option' }] }],
      },
    },
  });

async function requestsAre(stage: Stage, cpu: string): Promise<void> {
  const { kube } = stage;
  stage.sinceMillis = Date.now();
  const resources = { requests: { cpu } };
  await patchCluster(kube, { nodes: { resources }, etcd: { resources } });
  await clusterReady(kube, 1, 400_000);
  for (const component of ['node', 'etcd']) {
    await podsHave(kube, component, cpu, (container) => container.resources.requests?.cpu === cpu);
  }
  for (const [pod, count] of Object.entries(evictionsOf(stage))) {
    assert.ok([...etcdPods, ...nodePods].includes(pod), `${pod} is none of those that change`);
    assert.equal(count, 1, `${pod} is evicted once`);
  }
}

async function resourcesChanged(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const coordinators = await podUids(kube, 'coordinator');
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  // The first requests of a pod change its class of quality of service: that is rolled.
  if (spec.nodes.resources?.requests === undefined) {
    await requestsAre(stage, '11m');
    assert.deepEqual(evictionsOf(stage), once([...etcdPods, ...nodePods]), 'each once');
  }
  await requestsAre(stage, spec.nodes.resources?.requests?.cpu === '12m' ? '13m' : '12m');
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
  await applySmall(kube);
  await smallReady(kube);
  const before = await podUids(kube, 'node', smallName);
  const sized = (size: string) => patchCluster(kube, { nodes: { storage: { size } } }, smallName);
  await sized('110Gi');
  await waitFor('volumes are larger', 120_000, async () => {
    const selector = `${ownLabel(smallName)},tsdb.io/component=node`;
    const [claim] = await kube.list('pvc', namespace, selector);
    const { storage } = claim.status.capacity;
    return storage === '110Gi' ? null : storage;
  });
  await smallReady(kube);
  await storageClassAllows(kube, false);
  try {
    await sized('120Gi');
    await says(kube, smallName, 'Stalled', /^True VolumeGrowthRefused/);
    await sized('110Gi');
    await smallReady(kube);
    await sized('100Gi');
    await says(kube, smallName, 'Stalled', /^True VolumesCannotShrink/);
    await sized('110Gi');
    await smallReady(kube);
  } finally {
    await storageClassAllows(kube, true);
  }
  assert.deepEqual(await podUids(kube, 'node', smallName), before, 'no pod is touched');
  await removeSmall(kube);
  return {};
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
    what: 'requests of nodes and etcd: in place, or each pod is evicted once, and no other',
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
