import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { emptyRuleSet, withRules } from '../aggregation_rules/sets/set.ts';
import { RuleSetStore } from '../aggregation_rules/sets/store.ts';
import { rulesOfFile } from '../aggregation_rules/sets/file.ts';
import { pathPatterns } from '../aggregation_rules/path_patterns.ts';
import { lookingFirst } from '../kv/looking_first.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { advanceStaging } from '../namespaces/changes.ts';
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

/** Samples, and windows of an hour for a year, both READY. */
async function withAggregated(world: World): Promise<ClusterAdmin> {
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
  for (const name of ['default', 'year']) {
    await admin.namespaces.update(
      (registry) => advanceStaging(registry, name, 'READY', world.clock.nowNanos()),
      signal,
    );
  }
  return admin;
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

test('a set is checked as a whole', async () => {
  const world = newWorld();
  await withAggregated(world);
  const body = (...names: string[]) => ({
    id: 'x',
    mappingRules: names.map((name) => mapping(name)),
  });
  const validate = (name: string, set: object): Promise<object> =>
    ruleSetValidate(world, name, set, signal);
  assert.deepEqual(await validate('x', body('a', 'b')), {
    code: 200,
    message: 'Ruleset is valid',
  });
  await assert.rejects(validate('x', body('a', 'a')), {
    code: 'BAD_REQUEST',
    message: 'mappingRules: two rules have one name: a',
  });
  await assert.rejects(validate('y', body('a')), {
    code: 'BAD_REQUEST',
    message: 'id: not y as of the path: x',
  });
  // What an update would refuse, of one set and beside others; nothing is written for that.
  const other = rollup('other');
  const [target] = other.targets;
  const { newName, tags } = target!.pipeline[0]!.rollup;
  const least = { pipeline: [{ rollup: { newName, tags, aggregation: ['Min'] } }] };
  const contradicting = { ...other, targets: [{ ...target!, ...least }] };
  await assert.rejects(validate('x', { id: 'x', rollupRules: [rollup('r'), contradicting] }), {
    code: 'BAD_REQUEST',
    message: 'rollup rules "r" and "other" make the same series in different ways: all',
  });
  await ruleSetCreate(world, { id: 'x' }, plain, signal);
  await rollupRules.add(world, 'x', rollup('r'), plain, signal);
  await assert.rejects(validate('y', { id: 'y', rollupRules: [contradicting] }), {
    code: 'BAD_REQUEST',
    message: 'rollup rules "r" of set x and "other" make the same series in different ways: all',
  });
  await validate('x', { id: 'x', rollupRules: [contradicting] });
  const standing = read(await ruleSetGet(world, 'x', signal));
  assert.deepEqual([standing.version, standing.rollupRules[0].name], [2, 'r']);
  // A set is checked as it was answered, and one of the configuration, too.
  await validate('x', { ...standing, warnings: ['a'] });
  await ruleSetPublish(world, rulesOfFile(file('a'), ''), signal);
  await validate('default', read(await ruleSetGet(world, 'default', signal)));
});

test('who writes rules is told what of them does nothing', async () => {
  const world = newWorld();
  const policies = (retention: string) => [{ resolution: '1h', retention }];
  const inVain = {
    mappingRules: [
      ...['a', 'b', 'c'].map((name) => ({
        name,
        filter: `app:${name}`,
        storagePolicies: policies('8000h'),
      })),
      // What is kept for less than samples is there all the same.
      { name: 'd', filter: 'app:d', storagePolicies: policies('48h') },
      { name: 'e', filter: 'app:e', drop: true, tags: [{ name: 'x', value: 'y' }] },
      {
        name: 'f',
        filter: 'app:f',
        aggregations: ['P99', 'Max', 'Last'],
        storagePolicies: policies('8760h'),
      },
      // What windows are read as is something.
      {
        name: 'max',
        filter: 'app:f',
        aggregations: ['Max'],
        storagePolicies: policies('8760h'),
      },
      {
        name: 'median',
        filter: 'app:f',
        aggregations: ['Median'],
        storagePolicies: policies('8760h'),
      },
      { name: 'g', path: { contains: 'g' }, aggregations: ['Max'] },
      { name: 'read', path: { contains: 'r' }, aggregations: ['P99', 'Max', 'Sum'] },
      { name: 'unread', path: { contains: 'u' }, aggregations: ['P99'] },
    ],
    rollupRules: [
      {
        name: 'r',
        filter: 'app:*',
        transforms: [{ rollup: { metricName: 'all', groupBy: ['app'] } }],
        storagePolicies: policies('8760h'),
        tags: [
          { name: '__m3_drop_timestamp__', value: 'true' },
          { name: 'team', value: 'x' },
        ],
      },
    ],
  };
  await withAggregated(world);
  const warnings = [
    'mapping rule "a" and 2 more: no READY namespace has 1h0m0s:8000h0m0s: nothing is kept there',
    'mapping rule "e": tags do nothing: a mapping rule makes no series',
    'mapping rule "f": aggregations P99 do nothing: windows do not have them, and are read as Max',
    'mapping rule "f": of aggregations Max, Last windows are read as Max: they have all of these, and functions of queries choose',
    'mapping rule "median": aggregations Median do nothing: windows do not have them',
    'mapping rule "read": aggregations P99 do nothing: Graphite reads no rows as these, but as Max',
    'mapping rule "read": of aggregations Max, Sum Graphite reads rows as Max alone',
    'mapping rule "unread": aggregations P99 do nothing: Graphite reads no rows as these',
    'rollup rule "r": tag __m3_drop_timestamp__ does nothing: no series is stored with such a tag',
  ];
  const dry = await ruleSetApply(world, 'default', inVain, { ...plain, dryRun: true }, signal);
  assert.deepEqual(read(dry).warnings, warnings);
  const set = read(await ruleSetApply(world, 'default', inVain, plain, signal));
  assert.deepEqual(set.warnings, warnings);
  assert.deepEqual(read(await ruleSetValidate(world, 'default', set, signal)).warnings, warnings);
  const update = (): Promise<object> => {
    const mappingRuleChanges = [{ op: 'add', ruleData: mapping('h') }];
    const body = { rulesetChanges: { mappingRuleChanges }, rulesetVersion: set.version };
    return ruleSetUpdate(world, 'default', body, { ...plain, dryRun: true }, signal);
  };
  assert.deepEqual(read(await update()).warnings, warnings);
  // Of one rule what it has; what is as it should be has none.
  const missing = { ...mapping('i'), storagePolicies: ['1h:9000h'] };
  const added = read(await mappingRules.add(world, 'default', missing, plain, signal));
  assert.deepEqual(added.warnings, [
    'mapping rule "i": no READY namespace has 1h0m0s:9000h0m0s: nothing is kept there',
  ]);
  const mended = { ...added, storagePolicies: ['1h:8760h'] };
  const changed = await mappingRules.update(world, 'default', added.id, mended, plain, signal);
  assert.equal('warnings' in changed, false);
});

test('a retention by which rules name a namespace is changed by force alone', async () => {
  const world = newWorld();
  const admin = await withAggregated(world);
  const change = (hours: number, force = false): Promise<unknown> => {
    const options = { retentionOptions: { retentionPeriodDuration: `${hours}h` } };
    return admin.namespaceUpdate({ name: 'year', options }, { dryRun: false, force }, signal);
  };
  const refused = (rules: string) => ({
    code: 'BAD_REQUEST',
    message: `options.retentionOptions: cannot change the retention of namespace year from 8760h0m0s to 9000h0m0s: aggregation rules name it by 1h0m0s:8760h0m0s, or have named it so, and would find it no more: ${rules}; add another namespace of 1h0m0s:9000h0m0s and name it in them, too; by force it is changed all the same`,
  });
  await ruleSetApply(world, 'default', file('a', 'b', 'c', 'd'), plain, signal);
  await ruleSetCreate(world, { id: 'other' }, plain, signal);
  await rollupRules.add(world, 'other', rollup('r'), plain, signal);
  const ofDefault = (name: string): string => `mapping rule "${name}" of set default`;
  await assert.rejects(
    change(9000),
    refused(`${['a', 'b', 'c'].map(ofDefault).join(', ')} and 2 more`),
  );
  await change(8760);
  // What is stored is read by the rules of its time.
  world.nowMillis += 7_200_000;
  await ruleSetDelete(world, 'other', plain, signal);
  await ruleSetApply(world, 'default', file(), plain, signal);
  world.nowMillis += 7_200_000;
  await assert.rejects(change(9000), { code: 'BAD_REQUEST' });
  await change(9000, true);
  const { registry } = await admin.namespaceGet(false, signal);
  const year = read(registry).namespaces.year;
  assert.equal(year.retentionOptions.retentionPeriodNanos, String(9000n * 3_600_000_000_000n));
  await change(9001);
});

test('rules that come to name a namespace while its retention is changed are seen', async () => {
  const world = newWorld();
  const admin = await withAggregated(world);
  let isLate = true;
  const kv = lookingFirst(world.kv, async () => {
    if (!isLate) return;
    isLate = false;
    await ruleSetApply(world, 'default', file('a'), plain, signal);
  });
  const options = { retentionOptions: { retentionPeriodDuration: '9000h' } };
  const late = new ClusterAdmin({ ...world, kv });
  await assert.rejects(late.namespaceUpdate({ name: 'year', options }, plainRequest, signal), {
    code: 'BAD_REQUEST',
    message: /mapping rule "a" of set default/,
  });
  assert.ok(!isLate);
  assert.ok((await admin.namespaces.get(signal)).value.has('year'));
});

/** Of some 2900 instructions each. */
const withPatterns = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    ...mapping(`r${i}`),
    path: { pattern: `a{1000}a{1000}a{900}${i}` },
  }));

