/** Everything at once, for long. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { clusterName, clusterReady, namespace, operatorHome } from '../install.ts';
import { type Kube, say, waitFor } from '../kube.ts';
import { killProcesses } from '../machines.ts';
import { anotherLeads, leadingPod } from '../operators.ts';
import {
  deletePod,
  type Ending,
  loseVolume,
  ready,
  removeCluster,
  type Scenario,
  scaleTo,
  smallCluster,
  type Stage,
} from './scenario.ts';

const minutes = Number(process.env['TSDB_SOAK_MINUTES'] ?? '30');
const clusters = Number(process.env['TSDB_SOAK_CLUSTERS'] ?? '19');
const pauseMillis = 15_000;
/** Of the operator at its end, against a quarter of the time in. */
const memoryGrowthMax = 1.5;

const nameOf = (at: number): string => `soak-${at}`;

/** The same choices for the same seed. */
function choices(seed: number): (count: number) => number {
  let state = seed;
  return (count) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % count;
  };
}

/** Resident memory of the operator that leads, as it says itself. */
async function memoryBytes(kube: Kube): Promise<number> {
  const home = (await operatorHome(kube))!;
  const pod = await leadingPod(kube);
  const path = `/api/v1/namespaces/${home}/pods/${pod}:8080/proxy/metrics`;
  const text = await kube.ok(['get', '--raw', path]);
  return Number(/^process_resident_memory_bytes ([0-9.e+]+)/m.exec(text)![1]);
}

async function soak(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  const seed = Number(process.env['TSDB_SOAK_SEED'] ?? '1');
  const choose = choices(seed);
  const names = Array.from({ length: clusters }, (_, at) => nameOf(at));
  const apply = (name: string, spec: object = {}) =>
    kube.ok(
      ['apply', '-n', namespace, '-f', '-'],
      stringify({ ...smallCluster(spec), metadata: { name } }),
    );
  for (const name of names) await apply(name);
  const steps: readonly [string, () => Promise<unknown>][] = [
    ['scale', () => scaleTo(kube, 1 + choose(2))],
    ['kill a node', async () => killProcesses(`${clusterName}-zone-${'abc'[choose(3)]}-0`)],
    ['delete a pod', () => deletePod(kube, `${clusterName}-etcd-${choose(3)}`)],
    [
      'lose a disk',
      async () => {
        // The data of one disk are needed until those of the one before it are whole again.
        await clusterReady(kube, await perGroup(kube), 300_000);
        await loseVolume(kube, `${clusterName}-zone-${'ab'[choose(2)]}-0`);
      },
    ],
    [
      'kill the leader',
      async () => {
        killProcesses(await leadingPod(kube));
        await anotherLeads(kube, '', 60_000);
      },
    ],
    [
      'edit a small one',
      () => apply(names[choose(clusters)]!, { coordinator: { replicas: 1 + choose(2) } }),
    ],
    ['delete a small one', () => removeAndApply(kube, names[choose(clusters)]!, apply)],
    [
      'delete a child',
      () => kube.kubectl(['delete', 'pdb', `${clusterName}-nodes`, '-n', namespace]),
    ],
  ];
  const startedMillis = Date.now();
  const endMillis = startedMillis + minutes * 60_000;
  const memories: number[] = [];
  const writes: number[] = [];
  while (Date.now() < endMillis) {
    const [what, step] = steps[choose(steps.length)]!;
    say(`  seed ${seed}: ${what}`);
    await step();
    const fromMillis = Date.now();
    await delay(pauseMillis);
    memories.push(await memoryBytes(kube).catch(() => 0));
    writes.push(journal.writesSince(fromMillis).length);
  }
  say(`  memory in MiB: ${memories.map((bytes) => Math.round(bytes / 2 ** 20)).join(' ')}`);
  say(`  writes in each ${pauseMillis / 1000} s: ${writes.join(' ')}`);
  await scaleTo(kube, 1);
  for (const name of [...names, clusterName]) await clusterReady(kube, 1, 600_000, name);
  const known = memories.filter((bytes) => bytes > 0);
  const quarter = known[Math.floor(known.length / 4)]!;
  assert.ok(known.at(-1)! < quarter * memoryGrowthMax, 'the memory of the operator stays');
  for (const name of names) await removeCluster(kube, name);
  return { withoutChecksMillisMax: 120_000 };
}

async function perGroup(kube: Kube): Promise<number> {
  return (await kube.get('tsdbcluster', clusterName, namespace)).spec.nodes.replicasPerGroup;
}

async function removeAndApply(
  kube: Kube,
  name: string,
  apply: (name: string) => Promise<unknown>,
): Promise<void> {
  await kube.ok(['delete', 'tsdbcluster', name, '-n', namespace, '--wait=false']);
  await waitFor(`${name} is gone`, 300_000, async () =>
    (await kube.get('tsdbcluster', name, namespace)) === null ? null : 'it is there',
  );
  await apply(name);
}

export const soaks: readonly Scenario[] = [
  {
    name: '42-soak',
    what: `${clusters + 1} clusters, ${minutes} minutes of edits, deletions, kills and lost disks (TSDB_SOAK_MINUTES, _CLUSTERS, _SEED)`,
    millisMax: (minutes + 60) * 60_000,
    run: soak,
  },
];
