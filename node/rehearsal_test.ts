import assert from 'node:assert/strict';
import test from 'node:test';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { rehearseNewSeries } from './rehearsal.ts';

const random = new SeededRandom(1);

/** A clock for which each piece of work takes 5 ms; `onSleep` gets the count of sleeps. */
function slowClock(onSleep: (count: number) => void): Clock {
  let nowMillis = 0;
  let count = 0;
  const clock: Pick<Clock, 'monotonicMillis' | 'sleep'> = {
    monotonicMillis: () => (nowMillis += 5),
    sleep: (_, signal) => {
      onSleep(++count);
      return signal.aborted ? Promise.reject(signal.reason) : Promise.resolve();
    },
  };
  return clock as Clock;
}

test('a rehearsal takes all its series as new ones, and requests come in between', async () => {
  let sleeps = 0;
  const clock = slowClock((count) => (sleeps = count));
  await rehearseNewSeries({ clock, random }, new AbortController().signal);
  assert.equal(sleeps, 40);
});

test('a node that stops does not rehearse to the end', async () => {
  const stop = new AbortController();
  let sleeps = 0;
  const clock = slowClock((count) => {
    sleeps = count;
    if (count === 3) stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
  });
  await assert.rejects(rehearseNewSeries({ clock, random }, stop.signal), { code: 'CANCELLED' });
  assert.equal(sleeps, 3);
});
