import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { formatLevelFirst, formatLevelNewest } from '#lib/format_level.ts';
import { silentLog } from '#lib/log.ts';
import { overriding } from '#test/overriding.ts';
import { finishedFormatsKey, knownPrefix, placementHistoryPrefix } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import { lookingFirst } from '../kv/looking_first.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { placementHistoryMax } from '../limits.ts';
import { finishedLevelOf } from '../metadata/finished_formats.ts';
import { isSameNamespace, namespaceNumberIn } from '../namespaces/numbers.ts';
import { type KnownStore, Topology } from '../topology/topology.ts';
import { ClusterAdmin } from './admin.ts';
import { plainRequest } from './placement_requests.ts';
import { encodeKnownReport } from './known_reports.ts';

const never = new AbortController().signal;
const cluster = { environment: 'default_env', zone: 'embedded' };
const newStore = (): Kv => new MemoryKvStore({ clock: realEnv.clock }).client();
const instance = (id: string) => ({
  id,
  isolationGroup: id,
  zone: 'embedded',
  weight: 1,
  endpoint: `${id}:9000`,
  hostname: id,
  port: 9000,
});

/** A cluster on a store that can be exchanged for another one. */
class Exchanged {
  store: Kv = newStore();
  readonly kv: Kv = overriding(this.store, {
    get: (...all) => this.store.get(...all),
    list: (...all) => this.store.list(...all),
    transact: (...all) => this.store.transact(...all),
    watch: (...all) => this.store.watch(...all),
  });
  readonly admin: ClusterAdmin = new ClusterAdmin({
    kv: this.kv,
    cluster,
    clock: realEnv.clock,
    random: realEnv.random,
  });

  topology(known: KnownStore | null = null): Topology {
    const remembered = async () => known;
    const { kv } = this;
    return new Topology({ kv, cluster, env: realEnv, log: silentLog, remembered }).start();
  }

  addNamespace(name: string, admin: ClusterAdmin = this.admin): Promise<unknown> {
    const retentionOptions = {
      retentionPeriodDuration: '48h',
      blockSizeDuration: '2h',
      bufferFutureDuration: '10m',
      bufferPastDuration: '10m',
    };
    return admin.namespaceAdd({ name, options: { retentionOptions } }, plainRequest, never);
  }

  async backUp(from: Kv = this.store): Promise<Kv> {
    const backup = newStore();
    const { items } = await from.list('', never);
    for (const { key, value } of items.toSorted((a, b) => a.modRevision - b.modRevision)) {
      await backup.transact([], [{ kind: 'put', key, value }], never);
    }
    return backup;
  }

  /** As a node says it. */
  async report(
    id: string,
    awaits: string,
    known: KnownStore | null,
    formatLevel: number = formatLevelFirst,
  ): Promise<void> {
    const value = encodeKnownReport(awaits, known, formatLevel);
    await this.kv.transact([], [{ kind: 'put', key: knownPrefix(cluster) + id, value }], never);
  }
}

test('what instances knew stands again once it is approved, and nothing is changed before', async () => {
  const world = new Exchanged();
  const { admin } = world;
  const instances = ['a', 'b'].map(instance);
  await admin.placementInit({ numShards: 2, replicationFactor: 1, instances }, plainRequest, never);
  await world.addNamespace('first');
  const backup = await world.backUp();
  const add = (id: string) =>
    admin.placementAdd({ instances: [instance(id)], force: true }, plainRequest, never);
  for (const id of ['c', 'd', 'e']) await add(id);
  await world.addNamespace('second');
  await using topology = world.topology();
  await topology.whenLoaded(never);
  const before = topology.view;
  const { known } = topology;
  assert.equal(before.awaitsApproval, false);
  await assert.rejects(admin.placementApprove({}, plainRequest, never), /nothing awaits approval/);

  world.store = backup;
  const { view } = { view: await topology.refresh(never) };
  assert.equal(view.awaitsApproval, true);
  assert.equal(view.placementVersion, before.placementVersion);
  assert.deepEqual(view.placement, before.placement);
  assert.deepEqual([...view.namespaces.keys()], ['first', 'second']);
  const refused = { code: 'CONFLICT', message: /placement approve/ };
  await assert.rejects(add('f'), refused);
  await assert.rejects(world.addNamespace('third'), refused);
  await assert.rejects(admin.placementDelete(plainRequest, never), refused);
  await assert.rejects(admin.namespaceDelete('first', plainRequest, never), refused);

  // One knows nothing of the time before; e says nothing.
  for (const id of ['a', 'b', 'c']) await world.report(id, view.storeLineageId, known);
  await world.report('d', view.storeLineageId, null);
  const silent = { code: 'CONFLICT', message: /not told by: e\)/ };
  await assert.rejects(admin.placementApprove({}, plainRequest, never), silent);
  await world.report('e', 'another lineage', known);
  await assert.rejects(admin.placementApprove({}, plainRequest, never), silent);
  await world.report('e', view.storeLineageId, known);
  const { version } = await admin.placementApprove({}, plainRequest, never);
  assert.ok(version > before.placementVersion);

  const after = await topology.refresh(never);
  assert.equal(after.awaitsApproval, false);
  assert.equal(after.lineageId, view.storeLineageId);
  assert.equal(after.placementVersion, version);
  assert.deepEqual(
    after.placement!.instances.map(({ id }) => id),
    ['a', 'b', 'c', 'd', 'e'],
  );
  const { firstAssignment } = before.placement!;
  assert.equal(after.placement!.firstAssignment, firstAssignment);
  assert.deepEqual([...after.namespaces.keys()], ['first', 'second']);
  for (const name of ['first', 'second']) {
    const number = namespaceNumberIn(before.namespaces, name);
    assert.equal(namespaceNumberIn(after.namespaces, name), number);
  }
  await world.addNamespace('third');
  await admin.placementRemoveInstance('e', { ...plainRequest, force: true }, never);

  // Who slept through all that takes what stands.
  await using late = world.topology(known);
  const awake = await late.whenLoaded(never);
  assert.equal(awake.placementVersion, version + 1);
  assert.equal(awake.lineageId, view.storeLineageId);
  assert.deepEqual([...awake.namespaces.keys()], ['first', 'second', 'third']);
});

