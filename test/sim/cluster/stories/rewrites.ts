/** Of two values of one time the one that was written last is read, whoever missed it. */
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  foundThree,
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

export const rewriteStories: readonly Story[] = [missedRewrite];
