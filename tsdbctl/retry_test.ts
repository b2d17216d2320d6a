import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { badRequest } from '#lib/errors.ts';
import { askedMillisOf, Pauses } from './retry.ts';

const { signal } = new AbortController();

test('pauses become longer up to a half minute, are as long as is asked for, and are over after a quarter of an hour', async () => {
  const slept: number[] = [];
  let nowMillis = 5;
  const clock = {
    monotonicMillis: () => nowMillis,
    sleep: async (millis: number) => {
      slept.push(millis);
      nowMillis += millis;
    },
  };
  const pauses = new Pauses(clock, signal);
  await pauses.wait(0);
  await pauses.wait(7000);
  while (!pauses.isOver) await pauses.wait(0);
  assert.deepEqual(slept.slice(0, 8), [500, 7000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.ok(nowMillis > 15 * 60_000 && nowMillis < 16 * 60_000, String(nowMillis));
});

test('the pause that an answer asks for is so many seconds, and not beyond two minutes', () => {
  for (const [text, millis] of [
    [null, 0],
    ['3', 3000],
    ['100000', 120_000],
    ['-1', 0],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 0],
  ] as const) {
    const headers = new Headers(text === null ? {} : { 'Retry-After': text });
    assert.equal(askedMillisOf({ headers }), millis, String(text));
  }
});

test('a pause ends with the reason for which a call is stopped', async () => {
  const stop = new AbortController();
  const waiting = new Pauses(realEnv.clock, stop.signal).wait(60_000);
  stop.abort(badRequest('stopped'));
  await assert.rejects(waiting, { code: 'CANCELLED', message: 'stopped' });
});