test('a namespace that was deleted since the backup stays deleted, unless somebody had not heard of it', async () => {
  const world = new Exchanged();
  const { admin } = world;
  const instances = ['a', 'b'].map(instance);
  await admin.placementInit({ numShards: 2, replicationFactor: 1, instances }, plainRequest, never);
  for (const name of ['first', 'second', 'third']) await world.addNamespace(name);
  const backup = await world.backUp();
  await using late = world.topology();
  const { namespaces: old } = await late.whenLoaded(never);
  const { known: knownBefore } = late;
  for (const name of ['second', 'third']) await admin.namespaceDelete(name, plainRequest, never);
  // Numbers are milliseconds.
  await new Promise((resolve) => setTimeout(resolve, 2));
  for (const name of ['third', 'brief']) await world.addNamespace(name);
  await admin.namespaceDelete('brief', plainRequest, never);
  await using topology = world.topology();
  const before = await topology.whenLoaded(never);
  const { known } = topology;

  const restored = async (): Promise<string> => {
    world.store = await world.backUp(backup);
    const { storeLineageId } = await topology.refresh(never);
    return storeLineageId;
  };
  const awaited = await restored();
  assert.deepEqual([...topology.view.namespaces.keys()], ['first', 'third']);
  for (const id of ['a', 'b']) await world.report(id, awaited, known);
  await admin.placementApprove({}, plainRequest, never);
  const after = await topology.refresh(never);
  assert.deepEqual([...after.namespaces.keys()], ['first', 'third']);
  const number = namespaceNumberIn(before.namespaces, 'third');
  assert.equal(namespaceNumberIn(after.namespaces, 'third'), number);
  // Who was away with rows of what was deleted hears of it still.
  assert.deepEqual([...after.endedNamespaces.keys()].sort(), ['brief', 'second', 'third']);
  const { endedNamespaces } = after;
  assert.ok(!isSameNamespace(old.get('third')!, after.namespaces.get('third'), endedNamespaces));

  const awaitedAgain = await restored();
  await world.report('a', awaitedAgain, topology.known);
  await world.report('b', awaitedAgain, knownBefore);
  await admin.placementApprove({}, plainRequest, never);
  const { namespaces, endedNamespaces: ended } = await topology.refresh(never);
  assert.deepEqual([...namespaces.keys()].sort(), ['first', 'second', 'third']);
  assert.equal(namespaceNumberIn(namespaces, 'second'), namespaceNumberIn(old, 'second'));
  assert.deepEqual([...ended.keys()].sort(), ['brief', 'third']);
});

test('formats that instances write are those of the cluster again once it is approved', async () => {
  const world = new Exchanged();
  const { admin } = world;
  const instances = ['a', 'b'].map(instance);
  await admin.placementInit({ numShards: 2, replicationFactor: 1, instances }, plainRequest, never);
  await using topology = world.topology();
  const { known } = await topology.whenLoaded(never).then(() => topology);
  world.store = newStore();
  const { storeLineageId } = await topology.refresh(never);
  await world.report('a', storeLineageId, known, formatLevelFirst);
  await world.report('b', storeLineageId, known, formatLevelNewest);
  await admin.placementApprove({}, plainRequest, never);
  const finished = await world.kv.get(finishedFormatsKey(cluster), never);
  assert.equal(finishedLevelOf(finished!.value), formatLevelNewest);
});

