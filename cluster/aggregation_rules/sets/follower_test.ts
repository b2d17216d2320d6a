import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import type { Log } from '#lib/log.ts';
import { silentLog } from '#lib/log.ts';
import { ruleSetsPrefix } from '../../kv/keys.ts';
import { MemoryKvStore } from '../../kv/memory.ts';
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
