import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { ReadMemory, readsWaitingMax } from './read_memory.ts';

const mib = 1 << 20;
const { signal } = new AbortController();

/** Of 64 MiB; waits end when the test says so. */
function open() {
  const waits = new Set<() => void>();
  const clock = {
    ...realEnv.clock,
    sleep: (_: number, until: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        waits.add(resolve);
        until.addEventListener('abort', () => {
          waits.delete(resolve);
          reject(until.reason);
        });
      }),
  };
  const memory = new ReadMemory(clock, 512 * mib);
  const expire = () => waits.forEach((resolve) => resolve());
  return { memory, expire };
}

/** Notes in which order promises are kept or broken. */
function noting() {
  const noted: string[] = [];
  const note = (name: string, promise: Promise<unknown>): void => {
    promise.then(
      () => noted.push(name),
      (error: { code?: string }) => noted.push(`${name}: ${error.code}`),
    );
  };
  return { noted, note };
}

test('reads wait until others have given back, who has begun before who has not', async () => {
  const { memory } = open();
  const { noted, note } = noting();
  const first = await memory.enter(40 * mib, signal);
  const second = await memory.enter(20 * mib, signal);
  note('third begins', memory.enter(10 * mib, signal));
  note('second grows', second.growTo(30 * mib, signal));
  await turn();
  assert.deepEqual(noted, []);
  assert.equal(memory.waiting, 2);
  first.shrinkTo(31 * mib);
  await turn();
  assert.deepEqual(noted, ['second grows']);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  await turn();
  assert.deepEqual(noted, ['second grows', 'third begins']);
  assert.equal(memory.bytes, 40 * mib);
});

test('who waits too long, or finds too many waiting, is told to come later', async () => {
  const { memory, expire } = open();
  const { noted, note } = noting();
  using _ = await memory.enter(64 * mib, signal);
  const left = new AbortController();
  for (let i = 0; i < readsWaitingMax; i++) {
    note(`${i}`, memory.enter(mib, i === 0 ? left.signal : signal));
  }
  await assert.rejects(memory.enter(mib, signal), { code: 'RESOURCE_EXHAUSTED' });
  left.abort(Object.assign(new Error('the client left'), { code: 'gone' }));
  expire();
  await turn();
  assert.ok(noted.includes('0: gone'));
  assert.equal(noted.filter((line) => line.endsWith('RESOURCE_EXHAUSTED')).length, 999);
  assert.equal(memory.waiting, 0);
  assert.equal(memory.bytes, 64 * mib);
});

test('reads that all need more do not wait for each other for ever', async () => {
  const { memory } = open();
  const { noted, note } = noting();
  const [a, b, c] = await Promise.all([1, 2, 3].map(() => memory.enter(20 * mib, signal)));
  note('a', a!.growTo(30 * mib, signal));
  note('b', b!.growTo(30 * mib, signal));
  await turn();
  await assert.rejects(c!.growTo(30 * mib, signal), { code: 'RESOURCE_EXHAUSTED' });
  c![Symbol.dispose]();
  await turn();
  assert.deepEqual(noted, ['a', 'b']);
  // The last one that does not wait goes.
  const d = await memory.enter(mib, signal);
  note('a again', a!.growTo(40 * mib, signal));
  note('b again', b!.growTo(60 * mib, signal));
  d[Symbol.dispose]();
  await turn();
  assert.deepEqual(noted.slice(2), ['b again: RESOURCE_EXHAUSTED']);
  b![Symbol.dispose]();
  await turn();
  assert.equal(noted.at(-1), 'a again');
});

test('an answer that is larger than all that reads may take is refused for good', async () => {
  const { memory } = open();
  using read = await memory.enter(0, signal);
  await assert.rejects(read.growTo(64 * mib + 1, signal), {
    code: 'BAD_REQUEST',
    message: /takes 67108865 bytes, more than the 67108864 .*db\.memoryMax/,
  });
  await read.growTo(64 * mib, signal);
});
