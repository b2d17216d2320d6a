/** What is acknowledged is where reads look, whoever writes while shards move or processes end. */
import {
  acknowledgedWithout,
  answeredReadOf,
  promised,
  answeredReadWithout,
  comesBack,
  foundThree,
  isWhole,
  joins,
  nodeOf,
  reader,
  replace,
  rowsOfNow,
  seconds,
  stateAt,
  type Story,
  takesOver,
  until,
} from './stage.ts';

const onTheirWay: Story = {
  name: 'owners-that-are-on-their-way',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await joins(cluster, 'd', 'c');
    const d = nodeOf(cluster, 'd');
    await replace(cluster, 'c', 'd');
    await until(cluster, 'd takes the shard', () => stateAt(d) === 'INITIALIZING');
    d.kv!.weather.isCut = true;
    await until(cluster, 'd has the shard, and cannot say so', () => isWhole(d));
    for (const id of ['a', 'b']) world.turnOff(nodeOf(cluster, id), false);
    // c and d are one replica: what they take is no majority, and may be refused.
    await cluster.write(reader(cluster), rowsOfNow(cluster, 1));
    for (const id of ['a', 'b']) await comesBack(cluster, id);
    world.turnOff(d, false);
    await answeredReadWithout(cluster, 'c');
  },
};

const writerOfBefore: Story = {
  name: 'writer-of-before-a-move',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    await joins(cluster, 'd', 'c');
    const stale = reader(cluster, 1);
    stale.kv.weather.isCut = true;
    const d = nodeOf(cluster, 'd');
    await replace(cluster, 'c', 'd');
    await until(cluster, 'd takes the shard', () => stateAt(d) === 'INITIALIZING');
    d.kv!.weather.isCut = true;
    await until(cluster, 'd has the shard, and cannot say so', () => isWhole(d));
    world.turnOff(nodeOf(cluster, 'b'), false);
    world.trace('a writer that knows nothing of d writes to a and c');
    await cluster.write(stale, rowsOfNow(cluster, 1));
    await comesBack(cluster, 'b');
    d.kv!.weather.isCut = false;
    await takesOver(cluster, 'c', 'd');
    await answeredReadWithout(cluster, 'a');
  },
};

const fewerNamespaces: Story = {
  name: 'writer-that-knows-fewer-namespaces',
  issue: 0,
  wrong: /acknowledged to a writer that leaves them out of long/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    const stale = reader(cluster, 1);
    stale.kv.weather.isCut = true;
    await cluster.addNamespace('long');
    await promised(cluster);
    const since = reader(cluster).topology.view.namespaces.get('long')!.completeSinceNanos!;
    await seconds(
      cluster,
      Number(since / 1_000_000n - BigInt(Math.floor(world.wallMillis))) / 1000 + 1,
    );
    // What is read from now on is in long, which has every row.
    const outcomes = await cluster.write(stale, rowsOfNow(cluster, 1), undefined, true);
    if (outcomes.includes('acknowledged')) {
      cluster.fail('rows are acknowledged to a writer that leaves them out of long');
    }
    stale.kv.weather.isCut = false;
    await until(cluster, 'the writer has heard of long', () =>
      stale.topology.view.namespaces.has('long'),
    );
    for (const name of ['metrics', 'long']) {
      const written = await cluster.write(stale, rowsOfNow(cluster, 2), name, true);
      if (!written.every((outcome) => outcome === 'acknowledged')) {
        throw new Error('the story cannot go on: rows are refused');
      }
    }
    await answeredReadOf(cluster, 'long');
  },
};

/** Snapshots are cut off at these calls of the disk, one after the other. */
const callsStep = 5;
const callsMax = 100;

const cutSnapshots: Story = {
  name: 'power-lost-in-snapshots',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    const a = nodeOf(cluster, 'a');
    for (let calls = callsStep; calls <= callsMax; calls += callsStep) {
      await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, calls));
      world.trace(`a loses its power at call ${calls} of its disk from here`);
      a.diskState.killAfterCalls = calls;
      const { database } = a.runtime!;
      database.snapshot(1, new AbortController().signal).catch(() => {});
      await seconds(cluster, 1);
      a.diskState.killAfterCalls = Number.POSITIVE_INFINITY;
      await until(cluster, 'a is back', () => isWhole(a));
      await seconds(cluster, 2);
    }
    // c missed each of them, and nobody has told it since.
    await answeredReadWithout(cluster, 'b');
  },
};

export const writerStories: readonly Story[] = [
  fewerNamespaces,
  onTheirWay,
  writerOfBefore,
  cutSnapshots,
];