test('no request has more patterns compiled than a set may have', async () => {
  const world = newWorld();
  await ruleSetCreate(world, { id: 'x' }, plain, signal);
  const before = pathPatterns.compiledCount;
  const rules = withPatterns(2_000).map((rule) => ({ ...rule, path: { pattern: 'a' } }));
  const tooMany = { code: 'BAD_REQUEST', message: /more than 1000 with conditions on paths: 1001/ };
  await assert.rejects(
    ruleSetValidate(world, 'x', { id: 'x', mappingRules: rules }, signal),
    tooMany,
  );
  const update = (added: readonly object[]): Promise<object> => {
    const mappingRuleChanges = added.map((ruleData) => ({ op: 'add', ruleData }));
    const body = {
      rulesetChanges: { namespace: 'x', mappingRuleChanges },
      rulesetVersion: 1,
    };
    return ruleSetUpdate(world, 'x', body, plain, signal);
  };
  await assert.rejects(update(rules), tooMany);
  await assert.rejects(update(withPatterns(40)), {
    code: 'BAD_REQUEST',
    message:
      /^rulesetChanges\.mappingRules: rule r34: \d+ instructions .*, and 100000 is the most$/,
  });
  const { storagePolicies } = file('x').mappingRules[0]!;
  const written = rules.map((rule) => ({ ...rule, storagePolicies }));
  await assert.rejects(ruleSetApply(world, 'x', { mappingRules: written }, plain, signal), tooMany);
  assert.equal(pathPatterns.compiledCount, before);
  // What is added counts with what is there.
  await update(withPatterns(20));
  await assert.rejects(
    mappingRules.add(world, 'x', { ...mapping('y'), path: { pattern: '(' } }, plain, signal),
    { code: 'BAD_REQUEST', message: /^path\.pattern: error parsing regexp/ },
  );
  const more = withPatterns(20).map((rule) => ({ ...rule, name: `more ${rule.name}` }));
  const body = {
    rulesetChanges: { mappingRuleChanges: more.map((ruleData) => ({ op: 'add', ruleData })) },
    rulesetVersion: 2,
  };
  await assert.rejects(ruleSetUpdate(world, 'x', body, plain, signal), {
    message: /^mappingRules: rule more r14: \d+ instructions/,
  });
});