test('a store that is made anew gets what was known, and a cluster of its own in it is told apart', async () => {
  const world = new Exchanged();
  const { admin } = world;
  const body = { numShards: 2, replicationFactor: 1, instances: [instance('a')] };
  await admin.placementInit(body, plainRequest, never);
  await world.addNamespace('first');
  await using topology = world.topology();
  await topology.whenLoaded(never);
  const { view: before, known } = topology;
  world.store = newStore();
  const { storeLineageId, placement } = await topology.refresh(never);
  assert.deepEqual(placement, before.placement);
  await assert.rejects(admin.placementInit(body, plainRequest, never), { code: 'CONFLICT' });
  const approve = () => admin.placementApprove({}, plainRequest, never);
  // It is empty, so that it names nobody to wait for; and who is new itself says nothing of the others.
  await assert.rejects(approve(), {
    code: 'CONFLICT',
    message: /no instance has said what it knew/,
  });
  await world.report('n', storeLineageId, null);
  await assert.rejects(approve(), { code: 'CONFLICT', message: /\(new themselves: n\)/ });
  await world.report('a', storeLineageId, known);
  await approve();
  const after = await topology.refresh(never);
  assert.ok(after.placementVersion > before.placementVersion);
  assert.deepEqual(after.placement, before.placement);
  assert.deepEqual([...after.namespaces.keys()], ['first']);

  // Somebody makes a placement in another empty store before anybody who knows looks at it.
  const other = new Exchanged();
  for (let i = 0; i < 40; i += 1) {
    await other.kv.transact([], [{ kind: 'put', key: 'x', value: new Uint8Array(1) }], never);
  }
  const others = { ...body, instances: [instance('z')] };
  await other.admin.placementInit(others, plainRequest, never);
  world.store = other.store;
  const awaited = await topology.refresh(never);
  assert.equal(awaited.awaitsApproval, true);
  assert.deepEqual(awaited.placement, before.placement);
});

test('a store whose placement nobody knows any more is approved by force', async () => {
  const world = new Exchanged();
  const { admin } = world;
  const body = { numShards: 2, replicationFactor: 1, instances: [instance('a')] };
  await admin.placementInit(body, plainRequest, never);
  // A coordinator, which says nothing of what it knew.
  const { kv } = world;
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  await topology.whenLoaded(never);
  world.store = newStore();
  const { storeLineageId } = await topology.refresh(never);
  await world.report('a', storeLineageId, null);
  await assert.rejects(admin.placementApprove({}, plainRequest, never), { code: 'CONFLICT' });
  const forced = admin.placementApprove({ force: true }, plainRequest, never);
  await assert.rejects(forced, { code: 'NOT_FOUND', message: /placement does not exist/ });
  assert.equal((await topology.refresh(never)).awaitsApproval, false);
  await admin.placementInit(body, plainRequest, never);
});

test('a store that went back is not changed by who has not heard of that yet', async () => {
  const exchanged = new Exchanged();
  await exchanged.addNamespace('before');
  const backup = await exchanged.backUp();
  await exchanged.addNamespace('since');
  await using topology = exchanged.topology();
  await topology.whenLoaded(never);
  const number = namespaceNumberIn(topology.view.namespaces, 'since');
  exchanged.store = backup;
  const kv = lookingFirst(exchanged.kv, (signal) => topology.refresh(signal));
  const { clock, random } = realEnv;
  const admin = new ClusterAdmin({ kv, cluster, clock, random });
  // It would be another one of the same name, and all nodes would drop the rows of the first.
  await assert.rejects(exchanged.addNamespace('since', admin), /awaits|approve/);
  assert.equal(namespaceNumberIn(topology.view.namespaces, 'since'), number);
  const { value } = await admin.namespaces.get(never);
  assert.deepEqual([...value.keys()], ['before']);
});

