import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { setKvstore } from '../admin/kvstore.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { LiveLevels } from './live_levels.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };

test('levels of the key-value store hold while they are there, under the names of M3, too', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  await using levels = new LiveLevels(
    { kv, cluster, env: realEnv, log: silentLog },
    { writeConsistencyLevel: 'majority', readConsistencyLevel: 'unstrict_majority' },
  );
  const set = (key: string, value: unknown) =>
    setKvstore({ kv, cluster }, { key, value, commit: true }, { dryRun: false }, signal);
  const until = async (expected: readonly string[]): Promise<void> => {
    for (let attempt = 0; ; attempt++) {
      const now = [levels.writeConsistency, levels.readConsistency];
      if (now.join() === expected.join()) return;
      assert.ok(attempt < 400, now.join());
      await realEnv.clock.sleep(5, signal);
    }
  };
  await until(['majority', 'unstrict_majority']);
  await set('tsdb.client.write-consistency-level', 'all');
  await until(['all', 'unstrict_majority']);
  await set('m3db.client.read-consistency-level', { value: 'one' });
  await until(['all', 'one']);
  await set('tsdb.client.write-consistency-level', null);
  await set('tsdb.client.read-consistency-level', null);
  await until(['majority', 'unstrict_majority']);
  await assert.rejects(set('m3db.client.read-consistency-level', 'two'), /not one of none, one/);
  await assert.rejects(set('m3db.node.namespaces', {}), /services\/tsdb\/namespace/);
  await assert.rejects(set('m3db.client.bootstrap-consistency-level', 'none'), /donors/);
  await assert.rejects(set('m3.other', 1), /not one of tsdb\.node/);
});
