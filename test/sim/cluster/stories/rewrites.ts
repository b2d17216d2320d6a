/** Of two values of one time the one that was written last is read, whoever missed it. */
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import type { SimulatedCluster } from '../cluster.ts';
import { requestSignal } from '../request_signal.ts';
import type { SimulatedRow } from '../series.ts';
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
  replace,
  rowsOfNow,
  seconds,
  type Story,
  takesOver,
  until,
  valueIn,
} from './stage.ts';

/** So many rows fill the head of a series, which is sealed then. */
const headRows = 256;

/** The clocks of nodes are compared in this time. */
const comparedSeconds = 12;

/** What the one sends does not come to the other any more. */
function cutWay({ world }: SimulatedCluster, one: string, other: string): void {
  world.network.cut((from, to) => from === one && to === other);
}

function withValue(rows: readonly SimulatedRow[], value: number): SimulatedRow[] {
  return rows.map((row) => ({ ...row, value }));
}

const missedRewrite: Story = {
  name: 'missed-rewrite-in-a-sealed-chunk',
  issue: 16,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    await foundThree(cluster);
    const rows = rowsOfNow(cluster, 9);
    await acknowledged(cluster, rows);
    await seconds(cluster, 1);
    const rewritten = withValue(rows, 1);
    await acknowledgedWithout(cluster, 'c', rewritten);
    await answeredRead(cluster);
    await seconds(cluster, 1);
    const lastMillis = Math.floor(cluster.world.wallMillis);
    const more = Array.from({ length: headRows + 1 }, (_, i) => ({
      series: 0,
      timeMillis: lastMillis - headRows + i,
      value: 5,
    }));
    await acknowledged(cluster, more);
    // The third replica has them too by then.
    await seconds(cluster, 1);
    cluster.world.trace('the rewritten row is in a sealed chunk');
    await answeredReadWithout(cluster, 'b');
  },
};

const upgradeUnheard: Story = {
  name: 'missed-rewrite-before-the-end-of-an-upgrade-is-heard-of',
  issue: 0,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { isOfFormerRelease: true, coordinators: 2 });
    const [one, other] = world.coordinators;
    nodeOf(cluster, 'c').kv!.weather.isCut = true;
    world.trace('c does not reach the key-value store');
    await one!.admin.upgradeFinish(plainRequest, requestSignal());
    await seconds(cluster, 1);
    // They hear from the others what may be written.
    for (const by of world.coordinators) await acknowledged(cluster, rowsOfNow(cluster, 3), by);
    const rows = rowsOfNow(cluster, 9);
    await acknowledged(cluster, rows, one);
    await seconds(cluster, 1);
    cutWay(cluster, other!.id, 'c');
    const rewritten = withValue(rows, 1);
    await acknowledged(cluster, rewritten, other);
    await seconds(cluster, 1);
    const lastMillis = Math.floor(world.wallMillis);
    const more = Array.from({ length: headRows + 1 }, (_, i) => ({
      series: 0,
      timeMillis: lastMillis - headRows + i,
      value: 5,
    }));
    await acknowledged(cluster, more, one);
    await seconds(cluster, 1);
    world.trace('the row that c has not heard to be rewritten is in a sealed chunk');
    await answeredReadWithout(cluster, 'b');
  },
};

/** d takes the shard with the rows, and does not know at which versions they are in its fileset. */
function afterMove(name: string, aheadMillis: number, takerBehindMillis: number): Story {
  return {
    name,
    issue: 0,
    wrong: /rows are wrong[^]*is stale/,
    async tell(cluster) {
      const { world } = cluster;
      await foundThree(cluster, { coordinators: 2 });
      const [one, other] = world.coordinators;
      await joins(cluster, 'd', 'c');
      await seconds(cluster, comparedSeconds);
      for (const by of world.coordinators) await acknowledged(cluster, rowsOfNow(cluster, 3), by);
      await seconds(cluster, 1);
      for (const { clockError } of world.coordinators) clockError.offsetMillis = aheadMillis;
      nodeOf(cluster, 'd').clockError.offsetMillis = -takerBehindMillis;
      const rows = rowsOfNow(cluster, 9).map((row) => ({
        ...row,
        timeMillis: row.timeMillis + aheadMillis,
      }));
      cutWay(cluster, one!.id, 'b');
      await acknowledged(cluster, rows, one);
      await replace(cluster, 'c', 'd');
      await takesOver(cluster, 'c', 'd', other);
      await seconds(cluster, 1);
      cutWay(cluster, other!.id, 'a');
      const rewritten = withValue(rows, 1);
      await acknowledged(cluster, rewritten, other);
      for (const { clockError } of world.coordinators) clockError.offsetMillis = 0;
      nodeOf(cluster, 'd').clockError.offsetMillis = 0;
      await seconds(cluster, aheadMillis / 1000 + 1);
      await answeredRead(cluster, other);
    },
  };
}

