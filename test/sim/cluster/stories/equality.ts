/** What one replica missed comes to it from the others, and what was deleted does not come back. */
import { deletionsPrefix } from '#cluster/kv/keys.ts';
import { Administration } from '../administration.ts';
import { blockMillis, bufferPastMillis, namespace, type SimulatedCluster } from '../cluster.ts';
import { replicaDifference } from '../equality.ts';
import { clusterName } from '../world.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredReadWithout,
  foundThree,
  nodeOf,
  reader,
  repairSeconds,
  rowsOfNow,
  seconds,
  type Story,
} from './stage.ts';

/** So long after a row its block is closed, flushed and compared. */
const comparedSeconds = (blockMillis + bufferPastMillis) / 1000 + repairSeconds;
/** Some rounds of comparisons. */
const roundsSeconds = 20;

async function checkEquality(cluster: SimulatedCluster): Promise<void> {
  const difference = await replicaDifference(cluster);
  if (difference !== null) cluster.fail(`replicas stay different: ${difference}`);
}

const missedRow: Story = {
  name: 'row-that-a-replica-missed',
  issue: 27,
  wrong: /replicas stay different/,
  async tell(cluster) {
    await foundThree(cluster, { options: { repairEnabled: true } });
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 2));
    await seconds(cluster, comparedSeconds);
    await checkEquality(cluster);
  },
};

const missedInMemory: Story = {
  name: 'row-of-memory-that-a-replica-missed',
  issue: 27,
  wrong: /replicas stay different/,
  async tell(cluster) {
    await foundThree(cluster, { options: { repairEnabled: true, flushEnabled: false } });
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 2));
    await seconds(cluster, comparedSeconds);
    await checkEquality(cluster);
  },
};

const deletedElsewhere: Story = {
  name: 'deleted-rows-that-a-replica-still-has',
  issue: 27,
  wrong: /rows are wrong[^]*was deleted by delete rows|replicas stay different/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { options: { repairEnabled: true } });
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, comparedSeconds);
    const { weather } = nodeOf(cluster, 'c').kv!;
    weather.heldWatches = new RegExp(deletionsPrefix(clusterName));
    const rows = { namespace, series: 0, millis: null };
    void new Administration(cluster).deleteRows(reader(cluster), rows);
    await seconds(cluster, roundsSeconds);
    world.trace('c hears of the deletion');
    weather.heldWatches = null;
    await seconds(cluster, roundsSeconds);
    await checkEquality(cluster);
    await answeredReadWithout(cluster, 'c');
  },
};

export const equalityStories: readonly Story[] = [missedRow, missedInMemory, deletedElsewhere];
