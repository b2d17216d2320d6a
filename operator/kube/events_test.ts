import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '#lib/log.ts';
import { EventRecorder, type EventText } from './events.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { FakeKube } from './fake_kube_testing.ts';
import { KubeError } from './kube_api.ts';

type Json = any;

const cluster: Json = {
  apiVersion: 'tsdb.io/v1alpha1',
  kind: 'TSDBCluster',
  metadata: { name: 'c', namespace: 'default', uid: 'u' },
};
const event: EventText = { reason: 'ActionFailed', message: 'refused', type: 'Warning' };

function recorder() {
  const kube = new FakeKube();
  const clock = new FakeClock();
  const { signal } = new AbortController();
  const events = new EventRecorder({ api: kube, env: fakeEnv(clock), log: silentLog });
  return { kube, clock, record: (one = event) => events.record(cluster, one, signal) };
}

test('an event that repeats is counted, and written once a minute at most', async () => {
  const { kube, clock, record } = recorder();
  for (let second = 0; second < 130; second++) {
    await record();
    await clock.pass(1_000);
  }
  assert.equal(kube.ofKind('Event').length, 1);
  const [one] = kube.ofKind('Event') as Json[];
  assert.equal(kube.writes.length, 3);
  assert.equal(one.count, 121);
  assert.equal(one.lastTimestamp, '2026-01-01T00:02:00Z');
  assert.deepEqual(
    [one.involvedObject.uid, one.reason, one.message, one.type],
    ['u', 'ActionFailed', 'refused', 'Warning'],
  );
});

test('what is news again is written at once', async () => {
  const { kube, clock, record } = recorder();
  for (let time = 0; time < 3; time++) {
    await record({ ...event, isNews: true });
    await clock.pass(1_000);
  }
  const [one] = kube.ofKind('Event') as Json[];
  assert.deepEqual([one.count, one.lastTimestamp], [3, '2026-01-01T00:00:02Z']);
});

test('another message is another event, and a very long one is cut', async () => {
  const { kube, record } = recorder();
  await record();
  await record({ ...event, message: 'x'.repeat(5_000) });
  const messages = kube.ofKind('Event').map((one) => one['message'] as string);
  assert.deepEqual(
    messages.map(({ length }) => length),
    [7, 1_024],
  );
});

test('events that Kubernetes refuses or has forgotten stop nobody', async () => {
  const { kube, clock, record } = recorder();
  kube.beforeWrite = () => {
    throw new KubeError(403, 'Forbidden', 'no');
  };
  await record();
  kube.beforeWrite = () => {};
  await record();
  const [one] = kube.ofKind('Event');
  kube.remove(one!);
  await clock.pass(61_000);
  await record();
  await record();
  assert.equal(kube.ofKind('Event').length, 1, 'written anew');
});
