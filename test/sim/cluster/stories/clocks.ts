/** A clock that is wrong for a while must not cost rows that were acknowledged. */
import type { SimulatedCluster } from '../cluster.ts';
import type { SimulatedRow } from '../series.ts';
import type { SimulatedCoordinator } from '../world.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  comesBack,
  flushSeconds,
  foundThree,
  nodeOf,
  reader,
  repairSeconds,
  replace,
  rowsOfNow,
  seconds,
  type Story,
  takesOver,
  until,
  valueIn,
} from './stage.ts';

const dayMillis = 24 * 3_600_000;

const nodeAhead: Story = {
  name: 'node-three-days-ahead',
  issue: 3,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 1));
    await seconds(cluster, flushSeconds);
    const { clockError } = nodeOf(cluster, 'a');
    world.trace('the clock of a is three days ahead');
    clockError.offsetMillis = 3 * dayMillis;
    await seconds(cluster, 12);
    world.trace('the clock of a is right again');
    clockError.offsetMillis = 0;
    await seconds(cluster, repairSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

/** Every node has a median of the three clocks. */
function clocksCompared(cluster: SimulatedCluster): Promise<void> {
  return until(cluster, 'the nodes have compared their clocks', () =>
    ['a', 'b', 'c'].every((id) => nodeOf(cluster, id).runtime!.database.peerClocks.voters === 3),
  );
}

/** A later rewrite of the rows is what is read. */
async function rewriteIsSeen(
  cluster: SimulatedCluster,
  rows: readonly SimulatedRow[],
  by: SimulatedCoordinator,
): Promise<void> {
  await acknowledged(cluster, withValue(rows, 2), by);
  await seconds(cluster, 1);
  const value = valueIn(await answeredRead(cluster), rows[0]!);
  if (value !== 2) cluster.fail(`the rewrite is not seen: ${value} is read, 2 was acknowledged`);
}

function withValue(rows: readonly SimulatedRow[], value: number): SimulatedRow[] {
  return rows.map((row) => ({ ...row, value }));
}

const coordinatorAhead: Story = {
  name: 'coordinator-an-hour-ahead',
  issue: 7,
  wrong: /the rewrite is not seen/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    await clocksCompared(cluster);
    const ahead = reader(cluster, 0);
    const right = reader(cluster, 1);
    ahead.clockError.offsetMillis = 3_600_000;
    const rows = rowsOfNow(cluster, 1);
    // Whether the nodes take these is theirs to decide.
    await cluster.write(ahead, rows);
    await seconds(cluster, 1);
    await rewriteIsSeen(cluster, rows, right);
  },
};

const coordinatorMended: Story = {
  name: 'coordinator-an-hour-ahead-is-mended',
  issue: 7,
  wrong: /is refused|the rewrite is not seen/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    await clocksCompared(cluster);
    const one = reader(cluster, 0);
    const other = reader(cluster, 1);
    one.clockError.offsetMillis = 3_600_000;
    const rows = rowsOfNow(cluster, 1);
    const outcomes = await cluster.write(one, rows);
    if (outcomes.includes('acknowledged')) cluster.fail('a version from the future is taken');
    one.clockError.offsetMillis = 0;
    // The first write after that already passes.
    const mended = await cluster.write(one, rows);
    if (mended.some((outcome) => outcome !== 'acknowledged')) {
      cluster.fail(`what a mended coordinator writes is refused: ${mended.join()}`);
    }
    await rewriteIsSeen(cluster, rows, other);
  },
};

const coordinatorBehind: Story = {
  name: 'coordinator-an-hour-behind',
  issue: 7,
  wrong: /the rewrite is not seen/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    await clocksCompared(cluster);
    const right = reader(cluster, 0);
    const behind = reader(cluster, 1);
    behind.clockError.offsetMillis = -3_600_000;
    const rows = rowsOfNow(cluster, 1);
    await acknowledged(cluster, rows, right);
    // What it writes of its own tells it how far the others are.
    await seconds(cluster, 1);
    await acknowledged(cluster, rowsOfNow(cluster, 7), behind);
    await seconds(cluster, 1);
    await rewriteIsSeen(cluster, rows, behind);
  },
};

