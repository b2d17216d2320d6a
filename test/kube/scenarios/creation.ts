/** How a cluster comes to be, whatever happens between two steps. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import {
  applyCluster,
  clusterName,
  clusterReady,
  installByManifests,
  namespace,
  startLoad,
} from '../install.ts';
import { condition, waitFor } from '../kube.ts';
import { openCoordinatorProxy, operatorGoes } from '../operators.ts';
import {
  applySmall,
  callsOf,
  childrenOf,
  coordinator,
  type Ending,
  ready,
  removeCluster,
  removeSmall,
  type Scenario,
  says,
  smallName,
  smallReady,
  type Stage,
} from './scenario.ts';

const smallCalls = ['placement-init small-zone-a-0', 'namespace-add default'];
const clusterCalls = [
  'placement-init metrics-zone-a-0 metrics-zone-b-0 metrics-zone-c-0',
  'namespace-add default',
];
const notServed = '{"status":"error","error":"on purpose"}';

async function create({ kube }: Stage): Promise<Ending> {
  await installByManifests(kube);
  if ((await kube.get('tsdbcluster', clusterName, namespace)) !== null) {
    await removeCluster(kube, clusterName);
  }
  await applyCluster(kube);
  await clusterReady(kube, 1, 180_000);
  const immutable = async (patch: object, expected: RegExp) => {
    const args = ['patch', 'tsdbcluster', clusterName, '-n', namespace, '--type=merge'];
    const { code, output } = await kube.kubectl([...args, '-p', JSON.stringify(patch)]);
    assert.notEqual(code, 0);
    assert.match(output, expected);
  };
  await immutable({ spec: { numberOfShards: 128 } }, /numberOfShards is immutable/);
  await startLoad(kube);
  await delay(5_000);
  return { calls: clusterCalls, withoutChecksMillisMax: 15_000 };
}

/** The operator goes as it is told while a small cluster is made; then as before. */
async function made(stage: Stage, failpoints: string, exits: number): Promise<void> {
  const { kube, journal } = stage;
  await ready(stage);
  await operatorGoes(kube, { failpoints });
  stage.sinceMillis = Date.now();
  await applySmall(kube);
  await smallReady(kube);
  const hits = journal.saying(/^failpoint /, stage.sinceMillis).length;
  assert.equal(hits, exits, 'what was asked for has happened');
}

async function restored(stage: Stage): Promise<void> {
  await operatorGoes(stage.kube, {});
  await removeSmall(stage.kube);
}

async function killedAfterInit(stage: Stage): Promise<Ending> {
  await made(stage, 'placement-init:after=exit', 1);
  const calls = callsOf(stage);
  assert.deepEqual(calls.toSorted(), smallCalls.toSorted(), 'another process adopts it');
  await restored(stage);
  return {};
}

async function killedBetween(stage: Stage): Promise<Ending> {
  const points = [
    'placement-init:after=exit',
    'namespace-add:after=exit',
    'namespace-ready:after=exit',
  ];
  await made(stage, points.join(), 3);
  assert.deepEqual(callsOf(stage).sort(), smallCalls.toSorted());
  const { registry } = await coordinator(stage.kube, smallName, 'namespace');
  assert.deepEqual(Object.keys(registry.namespaces), ['default']);
  await restored(stage);
  return {};
}

async function repliesLost(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const proxy = await openCoordinatorProxy(kube, smallName);
  try {
    await operatorGoes(kube, { coordinatorsOf: [smallName] });
    const init = proxy.on({
      request: /^POST .*\/placement\/init/,
      effect: { kind: 'reply lost' },
      times: 1,
    });
    const add = proxy.on({
      request: /^POST .*\/namespace$/,
      effect: { kind: 'answer', status: 500, body: notServed },
      times: 3,
    });
    await applySmall(kube);
    await smallReady(kube);
    assert.deepEqual([init(), add()], [1, 3]);
    const count = (path: string) => proxy.requests.filter((one) => one === path).length;
    assert.equal(count('POST /api/v1/services/tsdb/placement/init'), 1, 'what was done is adopted');
    assert.equal(count('POST /api/v1/services/tsdb/namespace'), 4);
    const events = await kube.list('events', namespace);
    const failed = events.filter(
      ({ reason, involvedObject, message }) =>
        reason === 'ActionFailed' &&
        involvedObject.name === smallName &&
        message.startsWith('namespace-add'),
    );
    assert.equal(failed.length, 1, 'one event for one failure');
  } finally {
    await operatorGoes(kube, {});
    await proxy.close();
  }
  await removeSmall(kube);
  return {};
}

async function foreignPlacement(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const proxy = await openCoordinatorProxy(kube, smallName);
  try {
    await operatorGoes(kube, { coordinatorsOf: [smallName] });
    // What another makes first is not seen before the operator's own call is refused.
    proxy.on({ request: /^GET .*\/placement/, effect: { kind: 'answer', status: 404 } });
    proxy.on({ request: /^POST .*\/init/, effect: { kind: 'delay', millis: 5_000 }, times: 1 });
    await applySmall(kube);
    await waitFor('the operator asks for a placement', 120_000, async () =>
      proxy.requests.some((one) => /^POST .*\/init/.test(one)) ? null : 'not yet',
    );
    const stranger = {
      id: 'stranger',
      isolation_group: 'zone-a',
      zone: 'embedded',
      weight: 100,
      endpoint: 'stranger:9000',
      hostname: 'stranger',
      port: 9000,
    };
    const body = { num_shards: 4, replication_factor: 1, instances: [stranger] };
    await coordinator(kube, smallName, 'placement/init', body);
    const foreign = await coordinator(kube, smallName, 'placement');
    await waitFor('the call is refused', 30_000, async () =>
      stage.journal.saying(/placement-init: key already has a value/, stage.sinceMillis).length > 0
        ? null
        : 'not yet',
    );
    proxy.clear();
    await says(kube, smallName, 'Stalled', /^True ForeignPlacement/);
    const cluster = await kube.get('tsdbcluster', smallName, namespace);
    assert.notEqual(condition(cluster, 'Ready').status, 'True');
    const now = await coordinator(kube, smallName, 'placement');
    assert.equal(now.version, foreign.version, 'nothing of it is changed');
    assert.deepEqual(Object.keys(now.placement.instances), ['stranger']);
  } finally {
    await operatorGoes(kube, {});
    await proxy.close();
  }
  await removeSmall(kube);
  assert.deepEqual(await childrenOf(kube, smallName), []);
  return {};
}

export const creation: readonly Scenario[] = [
  {
    name: '01-create',
    what: 'one resource becomes a cluster that serves, and the operator rests',
    millisMax: 400_000,
    run: create,
  },
  {
    name: '02-killed-after-init',
    what: 'the operator ends before it has read the answer to the making of the placement',
    millisMax: 400_000,
    run: killedAfterInit,
  },
  {
    name: '03-killed-between-steps',
    what: 'the operator ends after the placement, after a namespace was added, after it was readied',
    millisMax: 500_000,
    run: killedBetween,
  },
  {
    name: '04-replies-lost',
    what: 'an answer of the coordinator is lost, then it answers 500 three times',
    millisMax: 400_000,
    run: repliesLost,
  },
  {
    name: '05-foreign-placement',
    what: 'another has made the placement first: it is said, and left as it is',
    millisMax: 400_000,
    run: foreignPlacement,
  },
];
