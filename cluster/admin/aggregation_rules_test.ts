import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { emptyRuleSet, withRules } from '../aggregation_rules/sets/set.ts';
import { RuleSetStore } from '../aggregation_rules/sets/store.ts';
import { rulesOfFile } from '../aggregation_rules/sets/file.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { ClusterAdmin } from './admin.ts';
import { plainRequest } from './placement_requests.ts';
import {
  mappingRules,
  rollupRules,
  type RulesChange,
  type RulesTarget,
  ruleSetApply,
  ruleSetCreate,
  ruleSetDelete,
  ruleSetGet,
  ruleSetPublish,
  ruleSetsGet,
  ruleSetUpdate,
  ruleSetValidate,
} from './aggregation_rules.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };
const plain: RulesChange = { dryRun: false, force: false, by: 'me' };
/** 2027-01-15 08:00:00 */
const startMillis = 1_800_000_000_000;

interface World extends RulesTarget {
  nowMillis: number;
}

function newWorld(): World {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const world: World = {
    kv,
    cluster,
    nowMillis: startMillis,
    random: realEnv.random,
    clock: {
      ...realEnv.clock,
      nowMillis: () => world.nowMillis,
      nowNanos: () => BigInt(world.nowMillis) * 1_000_000n,
    },
  };
  return world;
}

async function withAggregated(world: World): Promise<void> {
  const admin = new ClusterAdmin(world);
  const create = { type: 'local', namespaceName: 'default', retentionTime: '48h' };
  await admin.databaseCreate(create, plainRequest, signal);
  const attributes = { resolutionDuration: '1h', downsampleOptions: { all: false } };
  const options = {
    flushEnabled: true,
    retentionOptions: { retentionPeriodDuration: '8760h', blockSizeDuration: '720h' },
    aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
  };
  await admin.namespaceAdd({ name: 'year', options }, plainRequest, signal);
}

const mapping = (name: string, filter = 'app:web') => ({
  name,
  filter,
  storagePolicies: ['1h:8760h'],
});
const rollup = (name: string) => ({
  name,
  filter: 'app:web',
  targets: [
    {
      pipeline: [{ rollup: { newName: 'all', tags: ['app'], aggregation: ['Sum'] } }],
      storagePolicies: ['1h:8760h'],
    },
  ],
});
const file = (...names: string[]) => ({
  mappingRules: names.map((name) => ({
    name,
    filter: 'app:web',
    storagePolicies: [{ resolution: '1h', retention: '8760h' }],
  })),
});

// oxlint-disable-next-line typescript/no-explicit-any -- answers are read as a client reads them
const read = (answer: object): any => JSON.parse(JSON.stringify(answer));
const namesOf = (answer: object): string[] =>
  read(answer).mappingRules.map(({ name }: { name: string }) => name);

test('sets are made, listed and deleted', async () => {
  const world = newWorld();
  assert.deepEqual(await ruleSetsGet(world, signal), { version: 0, namespaces: [] });
  const created = read(await ruleSetCreate(world, { id: 'default' }, plain, signal));
  assert.deepEqual([created.id, created.forRuleSetVersion], ['default', 1]);
  await assert.rejects(ruleSetCreate(world, { id: 'default' }, plain, signal), {
    code: 'CONFLICT',
  });
  await mappingRules.add(world, 'default', mapping('a'), plain, signal);
  const [about] = read(await ruleSetsGet(world, signal)).namespaces;
  assert.deepEqual(about, {
    id: 'default',
    forRuleSetVersion: 2,
    tombstoned: false,
    lastUpdatedBy: 'me',
    lastUpdatedAtMillis: startMillis,
  });
  await ruleSetDelete(world, 'default', plain, signal);
  assert.deepEqual(read(await ruleSetsGet(world, signal)).namespaces, []);
  await assert.rejects(ruleSetGet(world, 'default', signal), {
    code: 'NOT_FOUND',
    message: 'there is no set of rules of this name: default',
  });
  await ruleSetCreate(world, { id: 'default' }, plain, signal);
  assert.deepEqual(namesOf(await ruleSetGet(world, 'default', signal)), []);
});

test('a rule is added, changed and deleted, each from the next window of the coarsest resolution on', async () => {
  const world = newWorld();
  await withAggregated(world);
  await ruleSetCreate(world, { id: 'default' }, plain, signal);
  const added = read(await mappingRules.add(world, 'default', mapping('a'), plain, signal));
  assert.equal(added.cutoverMillis, startMillis + 3_600_000);
  assert.deepEqual(read(await mappingRules.get(world, 'default', added.id, signal)), added);
  world.nowMillis += 3_600_000;
  const body = { ...added, filter: 'app:{web,api}' };
  const changed = read(
    await mappingRules.update(world, 'default', added.id, body, { ...plain, by: 'you' }, signal),
  );
  assert.deepEqual(
    [changed.id, changed.filter, changed.cutoverMillis, changed.lastUpdatedBy],
    [added.id, 'app:{web,api}', startMillis + 7_200_000, 'you'],
  );
  world.nowMillis += 3_600_000;
  assert.deepEqual(await mappingRules.remove(world, 'default', added.id, plain, signal), {
    code: 200,
    message: `Deleted mapping rule: ${added.id} in namespace default`,
  });
  const history = read(await mappingRules.history(world, 'default', added.id, signal));
  const { cutoverMillis, tombstoned, filter } = history.mappingRules.pop();
  assert.deepEqual(
    [tombstoned, filter, cutoverMillis],
    [true, changed.filter, startMillis + 3 * 3_600_000],
  );
  assert.deepEqual(history, { mappingRules: [added, changed] });
  await assert.rejects(mappingRules.get(world, 'default', added.id, signal), {
    code: 'NOT_FOUND',
  });
  const other = read(await rollupRules.add(world, 'default', rollup('r'), plain, signal));
  assert.equal(other.targets[0].pipeline[0].rollup.newName, 'all');
  assert.deepEqual(read(await rollupRules.get(world, 'default', other.id, signal)), other);
});