const afterStart: Story = {
  name: 'rewrite-of-a-flushed-row-after-a-start-with-a-clock-behind',
  issue: 0,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    const [one, other] = world.coordinators;
    for (const by of world.coordinators) await acknowledged(cluster, rowsOfNow(cluster, 3), by);
    await seconds(cluster, comparedSeconds);
    cutWay(cluster, one!.id, 'b');
    const rows = rowsOfNow(cluster, 9);
    await acknowledged(cluster, rows, one);
    const a = nodeOf(cluster, 'a');
    await a.runtime!.database.flush(null, requestSignal());
    world.trace('a has flushed, and starts again with a clock that is behind');
    a.clockError.offsetMillis = -15_000;
    await world.stopNode(a);
    await comesBack(cluster, 'a');
    cutWay(cluster, other!.id, 'c');
    const rewritten = withValue(rows, 1);
    await acknowledged(cluster, rewritten, other);
    a.clockError.offsetMillis = 0;
    await seconds(cluster, 1);
    await answeredRead(cluster, other);
  },
};

const replayed: Story = {
  name: 'superseded-row-that-a-replay-takes',
  issue: 0,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { coordinators: 2 });
    const [one, other] = world.coordinators;
    for (const by of world.coordinators) await acknowledged(cluster, rowsOfNow(cluster, 3), by);
    await seconds(cluster, comparedSeconds);
    cutWay(cluster, one!.id, 'c');
    const rows = rowsOfNow(cluster, 9);
    await acknowledged(cluster, rows, one);
    const a = nodeOf(cluster, 'a');
    const { database } = a.runtime!;
    await database.flush(null, requestSignal());
    world.trace('the rows are in a fileset of a');
    for (const id of ['b', 'c']) cutWay(cluster, other!.id, id);
    const { counts } = database.sequencer;
    const before = counts.writes;
    const rewritten = withValue(rows, 1);
    void cluster.write(other!, rewritten);
    await until(cluster, 'other values come to a', () => counts.writes > before);
    // They are in the log of a, which supersedes them; who sent them ends before it hears that.
    await seconds(cluster, 0.0005);
    world.killCoordinator(other!);
    await seconds(cluster, 0.1);
    world.turnOff(a, false);
    await comesBack(cluster, 'a');
    const third = world.addCoordinator('coordinator2');
    await until(cluster, 'another coordinator runs', () => third.topology.view.isLoaded);
    await acknowledged(cluster, rowsOfNow(cluster, 3), third);
    cutWay(cluster, third.id, 'b');
    await acknowledged(cluster, rewritten, third);
    await seconds(cluster, 1);
    await answeredRead(cluster, third);
    await answeredRead(cluster, one);
  },
};

const afterOneAhead: Story = {
  name: 'rewrite-of-a-row-by-a-writer-ahead',
  issue: 0,
  wrong: /9 is read, 1 was acknowledged later/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    const [ahead, right] = cluster.world.coordinators;
    await acknowledged(cluster, rowsOfNow(cluster, 3), ahead);
    await acknowledged(cluster, rowsOfNow(cluster, 3), right);
    await seconds(cluster, comparedSeconds);
    ahead!.clockError.offsetMillis = 20_000;
    const rows = rowsOfNow(cluster, 9);
    await acknowledged(cluster, rows, ahead);
    await seconds(cluster, 1);
    await acknowledged(cluster, withValue(rows, 1), right);
    await seconds(cluster, 1);
    const value = valueIn(await answeredRead(cluster, right), rows[0]!);
    if (value !== 1) cluster.fail(`${value} is read, 1 was acknowledged later`);
  },
};

const afterFailure: Story = {
  name: 'rewrite-of-a-row-that-was-not-acknowledged',
  issue: 0,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 3));
    await seconds(cluster, 1);
    const { id } = reader(cluster);
    const rows = rowsOfNow(cluster, 9);
    const join = world.network.cut((from, to) => from === id && to !== 'c');
    const outcomes = await cluster.write(reader(cluster), rows);
    world.trace(`only c has the rows, which are ${outcomes[0]}`);
    join();
    cutWay(cluster, id, 'c');
    await seconds(cluster, 0.1);
    const rewritten = withValue(rows, 1);
    await acknowledged(cluster, rewritten);
    await seconds(cluster, 1);
    await answeredRead(cluster);
  },
};

const byTwo: Story = {
  name: 'rewrites-by-two-coordinators-in-turns',
  issue: 28,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    const rows = rowsOfNow(cluster, 9);
    // Values fall, so that the larger one of two equal versions would be the wrong one.
    for (let value = 8; value > 0; value -= 1) {
      const rewritten = withValue(rows, value);
      await acknowledged(cluster, rewritten, reader(cluster, value % 2));
      await seconds(cluster, 0.1);
      await answeredRead(cluster);
    }
    await answeredReadWithout(cluster, 'b');
  },
};

export const rewriteStories: readonly Story[] = [
  missedRewrite,
  upgradeUnheard,
  afterMove('rewrite-of-a-moved-row-by-writers-ahead', 15_000, 0),
  afterMove('rewrite-of-a-moved-row-where-a-clock-is-behind', 0, 15_000),
  afterStart,
  afterOneAhead,
  replayed,
  afterFailure,
  byTwo,
];
