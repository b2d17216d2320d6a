import assert from 'node:assert/strict';
import { test } from 'node:test';
import { annotation } from './resource/keys.ts';
import { settledWorld, specOf, World } from './world_testing.ts';

type Json = any;

/** Reasons and messages of the events since the last call, in order. */
function listening(world: World): () => string[] {
  const seen = new Set<string>();
  return () =>
    (world.kube.ofKind('Event') as Json[]).flatMap(({ metadata, reason, message, type }) => {
      if (seen.has(metadata.name) || type !== 'Normal') return [];
      seen.add(metadata.name);
      return [`${reason}: ${message}`];
    });
}

test('what is done is told: once, by what it is done to, and not the first objects', async () => {
  const world = new World();
  const events = listening(world);
  world.addCluster(specOf());
  await world.settle();
  const made = events();
  assert.ok(made.includes('PlacementMade: 12 shards of 3 copies over 3 nodes'));
  assert.ok(made.includes('NamespaceAdded: namespace default is added'));
  assert.ok(made.includes('NamespaceReady: namespace default takes writes'));
  assert.ok(!made.some((text) => /^Object(Made|Restored)/.test(text)), made.join('\n'));

  world.kube.remove(world.kube.find('Service', 'c-coordinator'));
  await world.settle();
  const restored = events().filter((text) => text.startsWith('Object'));
  assert.deepEqual(restored, ['ObjectRestored: Service/c-coordinator was gone, and is made again']);

  world.changeSpec((spec: Json) => (spec.nodes.image = 'node:2'));
  await world.settle();
  const rolled = events().filter((text) => text.startsWith('PodEvicted'));
  assert.deepEqual(rolled.sort(), [
    'PodEvicted: c-a-0 evicted: its revision is not the newest',
    'PodEvicted: c-a-b-0 evicted: its revision is not the newest',
    'PodEvicted: c-c-0 evicted: its revision is not the newest',
  ]);

  world.changeSpec((spec: Json) => (spec.nodes.replicasPerGroup = 2));
  await world.settle();
  const grown = events();
  assert.ok(grown.includes('SetScaled: StatefulSet/c-a goes to 2 pods'));
  assert.ok(grown.includes('NodesAdded: c-a-1 joined the placement, for shards'));
});

test('a disk that is given up is told by the name of its volume', async () => {
  const world = await settledWorld();
  const events = listening(world);
  events();
  const pod = structuredClone(world.kube.find('Pod', 'c-a-0'));
  pod.metadata.annotations = { [annotation.replace]: 'true' };
  world.kube.store(pod);
  await world.settle();
  assert.ok(events().includes('PodReplaced: c-a-0 is replaced: volume data-c-a-0 is given up'));
});
