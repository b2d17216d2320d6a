/** Of two values of one time the one that was written last is read, whoever missed it. */
import { plainRequest } from '#cluster/admin/admin.ts';
import { requestSignal } from '../request_signal.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  foundThree,
  nodeOf,
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
    const ways = [`${other!.id} c`, `c ${other!.id}`];
    world.network.cut((from, to) => ways.includes(`${from} ${to}`));
    const rewritten = rows.map((row) => ({ ...row, value: 1 }));
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

export const rewriteStories: readonly Story[] = [missedRewrite, upgradeUnheard, byTwo];
