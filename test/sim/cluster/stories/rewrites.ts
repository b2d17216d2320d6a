/** Of two values of one time the one that was written last is read, whoever missed it. */
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  foundThree,
  reader,
  rowsOfNow,
  seconds,
  type Story,
} from './stage.ts';

/** So many rows fill the head of a series, which is sealed then. */
const headRows = 256;

const missedRewrite: Story = {
  name: 'missed-rewrite-in-a-sealed-chunk',
  issue: 16,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    await foundThree(cluster);
    const rows = rowsOfNow(cluster, 9);
    await acknowledged(cluster, rows);
    await seconds(cluster, 1);
    const rewritten = rows.map((row) => ({ ...row, value: 1 }));
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

const byTwo: Story = {
  name: 'rewrites-by-two-coordinators-in-turns',
  issue: 28,
  wrong: /rows are wrong[^]*is stale/,
  async tell(cluster) {
    await foundThree(cluster, { coordinators: 2 });
    const rows = rowsOfNow(cluster, 9);
    // Values fall, so that the larger one of two equal versions would be the wrong one.
    for (let value = 8; value > 0; value -= 1) {
      const rewritten = rows.map((row) => ({ ...row, value }));
      await acknowledged(cluster, rewritten, reader(cluster, value % 2));
      await seconds(cluster, 0.1);
      await answeredRead(cluster);
    }
    await answeredReadWithout(cluster, 'b');
  },
};

export const rewriteStories: readonly Story[] = [missedRewrite, byTwo];
