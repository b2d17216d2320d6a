import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { realEnv } from '#lib/env/real.ts';
import { withRests } from '#lib/turns/steps.ts';
import { lineageKey, storageService } from '../../kv/keys.ts';
import { type MemoryKv, MemoryKvStore } from '../../kv/memory.ts';
import { encodeJson } from '../../kv/stored_json.ts';
import { decodedInSteps } from './decoded_sets.ts';
import { emptyRuleSet, rulesAt, type RuleSet, withRules } from './set.ts';
import { RuleSetStore } from './store.ts';
import { rulesOfFile } from './file.ts';
import { ruleSetToStored } from './json.ts';

const cluster = { environment: 'e', zone: 'z' };
const { signal } = new AbortController();

function newKv(): MemoryKv {
  return new MemoryKvStore({ clock: realEnv.clock }).client();
}

function changing(names: readonly string[], cutoverNanos: bigint) {
  const storagePolicies = [{ resolution: '5m', retention: '90d' }];
  const mappingRules = names.map((name) => ({ name, filter: `app:${name}`, storagePolicies }));
  const rules = rulesOfFile({ mappingRules }, '');
  let count = 0;
  const newId = (): string => `${cutoverNanos}-${(count += 1)}`;
  const moment = { cutoverNanos, nowMillis: 1, by: 'me', newId };
  return (set: RuleSet): RuleSet => withRules(set, rules, moment);
}

const moment = (cutoverNanos: bigint) => ({
  cutoverNanos,
  nowMillis: 1,
  by: 'me',
  newId: () => 'id',
});

function namesAt(set: RuleSet, nanos: bigint): string[] {
  return rulesAt(set, nanos).mappingRules.map(({ name }) => name);
}

test('sets of rules are kept apart, with their history', async () => {
  const store = new RuleSetStore(newKv(), cluster);
  assert.deepEqual(await store.get('default', signal), emptyRuleSet);
  await store.update('default', changing(['a', 'b'], 10n), signal);
  await store.update('default', changing(['b'], 20n), signal);
  const stood = await store.update('other', changing(['c'], 10n), signal);
  const sets = await store.list(signal);
  assert.deepEqual([...sets.keys()], ['default', 'other']);
  assert.deepEqual(ruleSetToStored(sets.get('other')!), ruleSetToStored(stood));
  const read = await store.get('default', signal);
  assert.deepEqual([namesAt(read, 10n), namesAt(read, 20n)], [['a', 'b'], ['b']]);
  assert.equal(read.version, 2);
});

test('two who change a set at once both have their change', async () => {
  const kv = newKv();
  const stores = [new RuleSetStore(kv, cluster), new RuleSetStore(kv, cluster)];
  const adding = (name: string) => (set: RuleSet) =>
    changing([...namesAt(set, 100n), name], 10n)(set);
  await Promise.all(stores.map((store, i) => store.update('default', adding(`r${i}`), signal)));
  const read = await stores[0]!.get('default', signal);
  assert.deepEqual(namesAt(read, 10n).sort(), ['r0', 'r1']);
});

