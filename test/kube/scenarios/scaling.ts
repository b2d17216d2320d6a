/** More nodes, fewer nodes, and minds that are changed on the way. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterName, clusterReady, namespace } from '../install.ts';
import { type Kube, waitFor } from '../kube.ts';
import {
  acts,
  callsOf,
  claimsOf,
  coordinator,
  deletePod,
  type Ending,
  groups,
  podUids,
  ready,
  says,
  type Scenario,
  scaleTo,
  type Stage,
} from './scenario.ts';

const each = (kind: string, ordinal: number): string[] =>
  groups.map((group) => `${kind} ${clusterName}-${group}-${ordinal}`);

const nodeClaims = (perGroup: number): string[] =>
  groups.flatMap((group) =>
    Array.from({ length: perGroup }, (_, at) => `data-${clusterName}-${group}-${at}`),
  );

/** What is in the placement, in the sets, on volumes: the same nodes. */
async function onlyNodes(kube: Kube, perGroup: number): Promise<void> {
  const { placement } = await coordinator(kube, clusterName, 'placement');
  const wanted = nodeClaims(perGroup).map((claim) => claim.slice('data-'.length));
  assert.deepEqual(Object.keys(placement.instances).sort(), wanted);
  assert.deepEqual(Object.keys(await podUids(kube, 'node')).sort(), wanted);
  await waitFor('volumes of those that left are gone', 30_000, async () => {
    const claims = (await claimsOf(kube, clusterName)).filter((name) => !name.includes('-etcd-'));
    const missing = nodeClaims(perGroup).filter((name) => !claims.includes(name));
    assert.deepEqual(missing, [], 'no volume of a node is missing');
    return claims.length === wanted.length ? null : claims.join(' ');
  });
}

async function up(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await scaleTo(kube, 2);
  await clusterReady(kube, 2, 240_000);
  await onlyNodes(kube, 2);
  return { calls: each('placement-add', 1), withoutChecksMillisMax: 15_000 };
}

async function withNodeDown(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const name = `${clusterName}-zone-a-0`;
  const { spec } = await kube.get('pod', name, namespace);
  await kube.ok(['cordon', spec.nodeName]);
  await deletePod(kube, name);
  await says(kube, clusterName, 'Ready', /^False /);
  await scaleTo(kube, 2);
  await says(kube, clusterName, 'Ready', new RegExp(name));
  await delay(15_000);
  assert.deepEqual(callsOf(stage), [], 'nobody joins while a node is away');
  await kube.ok(['uncordon', spec.nodeName]);
  await clusterReady(kube, 2, 240_000);
  await onlyNodes(kube, 2);
  return { calls: each('placement-add', 1), withoutChecksMillisMax: 15_000 };
}

async function changedBack(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await scaleTo(kube, 2);
  await acts(stage, /^placement-add/);
  await scaleTo(kube, 1);
  await clusterReady(kube, 1, 240_000);
  await onlyNodes(kube, 1);
  const calls = callsOf(stage);
  // A removal that meets a handover is refused and made again when that is over.
  const nodesOf = (call: string): string[] =>
    [...new Set(calls.filter((one) => one.startsWith(call)))].map((one) => one.split(' ')[1]!);
  const joined = nodesOf('placement-add');
  assert.deepEqual(nodesOf('placement-remove'), joined, `who joined leaves: ${calls.join(', ')}`);
  return {};
}

async function down(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage, 2);
  await scaleTo(kube, 1);
  await clusterReady(kube, 1, 240_000);
  await onlyNodes(kube, 1);
  return { calls: each('placement-remove', 1), withoutChecksMillisMax: 15_000 };
}

async function tooFew(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const before = await kube.get('tsdbcluster', clusterName, namespace);
  const refused = async (args: readonly string[], expected: RegExp) => {
    const { code, output } = await kube.kubectl([...args, '-n', namespace]);
    assert.notEqual(code, 0, args.join(' '));
    assert.match(output, expected);
  };
  await refused(
    ['scale', 'tsdbcluster', clusterName, '--replicas=0'],
    /greater than or equal to 1/,
  );
  const patch = (spec: object) => [
    ...['patch', 'tsdbcluster', clusterName, '--type=merge'],
    ...['-p', JSON.stringify({ spec })],
  ];
  const isolationGroups = before.spec.isolationGroups.slice(1);
  await refused(patch({ isolationGroups }), /at least as many/);
  await refused(patch({ replicationFactor: 5 }), /immutable|at least as many/);
  const after = await kube.get('tsdbcluster', clusterName, namespace);
  assert.equal(after.metadata.generation, before.metadata.generation);
  return { calls: [] };
}

async function upDownUp(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage, 2);
  const uidsOfClaims = async (): Promise<Record<string, string>> => {
    const all = await kube.list(
      'persistentvolumeclaims',
      namespace,
      `tsdb.io/cluster=${clusterName}`,
    );
    return Object.fromEntries(all.map(({ metadata }) => [metadata.name, metadata.uid]));
  };
  const before = await uidsOfClaims();
  await scaleTo(kube, 1);
  await clusterReady(kube, 1, 240_000);
  await scaleTo(kube, 2);
  await clusterReady(kube, 2, 240_000);
  await onlyNodes(kube, 2);
  const after = await uidsOfClaims();
  for (const group of groups) {
    const name = `data-${clusterName}-${group}-1`;
    assert.notEqual(after[name], before[name], 'who comes back has an empty volume');
  }
  const calls = [...each('placement-remove', 1), ...each('placement-add', 1)];
  return { calls, withoutChecksMillisMax: 15_000 };
}

export const scaling: readonly Scenario[] = [
  {
    name: '06-scale-up',
    what: 'kubectl scale 1 → 2 in each group, answers whole throughout',
    millisMax: 500_000,
    run: up,
  },
  {
    name: '07-scale-with-node-down',
    what: 'scale up while a node is away: said and waited for, done when it is back',
    millisMax: 600_000,
    run: withNodeDown,
  },
  {
    name: '08-scale-changed-back',
    what: '1 → 2 → 1 while the first new node fills itself: no orphan is left',
    millisMax: 600_000,
    run: changedBack,
  },
  {
    name: '09-scale-down',
    what: '2 → 1: shards first, then the set, then the volume',
    millisMax: 600_000,
    run: down,
  },
  {
    name: '10-scale-to-nothing',
    what: 'no node, fewer groups than copies: refused, nothing changes',
    millisMax: 300_000,
    run: tooFew,
  },
  {
    name: '11-up-down-up',
    what: '2 → 1 → 2: who comes back does so with an empty volume',
    millisMax: 700_000,
    run: upDownUp,
  },
];
