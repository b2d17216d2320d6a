/** All stories (docs/SIMULATION.md). */
import { messageOf } from '#lib/errors.ts';
import { SimulatedCluster } from '../cluster.ts';
import { aloneStories } from './alone.ts';
import { clockStories } from './clocks.ts';
import { copyStories } from './copies.ts';
import { damageStories } from './damage.ts';
import { deletionStories } from './deletions.ts';
import { equalityStories } from './equality.ts';
import { lostReplicaStories } from './lost_replicas.ts';
import { moveStories } from './moves.ts';
import { oldDiskStories } from './old_disks.ts';
import { restoreStories } from './restores.ts';
import { rewriteStories } from './rewrites.ts';
import type { Story } from './stage.ts';
import { staleViewStories } from './stale_views.ts';
import { takenAwayStories } from './taken_away.ts';
import { waitingStories } from './waiting.ts';
import { writerStories } from './writers.ts';

export const stories: readonly Story[] = [
  ...damageStories,
  ...oldDiskStories,
  ...clockStories,
  ...moveStories,
  ...staleViewStories,
  ...aloneStories,
  ...lostReplicaStories,
  ...waitingStories,
  ...writerStories,
  ...rewriteStories,
  ...restoreStories,
  ...copyStories,
  ...deletionStories,
  ...equalityStories,
  ...takenAwayStories,
];

export interface StoryReport {
  /** What was wrong, in words; null when it ended well. */
  readonly problem: string | null;
  readonly traceHash: number;
  readonly simulatedSeconds: number;
}

const storySeed = 1;

/** Tells a story, the same each time. @param onTrace told of what happens, in words */
export async function tellStory(
  story: Story,
  onTrace: ((line: string) => void) | null,
): Promise<StoryReport> {
  const cluster = new SimulatedCluster(storySeed, onTrace);
  const { world } = cluster;
  let problem: string | null = null;
  try {
    await world.time.runUntil(story.tell(cluster));
  } catch (error) {
    problem = messageOf(error);
  }
  const { traceHash } = world;
  return { problem, traceHash, simulatedSeconds: world.time.nowMillis / 1000 };
}
