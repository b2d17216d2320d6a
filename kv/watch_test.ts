import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import type { ProtoMessage } from '#lib/env/proto.ts';
import { silentLog } from '#lib/log.ts';
import { kvLimits } from './core/limits.ts';
import type { PutRequest } from './core/requests.ts';
import { schema } from './messages.ts';
import type { Storage } from './storage/storage.ts';
import { Store } from './store.ts';
import { WatchStream, WatchTotals } from './watch.ts';

/** A disk on which everything is at once. */
const noDisk: Storage = {
  load: async () => ({
    state: { revision: 1, compactRevision: 0, changes: [], leases: [] },
    identity: { clusterId: 1n, memberId: 2n },
  }),
  commit: async () => {},
  size: async () => ({ fileBytes: 0, usedBytes: 0 }),
  [Symbol.asyncDispose]: async () => {},
};

const putOf = (key: string, value: Uint8Array): PutRequest => {
  const flags = { leaseId: 0n, previous: false, ignoreValue: false, ignoreLease: false };
  return { kind: 'put', key, value, ...flags };
};

const codec = schema.codec('etcdserverpb.WatchResponse');

interface Watched {
  readonly answers: readonly ProtoMessage[];
  /** Turns of the loop until the first changes were sent. */
  readonly turns: number;
}

/** All that a watch of the key from the first revision on, with what was there before, is sent. */
async function watched(store: Store, key: string): Promise<Watched> {
  // Each look at the clock takes some milliseconds, so that it gives way wherever it may.
  let millis = 0;
  const clock = { ...realEnv.clock, monotonicMillis: () => (millis += 5) };
  const over = new AbortController();
  const answers: ProtoMessage[] = [];
  let turns = 0;
  let turnsOfFirst = -1;
  const stream = new WatchStream({
    store,
    clock,
    totals: new WatchTotals(),
    header: (revision) => ({ revision }),
    codec,
    async send(bytes) {
      const answer = codec.decode(bytes);
      if (answer['created']) return;
      if (turnsOfFirst < 0) turnsOfFirst = turns;
      answers.push(answer);
      if (answer['header'].revision >= BigInt(store.committedRevision)) over.abort();
    },
    signal: over.signal,
  });
  const create = { watchId: 0n, key: Buffer.from(key), rangeEnd: Buffer.alloc(0), filters: [] };
  const taken = stream.take({
    request: 'create',
    create: { ...create, startRevision: 2n, previous: true, progressNotify: false },
  });
  const turning = (async () => {
    for (; !over.signal.aborted; turns++) await new Promise(setImmediate);
  })();
  await stream.run();
  await Promise.all([taken, turning]);
  return { answers, turns: turnsOfFirst };
}

test('a watch of a long past gives way between its events, each with what was before', async () => {
  await using store = await Store.open({ storage: noDisk, env: realEnv, log: silentLog });
  const count = 9_000;
  await store.perform((core) => {
    for (let i = 0; i < count; i++) core.put(putOf('a', Uint8Array.of(i & 255)));
  });
  assert.ok(count < kvLimits.watchChangesAtOnce);
  const { answers, turns } = await watched(store, 'a');
  assert.ok(turns >= count / 500 / 2, `${turns}`);
  const events = answers.flatMap((answer) => answer['events'] as ProtoMessage[]);
  assert.equal(events.length, count);
  for (const [i, { pair, previous }] of events.entries()) {
    assert.equal(pair.value[0], i & 255);
    assert.equal(pair.modRevision, BigInt(i + 2));
    assert.equal(previous === null ? null : previous.modRevision, i === 0 ? null : BigInt(i + 1));
  }
});

test('what was before a change counts to the bytes of an answer', async () => {
  await using store = await Store.open({ storage: noDisk, env: realEnv, log: silentLog });
  await store.perform((core) => {
    for (let i = 0; i < 16; i++) core.put(putOf('a', new Uint8Array(i % 2 === 0 ? 400_000 : 1)));
  });
  const { answers } = await watched(store, 'a');
  const counts = answers.map((answer) => (answer['events'] as ProtoMessage[]).length);
  assert.ok(counts.length >= 5, `${counts}`);
  assert.equal(
    counts.reduce((sum, each) => sum + each, 0),
    16,
  );
});
