import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, fakeEnv } from './fake_clock_testing.ts';
import { RolloutTurns } from './rollout_turns.ts';

const waiting = { hasBegun: false, isWell: true };

test('so many clusters at a time, those in the middle of a rollout first', async () => {
  const clock = new FakeClock();
  const turns = new RolloutTurns(fakeEnv(clock), 1);
  const ask = () => {
    for (const key of ['a', 'b', 'c']) turns.ask(key, { hasBegun: key === 'b', isWell: true });
    return ['a', 'b', 'c'].filter((key) => turns.has(key)).join();
  };
  assert.equal(ask(), '', 'first all are looked at');
  await clock.pass(15_000);
  assert.equal(ask(), 'b');
  assert.equal(ask(), 'b', 'it keeps its turn');
  turns.leave('b');
  assert.equal(turns.has('b'), false);
  turns.ask('c', waiting);
  turns.ask('a', waiting);
  assert.deepEqual([turns.has('a'), turns.has('c')], [true, false]);
  turns.leave('a');
  turns.ask('c', waiting);
  assert.equal(turns.has('c'), true);
});

test('who was ill already comes after the others, and has its turn for some time when they wait', async () => {
  const clock = new FakeClock();
  const turns = new RolloutTurns(fakeEnv(clock), 1);
  const ill = { hasBegun: false, isWell: false };
  await clock.pass(15_000);
  turns.ask('a', ill);
  assert.deepEqual(turns.holders(), ['a'], 'nobody else waits');
  turns.ask('b', waiting);
  turns.ask('c', { hasBegun: true, isWell: false });
  assert.deepEqual(turns.holders(), ['a']);
  await clock.pass(900_000);
  turns.ask('b', waiting);
  assert.deepEqual(turns.holders(), ['c'], 'it has begun');
  turns.leave('c');
  turns.ask('a', { hasBegun: true, isWell: false });
  assert.deepEqual(turns.holders(), ['b'], 'a has had its turn');
  // Who was well shows what the version is, however long it takes.
  await clock.pass(9_000_000);
  turns.ask('a', ill);
  assert.deepEqual(turns.holders(), ['b']);
});
