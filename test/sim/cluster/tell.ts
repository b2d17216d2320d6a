/** `node test/sim/cluster/tell.ts [NAME]`: tells one story with its trace, or names all. */
import { openStories } from './open.ts';
import { stories, tellStory } from './stories/stories.ts';

const name = process.argv[2];
const story = stories.find((each) => each.name === name);
if (story !== undefined) {
  const { problem, simulatedSeconds } = await tellStory(story, (line) => console.log(line));
  console.log(`# ${simulatedSeconds.toFixed(1)} s: ${problem ?? 'all is well'}`);
  process.exitCode = problem === null ? 0 : 1;
} else {
  const open = new Map(openStories().map(({ name: each, why }) => [each, why]));
  if (name !== undefined) console.error(`no such story: ${name}`);
  for (const { name: each, issue } of stories) {
    console.log(`${each} (${issue})${open.has(each) ? `: ${open.get(each)}` : ''}`);
  }
  process.exitCode = name === undefined ? 0 : 2;
}
