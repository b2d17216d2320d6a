/** Of two processes that say to be one instance one serves, and it has what it says. */
import type { SimulatedCluster } from '../cluster.ts';
import type { SimulatedNode } from '../world.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredReadWithout,
  comesBack,
  foundThree,
  isWhole,
  nodeOf,
  reader,
  repairSeconds,
  rowsOfNow,
  seconds,
  type Story,
  until,
} from './stage.ts';

/** A folder is marked in this time, so that an older copy of it is known. */
const markSeconds = 12;

/** A copy of the folder of a is started elsewhere, which a sees: it ends, and stays away. */
async function isTaken(
  cluster: SimulatedCluster,
  startsCopy: () => SimulatedNode | Promise<SimulatedNode>,
): Promise<SimulatedNode> {
  const a = nodeOf(cluster, 'a');
  const { process } = a;
  const copy = await startsCopy();
  await until(cluster, 'a has ended', () => a.process !== process);
  cluster.world.turnOff(a, false);
  return copy;
}

const copyLater: Story = {
  name: 'copied-folder-started-later',
  issue: 20,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    const disk = a.disk.copy();
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 2));
    await seconds(cluster, markSeconds);
    const copy = await isTaken(cluster, () => world.addCopy(a, disk, true));
    await until(cluster, 'the copy is whole', () => isWhole(copy));
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const copyAtOnce: Story = {
  name: 'copied-folder-started-at-once',
  issue: 20,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, markSeconds);
    const a = nodeOf(cluster, 'a');
    const disk = a.disk.copy();
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 2));
    const copy = await isTaken(cluster, () => world.addCopy(a, disk, true));
    await until(cluster, 'the copy is whole', () => isWhole(copy));
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const bothStartAgain: Story = {
  name: 'copied-folder-started-again-and-again',
  issue: 20,
  wrong: /the cluster does not settle|rows are wrong/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    const disk = a.disk.copy();
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 2));
    await seconds(cluster, markSeconds);
    const copy = world.addCopy(a, disk, false);
    world.trace('both are started again whenever they end');
    await seconds(cluster, repairSeconds);
    world.turnOff(copy, false);
    await cluster.settle();
    await answeredReadWithout(cluster, 'b');
  },
};

const notSeenYet: Story = {
  name: 'rows-for-an-instance-that-is-taken',
  issue: 21,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    const disk = a.disk.copy();
    await seconds(cluster, markSeconds);
    const weathers = [a.kv!.weather, reader(cluster).kv.weather];
    const copy = await isTaken(cluster, async () => {
      for (const weather of weathers) weather.isCut = true;
      world.trace('a and the writer do not reach the key-value store');
      const started = world.addCopy(a, disk, false);
      await until(cluster, 'the copy is whole, and connections go to a', () => isWhole(started));
      await seconds(cluster, 1);
      world.turnOff(nodeOf(cluster, 'c'), false);
      // The rows may be refused: a and the writer cannot know better.
      await cluster.write(reader(cluster), rowsOfNow(cluster, 2));
      await comesBack(cluster, 'c');
      for (const weather of weathers) weather.isCut = false;
      return started;
    });
    await until(cluster, 'the copy is whole', () => isWhole(copy));
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const bothServe: Story = {
  name: 'copied-folder-and-the-first-one-start-together',
  issue: 0,
  wrong: /two processes serve as a/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    const disk = a.disk.copy();
    await seconds(cluster, markSeconds);
    world.turnOff(a, false);
    // The copy has been started more often than the first one.
    const copy = world.addCopy(a, disk, true);
    await until(cluster, 'the copy is whole', () => isWhole(copy));
    world.turnOff(copy, false);
    await seconds(cluster, 1);
    world.turnOn(copy);
    await until(cluster, 'the copy is whole again', () => isWhole(copy));
    world.turnOn(a);
    await until(cluster, 'a has its shard', () => a.runtime !== null && isWhole(a));
    const processes = [a.process, copy.process];
    await seconds(cluster, 2);
    if (a.process === processes[0] && copy.process === processes[1]) {
      cluster.fail('two processes serve as a');
    }
    world.turnOff(copy, false);
    await cluster.settle();
    await answeredReadWithout(cluster, 'b');
  },
};

export const copyStories: readonly Story[] = [
  copyLater,
  copyAtOnce,
  bothStartAgain,
  notSeenYet,
  bothServe,
];
