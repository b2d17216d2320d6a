import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { RevisionCompacted, type WatchBatch } from './kv.ts';
import { MemoryKvStore } from './memory.ts';

const never = new AbortController().signal;
const put = (key: string, leaseId?: string) =>
  ({
    kind: 'put',
    key,
    value: new Uint8Array(1),
    ...(leaseId === undefined ? {} : { leaseId }),
  }) as const;
const isUnavailable = (error: unknown) =>
  error instanceof TsdbError && error.code === 'UNAVAILABLE';

/** A clock that the test moves; sleepers wake in the order of their times. */
class ManualClock implements Clock {
  #millis = 0;
  #sleepers: { atMillis: number; wake: () => void }[] = [];

  nowMillis = () => this.#millis;
  nowNanos = () => BigInt(this.#millis) * 1_000_000n;
  monotonicMillis = () => this.#millis;
  every: Clock['every'] = () => assert.fail('not used');
  deadline: Clock['deadline'] = () => assert.fail('not used');

  sleep(millis: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      this.#sleepers.push({ atMillis: this.#millis + millis, wake: resolve });
    });
  }

  async advance(millis: number): Promise<void> {
    const endMillis = this.#millis + millis;
    for (;;) {
      // Lets everybody who was woken act, and go to sleep again.
      for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
      this.#sleepers.sort((left, right) => left.atMillis - right.atMillis);
      const first = this.#sleepers[0];
      if (first === undefined || first.atMillis > endMillis) break;
      this.#sleepers.shift();
      this.#millis = Math.max(this.#millis, first.atMillis);
      first.wake();
    }
    this.#millis = endMillis;
  }
}

test('a lease of the memory store lives with its client and by the injected clock', async () => {
  const clock = new ManualClock();
  const store = new MemoryKvStore({ clock });
  const kv = store.client();
  const lease = await kv.lease(10, never);
  await kv.transact([], [put('k', lease.id)], never);
  await clock.advance(100_000);
  assert.equal(lease.lost.aborted, false);
  assert.notEqual(store.get('k'), null);
  await kv[Symbol.asyncDispose]();
  assert.equal(lease.lost.aborted, true);
  await clock.advance(6_000);
  assert.notEqual(store.get('k'), null);
  await clock.advance(5_000);
  assert.equal(store.get('k'), null);
});

test('a client that is cut off loses its lease no later than the store ends it', async () => {
  const clock = new ManualClock();
  const store = new MemoryKvStore({ clock });
  const kv = store.client();
  const lease = await kv.lease(10, never);
  await kv.transact([], [put('k', lease.id)], never);
  kv.setReachable(false);
  await assert.rejects(kv.get('k', never), isUnavailable);
  await assert.rejects(kv.transact([], [put('k')], never), isUnavailable);
  await clock.advance(8_000);
  assert.equal(lease.lost.aborted, false);
  kv.setReachable(true);
  await clock.advance(20_000);
  assert.equal(lease.lost.aborted, false);
  kv.setReachable(false);
  const lostFirst = new Promise<boolean>((resolve) => {
    lease.lost.addEventListener('abort', () => resolve(store.get('k') !== null));
  });
  await clock.advance(10_000);
  assert.equal(await lostFirst, true);
  await clock.advance(1_000);
  assert.equal(store.get('k'), null);
});

test('a watch stands still while cut off and then misses nothing', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock });
  const [kv, other] = [store.client(), store.client()];
  const batches: WatchBatch[] = [];
  const stop = new AbortController();
  const three = Promise.withResolvers<void>();
  const watching = (async () => {
    for await (const batch of kv.watch('k/', 1, stop.signal)) {
      batches.push(batch);
      if (batches.length === 3) three.resolve();
    }
  })();
  await other.transact([], [put('k/1')], never);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(batches.length, 1);
  kv.setReachable(false);
  await other.transact([], [put('k/2'), put('other')], never);
  await other.transact([], [{ kind: 'delete', key: 'k/1' }], never);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(batches.length, 1);
  kv.setReachable(true);
  await three.promise;
  stop.abort();
  await watching;
  assert.deepEqual(
    batches.map((batch) => [batch.revision, batch.events.length]),
    [
      [2, 1],
      [3, 1],
      [4, 1],
    ],
  );
});

test('a watch that was cut off for longer than history reaches is told so', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock, historyRevisionsMax: 5 });
  const kv = store.client();
  const watch = async (fromRevision: number) => {
    for await (const _ of kv.watch('k', fromRevision, never)) break;
  };
  for (let index = 0; index < 20; index += 1) await kv.transact([], [put('k')], never);
  assert.equal(store.compactRevision, 16);
  await assert.rejects(watch(15), (error) => {
    assert(error instanceof RevisionCompacted);
    assert.equal(error.compactRevision, 16);
    return true;
  });
  await watch(16);
  store.compact();
  await assert.rejects(watch(20), RevisionCompacted);
  await watch(21);
});

test('a closed client refuses calls and ends its watches as UNAVAILABLE', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock });
  const kv = store.client();
  const watching = (async () => {
    for await (const _ of kv.watch('k', 1, never)) assert.fail('nothing was written');
  })();
  await kv[Symbol.asyncDispose]();
  await assert.rejects(watching, isUnavailable);
  await assert.rejects(kv.get('k', never), isUnavailable);
});
