/** A clock that is wrong for a while must not cost rows that were acknowledged. */
import type { SimulatedCluster } from '../cluster.ts';
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

const coordinatorAhead: Story = {
  name: 'coordinator-an-hour-ahead',
  issue: 7,
  wrong: /the rewrite is not seen/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    const ahead = reader(cluster, 0);
    const right = reader(cluster, 1);
    ahead.clockError.offsetMillis = 3_600_000;
    const rows = rowsOfNow(cluster, 1);
    // Whether the nodes take these is theirs to decide.
    await cluster.write(ahead, rows);
    await seconds(cluster, 1);
    const rewritten = rows.map((row) => ({ ...row, value: 2 }));
    await acknowledged(cluster, rewritten, right);
    await seconds(cluster, 1);
    const value = valueIn(await answeredRead(cluster), rows[0]!);
    if (value !== 2) cluster.fail(`the rewrite is not seen: ${value} is read, 2 was acknowledged`);
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
  nodeAnHourAhead,
];