test('what instances said before the store went back once more does not count', async () => {
  const exchanged = new Exchanged();
  const body = { numShards: 2, replicationFactor: 1, instances: ['a', 'b'].map(instance) };
  await exchanged.admin.placementInit(body, plainRequest, never);
  const backup = await exchanged.backUp();
  for (const name of ['one', 'two', 'three', 'four', 'five']) await exchanged.addNamespace(name);
  await using topology = exchanged.topology();
  await topology.whenLoaded(never);
  const { known } = topology;
  exchanged.store = backup;
  const { storeLineageId } = await topology.refresh(never);
  for (const id of ['a', 'b']) await exchanged.report(id, storeLineageId, known);
  const second = await exchanged.backUp();
  // Others write on, as deletions.
  for (let i = 0; i < 20; i++) await exchanged.report('x', storeLineageId, null);
  await topology.refresh(never);
  exchanged.store = second;
  const kv = lookingFirst(exchanged.kv, (signal) => topology.refresh(signal));
  const { clock, random } = realEnv;
  const admin = new ClusterAdmin({ kv, cluster, clock, random });
  const approve = () => admin.placementApprove({}, plainRequest, never);
  await assert.rejects(approve(), { code: 'CONFLICT', message: /changed meanwhile/ });
  await assert.rejects(approve(), { code: 'CONFLICT', message: /not told by: a, b/ });
  const now = topology.view.storeLineageId;
  assert.notEqual(now, storeLineageId);
  for (const id of ['a', 'b']) await exchanged.report(id, now, known);
  await approve();
  assert.equal((await topology.refresh(never)).awaitsApproval, false);
});

test('who had left before the store went back has nothing to say', async () => {
  const world = new Exchanged();
  const { admin } = world;
  const body = {
    numShards: 4,
    replicationFactor: 1,
    instances: ['a', 'b', 'c', 'd'].map(instance),
  };
  await admin.placementInit(body, plainRequest, never);
  const backup = await world.backUp();
  await admin.placementRemoveInstance('d', { ...plainRequest, force: true }, never);
  await using topology = world.topology();
  await topology.whenLoaded(never);
  const { known } = topology;
  world.store = backup;
  const { storeLineageId, placementVersion } = await topology.refresh(never);
  for (const id of ['a', 'b', 'c']) await world.report(id, storeLineageId, known);
  const { version, placement } = await admin.placementApprove({}, plainRequest, never);
  assert.ok(version > placementVersion);
  assert.deepEqual(Object.keys(placement.instances), ['a', 'b', 'c']);
});

/** A cluster of two whose placement had `version` when its store was lost, and another store awaits. */
async function lostAt(version: number, formatLevel: number): Promise<Exchanged> {
  const world = new Exchanged();
  const { admin } = world;
  const body = { numShards: 2, replicationFactor: 1, instances: ['a', 'b'].map(instance) };
  await admin.placementInit(body, plainRequest, never);
  await world.addNamespace('first');
  await using topology = world.topology();
  await topology.whenLoaded(never);
  const { known } = topology;
  const later = { ...known!, placement: { ...known!.placement!, version } };
  world.store = newStore();
  const { storeLineageId } = await topology.refresh(never);
  for (const id of ['a', 'b']) await world.report(id, storeLineageId, later, formatLevel);
  return world;
}

test('a placement of many versions comes back at once, and goes on from there', async () => {
  const world = await lostAt(1_000_000, formatLevelNewest);
  const { revision } = await world.kv.list('', never);
  const { version } = await world.admin.placementApprove({}, plainRequest, never);
  assert.equal(version, 1_000_001);
  assert.equal((await world.kv.list('', never)).revision, revision + 1, 'one write');
  await world.admin.placementAdd({ instances: [instance('c')], force: true }, plainRequest, never);
  const { placements } = world.admin;
  assert.equal((await placements.get(never)).version, 1_000_002);
  for (const at of [1_000_001, 1_000_002]) {
    const { placement } = await placements.getVersion(at, never);
    assert.equal(placement.instances.length, at - 1_000_001 + 2);
  }
  await using topology = world.topology();
  assert.equal((await topology.whenLoaded(never)).placementVersion, 1_000_002);

  // Lost once more, with what everybody knows of it.
  const { known } = topology;
  world.store = newStore();
  const { storeLineageId } = await topology.refresh(never);
  for (const id of ['a', 'b', 'c']) {
    await world.report(id, storeLineageId, known, formatLevelNewest);
  }
  const again = await world.admin.placementApprove({}, plainRequest, never);
  assert.equal(again.version, 1_000_003);
});

test('until an upgrade is finished versions are passed over one by one, and history stays short', async () => {
  const world = await lostAt(450, formatLevelFirst);
  const { version } = await world.admin.placementApprove({}, plainRequest, never);
  assert.equal(version, 451);
  const { placements } = world.admin;
  const { items } = await world.kv.list(placementHistoryPrefix(cluster, placements.service), never);
  assert.equal(items.length, placementHistoryMax);
  assert.equal((await world.kv.get(placements.key, never))!.version, 451);
  const far = await lostAt(20_000, formatLevelFirst);
  const refused = {
    code: 'CONFLICT',
    message: /from 0 to 20001: by 10000 at most until the upgrade/,
  };
  await assert.rejects(far.admin.placementApprove({}, plainRequest, never), refused);
});
