import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import type { Log } from '#lib/log.ts';
import { silentLog } from '#lib/log.ts';
import { gzipSync } from 'node:zlib';
import { ruleSetsPrefix } from '../../kv/keys.ts';
import { MemoryKvStore } from '../../kv/memory.ts';
import { encodeJson } from '../../kv/stored_json.ts';
import { pathPatterns } from '../path_patterns.ts';
import { ruleSetToStored } from './json.ts';
import { ruleSetOf } from './sets_testing.ts';
import { withRules } from './set.ts';
import { RuleSetStore } from './store.ts';
import { rulesOfFile } from './file.ts';
import { RulesFollower } from './follower.ts';

const cluster = { environment: 'test', zone: 'embedded' };
const never = new AbortController().signal;

async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; !holds(); i++) {
    assert.ok(i < 500, 'not within five seconds');
    await realEnv.clock.sleep(10, never);
  }
}

test('rules are followed from their first state on, and a damaged set leaves those of before', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const store = new RuleSetStore(kv, cluster);
  const apply = (name: string, filter: string): Promise<unknown> =>
    store.update(
      name,
      (set) => {
        const rules = rulesOfFile({ mappingRules: [{ name: 'x', filter, drop: true }] }, '');
        return withRules(set, rules, {
          cutoverNanos: 1n,
          nowMillis: 0,
          by: '',
          newId: () => 'id',
        });
      },
      never,
    );
  await apply('default', 'app:a');
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (_, message) => void errors.push(message) };
  const before = realEnv.clock.nowNanos();
  await using follower = new RulesFollower({ kv, cluster, env: realEnv, log }).start();
  assert.equal(follower.known.knownNanos, null);
  const drops = (tags: Record<string, string>): boolean => {
    const list = Object.entries(tags).map(([name, value]) => ({ name, value }));
    const rules = follower.known.sets.of(list)?.at(5n);
    return rules !== undefined && rules.match(list).drops.length > 0;
  };
  await until(() => follower.known.knownNanos !== null);
  assert.ok(follower.known.knownNanos! >= before);
  assert.ok(drops({ app: 'a' }) && !drops({ app: 'b' }));
  const { sets } = follower.known;

  await apply('other', 'app:b');
  await until(() => drops({ app: 'b', __m3_namespace__: 'other' }));
  assert.ok(!drops({ app: 'b' }) && drops({ app: 'a' }));
  assert.equal(
    follower.known.sets.of([]),
    sets.of([]),
    'the index of a set that stays is not made anew',
  );

  const key = `${ruleSetsPrefix(cluster)}default`;
  await kv.transact([], [{ kind: 'put', key, value: new Uint8Array([1, 2]) }], never);
  await until(() => errors.length > 0);
  assert.deepEqual(errors, [
    'a set of aggregation rules cannot be read: those that were known before stay',
  ]);
  assert.ok(drops({ app: 'a' }) && drops({ app: 'b', __m3_namespace__: 'other' }));
  await kv.transact([], [{ kind: 'delete', key }], never);
  await until(() => !drops({ app: 'a' }));
});

test('sets that stand beyond what all may have hold as far as there is room, which is told', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const put = async (name: string, value: Uint8Array): Promise<void> => {
    const key = `${ruleSetsPrefix(cluster)}${name}`;
    await kv.transact([], [{ kind: 'put', key, value }], never);
  };
  const large = 'a{1000}a{1000}a{900}';
  const stored = (name: string): Buffer => {
    const storagePolicies = [{ resolution: '5m', retention: '90d' }];
    const mappingRules = [
      ...Array.from({ length: 30 }, (_, i) => ({
        name: `r${i}`,
        path: { pattern: large },
        storagePolicies,
      })),
      { name: 'drop', filter: `app:${name}`, drop: true },
    ];
    return gzipSync(encodeJson(ruleSetToStored(ruleSetOf([1n, { mappingRules }]))));
  };
  // The youngest one has none left for some of its patterns; the oldest has them, whatever its name is.
  for (const name of ['z', 'b', 'a']) await put(name, stored(name));
  // It says that it has more bytes than all may have.
  const vast = stored('vast');
  vast.writeUInt32LE(1 << 30, vast.length - 4);
  await put('vast', vast);
  await put('young', stored('young'));
  const told: unknown[][] = [];
  const log: Log = { ...silentLog, error: (...line) => void told.push(line) };
  const compiled = pathPatterns.compiledCount;
  await using follower = new RulesFollower({ kv, cluster, env: realEnv, log }).start();
  await until(() => follower.known.knownNanos !== null);
  assert.equal(pathPatterns.compiledCount - compiled, 1, 'one text is compiled once');
  const rest = (set: string, from: number): string[] =>
    Array.from({ length: 30 - from }, (_, i) => `${set}: r${from + i}`);
  const refused = [...rest('a', 8), ...rest('young', 0)];
  assert.deepEqual(told, [
    [
      { keys: `${ruleSetsPrefix(cluster)}vast` },
      'sets of aggregation rules do not hold: all of them together are more than a cluster may have',
    ],
    [
      { rules: `${refused.slice(0, 10).join(', ')} and ${refused.length - 10} more` },
      'aggregation rules match no path: patterns of all rules together are more than a cluster may have',
    ],
  ]);
  const drops = (name: string): boolean => {
    const tags = [{ name: 'app', value: name }];
    return (follower.known.sets.named(name)?.at(5n).match(tags).drops.length ?? 0) > 0;
  };
  assert.deepEqual(['z', 'b', 'a', 'young', 'vast'].map(drops), [true, true, true, true, false]);

  // What goes makes room for the others.
  const { sets } = follower.known;
  await kv.transact([], [{ kind: 'delete', key: `${ruleSetsPrefix(cluster)}vast` }], never);
  await kv.transact([], [{ kind: 'delete', key: `${ruleSetsPrefix(cluster)}z` }], never);
  await until(() => told.length > 2 && follower.known.sets.named('z') === null);
  assert.equal(follower.known.sets.named('b'), sets.named('b'));
  assert.deepEqual(told.at(-1)![0], {
    rules: `${rest('young', 8).slice(0, 10).join(', ')} and 12 more`,
  });
});
