import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from './real.ts';
import { ChildSignal, WorkSignals } from './wait.ts';

function timed() {
  let nowMillis = 0;
  const timers: { atMillis: number; ends: AbortController }[] = [];
  const clock = {
    ...realEnv.clock,
    monotonicMillis: () => nowMillis,
    deadline: (millis: number) => {
      const ends = new AbortController();
      timers.push({ atMillis: nowMillis + millis, ends });
      return ends.signal;
    },
  };
  const pass = (millis: number) => {
    nowMillis += millis;
    for (const { atMillis, ends } of timers) if (atMillis <= nowMillis) ends.abort();
  };
  return { signals: new WorkSignals({ ...realEnv, clock }, 100), pass, timers };
}

test('work is ended when its time is over, not before, and by one timer at a time', () => {
  const { signals, pass, timers } = timed();
  const caller = new AbortController().signal;
  const first = signals.begin(caller);
  pass(60);
  const second = signals.begin(caller);
  pass(40);
  assert.equal(first.signal.aborted, true);
  assert.match(String(first.signal.reason), /deadline of 100 ms exceeded/);
  assert.equal(second.signal.aborted, false);
  pass(59);
  assert.equal(second.signal.aborted, false);
  pass(1);
  assert.equal(second.signal.aborted, true);
  assert.equal(timers.length, 2);
});

test('work that has ended is not aborted by the timer', () => {
  const { signals, pass } = timed();
  const work = signals.begin(new AbortController().signal);
  work.end();
  pass(1000);
  assert.equal(work.signal.aborted, false);
});

test('the caller ends the work until it is released', () => {
  const { signals } = timed();
  const caller = new AbortController();
  const held = signals.begin(caller.signal);
  const released = signals.begin(caller.signal);
  released.release();
  caller.abort(new Error('gone'));
  assert.match(String(held.signal.reason), /gone/);
  assert.equal(released.signal.aborted, false);
});

test('a child aborts with its parent for its reason, and not after it has ended', () => {
  const parent = new AbortController();
  const running = new ChildSignal(parent.signal);
  const ended = new ChildSignal(parent.signal);
  ended.end();
  assert.equal((ended.signal.reason as Error).message, 'the work is over');
  assert.ok(!parent.signal.aborted && !running.signal.aborted);
  const reason = new Error('the caller left');
  parent.abort(reason);
  assert.equal(running.signal.reason, reason);
  assert.notEqual(ended.signal.reason, reason);
  assert.equal(new ChildSignal(parent.signal).signal.reason, reason);
});
