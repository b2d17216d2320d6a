/** Coordinators that somebody takes away. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settledWorld } from '../world_testing.ts';
import { type Json, passes, stalled } from './mishaps_testing.ts';

// kubectl scale deployment c-coordinator --replicas=0: the number is free, and everything that goes through
// a coordinator stops. The status said nothing but "connection refused".
test('no coordinators are said, and are no number that the operator changes', async () => {
  const world = await settledWorld();
  const scale = (replicas: number): void => {
    const deployment = structuredClone(world.kube.find('Deployment', 'c-coordinator')) as Json;
    deployment.spec.replicas = replicas;
    world.kube.store(deployment);
    world.coordinatorUp = replicas > 0;
  };
  scale(0);
  await passes(world, 20);
  const { reason, message } = stalled(world);
  assert.equal(reason, 'NoCoordinators');
  assert.match(message, /there are 0 coordinators/);
  assert.match(message, /kubectl scale deployment c-coordinator --replicas=2/);
  assert.equal(world.condition('Ready').reason, 'NoCoordinators');
  assert.equal(world.kube.find('Deployment', 'c-coordinator').spec.replicas, 0);
  scale(1);
  await passes(world, 5);
  assert.equal(stalled(world), null);
  assert.equal(world.condition('Ready').status, 'True', world.condition('Ready').message);
});
