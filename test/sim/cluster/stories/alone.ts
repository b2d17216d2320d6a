/** Who starts while nobody reaches the key-value store. */
import { Administration } from '../administration.ts';
import { namespace, type SimulatedCluster } from '../cluster.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  flushSeconds,
  foundThree,
  isWhole,
  nodeOf,
  read,
  reader,
  repairSeconds,
  rowsOfNow,
  seconds,
  type Story,
  until,
  valueIn,
} from './stage.ts';

/** A folder is marked in this time, so that an older copy of it is known. */
const markSeconds = 12;
/** A start goes on by its folder, and has asked others whether they know it. */
const aloneSeconds = 30;

function cutStore(cluster: SimulatedCluster, isCut: boolean): void {
  const nodes = ['a', 'b', 'c'].map((id) => nodeOf(cluster, id));
  const clients = [reader(cluster).kv, ...nodes.map(({ kv }) => kv)];
  for (const client of clients) if (client !== null) client.weather.isCut = isCut;
}

/** Nobody reaches the store from now on, nor does a, which starts. */
function startsAlone(cluster: SimulatedCluster): void {
  const { world } = cluster;
  cutStore(cluster, true);
  const a = nodeOf(cluster, 'a');
  world.turnOn(a);
  a.kv!.weather.isCut = true;
  world.trace('nobody reaches the key-value store');
}

const restartWithoutStore: Story = {
  name: 'restart-without-key-value-store',
  issue: 14,
  wrong: /a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    // Others have heard of its folder.
    await seconds(cluster, markSeconds);
    await world.stopNode(nodeOf(cluster, 'a'));
    startsAlone(cluster);
    await seconds(cluster, aloneSeconds);
    world.turnOff(nodeOf(cluster, 'b'), false);
    await answeredRead(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 2));
    await answeredRead(cluster);
    cutStore(cluster, false);
    world.turnOn(nodeOf(cluster, 'b'));
    await cluster.settle();
    await answeredReadWithout(cluster, 'c');
  },
};

const olderCopy: Story = {
  name: 'restored-copy-without-key-value-store',
  issue: 14,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const a = nodeOf(cluster, 'a');
    const copy = a.disk.copy();
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 2));
    await seconds(cluster, 2 * markSeconds);
    world.turnOff(a, true);
    a.disk.restore(copy);
    world.trace('the disk of a is an older copy');
    startsAlone(cluster);
    await seconds(cluster, aloneSeconds);
    world.turnOff(nodeOf(cluster, 'b'), false);
    // It may be refused: there is no majority that is known to have the rows.
    await read(cluster, reader(cluster));
    if (isWhole(a)) cluster.fail('a counts with an older copy of its folder');
    cutStore(cluster, false);
    world.turnOn(nodeOf(cluster, 'b'));
    await until(cluster, 'a is whole', () => isWhole(a));
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const unheardCopy: Story = {
  name: 'restored-copy-of-one-that-others-did-not-hear',
  issue: 0,
  wrong: /an older copy of its folder/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, 2 * markSeconds);
    const a = nodeOf(cluster, 'a');
    const copy = a.disk.copy();
    const isOther = (name: string): boolean => name === 'b' || name === 'c';
    const join = world.network.cut(
      (from, to) => (from === 'a' && isOther(to)) || (to === 'a' && isOther(from)),
    );
    world.trace('a does not reach b and c, nor they a');
    await seconds(cluster, 1);
    const { id } = reader(cluster);
    const joinC = world.network.cut((from, to) => from === id && to === 'c');
    await acknowledged(cluster, rowsOfNow(cluster, 2));
    await seconds(cluster, 2 * markSeconds);
    joinC();
    world.turnOff(a, true);
    a.disk.restore(copy);
    join();
    world.trace('the disk of a is an older copy');
    startsAlone(cluster);
    await seconds(cluster, aloneSeconds);
    if (isWhole(a)) cluster.fail('a counts with an older copy of its folder');
    cutStore(cluster, false);
    await until(cluster, 'a is whole', () => isWhole(a));
    await answeredReadWithout(cluster, 'b');
  },
};

const damagedAlone: Story = {
  name: 'damaged-fileset-without-key-value-store',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 1));
    await seconds(cluster, flushSeconds);
    const a = nodeOf(cluster, 'a');
    await world.stopNode(a);
    world.trace(`a bit flips: ${a.disk.flip((name) => name.endsWith('-info.db'))}`);
    startsAlone(cluster);
    await seconds(cluster, aloneSeconds);
    // b is there but slow: what a and c answer is taken for whole.
    const { network } = world;
    network.millis = (from) => network.usualMillis() + (from === 'b' ? 500 : 0);
    await read(cluster);
    cutStore(cluster, false);
    await cluster.settle();
    await answeredReadWithout(cluster, 'b');
  },
};

const deletedMeanwhile: Story = {
  name: 'deletion-missed-without-key-value-store',
  issue: 0,
  wrong: /a deleted row is read/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    const rows = rowsOfNow(cluster, 1);
    await acknowledged(cluster, rows);
    await seconds(cluster, markSeconds);
    await world.stopNode(nodeOf(cluster, 'a'));
    const administration = new Administration(cluster);
    const deleted = { namespace, series: 0, millis: null };
    // It stands, and a applies it before it serves.
    await administration.deleteRows(reader(cluster), deleted);
    startsAlone(cluster);
    await seconds(cluster, aloneSeconds);
    const b = nodeOf(cluster, 'b');
    world.turnOff(b, false);
    if (valueIn(await read(cluster), rows[0]!) !== null) cluster.fail('a deleted row is read');
    cutStore(cluster, false);
    world.turnOn(b);
    await cluster.settle();
    await administration.settle();
    await answeredReadWithout(cluster, 'b');
  },
};

const allAlone: Story = {
  name: 'all-start-without-key-value-store',
  issue: 14,
  wrong: /the rows are not served/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    const rows = rowsOfNow(cluster, 1);
    await acknowledged(cluster, rows);
    await seconds(cluster, markSeconds);
    for (const id of ['b', 'c']) world.turnOff(nodeOf(cluster, id), true);
    world.turnOff(nodeOf(cluster, 'a'), true);
    for (const id of ['b', 'c']) {
      const node = nodeOf(cluster, id);
      world.turnOn(node);
      node.kv!.weather.isCut = true;
    }
    startsAlone(cluster);
    await seconds(cluster, aloneSeconds);
    const found = await read(cluster, reader(cluster), 'none');
    if (found === null || found.size === 0) cluster.fail('the rows are not served');
    // Nobody knows whose folder is the one that served last.
    if ((await read(cluster, reader(cluster))) !== null)
      cluster.fail('a majority read counts them');
    cutStore(cluster, false);
    await cluster.settle();
    await answeredRead(cluster);
  },
};

export const aloneStories: readonly Story[] = [
  restartWithoutStore,
  olderCopy,
  unheardCopy,
  damagedAlone,
  deletedMeanwhile,
  allAlone,
];
