/** What a process knew of the cluster before it was cut from the key-value store. */
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  foundThree,
  joins,
  nodeOf,
  read,
  reader,
  replace,
  rowsOfNow,
  seconds,
  stateAt,
  type Story,
  takesOver,
  until,
} from './stage.ts';

const staleReader: Story = {
  name: 'stale-reader-and-old-donor',
  issue: 6,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    await joins(cluster, 'd', 'c');
    const stale = reader(cluster, 1);
    const c = nodeOf(cluster, 'c');
    stale.kv.weather.isCut = true;
    await replace(cluster, 'c', 'd');
    await until(cluster, 'c gives the shard away', () => stateAt(c) === 'LEAVING');
    c.kv!.weather.isCut = true;
    world.trace('c and the reader do not reach the key-value store any more');
    await takesOver(cluster, 'c', 'd');
    await until(cluster, 'b knows too', () => {
      const { placement } = nodeOf(cluster, 'b').topology!.view;
      return placement?.instances.every(({ id }) => id !== 'c') === true;
    });
    await acknowledgedWithout(cluster, 'a', rowsOfNow(cluster, 1));
    // b is slow: what a and c answer comes first.
    const { network } = world;
    network.millis = (from) => network.usualMillis() + (from === 'b' ? 500 : 0);
    // It may be refused: the reader and c cannot know better.
    await read(cluster, stale);
  },
};

const restartWithoutStore: Story = {
  name: 'restart-without-key-value-store',
  issue: 14,
  wrong: /a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    await world.stopNode(a);
    for (const id of ['b', 'c']) nodeOf(cluster, id).kv!.weather.isCut = true;
    reader(cluster).kv.weather.isCut = true;
    world.turnOn(a);
    a.kv!.weather.isCut = true;
    world.trace('nobody reaches the key-value store');
    await seconds(cluster, 30);
    world.turnOff(nodeOf(cluster, 'b'), false);
    await answeredRead(cluster);
  },
};

export const staleViewStories: readonly Story[] = [staleReader, restartWithoutStore];
