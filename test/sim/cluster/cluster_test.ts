import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fuzz } from './cluster_fuzz.ts';
import type { Feature } from './features.ts';
import { openRuns, openStories } from './open.ts';
import { runCluster } from './run.ts';
import { stories, tellStory } from './stories/stories.ts';

test('a seed gives the same run each time', async () => {
  const options = { seed: 1, size: 3, features: new Set<Feature>(), onTrace: null };
  assert.deepEqual(await runCluster(options), await runCluster(options));
});

test('simulated clusters lose nothing that was acknowledged', async () => {
  for (const seed of [1, 2, 3]) await fuzz(seed, 4);
});

test('what is known to fail still fails: who mends it takes it out of open.txt', async () => {
  for (const { feature, seed, size, why } of openRuns()) {
    const run = runCluster({ seed, size, features: new Set([feature]), onTrace: null });
    await assert.rejects(run, Error, `${feature}: ${why}`);
  }
});

test('a story is the same each time', async () => {
  const [story] = stories;
  assert.deepEqual(await tellStory(story!, null), await tellStory(story!, null));
});

test('each story has a name of its own, and open.txt names stories', () => {
  const names = new Set(stories.map(({ name }) => name));
  assert.equal(names.size, stories.length);
  for (const { name } of openStories()) assert.ok(names.has(name), name);
});

const open = new Map(openStories().map(({ name, why }) => [name, why]));

for (const story of stories) {
  const why = open.get(story.name);
  if (why === undefined) {
    test(`story ${story.name} ends well`, async () => {
      assert.equal((await tellStory(story, null)).problem, null);
    });
  } else {
    test(`story ${story.name} still ends badly: ${why}`, async () => {
      const { problem } = await tellStory(story, null);
      assert.notEqual(problem, null, 'it ends well now: take it out of open.txt');
      assert.match(problem!, story.wrong);
    });
  }
}