test('sets that make one series in different ways are refused, also when both are changed at once', async () => {
  const kv = newKv();
  const rolling = (name: string, type: string) => {
    const transforms = [
      { rollup: { metricName: 'total', groupBy: ['app'], aggregations: ['Sum'] } },
      { transform: { type } },
    ];
    const storagePolicies = [{ resolution: '5m', retention: '90d' }];
    const rule = { name, filter: 'app:*', transforms, storagePolicies };
    const rules = rulesOfFile({ rollupRules: [rule] }, '');
    return (set: RuleSet): RuleSet => withRules(set, rules, { ...moment(10n), newId: () => name });
  };
  const stores = [new RuleSetStore(kv, cluster), new RuleSetStore(kv, cluster)];
  const results = await Promise.allSettled([
    stores[0]!.update('one', rolling('a', 'Add'), signal),
    stores[1]!.update('two', rolling('b', 'PerSecond'), signal),
  ]);
  assert.deepEqual(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  const [stands] = [...(await stores[0]!.list(signal)).keys()];
  const first = stands === 'one' ? rolling('a', 'Add') : rolling('b', 'PerSecond');
  const refused = {
    code: 'BAD_REQUEST',
    message: `rollup rules "${stands === 'one' ? 'a' : 'b'}" of set ${stands} and "c" make the same series in different ways: total`,
  };
  for (const isDryRun of [false, true]) {
    const tried = stores[0]!.update('three', rolling('c', 'Increase'), signal, isDryRun);
    await assert.rejects(tried, refused);
  }
  // Those that do the same add up, and a set is not held against what it was.
  await stores[0]!.update('three', first, signal);
  const empty = withRules(emptyRuleSet, { mappingRules: [], rollupRules: [] }, moment(20n));
  await stores[0]!.update('three', () => ({ ...empty, version: 2 }), signal);
  await stores[0]!.update(stands!, rolling('c', 'Increase'), signal);
});

test('what a later release has written stays when this one changes the set', async () => {
  const kv = newKv();
  const store = new RuleSetStore(kv, cluster);
  await store.update('default', changing(['a'], 10n), signal);
  const key = `${store.prefix}default`;
  const stored = async (): Promise<Record<string, unknown>> =>
    JSON.parse(gunzipSync((await kv.get(key, signal))!.value).toString());
  await kv.transact(
    [],
    [{ kind: 'put', key, value: gzipSync(encodeJson({ ...(await stored()), note: 'later' })) }],
    signal,
  );
  await store.update('default', changing(['a', 'b'], 20n), signal);
  assert.equal((await stored())['note'], 'later');
});

test('a store that awaits approval is not changed', async () => {
  const kv = newKv();
  const store = new RuleSetStore(kv, cluster);
  const value = encodeJson({ id: 'x', follows: [], awaitsApproval: true });
  await kv.transact([], [{ kind: 'put', key: lineageKey(cluster, storageService), value }], signal);
  await assert.rejects(store.update('default', changing(['a'], 10n), signal), {
    code: 'CONFLICT',
    message: /placement approve/,
  });
  assert.deepEqual(await store.list(signal), new Map());
});

test('a damaged set is told by its key, a name that cannot be one by itself', async () => {
  const kv = newKv();
  const store = new RuleSetStore(kv, cluster);
  const key = `${store.prefix}default`;
  await kv.transact([], [{ kind: 'put', key, value: encodeJson({}) }], signal);
  await assert.rejects(store.get('default', signal), {
    code: 'INTERNAL',
    message: new RegExp(key),
  });
  await assert.rejects(store.get('a/b', signal), { code: 'BAD_REQUEST', message: /a\/b/ });
});

test('ten thousand rules are a value that etcd takes; too many are refused, and change nothing', async () => {
  const store = new RuleSetStore(newKv(), cluster);
  const names = Array.from({ length: 10_000 }, (_, i) => `service-${i}`);
  await store.update('default', changing(names, 10n), signal);
  const long = names.slice(0, 9_000).map((name) => `${name}${'x'.repeat(1_000)}`);
  await assert.rejects(store.update('default', changing(long, 20n), signal), {
    code: 'BAD_REQUEST',
    message: /the rules with their history take \d+ bytes, and 16777216 is the most/,
  });
  assert.equal((await store.get('default', signal)).version, 1);
});

/** Of 2903 instructions each. */
const withPatterns = (count: number): object[] =>
  Array.from({ length: count }, (_, i) => ({
    name: `r${i}`,
    path: { pattern: 'a{1000}a{1000}a{900}' },
    storagePolicies: [{ resolution: '5m', retention: '90d' }],
  }));

function replacing(mappingRules: readonly object[], cutoverNanos = 10n) {
  const rules = rulesOfFile({ mappingRules }, '');
  let count = 0;
  const newId = (): string => `${cutoverNanos}-${(count += 1)}`;
  return (set: RuleSet): RuleSet => withRules(set, rules, { ...moment(cutoverNanos), newId });
}

test('all sets have limits together, and those that stand beyond them may become smaller', async () => {
  const kv = newKv();
  const store = new RuleSetStore(kv, cluster);
  const thirty = replacing(withPatterns(30));
  await store.update('a', thirty, signal);
  await store.update('b', thirty, signal);
  const tooMany = {
    code: 'BAD_REQUEST',
    message:
      'all sets of rules with their history would have 203210 instructions of patterns of paths, 29030 of them in set c, and 200000 is the most',
  };
  for (const isDryRun of [true, false]) {
    await assert.rejects(store.update('c', replacing(withPatterns(10)), signal, isDryRun), tooMany);
  }
  await store.update('c', replacing(withPatterns(5)), signal);
  // As a release has written it that had no such limits.
  const value = gzipSync(encodeJson(ruleSetToStored(thirty(emptyRuleSet))));
  await kv.transact([], [{ kind: 'put', key: `${store.prefix}c`, value }], signal);
  const more = [...withPatterns(30), { ...withPatterns(1)[0], name: 'one more' }];
  await assert.rejects(store.update('c', replacing(more, 20n), signal), {
    message: /would have 264173 instructions of patterns of paths, 89993 of them in set c/,
  });
  await store.update('c', replacing(withPatterns(10), 20n), signal);
});

test('sets that did not change are not decoded again, and others have their turn in between', async () => {
  const kv = newKv();
  const store = new RuleSetStore(kv, cluster);
  const names = Array.from({ length: 2_000 }, (_, i) => `service-${i}`);
  for (const name of ['one', 'two']) {
    await store.update(name, changing([...names, name], 10n), signal);
  }
  const first = await store.list(signal);
  await store.update('two', changing(['a'], 20n), signal);
  const second = await new RuleSetStore(kv, cluster).list(signal);
  assert.equal(second.get('one'), first.get('one'));
  assert.notEqual(second.get('two'), first.get('two'));
  let rests = 0;
  const item = (await kv.get(`${store.prefix}one`, signal))!;
  await withRests(decodedInSteps(item), async () => void (rests += 1));
  assert.ok(rests >= 20, String(rests));
});
