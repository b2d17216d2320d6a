import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { type Log, silentLog } from '#lib/log.ts';
import { RetentionClock, retentionHoldMillis } from './retention_clock.ts';

const minute = 60_000;
const day = 24 * 60 * minute;
const startMillis = 1_700_000_000_000;

/** A clock that is moved by hand, and the retention clock on it. */
function newClock(holdMillis = retentionHoldMillis, aheadMillis = 0) {
  const state = {
    wallMillis: startMillis + aheadMillis,
    monotonicMillis: 0,
    /** The median; null while there is none. */
    peersMillis: null as number | null,
  };
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (_, message) => void warnings.push(message) };
  const clock: Clock = {
    ...realEnv.clock,
    nowNanos: () => BigInt(Math.round(state.wallMillis)) * 1_000_000n,
    monotonicMillis: () => state.monotonicMillis,
  };
  const earliestNanos = () => {
    const own = clock.nowNanos();
    const { peersMillis } = state;
    if (peersMillis === null || state.wallMillis - peersMillis <= minute) return own;
    return BigInt(peersMillis) * 1_000_000n;
  };
  const retention = new RetentionClock(clock, { earliestNanos }, log, holdMillis);
  return {
    state,
    warnings,
    retention,
    now: () => Number(retention.nowNanos() / 1_000_000n) - startMillis,
    pass: (millis: number): void => {
      for (let left = millis; left > 0; left -= 10_000) {
        state.wallMillis += 10_000;
        state.monotonicMillis += 10_000;
        if (state.peersMillis !== null) state.peersMillis += 10_000;
        retention.nowNanos();
      }
    },
  };
}

test('it follows a clock that runs well, also one that is corrected slowly or set back', () => {
  const { state, warnings, now, pass } = newClock();
  pass(10 * minute);
  assert.equal(now(), 10 * minute);
  state.wallMillis += 900;
  assert.equal(now(), 10 * minute + 900);
  state.wallMillis -= day;
  assert.equal(now(), 10 * minute + 900 - day);
  assert.deepEqual(warnings, []);
});

test('a jump ahead counts when it has stood for an hour, and not when it is taken back', () => {
  const { state, warnings, now, pass } = newClock();
  state.wallMillis += 3 * day;
  pass(50 * minute);
  assert.equal(now(), 50 * minute);
  assert.equal(warnings.length, 1);
  state.wallMillis -= 3 * day;
  assert.equal(now(), 50 * minute);
  state.wallMillis += 2 * day;
  pass(59 * minute);
  assert.equal(now(), 109 * minute);
  pass(2 * minute);
  assert.equal(now(), 2 * day + 111 * minute);
});

test('after a start it goes on where the process before it was, for an hour', () => {
  const { warnings, retention, now, pass } = newClock();
  retention.startFrom(BigInt(startMillis - 2 * day) * 1_000_000n);
  pass(30 * minute);
  assert.equal(now(), 30 * minute - 2 * day);
  pass(31 * minute);
  assert.equal(now(), 61 * minute);
  assert.deepEqual(warnings, []);
  retention.startFrom(BigInt(startMillis + day) * 1_000_000n);
  assert.equal(now(), 61 * minute);
});

test('without a hold it is the clock', () => {
  const { state, now } = newClock(0);
  state.wallMillis += 3 * day;
  assert.equal(now(), 3 * day);
});

test('a clock that peers say is ahead is not followed, however long it stands', () => {
  const { state, warnings, now, pass } = newClock();
  state.peersMillis = startMillis;
  state.wallMillis += 3 * day;
  pass(5 * 60 * minute);
  assert.equal(now(), 5 * 60 * minute);
  assert.deepEqual(warnings, []);
  // Without the median it is as with a jump that comes just then.
  state.peersMillis = null;
  pass(50 * minute);
  assert.equal(now(), 350 * minute);
  state.peersMillis = startMillis + 350 * minute;
  pass(50 * minute);
  assert.equal(now(), 400 * minute);
});

test('a start with a clock that is ahead goes by the peers as soon as they answer', () => {
  const { state, now } = newClock(retentionHoldMillis, 3 * day);
  assert.equal(now(), 3 * day);
  state.peersMillis = startMillis + minute;
  assert.equal(now(), minute);
});

test('a jump of all clocks together still has to stand for an hour', () => {
  const { state, now, pass } = newClock();
  state.peersMillis = startMillis + 3 * day;
  state.wallMillis += 3 * day;
  pass(50 * minute);
  assert.equal(now(), 50 * minute);
  pass(11 * minute);
  assert.equal(now(), 3 * day + 61 * minute);
});
