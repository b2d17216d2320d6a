import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { ClusterAdmin } from '../admin/admin.ts';
import { plainRequest } from '../admin/placement_requests.ts';
import { rowsSinceOf } from './namespaces.ts';
import { namespaceNumbersKey } from '../kv/keys.ts';
import { type MemoryKv, MemoryKvStore } from '../kv/memory.ts';
import { Topology } from '../topology/topology.ts';
import {
  hasEnded,
  isMadeAgain,
  namesEarlier,
  namespaceNumber,
  namespaceNumberIn,
  numbersToStored,
  withStoredNumbers,
} from './numbers.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };
const numbersKey = namespaceNumbersKey(cluster);

function newCluster(nowMillis: () => number) {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const nowNanos = () => BigInt(nowMillis()) * 1_000_000n;
  const clock = { ...realEnv.clock, nowMillis, nowNanos };
  const admin = new ClusterAdmin({ kv, cluster, clock, random: realEnv.random });
  const retentionOptions = {
    retentionPeriodDuration: '48h',
    blockSizeDuration: '2h',
    bufferFutureDuration: '10m',
    bufferPastDuration: '10m',
  };
  const add = (name: string) =>
    admin.namespaceAdd({ name, options: { retentionOptions } }, plainRequest, signal);
  const remove = (name: string) => admin.namespaceDelete(name, plainRequest, signal);
  const numbers = async () => {
    const { value } = await admin.namespaces.get(signal);
    return Object.fromEntries([...value].map(([name, { number }]) => [name, number]));
  };
  return { kv, admin, add, remove, numbers };
}

async function jsonOf(kv: MemoryKv, key: string): Promise<Record<string, unknown>> {
  return JSON.parse(new TextDecoder().decode((await kv.get(key, signal))!.value));
}

async function put(kv: MemoryKv, key: string, json: unknown): Promise<void> {
  const value = new TextEncoder().encode(JSON.stringify(json));
  await kv.transact([], [{ kind: 'put', key, value }], signal);
}

test('a namespace that is made again has a higher number, and one that is changed keeps its own', async () => {
  let now = 1_000;
  const { admin, add, remove, numbers } = newCluster(() => now);
  await add('a');
  await add('b');
  assert.deepEqual(await numbers(), { a: 1_000, b: 1_001 });
  const longer = { retentionOptions: { retentionPeriodDuration: '72h' } };
  await admin.namespaceUpdate({ name: 'a', options: longer }, plainRequest, signal);
  await admin.namespaceReady({ name: 'b', force: true }, plainRequest, async () => {}, signal);
  assert.deepEqual(await numbers(), { a: 1_000, b: 1_001 });
  await remove('b');
  assert.deepEqual(await numbers(), { a: 1_000 });
  await add('b');
  assert.deepEqual(await numbers(), { a: 1_000, b: 1_002 });
  now = 5_000;
  await remove('a');
  await add('a');
  assert.deepEqual(await numbers(), { a: 5_000, b: 1_002 });
});

test('numbers go on from the time of now when the store was restored', async () => {
  let now = 1_000;
  const { kv, add, remove, numbers } = newCluster(() => now);
  await add('a');
  const backup = await jsonOf(kv, numbersKey);
  now = 2_000;
  await remove('a');
  await add('a');
  assert.deepEqual(await numbers(), { a: 2_000 });
  await put(kv, numbersKey, backup);
  now = 3_000;
  await remove('a');
  await add('a');
  assert.deepEqual(await numbers(), { a: 3_000 });
});

test('namespaces of a release without numbers have none, and keep none', async () => {
  const { kv, admin, add, remove, numbers } = newCluster(() => 1_000);
  await add('a');
  // As if a former release had made it.
  await kv.transact([], [{ kind: 'delete', key: numbersKey }], signal);
  assert.deepEqual(await numbers(), { a: undefined });
  await add('b');
  assert.deepEqual(await numbers(), { a: undefined, b: 1_000 });
  const { value } = await admin.namespaces.get(signal);
  assert.deepEqual(
    ['a', 'b', 'c'].map((name) => namespaceNumberIn(value, name)),
    [1, 1_000, 0],
  );
  await remove('a');
  await add('a');
  assert.deepEqual(await numbers(), { a: 1_001, b: 1_000 });
});

