import assert from 'node:assert/strict';
import { test } from 'node:test';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { KubeError } from '../kube/kube_api.ts';
import type { Action } from './action.ts';
import { ActionFailures } from './failures.ts';

const service = (selector: string): Action => ({
  kind: 'apply',
  object: {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 's', namespace: 'default' },
    spec: { selector: { app: selector } },
  },
});
const ready: Action = { kind: 'namespace-ready', name: 'n' };
const unavailable = new TsdbError('UNAVAILABLE', 'connection refused');

test('an action that fails is tried again after longer and longer times, two minutes at most', () => {
  const failures = new ActionFailures(fakeEnv(new FakeClock()));
  const dues: number[] = [];
  for (let count = 0; count < 10; count++) {
    failures.noteFailure(ready, unavailable);
    dues.push(failures.dueInMillis(ready));
  }
  assert.deepEqual(dues.slice(0, 4), [1_000, 2_000, 4_000, 8_000]);
  assert.deepEqual(dues.slice(-2), [120_000, 120_000]);
  failures.noteSuccess(ready);
  assert.equal(failures.dueInMillis(ready), 0);
  assert.equal(failures.of(ready), null);
});

test('as long as the server says, when it says how long', () => {
  const failures = new ActionFailures(fakeEnv(new FakeClock()));
  failures.noteFailure(ready, new KubeError(429, 'TooManyRequests', 'too many', 45_000));
  assert.equal(failures.dueInMillis(ready), 45_000);
  assert.equal(failures.of(ready)?.isRefused, false, 'it says nothing of what was asked for');
});

test('what is refused waits longer, and is asked at once when it is another content', async () => {
  const clock = new FakeClock();
  const failures = new ActionFailures(fakeEnv(clock));
  failures.noteFailure(service('a'), new KubeError(422, 'Invalid', 'spec.selector: no'));
  assert.deepEqual(
    [failures.of(service('a'))?.isRefused, failures.dueInMillis(service('a'))],
    [true, 30_000],
  );
  assert.equal(failures.of(service('b')), null);
  assert.equal(failures.dueInMillis(service('b')), 0);
  assert.match(failures.ofKey('apply Service/s')?.message ?? '', /no$/);
  await clock.pass(30_000);
  assert.equal(failures.dueInMillis(service('a')), 0);
  failures.keepOnly([ready]);
  assert.equal(failures.ofKey('apply Service/s'), null);
});

test('what is asked of the database is refused by a bad request, and waits for what is not ready', () => {
  const failures = new ActionFailures(fakeEnv(new FakeClock()));
  const add: Action = { kind: 'namespace-add', name: 'n', options: {} };
  failures.noteFailure(add, badRequest('blockSize is larger than the retention'));
  failures.noteFailure(ready, new TsdbError('UNAVAILABLE', 'not bootstrapped'));
  assert.equal(failures.of(add)?.isRefused, true);
  assert.equal(failures.of(ready)?.isRefused, false);
  failures.noteFailure(ready, badRequest('samples are not kept for as long'));
  assert.equal(failures.of(ready)?.isRefused, true);
});
