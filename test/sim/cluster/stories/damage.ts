/** What a disk has lost of its data must come back from the others before it counts again. */
import { namespace, type SimulatedCluster } from '../cluster.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredReadWithout,
  comesBack,
  flushSeconds,
  foundThree,
  isWhole,
  nodeOf,
  repairSeconds,
  reader,
  read,
  rowsOfNow,
  seconds,
  type Story,
} from './stage.ts';

/** Where a log has its dictionary: behind the header and the record of the namespace. */
const dictionary = { start: 512, end: 1024 };

const isLog = (path: string): boolean => /commitlog-\d+\.db$/.test(path);

const damagedSnapshot: Story = {
  name: 'damaged-snapshot',
  issue: 1,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    await world.stopNode(a);
    const isSnapshot = (path: string): boolean => /snapshot-\d+\.db$/.test(path);
    const damaged = a.disk.zero(isSnapshot, dictionary.start, dictionary.end);
    world.trace(`a sector is zeros: ${damaged.join()}`);
    await comesBack(cluster, 'a');
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const zeroedSector: Story = {
  name: 'zeroed-sector-of-a-log',
  issue: 1,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    world.turnOff(nodeOf(cluster, 'c'), false);
    for (let value = 1; value <= 5; value += 1) {
      await acknowledged(cluster, rowsOfNow(cluster, value));
    }
    await comesBack(cluster, 'c');
    const a = nodeOf(cluster, 'a');
    world.turnOff(a, true);
    zeroLog(cluster, 'a', dictionary.start, dictionary.end);
    await comesBack(cluster, 'a');
    await seconds(cluster, repairSeconds);
    // b is there but slow: what a and c answer is taken for whole.
    const { network } = world;
    network.millis = (from) => network.usualMillis() + (from === 'b' ? 500 : 0);
    await read(cluster);
  },
};

/** Zeros bytes of the log of a node that is off. */
function zeroLog(cluster: SimulatedCluster, id: string, start: number, end: number): void {
  const damaged = nodeOf(cluster, id).disk.zero(isLog, start, end);
  cluster.world.trace(`bytes ${start} to ${end} of ${id} are zeros: ${damaged.join()}`);
}

const doubtOutlivesRestarts: Story = {
  name: 'doubt-outlives-restarts',
  issue: 1,
  wrong: /rows are wrong[^]*is missing|a majority read is refused|answers are taken/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    world.turnOff(nodeOf(cluster, 'c'), false);
    for (let value = 1; value <= 5; value += 1) {
      await acknowledged(cluster, rowsOfNow(cluster, value));
    }
    for (const id of ['a', 'b']) world.turnOff(nodeOf(cluster, id), true);
    zeroLog(cluster, 'a', dictionary.start, dictionary.end);
    // Nobody has what a lacks while b is away; and the damaged log is soon replaced by a snapshot.
    for (const id of ['a', 'c']) world.turnOn(nodeOf(cluster, id));
    await seconds(cluster, repairSeconds);
    for (let restart = 0; restart < 2; restart += 1) {
      await world.stopNode(nodeOf(cluster, 'a'));
      world.turnOn(nodeOf(cluster, 'a'));
      await seconds(cluster, repairSeconds);
      if ((await read(cluster)) !== null)
        cluster.fail('answers are taken from a, which lacks rows');
    }
    await comesBack(cluster, 'b');
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const allLogsDamaged: Story = {
  name: 'all-logs-damaged',
  issue: 1,
  wrong: /rows are wrong[^]*is missing|a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    for (let value = 1; value <= 20; value += 1) {
      await acknowledged(cluster, rowsOfNow(cluster, value));
    }
    const ids = ['a', 'b', 'c'];
    for (const id of ids) world.turnOff(nodeOf(cluster, id), true);
    // Each lacks something else, so together they have everything.
    ids.forEach((id, i) => zeroLog(cluster, id, 2048 + 1024 * i, 2560 + 1024 * i));
    for (const id of ids) world.turnOn(nodeOf(cluster, id));
    for (let left = repairSeconds / 10; left > 0; left -= 1) {
      await read(cluster);
      await seconds(cluster, 10);
    }
    for (const id of ids) {
      await answeredReadWithout(cluster, id);
      await comesBack(cluster, id);
    }
  },
};

const unreadableSnapshot: Story = {
  name: 'unreadable-snapshot',
  issue: 10,
  wrong: /a does not come up/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    await world.stopNode(a);
    a.diskState.readFailures = { paths: /snapshot-\d+\.db$/, perThousand: 1000 };
    const bootsBefore = a.boots;
    world.turnOn(a);
    await seconds(cluster, repairSeconds);
    if (!isWhole(a)) cluster.fail(`a does not come up: it started ${a.boots - bootsBefore} times`);
    await answeredReadWithout(cluster, 'b');
  },
};

const unreadableFileset: Story = {
  name: 'unreadable-fileset',
  issue: 10,
  wrong: /a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, flushSeconds);
    const a = nodeOf(cluster, 'a');
    world.turnOff(a, false);
    const files = await a.disk.list(`data/data/${namespace}/0`);
    const data = files.find((name) => name.endsWith('-data.db'));
    if (data === undefined) throw new Error('the story cannot go on: there is no fileset');
    // Another volume of the block lies elsewhere on the disk.
    a.diskState.readFailures = { paths: new RegExp(data), perThousand: 1000 };
    world.trace(`${data} of a cannot be read any more`);
    await comesBack(cluster, 'a');
    for (let left = repairSeconds / 10; left > 0; left -= 1) {
      await read(cluster, reader(cluster), 'all');
      await seconds(cluster, 10);
    }
    await answeredReadWithout(cluster, 'b');
  },
};

export const damageStories: readonly Story[] = [
  damagedSnapshot,
  zeroedSector,
  doubtOutlivesRestarts,
  allLogsDamaged,
  unreadableSnapshot,
  unreadableFileset,
];
