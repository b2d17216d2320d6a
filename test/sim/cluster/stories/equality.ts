/** What one replica missed comes to it from the others. */
import { blockMillis, bufferPastMillis } from '../cluster.ts';
import { replicaDifference } from '../equality.ts';
import {
  acknowledged,
  acknowledgedWithout,
  foundThree,
  repairSeconds,
  rowsOfNow,
  seconds,
  type Story,
} from './stage.ts';

const missedRow: Story = {
  name: 'row-that-a-replica-missed',
  issue: 27,
  wrong: /replicas stay different/,
  async tell(cluster) {
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 2));
    // Blocks are compared when they are closed and flushed.
    await seconds(cluster, (blockMillis + bufferPastMillis) / 1000 + repairSeconds);
    const difference = await replicaDifference(cluster);
    if (difference !== null) cluster.fail(`replicas stay different: ${difference}`);
  },
};

export const equalityStories: readonly Story[] = [missedRow];
