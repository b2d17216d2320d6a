import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import type { Log } from '#lib/log.ts';
import { silentLog } from '#lib/log.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { setKvstore } from '../admin/kvstore.ts';
import {
  noRuntimeLimits,
  type RuntimeLimitKey,
  type RuntimeLimits,
  runtimeLimitPath,
  shareOf,
  withRuntimeLimit,
} from './runtime_limits.ts';
import { RuntimeLimitsFollower } from './runtime_limits_follower.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };
const writes: RuntimeLimitKey = 'tsdb.node.max-outstanding-write-requests';
const plain = { dryRun: false };

/** Waits for what a watch brings. */
async function until(holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds(); turns += 1) {
    assert.ok(turns < 10_000, 'it happens at all');
    await turn();
  }
}

test('values are numbers, text of them, or objects with a value; others are refused by name', () => {
  for (const json of [5, '5', { value: 5 }, { value: '5' }]) {
    assert.equal(
      withRuntimeLimit(noRuntimeLimits, writes, json, 'request').outstandingWritesMax,
      5,
    );
  }
  for (const json of [-1, 1.5, 'x', {}, { value: 5, other: 1 }, [5], true, 2 ** 60]) {
    assert.throws(() => withRuntimeLimit(noRuntimeLimits, writes, json, 'request'), {
      code: 'BAD_REQUEST',
    });
  }
});

test('levels of consistency are words, and others are refused by name', () => {
  const key = 'tsdb.client.read-consistency-level';
  for (const json of ['one', { value: 'one' }]) {
    assert.equal(withRuntimeLimit(noRuntimeLimits, key, json, 'request').readConsistency, 'one');
  }
  for (const json of ['two', { value: 1 }, 1, ['one']]) {
    assert.throws(() => withRuntimeLimit(noRuntimeLimits, key, json, 'request'), {
      code: 'BAD_REQUEST',
    });
  }
  const write = 'tsdb.client.write-consistency-level';
  assert.throws(
    () => withRuntimeLimit(noRuntimeLimits, write, 'none', 'request'),
    /value: not one of one, majority, all: "none"/,
  );
});

test('query limits have the names of the reference system, and a time of 15 s unless it is said', () => {
  const { query } = withRuntimeLimit(
    noRuntimeLimits,
    'tsdb.query.limits',
    {
      maxRecentlyQueriedSeriesBlocks: { limit: '100', lookbackSeconds: 5, forceWaited: false },
      maxRecentlyQueriedSeriesDiskBytesRead: { limit: 7 },
      maxRecentlyQueriedMetadataRead: { forceExceeded: true },
    },
    'request',
  );
  assert.deepEqual(query, {
    seriesBlocks: { limit: 100, lookbackMillis: 5_000, forceExceeded: false },
    diskBytesRead: { limit: 7, lookbackMillis: 15_000, forceExceeded: false },
    diskRead: { limit: 0, lookbackMillis: 15_000, forceExceeded: false },
    metadata: { limit: 0, lookbackMillis: 15_000, forceExceeded: true },
  });
  assert.throws(
    () =>
      withRuntimeLimit(
        noRuntimeLimits,
        'tsdb.query.limits',
        { maxRecently: { limit: 1 } },
        'request',
      ),
    /unknown field: value\.maxRecently/,
  );
});

test('a follower takes what is put, keeps the last good value, and goes back when the key goes', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock });
  const kv = store.client();
  const errors: unknown[] = [];
  const log: Log = { ...silentLog, error: (fields) => errors.push(fields) };
  let limits: RuntimeLimits = noRuntimeLimits;
  await using follower = new RuntimeLimitsFollower({
    kv: store.client(),
    cluster,
    env: realEnv,
    log,
    onChange: (next) => {
      limits = next;
    },
  }).start();
  const key = runtimeLimitPath(cluster, writes);
  const put = (text: string) =>
    kv.transact([], [{ kind: 'put', key, value: new TextEncoder().encode(text) }], signal);
  await put('{"value":3}');
  await until(() => limits.outstandingWritesMax === 3);
  await put('"many"');
  await until(() => follower.ignored === 1);
  assert.equal(limits.outstandingWritesMax, 3);
  assert.match(JSON.stringify(errors), /max-outstanding-write-requests.*many.*not a whole number/);
  await kv.transact([], [{ kind: 'delete', key }], signal);
  await until(() => limits.outstandingWritesMax === null);
});

test('kvstore tells the old value, writes on commit only, and refuses what is not known', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const set = (body: unknown) => setKvstore({ kv, cluster }, body, plain, signal);
  const value = { value: 10 };
  assert.deepEqual(await set({ key: writes, value }), {
    key: writes,
    old: null,
    new: value,
    version: 0,
  });
  assert.equal((await set({ key: writes, value, commit: true })).version, 1);
  assert.deepEqual(await set({ key: writes, value: 20, commit: true }), {
    key: writes,
    old: value,
    new: 20,
    version: 2,
  });
  const removed = await set({ key: writes, value: null, commit: true });
  assert.deepEqual([removed.old, removed.new, removed.version], [20, null, 0]);
  assert.equal(await kv.get(runtimeLimitPath(cluster, writes), signal), null);
  for (const [body, reason] of [
    [{ key: 'tsdb.other', value: 1 }, /unsupported kvstore key/],
    [{ key: writes, value: 'x' }, /not a whole number/],
    [{ key: writes }, /missing required field: value/],
    [{ value: 1 }, /missing required field: key/],
  ] as const) {
    await assert.rejects(set(body), reason);
  }
});

test('a node has its share of a limit of the cluster by its shards', () => {
  const placement = { numShards: 64, replicaFactor: 3 };
  assert.equal(shareOf(0, placement, 64), 0);
  assert.equal(shareOf(300, placement, 64), 100);
  assert.equal(shareOf(300, placement, 32), 50);
  assert.equal(shareOf(1, placement, 1), 1);
  assert.equal(shareOf(100, null, 0), 0);
});
