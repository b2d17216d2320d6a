/** Who waits for a replica that does not answer, and for how long. */
import {
  acknowledged,
  answeredRead,
  foundThree,
  isWhole,
  joins,
  nodeOf,
  read,
  reader,
  replace,
  rowsOfNow,
  seconds,
  type Story,
} from './stage.ts';

/** A read that may do with fewer answers has those that there are after so long. */
const patienceMillis = 10_000;

const checksForEver: Story = {
  name: 'health-checks-of-a-removed-node',
  issue: 15,
  wrong: /messages still go to c/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await joins(cluster, 'd', 'c');
    await replace(cluster, 'c', 'd');
    await cluster.settle();
    // It would hear the answers to what it asks itself.
    world.turnOff(nodeOf(cluster, 'c'), false);
    await seconds(cluster, 30);
    const { network } = world;
    let messages = 0;
    network.millis = (_, to) => {
      if (to === 'c') messages += 1;
      return network.usualMillis();
    };
    await seconds(cluster, 60);
    if (messages > 0) cluster.fail(`${messages} messages still go to c in a minute`);
  },
};

const twoHang: Story = {
  name: 'unstrict-read-of-two-hung-replicas',
  issue: 15,
  wrong: /the read took/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    world.network.cut((from) => from === 'b' || from === 'c');
    world.trace('b and c are not heard any more');
    const begun = world.time.nowMillis;
    const rows = await read(cluster, reader(cluster), 'unstrict_majority');
    const millis = world.time.nowMillis - begun;
    if (rows === null) cluster.fail('a has the rows, and the read is refused');
    if (millis > patienceMillis) cluster.fail(`the read took ${Math.round(millis)} ms`);
  },
};

const askedOnce: Story = {
  name: 'replica-that-failed-at-once',
  issue: 15,
  wrong: /a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    world.network.cut((from) => from === 'c');
    world.trace('c is not heard any more');
    const b = nodeOf(cluster, 'b');
    world.turnOff(b, false);
    const answer = answeredRead(cluster);
    await seconds(cluster, 1);
    world.turnOn(b);
    // It has some twelve seconds left.
    await seconds(cluster, 2);
    if (!isWhole(b)) throw new Error('the story cannot go on: b is not back');
    await answer;
  },
};

export const waitingStories: readonly Story[] = [checksForEver, twoHang, askedOnce];
