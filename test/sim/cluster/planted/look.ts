/**
 * Looks for anything wrong with the product as it stands in this folder: stories first, then random
 * runs, or runs with several resolutions alone. Prints one line of JSON: `{"found": WHAT}`, null when nothing was found.
 */
import { messageOf } from '#lib/errors.ts';
import { mendedFeatures, openStories } from '../open.ts';
import { runCluster } from '../run.ts';
import { runResolutions } from '../../resolutions/run.ts';
import { stories, tellStory } from '../stories/stories.ts';

const [runs, size] = process.argv.slice(2, 4).map(Number) as [number, number];
const isOfResolutions = process.argv[4] === 'resolutions';

async function look(): Promise<string | null> {
  const open = new Set(openStories().map(({ name }) => name));
  for (const story of isOfResolutions ? [] : stories) {
    if (open.has(story.name)) continue;
    const { problem } = await tellStory(story, null);
    if (problem !== null) return `story ${story.name}`;
  }
  const features = mendedFeatures();
  for (let seed = 1; seed <= runs; seed += 1) {
    try {
      const run = { seed, size, onTrace: null };
      await (isOfResolutions ? runResolutions(run) : runCluster({ ...run, features }));
    } catch (error) {
      return `run ${seed}: ${messageOf(error).split('\n')[0]}`;
    }
  }
  return null;
}

// Whatever a broken product does to its process is found, too.
process.on('unhandledRejection', (error) => {
  console.log(JSON.stringify({ found: `rejection: ${messageOf(error)}` }));
  process.exit(0);
});
console.log(JSON.stringify({ found: await look() }));
process.exit(0);
