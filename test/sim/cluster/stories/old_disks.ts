/** Whether a disk is the one that the cluster saw last: neither missed nor seen where it is not. */
import type { SimulatedCluster } from '../cluster.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  comesBack,
  foundThree,
  joins,
  nodeOf,
  reader,
  repairSeconds,
  replace,
  rowsOfNow,
  seconds,
  type Story,
  takesOver,
  until,
} from './stage.ts';
import { requestSignal } from '../request_signal.ts';

/** A folder is marked in this time, so that an older copy of it is known. */
const markSeconds = 12;

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
    await seconds(cluster, markSeconds);
    world.turnOff(a, true);
    a.disk.restore(copy);
    world.trace('the disk of a is what it was when the copy was made');
    await comesBack(cluster, 'a');
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const copyBeforeMove: Story = {
  name: 'restored-copy-from-before-a-move',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await joins(cluster, 'd', 'c');
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 1));
    const d = nodeOf(cluster, 'd');
    const copy = d.disk.copy();
    world.trace('a copy is made of the disk of d, which has no shard');
    // What d takes is in filesets: nobody writes anything.
    await replace(cluster, 'c', 'd');
    await takesOver(cluster, 'c', 'd');
    await seconds(cluster, markSeconds);
    world.turnOff(d, true);
    d.disk.restore(copy);
    world.trace('the disk of d is what it was when the copy was made');
    await comesBack(cluster, 'd');
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'a');
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
  name: 'empty-disk-where-nobody-is-whole',
  issue: 9,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 1));
    for (const id of ['a', 'b', 'c']) world.turnOff(nodeOf(cluster, id), true);
    const b = nodeOf(cluster, 'b');
    world.wipe(b);
    // As after two starts that gave their shards up: a person resets what runs well.
    const { admin } = reader(cluster);
    for (const id of ['a', 'c']) await admin.resetInstance(id, requestSignal());
    world.trace('b has a new disk, and is the first to start');
    world.turnOn(b);
    await seconds(cluster, 5);
    for (const id of ['a', 'c']) world.turnOn(nodeOf(cluster, id));
    await cluster.settle();
    await answeredReadWithout(cluster, 'a');
  },
};

export const oldDiskStories: readonly Story[] = [
  restoredCopy,
  copyBeforeMove,
  lostAnswer,
  nobodyIsWhole,
];