/** Turns of the loop that others have meanwhile. */
async function turnsOf(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  await work;
  isDone = true;
  return turns;
}

test('others have their turn between two patterns of a set', async () => {
  const world = newWorld();
  const before = pathPatterns.compiledCount;
  const body = { id: 'x', mappingRules: withPatterns(20) };
  const turns = await turnsOf(ruleSetValidate(world, 'x', body, signal));
  assert.equal(pathPatterns.compiledCount, before + 20);
  assert.ok(turns >= 19, String(turns));
});

test('others have their turn while many rules are changed', async () => {
  const world = newWorld();
  const names = Array.from({ length: 3_000 }, (_, i) => `r${i}`);
  await ruleSetApply(world, 'x', file(...names), plain, signal);
  const changed = file(...names).mappingRules.map((rule) => ({ ...rule, filter: 'app:other' }));
  const turns = await turnsOf(ruleSetApply(world, 'x', { mappingRules: changed }, plain, signal));
  // Thirty for what is read, and again for what stands, and ten each to compare, to measure and to store.
  assert.ok(turns >= 80, String(turns));
});

test('who changes rules has a name that is not kept without an end', async () => {
  const world = newWorld();
  await ruleSetApply(world, 'x', file('a'), { ...plain, by: 'x'.repeat(10_000) }, signal);
  const [rule] = read(await ruleSetGet(world, 'x', signal)).mappingRules;
  assert.equal(rule.lastUpdatedBy.length, 253);
});
