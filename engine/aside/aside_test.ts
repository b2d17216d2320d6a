import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import { AsideThread } from './aside.ts';

const aside = new AsideThread(realEnv.clock);
after(() => aside[Symbol.asyncDispose]());
const turns = Turns.of(realEnv.clock);
const never = new AbortController().signal;

const job = (characters: number) =>
  ({
    kind: 'regexp',
    pattern: '(a|b)*a(a|b){900}c',
    texts: ['ab'.repeat(characters / 2)],
  }) as const;

test('a job that waits for others ends with its signal, and so does the one that runs', async () => {
  const long = new AbortController();
  const running = aside.run(job(60_000), turns.begin(long.signal));
  const short = new AbortController();
  const waiting = aside.run(job(10), turns.begin(short.signal));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(aside.waiting, 1);
  short.abort(new Error('its time is over'));
  await assert.rejects(waiting, /its time is over/);
  assert.equal(aside.waiting, 0);
  long.abort(new Error('its client left'));
  await assert.rejects(running, /its client left/);
  assert.deepEqual(await aside.run(job(10), turns.begin(never)), Uint8Array.of(0));
  await assert.rejects(aside.run(job(10), turns.begin(short.signal)), /its time is over/);
});

test('a thread that ended while it had nothing to do is replaced for the next job', async () => {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  await using own = new AsideThread(realEnv.clock);
  assert.deepEqual(await own.run(job(10), turns.begin(never)), Uint8Array.of(0));
  await threads[0]!.terminate();
  assert.deepEqual(await own.run(job(10), turns.begin(never)), Uint8Array.of(0));
  process.off('worker', note);
  assert.equal(threads.length, 2);
});
