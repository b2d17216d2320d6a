/** Whether a disk is the one that the cluster saw last: neither missed nor seen where it is not. */
import type { SimulatedCluster } from '../cluster.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  comesBack,
  foundThree,
  nodeOf,
  repairSeconds,
  rowsOfNow,
  seconds,
  statesIn,
  type Story,
  until,
} from './stage.ts';

const restoredCopy: Story = {
  name: 'restored-copy-of-this-boot',
  issue: 2,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    const a = nodeOf(cluster, 'a');
    const copy = a.disk.copy();
    world.trace('a copy is made of the disk of a, which runs');
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 1));
    world.turnOff(a, true);
    a.disk.restore(copy);
    world.trace('the disk of a is what it was when the copy was made');
    await comesBack(cluster, 'a');
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

/** A node starts, and the answer to the first thing that it tells the key-value store is lost. */
async function startsUnheard(cluster: SimulatedCluster, id: string): Promise<void> {
  const { world } = cluster;
  const node = nodeOf(cluster, id);
  world.turnOn(node);
  const kv = node.kv!;
  kv.weather.lostAnswersPerThousand = 1000;
  await until(cluster, `an answer to ${id} is lost`, () => kv.lostAnswers === 1);
  kv.weather.lostAnswersPerThousand = 0;
}

const lostAnswer: Story = {
  name: 'lost-answer-to-a-start',
  issue: 9,
  wrong: /a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    world.turnOff(nodeOf(cluster, 'b'), false);
    await world.stopNode(nodeOf(cluster, 'a'));
    await startsUnheard(cluster, 'a');
    // b is away for long; a and c run, and have all that they ever had.
    await seconds(cluster, repairSeconds);
    await answeredRead(cluster);
  },
};

const nobodyIsWhole: Story = {
  name: 'empty-disk-among-lost-answers',
  issue: 9,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 1));
    for (const id of ['a', 'b', 'c']) world.turnOff(nodeOf(cluster, id), true);
    const b = nodeOf(cluster, 'b');
    world.wipe(b);
    const { time } = world;
    for (const id of ['a', 'c']) {
      await startsUnheard(cluster, id);
      // If it gives up its shards for that, it is within these seconds; cut off, it does not get
      // them back at once.
      const givesUp = (): boolean => statesIn(cluster).get(id)?.includes('INITIALIZING') === true;
      await Promise.race([time.until(givesUp), time.sleep(5_000)]);
      world.trace(`${id} does not reach the key-value store any more`);
      nodeOf(cluster, id).kv!.weather.isCut = true;
    }
    world.trace('b has a new disk');
    world.turnOn(b);
    await seconds(cluster, 5);
    world.trace('all reach the key-value store again');
    for (const id of ['a', 'c']) nodeOf(cluster, id).kv!.weather.isCut = false;
    await cluster.settle();
    await answeredReadWithout(cluster, 'a');
  },
};

export const oldDiskStories: readonly Story[] = [restoredCopy, lostAnswer, nobodyIsWhole];
