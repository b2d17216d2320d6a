import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, fakeEnv } from './fake_clock_testing.ts';
import { RolloutTurns } from './rollout_turns.ts';

test('so many clusters at a time, those in the middle of a rollout first', async () => {
  const clock = new FakeClock();
  const turns = new RolloutTurns(fakeEnv(clock), 1);
  const ask = () => {
    for (const key of ['a', 'b', 'c']) turns.ask(key, key === 'b');
    return ['a', 'b', 'c'].filter((key) => turns.has(key)).join();
  };
  assert.equal(ask(), '', 'first all are looked at');
  await clock.pass(15_000);
  assert.equal(ask(), 'b');
  assert.equal(ask(), 'b', 'it keeps its turn');
  turns.leave('b');
  assert.equal(turns.has('b'), false);
  turns.ask('c', false);
  turns.ask('a', false);
  assert.deepEqual([turns.has('a'), turns.has('c')], [true, false]);
  turns.leave('a');
  turns.ask('c', false);
  assert.equal(turns.has('c'), true);
});