test('the stored registry is what former releases know, and unread keys beside it stay', async () => {
  const { kv, admin, add, remove } = newCluster(() => 1_000);
  await add('a');
  await add('b');
  assert.doesNotMatch(JSON.stringify(await jsonOf(kv, admin.namespaces.key)), /number/i);
  const numbers = await jsonOf(kv, numbersKey);
  assert.deepEqual(numbers, {
    last: '1001',
    namespaces: { a: { number: '1000' }, b: { number: '1001' } },
  });
  const later = { last: '1001', future: 1, namespaces: { a: { number: '1000', future: 2 } } };
  await put(kv, numbersKey, later);
  await add('c');
  await remove('b');
  assert.deepEqual(await jsonOf(kv, numbersKey), {
    last: '1002',
    future: 1,
    namespaces: { a: { number: '1000', future: 2 }, c: { number: '1002' } },
    // Of a release that gives no numbers.
    ended: { b: { number: '1' } },
  });
});

test('what was deleted is known by its number, and what only left the registry is not', async () => {
  const { kv, admin, add, remove } = newCluster(() => 1_000);
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  await topology.whenLoaded(signal);
  for (const name of ['a', 'b', 'c']) await add(name);
  await remove('a');
  assert.deepEqual([...(await topology.refresh(signal)).endedNamespaces], [['a', 1_000]]);
  await add('a');
  const registry = await jsonOf(kv, admin.namespaces.key);
  const { b: _, ...others } = registry['namespaces'] as Record<string, unknown>;
  await put(kv, admin.namespaces.key, { ...registry, namespaces: others });
  await add('d');
  const { endedNamespaces, namespaces } = await topology.refresh(signal);
  assert.deepEqual([...namespaces.keys()].sort(), ['a', 'c', 'd']);
  assert.deepEqual([...endedNamespaces], [['a', 1_000]]);
  assert.ok(hasEnded({ name: 'a', number: 1_000 }, endedNamespaces));
  assert.ok(!hasEnded(namespaces.get('a')!, endedNamespaces), 'the one that was made again');
  assert.ok(!hasEnded({ name: 'b', number: 1_001 }, endedNamespaces));
  await remove('a');
  assert.ok(hasEnded(namespaces.get('a')!, (await topology.refresh(signal)).endedNamespaces));
});

test('a watch sees a namespace with its number', async () => {
  const { kv, add, remove } = newCluster(() => 1_000);
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  await topology.whenLoaded(signal);
  const numberNow = () => topology.view.namespaces.get('a')?.number;
  await add('a');
  await topology.until(() => numberNow() === 1_000, signal);
  await remove('a');
  await add('a');
  await topology.until(() => numberNow() === 1_001, signal);
  assert.equal((await topology.refresh(signal)).namespaces.get('a')!.number, 1_001);
});

test('what is stored is read again', async () => {
  const { admin, add } = newCluster(() => 1_000);
  await add('a');
  const current = await admin.namespaces.get(signal);
  const json: unknown = JSON.parse(JSON.stringify(numbersToStored(current, current.value, 1_000)));
  const read = withStoredNumbers(current.value, json, []);
  assert.deepEqual([read.registry, read.lastNumber], [current.value, 1_000]);
  const bad = { last: '1', namespaces: { a: { number: 'x' } } };
  assert.throws(() => withStoredNumbers(current.value, bad, []), /number/);
});

test('a higher number is another namespace, and a lower one that of a restored store', () => {
  assert.equal(isMadeAgain({ number: 7 }, { number: 8 }), true);
  assert.equal(isMadeAgain({ number: 7 }, { number: 7 }), false);
  assert.equal(isMadeAgain({ number: 7 }, { number: 6 }), false);
  assert.equal(isMadeAgain({}, { number: 7 }), true);
  assert.equal(isMadeAgain({ number: 7 }, {}), false);
  assert.equal(isMadeAgain({}, {}), false);
  assert.equal(namespaceNumber({}), 1);
  assert.equal(namesEarlier({}, { number: 7 }), false);
  assert.equal(namesEarlier({ namespaceNumber: 0 }, { number: 7 }), false);
  assert.equal(namesEarlier({ namespaceNumber: 1 }, { number: 7 }), true);
  assert.equal(namesEarlier({ namespaceNumber: 7 }, { number: 7 }), false);
});

test('what had expired before a retention was made longer stays written down', async () => {
  const hourMillis = 3_600_000;
  let now = 500 * hourMillis;
  const { admin, add } = newCluster(() => now);
  await add('a');
  const ready = () => admin.namespaceReady({ name: 'a' }, plainRequest, async () => {}, signal);
  await ready();
  now += hourMillis;
  const longer = { retentionOptions: { retentionPeriodDuration: '72h' } };
  await admin.namespaceUpdate({ name: 'a', options: longer }, plainRequest, signal);
  const { value } = await admin.namespaces.get(signal);
  assert.deepEqual(rowsSinceOf(value.get('a')!), {
    completeSinceNanos: 0n,
    goneBeforeNanos: BigInt(453 * hourMillis) * 1_000_000n,
  });
});