const nodeAnHourAhead: Story = {
  name: 'node-an-hour-ahead',
  issue: 7,
  wrong: /rows are wrong[^]*is missing|is not taken/,
  async tell(cluster) {
    await foundThree(cluster);
    await clocksCompared(cluster);
    nodeOf(cluster, 'a').clockError.offsetMillis = 3_600_000;
    await seconds(cluster, 12);
    // A majority has these only when the one that is wrong takes them.
    cluster.world.turnOff(nodeOf(cluster, 'c'), false);
    await seconds(cluster, 1);
    const outcomes = await cluster.write(reader(cluster), rowsOfNow(cluster, 1));
    if (outcomes.some((outcome) => outcome !== 'acknowledged')) {
      cluster.fail(`a row of now is not taken: ${outcomes.join()}`);
    }
    await comesBack(cluster, 'c');
    await seconds(cluster, flushSeconds);
    await answeredReadWithout(cluster, 'b');
  },
};

const twoNodesBehind: Story = {
  name: 'two-nodes-an-hour-behind',
  issue: 7,
  wrong: /rows are wrong[^]*is missing|is refused/,
  async tell(cluster) {
    await foundThree(cluster);
    await clocksCompared(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const { world } = cluster;
    world.trace('the clocks of a and b are an hour behind');
    for (const id of ['a', 'b']) nodeOf(cluster, id).clockError.offsetMillis = -3_600_000;
    await seconds(cluster, 12);
    // Two say so and one does not: the rows are from the future, and the writer is told.
    await cluster.write(reader(cluster), rowsOfNow(cluster, 2));
    await answeredRead(cluster);
    world.trace('the clocks of a and b are right again');
    for (const id of ['a', 'b']) nodeOf(cluster, id).clockError.offsetMillis = 0;
    await seconds(cluster, 12);
    const mended = await cluster.write(reader(cluster), rowsOfNow(cluster, 3));
    if (mended.some((outcome) => outcome !== 'acknowledged')) {
      cluster.fail(`what is written once the clocks are right is refused: ${mended.join()}`);
    }
    await seconds(cluster, flushSeconds);
    await answeredReadWithout(cluster, 'c');
  },
};

const startsAhead: Story = {
  name: 'start-three-days-ahead',
  issue: 3,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    const a = nodeOf(cluster, 'a');
    world.trace('the clock of a is three days ahead');
    a.clockError.offsetMillis = 3 * dayMillis;
    await seconds(cluster, 12);
    // Its next files have the wrong time in them.
    world.turnOff(a, false);
    await comesBack(cluster, 'a');
    await acknowledgedWithout(cluster, 'c', rowsOfNow(cluster, 1));
    await seconds(cluster, flushSeconds);
    world.turnOff(a, false);
    await comesBack(cluster, 'a');
    await seconds(cluster, 12);
    await answeredReadWithout(cluster, 'b');
  },
};

const newNodeAhead: Story = {
  name: 'new-node-three-days-ahead',
  issue: 3,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 1));
    await seconds(cluster, flushSeconds);
    world.trace('d, whose clock is three days ahead, takes over from c');
    const d = world.addNode('d', 'c');
    d.clockError.offsetMillis = 3 * dayMillis;
    await until(cluster, 'd runs', () => d.runtime?.database.isLoaded === true);
    await replace(cluster, 'c', 'd');
    await takesOver(cluster, 'c', 'd');
    await seconds(cluster, 12);
    await answeredReadWithout(cluster, 'a');
  },
};

export const clockStories: readonly Story[] = [
  nodeAhead,
  startsAhead,
  newNodeAhead,
  coordinatorAhead,
  coordinatorMended,
  coordinatorBehind,
  nodeAnHourAhead,
  twoNodesBehind,
];
