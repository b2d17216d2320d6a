import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, fakeEnv } from './fake_clock_testing.ts';
import { Health } from './health.ts';

test('it is ready while Kubernetes answers and all kinds are listed', async () => {
  const clock = new FakeClock();
  const health = new Health(fakeEnv(clock));
  assert.deepEqual([health.readyProblem, health.liveProblem], [null, null]);
  health.noteWatch('pods', false);
  health.noteWatch('services', false);
  assert.equal(health.readyProblem, 'not listed: pods, services');
  health.noteWatch('pods', true);
  health.noteWatch('services', true);
  assert.equal(health.readyProblem, null);
  await clock.pass(31_000);
  assert.match(health.readyProblem ?? '', /not answered for 31 s/);
  assert.equal(health.liveProblem, null, 'a new process would not help yet');
  health.noteContact();
  assert.equal(health.readyProblem, null);
  await clock.pass(121_000);
  assert.match(health.liveProblem ?? '', /121 s/);
});
