import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '#lib/log.ts';
import { FakeClock, fakeEnv } from './fake_clock_testing.ts';
import { WorkQueue } from './queue.ts';

interface Harness {
  readonly clock: FakeClock;
  readonly queue: WorkQueue;
  /** Key and time of every start of work. */
  readonly starts: [string, number][];
  readonly stop: () => Promise<void>;
}

function start(
  work: (key: string, signal: AbortSignal) => Promise<number | null>,
  workers = 4,
  retryAfterMillisOf: (error: unknown) => number = () => 0,
): Harness {
  const clock = new FakeClock();
  const starts: [string, number][] = [];
  const queue = new WorkQueue({
    env: fakeEnv(clock),
    log: silentLog,
    workers,
    retryAfterMillisOf,
    work: (key, signal) => {
      starts.push([key, clock.monotonicMillis()]);
      return work(key, signal);
    },
  });
  const stopped = new AbortController();
  const running = queue.run(stopped.signal);
  return {
    clock,
    queue,
    starts,
    stop: () => {
      stopped.abort();
      return running;
    },
  };
}

test('a key added many times while it waits is worked on once', async () => {
  const harness = start(async () => null, 1);
  for (let count = 0; count < 100; count++) harness.queue.add('a');
  harness.queue.add('b');
  await harness.clock.pass(10);
  assert.deepEqual(
    harness.starts.map(([key]) => key),
    ['a', 'b'],
  );
  assert.equal(harness.queue.depth, 0);
  await harness.stop();
});

test('a key is never in work twice at once, and runs again when it was added meanwhile', async () => {
  let running = 0;
  let most = 0;
  const { clock, queue, starts, stop } = start(async (_key, signal) => {
    most = Math.max(most, ++running);
    await clock.sleep(100, signal);
    running--;
    return null;
  });
  queue.add('a');
  await clock.pass(50);
  for (let count = 0; count < 5; count++) queue.add('a');
  await clock.pass(1_000);
  assert.equal(starts.length, 2);
  assert.equal(most, 1);
  await stop();
});

test('other keys go on while one takes long, up to the number of workers', async () => {
  const release = Promise.withResolvers<null>();
  const harness = start((key) =>
    key.startsWith('slow') ? release.promise : Promise.resolve(null),
  );
  for (const key of ['slow1', 'slow2', 'slow3', 'quick']) harness.queue.add(key);
  await harness.clock.pass(0);
  assert.equal(harness.starts.length, 4);
  assert.equal(harness.queue.depth, 3);
  release.resolve(null);
  await harness.clock.pass(0);
  assert.equal(harness.queue.depth, 0);
  await harness.stop();
});

test('a failed key comes back ever later, at most after two minutes, and a success starts anew', async () => {
  let failing = true;
  const harness = start(async () => {
    if (failing) throw new Error('no');
    return null;
  });
  harness.queue.add('a');
  await harness.clock.pass(1_000_000);
  const delays = harness.starts.map(([, at], index) => at - (harness.starts[index - 1]?.[1] ?? 0));
  assert.deepEqual(delays.slice(1, 6), [500, 1_000, 2_000, 4_000, 8_000]);
  assert.ok(Math.max(...delays) <= 120_000);
  assert.ok(delays.slice(10).every((delay) => delay === 120_000));
  failing = false;
  await harness.clock.pass(120_000);
  failing = true;
  const before = harness.starts.length;
  harness.queue.add('a');
  await harness.clock.pass(600);
  assert.equal(harness.starts.length - before, 2);
  await harness.stop();
});

test('a key that failed comes back when the server says, when it says when', async () => {
  const work = () => Promise.reject(new Error('too many requests'));
  const harness = start(work, 1, () => 30_000);
  harness.queue.add('a');
  await harness.clock.pass(29_999);
  assert.equal(harness.starts.length, 1);
  await harness.clock.pass(1);
  assert.equal(harness.starts.length, 2);
  await harness.stop();
});

test('keys whose work does not end hold up no other', async () => {
  const never = Promise.withResolvers<null>();
  const harness = start((key) => (key === 'well' ? Promise.resolve(null) : never.promise), 32);
  for (let at = 0; at < 20; at++) harness.queue.add(`broken ${at}`);
  harness.queue.add('well');
  await harness.clock.pass(0);
  assert.ok(harness.starts.some(([key]) => key === 'well'));
  never.resolve(null);
  await harness.stop();
});

test('a key asked for later comes at its time, and sooner when something changes', async () => {
  const harness = start(async () => 60_000);
  harness.queue.add('a');
  await harness.clock.pass(59_999);
  assert.equal(harness.starts.length, 1);
  await harness.clock.pass(1);
  assert.equal(harness.starts.length, 2);
  await harness.clock.pass(10_000);
  harness.queue.add('a');
  await harness.clock.pass(0);
  assert.deepEqual(
    harness.starts.map(([, at]) => at),
    [0, 60_000, 70_000],
  );
  await harness.clock.pass(60_000);
  assert.equal(harness.starts.at(-1)![1], 130_000, 'the earlier time was given up');
  await harness.stop();
});

test('stopping waits for the work that runs, and starts no other', async () => {
  let ended = false;
  const release = Promise.withResolvers<void>();
  const harness = start(async () => {
    await release.promise;
    ended = true;
    return null;
  }, 1);
  harness.queue.add('a');
  harness.queue.add('b');
  await harness.clock.pass(0);
  const stopping = harness.stop();
  release.resolve();
  await stopping;
  assert.ok(ended);
  assert.equal(harness.starts.length, 1);
});
