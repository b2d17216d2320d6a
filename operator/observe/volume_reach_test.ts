import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeError } from '../kube/kube_api.ts';
import { type KubeObject, type Pod, type Resource, resource } from '../resource/kube_objects.ts';
import { AwaySince, Machines, type Reach, volumeReaches } from './volume_reach.ts';

const { signal } = new AbortController();
const iso = (minute: number): string => new Date(minute * 60_000).toISOString();

const pod = (message: string): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'c-a-0', namespace: 'default', labels: { 'tsdb.io/component': 'node' } },
  status: {
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'False', message, lastTransitionTime: iso(0) }],
  },
});
const claim: KubeObject = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'data-c-a-0', namespace: 'default' },
  spec: { volumeName: 'pv-1' },
};
const volume = (...matchExpressions: object[]): KubeObject => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: 'pv-1' },
  spec:
    matchExpressions.length === 0
      ? {}
      : { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } } },
});
const onHost = { key: 'host', operator: 'In', values: ['m1'] };
const inZone = { key: 'zone', operator: 'In', values: ['a'] };

interface Machine {
  readonly name: string;
  readonly zone?: string;
  readonly ready?: boolean;
  readonly cordoned?: boolean;
  readonly sinceMinute?: number;
}
const machine = (given: Machine): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: given.name, labels: { host: given.name, zone: given.zone ?? 'a' } },
  spec: given.cordoned === true ? { unschedulable: true } : {},
  status: {
    conditions: [
      {
        type: 'Ready',
        status: given.ready === true ? 'True' : 'Unknown',
        lastTransitionTime: iso(given.sinceMinute ?? 0),
      },
    ],
  },
});

async function reach(
  live: KubeObject | null,
  machines: readonly Machine[],
  message = 'x',
): Promise<Reach | undefined> {
  const asked: string[] = [];
  const api = {
    get: async ({ kind }: Resource, _namespace: unknown, name: string) => {
      assert.deepEqual([kind, name], ['PersistentVolume', 'pv-1']);
      if (live === null) throw new KubeError(403, 'Forbidden', 'no');
      return live;
    },
    list: async (kind: Resource, _namespace: unknown, selector: string) => {
      assert.equal(kind, resource.machine);
      asked.push(selector);
      return { items: machines.map(machine), resourceVersion: '' };
    },
  };
  const known = new Machines(api, { monotonicMillis: () => 0 });
  const reaches = await volumeReaches([pod(message)], [claim], known, signal);
  assert.ok(asked.every((selector) => / in \(/.test(selector)));
  return reaches.get('c-a-0');
}

test('away is a volume all of whose machines are gone, since the last of them went', async () => {
  const others: Machine = { name: 'm2', zone: 'b', ready: true };
  assert.deepEqual(await reach(volume(onHost), [others]), { state: 'away', sinceMillis: null });
  const dead: Machine = { name: 'm1', sinceMinute: 7 };
  assert.deepEqual(await reach(volume(onHost), [dead, others]), {
    state: 'away',
    sinceMillis: 7 * 60_000,
  });
  const zone = [dead, { name: 'm3', sinceMinute: 9 }, others];
  assert.deepEqual(await reach(volume(inZone), zone), { state: 'away', sinceMillis: 9 * 60_000 });
});

test('a label that no machine has is none, whatever it is called', async () => {
  const labelled = { key: 'constructor', operator: 'Exists' };
  const machines = [{ name: 'm1', ready: true }];
  const away = { state: 'away', sinceMillis: null };
  assert.deepEqual(await reach(volume(inZone, labelled), machines), away);
});

test('there is a volume with a machine that serves, or at which somebody works', async () => {
  const there = { state: 'there' };
  assert.deepEqual(await reach(volume(onHost), [{ name: 'm1', ready: true }]), there);
  assert.deepEqual(await reach(volume(onHost), [{ name: 'm1', cordoned: true }]), there);
  assert.deepEqual(
    await reach(volume(inZone), [{ name: 'm1' }, { name: 'm3', ready: true }]),
    there,
  );
  assert.deepEqual(await reach(volume(), []), there, 'whatever reaches it from everywhere');
  const unlike = { key: 'zone', operator: 'NotIn', values: ['b'] };
  assert.deepEqual(await reach(volume(inZone, unlike), [{ name: 'm1', ready: true }]), there);
});

const affinity = "2 node(s) didn't match PersistentVolume's node affinity";
const words: Readonly<Record<string, 'away' | 'unknown'>> = {
  [`0/3 nodes are available: 1 node(s) had untolerated taint(s), ${affinity}. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.`]:
    'away',
  '0/3 nodes are available: 3 node(s) had volume node affinity conflict': 'away',
  [`0/3 nodes are available: 1 Insufficient cpu, ${affinity}.`]: 'unknown',
  [`0/3 nodes are available: 1 node(s) were unschedulable, ${affinity}.`]: 'unknown',
  [`0/3 nodes are available: 1 node(s) exceed max volume count, ${affinity}.`]: 'unknown',
  [`0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, ${affinity}.`]:
    'unknown',
  // Zones of other groups; a machine that was taken from its group cannot have its pod back either.
  [`0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, ${affinity}.`]:
    'away',
  [`0/6 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, 1 node(s) had volume node affinity conflict, 4 node(s) didn't match Pod's node affinity/selector. preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling.`]:
    'away',
  '0/3 nodes are available: 3 node(s) had untolerated taint(s).': 'unknown',
};
for (const [message, state] of Object.entries(words)) {
  test(`who may not look at machines goes by the words: ${message}`, async () => {
    assert.equal((await reach(null, [], message))?.state, state);
  });
}

test('a time that nobody says is counted from the first look, and anew after a return', () => {
  const since = new AwaySince();
  const of = (reach: Reach | null): Map<string, Reach> =>
    new Map(reach === null ? [] : [['p', reach]]);
  const away: Reach = { state: 'away', sinceMillis: null };
  assert.deepEqual([...since.note(of(away), 10)], [['p', 10]]);
  assert.deepEqual([...since.note(of(away), 20)], [['p', 10]]);
  assert.deepEqual([...since.note(of({ state: 'there' }), 30)], []);
  assert.deepEqual([...since.note(of(away), 40)], [['p', 40]]);
  assert.deepEqual([...since.note(of({ state: 'away', sinceMillis: 5 }), 50)], [['p', 5]]);
  assert.deepEqual([...since.note(of(null), 60)], []);
});

test('volumes and machines are asked for once in ten seconds, whoever asks', async () => {
  const asked: string[] = [];
  let nowMillis = 0;
  const api = {
    get: async ({ kind }: Resource, _namespace: unknown, name: string) => {
      asked.push(`${kind} ${name}`);
      return volume(inZone);
    },
    list: async ({ kind }: Resource, _namespace: unknown, selector: string) => {
      asked.push(`${kind} ${selector}`);
      return { items: [machine({ name: 'm1' })], resourceVersion: '' };
    },
  };
  const machines = new Machines(api, { monotonicMillis: () => nowMillis });
  const look = () => volumeReaches([pod('x')], [claim], machines, signal);
  for (let pass = 0; pass < 10; pass++) {
    assert.equal((await look()).get('c-a-0')?.state, 'away');
    nowMillis += 990;
  }
  assert.deepEqual(asked, ['PersistentVolume pv-1', 'Node zone in (a)']);
  nowMillis += 100;
  await look();
  assert.equal(asked.length, 4);
});
