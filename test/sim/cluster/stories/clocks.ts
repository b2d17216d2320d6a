/** A clock that is wrong for a while must not cost rows that were acknowledged. */
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  flushSeconds,
  foundThree,
  nodeOf,
  reader,
  repairSeconds,
  rowsOfNow,
  seconds,
  type Story,
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

export const clockStories: readonly Story[] = [nodeAhead, coordinatorAhead];