test('what windows are not made by any more is forgotten', async () => {
  const world = newWorld();
  await withAggregated(world);
  await ruleSetApply(world, 'default', file('a'), plain, signal);
  world.nowMillis += 7_200_000;
  await ruleSetApply(world, 'default', file('b'), plain, signal);
  const ids = async (): Promise<number> =>
    (await new RuleSetStore(world.kv, cluster).get('default', signal)).mappingRules.length;
  world.nowMillis += 8760 * 3_600_000;
  await ruleSetApply(world, 'default', file('b', 'c'), plain, signal);
  assert.equal(await ids(), 3, 'windows of before the change are read by it');
  world.nowMillis += 2 * 3_600_000;
  await ruleSetApply(world, 'default', file('b'), plain, signal);
  assert.equal(await ids(), 2);
});

test('rules of the configuration are published once, and stand until somebody is forced to change them', async () => {
  const world = newWorld();
  await withAggregated(world);
  const published = (...names: string[]): Promise<number> =>
    ruleSetPublish(world, rulesOfFile(file(...names), ''), signal);
  await ruleSetApply(world, 'default', file('a'), plain, signal);
  assert.equal(await published('a'), 2, 'they are of the configuration now');
  assert.equal(await published('a'), 2);
  assert.equal(await published('a', 'b'), 3);
  const apply = (force: boolean): Promise<object> =>
    ruleSetApply(world, 'default', file('c'), { ...plain, force }, signal);
  await assert.rejects(apply(false), { code: 'CONFLICT', message: /comes from the configuration/ });
  assert.equal(read(await apply(true)).version, 4);
  assert.equal(await published('a', 'b'), 5);
  assert.deepEqual(namesOf(await ruleSetGet(world, 'default', signal)), ['a', 'b']);
  await assert.rejects(ruleSetDelete(world, 'default', plain, signal), { code: 'CONFLICT' });
});

test('changes of a set are all made or none, of the version that their author has seen', async () => {
  const world = newWorld();
  await ruleSetApply(world, 'default', file('a', 'b'), plain, signal);
  const before = read(await ruleSetGet(world, 'default', signal));
  const [{ id }] = before.mappingRules;
  const update = (rulesetVersion: number, mappingRuleChanges: object[]) =>
    ruleSetUpdate(
      world,
      'default',
      { rulesetChanges: { namespace: 'default', mappingRuleChanges }, rulesetVersion },
      plain,
      signal,
    );
  const bad = [
    { op: 'delete', ruleID: id },
    { op: 'change', ruleID: 'nobody', ruleData: mapping('c') },
  ];
  await assert.rejects(update(before.version, bad), { code: 'NOT_FOUND' });
  assert.deepEqual(read(await ruleSetGet(world, 'default', signal)), before);
  const good = [
    { op: 'add', ruleData: mapping('a') },
    { op: 'delete', ruleID: id },
  ];
  await assert.rejects(update(before.version + 1, good), {
    code: 'CONFLICT',
    message: 'rulesetVersion: the set of rules is of version 1: 2',
  });
  const after = await update(before.version, good);
  assert.deepEqual(namesOf(after), ['a', 'b'], 'the name of what goes is free for what comes');
  await assert.rejects(update(before.version + 1, []), {
    code: 'BAD_REQUEST',
    message: 'rulesetChanges: no change in it',
  });
});

test('a file is applied as a whole, and again without effect; a dry run shows what it would be', async () => {
  const world = newWorld();
  const dry = await ruleSetApply(world, 'x', file('a'), { ...plain, dryRun: true }, signal);
  assert.deepEqual(namesOf(dry), ['a']);
  await assert.rejects(ruleSetGet(world, 'x', signal), { code: 'NOT_FOUND' });
  const first = read(await ruleSetApply(world, 'x', file('a', 'b'), plain, signal));
  assert.deepEqual(read(await ruleSetApply(world, 'x', file('a', 'b'), plain, signal)), first);
  assert.deepEqual(namesOf(await ruleSetApply(world, 'x', file('b'), plain, signal)), ['b']);
});

test('rules of the configuration are changed there, or by force', async () => {
  const world = newWorld();
  await new RuleSetStore(world.kv, cluster).update(
    'default',
    () => ({
      ...withRules(emptyRuleSet, rulesOfFile(file('a'), ''), {
        cutoverNanos: 0n,
        nowMillis: 0,
        by: '',
        newId: () => '1',
      }),
      isOfConfiguration: true,
    }),
    signal,
  );
  await assert.rejects(ruleSetApply(world, 'default', file('b'), plain, signal), {
    code: 'CONFLICT',
    message: /downsample\.rules.*change it there/,
  });
  const forced = { ...plain, force: true };
  await ruleSetApply(world, 'default', file('b'), forced, signal);
  await ruleSetApply(world, 'default', file('c'), plain, signal);
});

test('a set is checked as a whole', () => {
  const body = (...names: string[]) => ({
    id: 'x',
    mappingRules: names.map((name) => mapping(name)),
  });
  assert.deepEqual(ruleSetValidate('x', body('a', 'b')), {
    code: 200,
    message: 'Ruleset is valid',
  });
  assert.throws(() => ruleSetValidate('x', body('a', 'a')), {
    code: 'BAD_REQUEST',
    message: 'mappingRules: two rules have one name: a',
  });
  assert.throws(() => ruleSetValidate('y', body('a')), {
    code: 'BAD_REQUEST',
    message: 'id: not y as of the path: x',
  });
});
