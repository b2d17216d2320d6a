/** What a process knew of the cluster before it was cut from the key-value store. */
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
  read,
  reader,
  replace,
  rowsOfNow,
  seconds,
  stateAt,
  statesIn,
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

/** c is to hand its shard over to d, and hears of the key-value store no more. */
async function handsOverUnheard(cluster: SimulatedCluster): Promise<void> {
  await joins(cluster, 'd', 'c');
  const c = nodeOf(cluster, 'c');
  await replace(cluster, 'c', 'd');
  await until(cluster, 'c gives the shard away', () => stateAt(c) === 'LEAVING');
  c.kv!.weather.isCut = true;
  cluster.world.trace('c does not reach the key-value store any more');
}

/** The taker is read, and the giver has not left. */
function isInStep1(cluster: SimulatedCluster): boolean {
  const states = statesIn(cluster);
  return states.get('d')?.[0] === 'AVAILABLE' && states.get('c')?.[0] === 'LEAVING';
}

const deadGiver: Story = {
  name: 'giver-dead-between-the-steps',
  issue: 6,
  wrong: /the story cannot go on: d has taken over from c|rows are/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await handsOverUnheard(cluster);
    await until(cluster, 'd is read in the place of c', () => isInStep1(cluster));
    world.turnOff(nodeOf(cluster, 'c'), false);
    await takesOver(cluster, 'c', 'd');
    await acknowledgedWithout(cluster, 'a', rowsOfNow(cluster, 1));
    await answeredReadWithout(cluster, 'b');
  },
};

const unheardOwners: Story = {
  name: 'giver-and-owner-unheard-between-the-steps',
  issue: 6,
  wrong: /rows are|a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    const stale = reader(cluster, 1);
    await handsOverUnheard(cluster);
    const b = nodeOf(cluster, 'b');
    await until(cluster, 'b and the writer know d', () =>
      [b.topology!, stale.topology].every(({ view }) => {
        return view.placement?.instances.some(({ id }) => id === 'd') === true;
      }),
    );
    b.kv!.weather.isCut = true;
    stale.kv.weather.isCut = true;
    await until(cluster, 'd is read in the place of c', () => isInStep1(cluster));
    await seconds(cluster, 20);
    if (!isInStep1(cluster)) cluster.fail('rows are at risk: c has left, and nobody knows of it');
    // The writer knows as little as b and c.
    await acknowledged(cluster, rowsOfNow(cluster, 1), stale);
    await answeredRead(cluster, stale);
    world.trace('b reaches the key-value store again');
    b.kv!.weather.isCut = false;
    await takesOver(cluster, 'c', 'd');
    await acknowledged(cluster, rowsOfNow(cluster, 2));
    await read(cluster, stale);
    await answeredReadWithout(cluster, 'a');
  },
};

const restartedTaker: Story = {
  name: 'taker-restarts-between-the-steps',
  issue: 6,
  wrong: /the story cannot go on: d has taken over from c|rows are/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await handsOverUnheard(cluster);
    const b = nodeOf(cluster, 'b');
    b.kv!.weather.isCut = true;
    await until(cluster, 'd is read in the place of c', () => isInStep1(cluster));
    world.turnOff(nodeOf(cluster, 'd'), true);
    await comesBack(cluster, 'd');
    if (!isInStep1(cluster)) cluster.fail('rows are at risk: c has left, and nobody knows of it');
    b.kv!.weather.isCut = false;
    await takesOver(cluster, 'c', 'd');
    await acknowledgedWithout(cluster, 'a', rowsOfNow(cluster, 2));
    await answeredReadWithout(cluster, 'b');
  },
};

const emptiedTaker: Story = {
  name: 'taker-emptied-between-the-steps',
  issue: 6,
  wrong: /the story cannot go on: d has taken over from c|rows are/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 1));
    await handsOverUnheard(cluster);
    const b = nodeOf(cluster, 'b');
    const d = nodeOf(cluster, 'd');
    b.kv!.weather.isCut = true;
    await until(cluster, 'd is read in the place of c', () => isInStep1(cluster));
    world.wipe(d);
    world.turnOn(d);
    await until(cluster, 'd begins again, from c', () => {
      return statesIn(cluster).get('d')?.[0] === 'INITIALIZING';
    });
    for (const id of ['b', 'c']) nodeOf(cluster, id).kv!.weather.isCut = false;
    await takesOver(cluster, 'c', 'd');
    await answeredReadWithout(cluster, 'a');
  },
};

export const staleViewStories: readonly Story[] = [
  staleReader,
  deadGiver,
  unheardOwners,
  restartedTaker,
  emptiedTaker,
];
