import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ContainerStatus, KubeObject, Pod } from '../resource/kube_objects.ts';
import { podTrouble, withTroubles } from './pod_trouble.ts';

const pod = (status: NonNullable<Pod['status']>, name: string = 'c-a-0'): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { 'tsdb.io/component': 'node' } },
  status,
});
const container = (over: Partial<ContainerStatus>): NonNullable<Pod['status']> => ({
  containerStatuses: [{ ready: false, restartCount: 0, image: 'node:2', ...over }],
});
const waiting = (reason: string, message: string = ''): Partial<ContainerStatus> => ({
  state: { waiting: { reason, message } },
});
const ended = { terminated: { exitCode: 1, reason: 'Error' } };

const nowMillis = Date.parse('2026-01-02T00:00:00Z');

test('a pod that runs, or is on its way, has no trouble', () => {
  assert.equal(podTrouble(pod({})), null);
  assert.equal(podTrouble(pod(container({ state: {} }))), null);
  assert.equal(podTrouble(pod(container(waiting('ContainerCreating')))), null);
  assert.equal(podTrouble(pod({ conditions: [{ type: 'PodScheduled', status: 'True' }] })), null);
});

test('a trouble is one text, whichever of its attempts is looked at', () => {
  const image = 'the image node:2 cannot be pulled';
  assert.equal(podTrouble(pod(container(waiting('ErrImagePull', 'not found')))), image);
  assert.equal(podTrouble(pod(container(waiting('ImagePullBackOff', 'back-off 20s')))), image);
  const code = 'it has ended with code 1';
  assert.equal(podTrouble(pod(container({ state: ended }))), code);
  assert.equal(
    podTrouble(pod(container({ ...waiting('CrashLoopBackOff', 'back-off'), lastState: ended }))),
    code,
  );
  assert.equal(podTrouble(pod(container({ state: {}, lastState: ended }))), code);
  const killed = { terminated: { exitCode: 137, reason: 'OOMKilled' } };
  assert.equal(podTrouble(pod(container({ lastState: killed }))), 'it has run out of memory');
});

test('what Kubernetes says is said, up to a length', () => {
  const message = '0/3 nodes are available: 3 Insufficient memory';
  const conditions = [{ type: 'PodScheduled', status: 'False', message }];
  assert.equal(podTrouble(pod({ conditions })), message);
  const missing = waiting('CreateContainerConfigError', 'configmap "x" not found');
  assert.equal(
    podTrouble(pod(container(missing))),
    'CreateContainerConfigError configmap "x" not found',
  );
  const long = podTrouble(pod(container(waiting('RunContainerError', 'x'.repeat(1000)))))!;
  assert.equal(long.length, 200);
  assert.equal(
    withTroubles(['c-a-0', 'c-a-1', 'c-a-2'], {
      nowMillis,
      pods: [pod({ conditions }), pod({}, 'c-a-1')],
      volumeClaims: [],
      unknownReach: [],
    }),
    `c-a-0 (${message}; nodes.resources asks for it), c-a-1, c-a-2 (there is no such pod; kubectl describe statefulset c-a says why when it stays away)`,
  );
  const claim: KubeObject = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data-c-a-0' },
    spec: { storageClassName: 'fastdisk' },
    status: { phase: 'Pending' },
  };
  const unmade = {
    nowMillis,
    pods: [pod({ conditions })],
    volumeClaims: [claim],
    unknownReach: [],
  };
  assert.equal(
    withTroubles(['c-a-0'], unmade),
    `c-a-0 (StorageClass fastdisk has not made its volume: ${message}; nodes.resources asks for it)`,
  );
  assert.equal(
    withTroubles(['c-a-0'], { ...unmade, volumeClaims: [], unknownReach: ['c-a-0'] }),
    `c-a-0 (${message}; when the machine of its volume is gone for good, annotate the pod with tsdb.io/replace=true)`,
  );
});

test('a pod that has ended and stays for the finalizer of somebody else says whose it is', () => {
  const { metadata, ...rest } = pod({ phase: 'Succeeded' });
  const deletionTimestamp = '2026-01-01T00:00:00Z';
  const kept = {
    ...rest,
    metadata: { ...metadata, deletionTimestamp, finalizers: ['x.io/stuck'] },
  };
  assert.match(podTrouble(kept)!, /its finalizers keep it: x\.io\/stuck/);
});

test('for a volume that was never made no machine is given up', () => {
  const message = '0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims';
  const pending = pod({ conditions: [{ type: 'PodScheduled', status: 'False', message }] });
  const claim = (phase: string): KubeObject => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data-c-a-0' },
    spec: { storageClassName: 'missing' },
    status: { phase },
  });
  const told = (phase: string): string =>
    withTroubles(['c-a-0'], {
      nowMillis,
      pods: [pending],
      volumeClaims: [claim(phase)],
      unknownReach: ['c-a-0'],
    });
  assert.match(told('Pending'), /StorageClass missing has not made its volume/);
  assert.doesNotMatch(told('Pending'), /tsdb\.io\/replace/);
  assert.match(told('Bound'), /when the machine of its volume is gone for good/);
});

test('a pod whose containers are not made for long is told where to look', () => {
  const containerStatuses = [
    { ready: false, restartCount: 0, state: { waiting: { reason: 'ContainerCreating' } } },
  ];
  const { metadata, ...rest } = pod({ phase: 'Pending', containerStatuses });
  const told = (ageMillis: number): string => {
    const creationTimestamp = new Date(nowMillis - ageMillis).toISOString();
    const pods = [{ ...rest, metadata: { ...metadata, creationTimestamp } }];
    return withTroubles(['c-a-0'], { nowMillis, pods, volumeClaims: [], unknownReach: [] });
  };
  assert.equal(told(60_000), 'c-a-0');
  assert.equal(
    told(200_000),
    'c-a-0 (its containers are not made; kubectl describe pod c-a-0 says why)',
  );
});
