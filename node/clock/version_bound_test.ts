import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { versionAtMillis } from '#lib/hybrid_clock.ts';
import { type Log, silentLog } from '#lib/log.ts';
import type { PeerClocks } from '#cluster/node/peer_clocks.ts';
import { VersionBound } from './version_bound.ts';

const minute = 60_000;
const hour = 60 * minute;
const startMillis = 1_700_000_000_000;

function newBound() {
  const state = { medianMillis: startMillis as number | null, ownMillis: startMillis, passed: 0 };
  let hastened = 0;
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (_, message) => void warnings.push(message) };
  const clock: Clock = {
    ...realEnv.clock,
    nowMillis: () => state.ownMillis,
    monotonicMillis: () => state.passed,
  };
  const peers: Pick<PeerClocks, 'medianMillis' | 'voters' | 'hasten'> = {
    medianMillis: () => state.medianMillis,
    voters: 3,
    hasten: () => void (hastened += 1),
  };
  const bound = new VersionBound(clock, log, peers);
  return { bound, state, warnings, hastened: () => hastened };
}

const at = (millis: number): number => versionAtMillis(startMillis + millis);

test('a version more than a minute ahead of the median is refused, with the reason', () => {
  const { bound, state, warnings, hastened } = newBound();
  // This machine's own clock is not asked.
  state.ownMillis += hour;
  bound.check(at(-hour));
  bound.check(at(minute));
  assert.throws(
    () => bound.check(at(hour)),
    (error) =>
      error instanceof TsdbError &&
      error.code === 'FAILED_PRECONDITION' &&
      error.httpStatus === 503 &&
      error.message ===
        'cannot write: the clock of the writer is 3600.0 s ahead of the median of 3 clocks of storage nodes',
  );
  assert.throws(() => bound.check(at(minute) + 1), TsdbError);
  assert.deepEqual(bound.counts, { refused: 2, unchecked: 0 });
  assert.equal(warnings.length, 1);
  assert.equal(hastened(), 2);
});

test('without a median it is taken, and said once a minute', () => {
  const { bound, state, warnings } = newBound();
  state.medianMillis = null;
  for (let i = 0; i < 5; i += 1) bound.check(at(hour));
  assert.deepEqual(bound.counts, { refused: 0, unchecked: 5 });
  assert.equal(warnings.length, 1);
  state.passed += minute;
  bound.check(at(hour));
  assert.equal(warnings.length, 2);
});

test('without a median a version more than a day ahead is refused, so that none stands for ever', () => {
  const { bound, state, warnings } = newBound();
  state.medianMillis = null;
  bound.check(at(24 * hour));
  for (const version of [at(24 * hour) + 1, at(1_000_000 * hour), Number.MAX_SAFE_INTEGER]) {
    assert.throws(() => bound.check(version), {
      code: 'FAILED_PRECONDITION',
      message:
        /^cannot write: the version of the batch is [\d.]+ h ahead .*, 24 h at most: set the/,
    });
  }
  assert.deepEqual(bound.counts, { refused: 3, unchecked: 1 });
  assert.equal(warnings.length, 1, 'once a minute');
  // A node whose clock is behind: by hours it takes writers who are right, and by days it has them wait.
  state.ownMillis -= 14 * hour;
  bound.check(at(0));
  state.ownMillis = 0;
  assert.throws(() => bound.check(at(0)), { httpStatus: 503 });
});

test('writers are led to the highest version, and half a minute ahead of the time at most', () => {
  const { bound, state } = newBound();
  assert.equal(bound.highest, 0);
  bound.accept(at(0));
  bound.accept(at(-minute));
  assert.equal(bound.highest, at(0));
  bound.accept(at(hour));
  assert.equal(bound.highest, at(minute / 2));
  state.medianMillis = null;
  state.ownMillis += minute;
  assert.equal(bound.highest, at(1.5 * minute));
  state.ownMillis += 2 * hour;
  assert.equal(bound.highest, at(hour));
});
