/** What was deleted is gone, and what was written after it stays, whoever hears of it late. */
import { deletionsPrefix, namespacesKey } from '#cluster/kv/keys.ts';
import { Administration } from '../administration.ts';
import { namespace } from '../cluster.ts';
import { clusterName } from '../world.ts';
import {
  acknowledged,
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
} from './stage.ts';

const dayMillis = 24 * 3_600_000;
/** So many rows fill the head of a series, which is sealed then. */
const headRows = 256;

const madeAgain: Story = {
  name: 'namespace-made-again-before-two-nodes-know',
  issue: 22,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const weathers = ['a', 'b'].map((id) => nodeOf(cluster, id).kv!.weather);
    for (const weather of weathers) weather.heldWatches = new RegExp(namespacesKey(clusterName));
    const administration = new Administration(cluster);
    void administration.deleteNamespace(reader(cluster), namespace);
    await seconds(cluster, 1);
    await administration.addNamespace(reader(cluster), namespace);
    await seconds(cluster, 1);
    await acknowledged(cluster, rowsOfNow(cluster, 2));
    await seconds(cluster, 1);
    world.trace('a and b hear that the namespace was deleted, and that it was made again');
    for (const weather of weathers) weather.heldWatches = null;
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'c');
  },
};

const madeAgainUnseen: Story = {
  name: 'namespace-made-again-before-its-writer-knows',
  issue: 22,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const stale = reader(cluster, 1);
    const nodes = ['a', 'b'].map((id) => nodeOf(cluster, id).kv!.weather);
    const weathers = [stale.kv.weather, ...nodes];
    for (const weather of weathers) weather.heldWatches = new RegExp(namespacesKey(clusterName));
    const administration = new Administration(cluster);
    void administration.deleteNamespace(reader(cluster), namespace);
    await seconds(cluster, 1);
    await administration.addNamespace(reader(cluster), namespace);
    await seconds(cluster, 1);
    world.trace('a writer writes that knows the old namespace, as a and b do');
    await acknowledged(cluster, rowsOfNow(cluster, 2), stale);
    await seconds(cluster, 1);
    for (const weather of weathers) weather.heldWatches = null;
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'c');
  },
};

const endUnheard: Story = {
  name: 'namespace-made-again-before-its-end-is-heard-of',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    const other = reader(cluster, 1);
    for (const by of world.coordinators) await acknowledged(cluster, rowsOfNow(cluster, 1), by);
    const weathers = ['a', 'b'].map((id) => nodeOf(cluster, id).kv!.weather);
    for (const weather of weathers) weather.heldWatches = new RegExp(deletionsPrefix(clusterName));
    const administration = new Administration(cluster);
    const rows = rowsOfNow(cluster, 2);
    await seconds(cluster, 1);
    await administration.deleteNamespace(reader(cluster), namespace);
    await administration.addNamespace(reader(cluster), namespace);
    await seconds(cluster, 0.5);
    world.trace('c, which knows of the end of the former one, does not hear what is written');
    world.network.cut((from, to) => from === other.id && to === 'c');
    await acknowledged(cluster, rows, other);
    for (const weather of weathers) weather.heldWatches = null;
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'c');
  },
};

const sealedSince: Story = {
  name: 'late-deletion-of-a-sealed-chunk',
  issue: 23,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    const rows = rowsOfNow(cluster, 1);
    await acknowledged(cluster, rows);
    const weathers = ['a', 'b'].map((id) => nodeOf(cluster, id).kv!.weather);
    for (const weather of weathers) weather.heldWatches = new RegExp(deletionsPrefix(clusterName));
    const lastMillis = Math.floor(world.wallMillis);
    const millis = { from: lastMillis - 1000, to: lastMillis };
    void new Administration(cluster).deleteRows(reader(cluster), {
      namespace,
      series: 0,
      millis,
    });
    await seconds(cluster, 1);
    world.trace('the rows are written again, after they were deleted');
    const again = Array.from({ length: headRows + 1 }, (_, i) => ({
      series: 0,
      timeMillis: lastMillis - headRows + i,
      value: 2,
    }));
    await acknowledged(cluster, again);
    await seconds(cluster, 1);
    world.trace('a and b hear of the deletion');
    for (const weather of weathers) weather.heldWatches = null;
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'c');
  },
};

const staleTruncation: Story = {
  name: 'truncation-by-a-stale-coordinator',
  issue: 24,
  wrong: /rows are wrong[^]*was deleted by truncate/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await joins(cluster, 'd', 'c');
    const stale = reader(cluster, 1);
    stale.kv.weather.isCut = true;
    await replace(cluster, 'c', 'd');
    await takesOver(cluster, 'c', 'd');
    // Nothing of the rows is under way any more.
    await seconds(cluster, repairSeconds + 10);
    // It may be refused: who asks for it cannot know better. Whoever hears that it is done relies on it.
    const administration = new Administration(cluster);
    await administration.truncate(stale, namespace);
    stale.kv.weather.isCut = false;
    await seconds(cluster, 5);
    await administration.truncate(stale, namespace);
    await administration.settle();
    await seconds(cluster, 1);
    await answeredReadWithout(cluster, 'a');
  },
};

const truncatedOnOldDisk: Story = {
  name: 'truncation-and-a-restored-copy',
  issue: 24,
  wrong: /rows are wrong[^]*was deleted by truncate/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, 1);
    const a = nodeOf(cluster, 'a');
    const copy = a.disk.copy();
    world.trace('a copy is made of the disk of a, which runs');
    // Nothing of the rows is under way any more, and the folder has been marked since.
    await seconds(cluster, repairSeconds + 10);
    await new Administration(cluster).truncate(reader(cluster), namespace);
    await seconds(cluster, 5);
    world.turnOff(a, true);
    a.disk.restore(copy);
    world.trace('the disk of a is what it was before the truncation');
    await comesBack(cluster, 'a');
    await seconds(cluster, 20);
    await cluster.checkEveryMajority();
  },
};

const retiredEarly: Story = {
  name: 'deletion-that-a-clock-ahead-retires',
  issue: 26,
  wrong: /rows are wrong[^]*was deleted by delete rows/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, 1);
    world.turnOff(nodeOf(cluster, 'a'), false);
    const administration = new Administration(cluster);
    const ahead = reader(cluster, 1);
    void administration.deleteRows(reader(cluster), { namespace, series: 0, millis: null });
    await seconds(cluster, 1);
    ahead.clockError.offsetMillis = dayMillis;
    world.trace('the clock of a coordinator is a day ahead, and it deletes something else');
    void administration.deleteRows(ahead, { namespace, series: 1, millis: null });
    await seconds(cluster, 1);
    ahead.clockError.offsetMillis = 0;
    await comesBack(cluster, 'a');
    await seconds(cluster, repairSeconds);
    await administration.settle();
    await seconds(cluster, 1);
    await answeredReadWithout(cluster, 'b');
  },
};

export const deletionStories: readonly Story[] = [
  madeAgain,
  madeAgainUnseen,
  endUnheard,
  sealedSince,
  staleTruncation,
  truncatedOnOldDisk,
  retiredEarly,
];
