/** A shard counts at its new owner when that one has all that was acknowledged, and not before. */
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { namespacesKey, placementKey, storageService } from '#cluster/kv/keys.ts';
import { namespace, type SimulatedCluster } from '../cluster.ts';
import { clusterName, type SimulatedNode } from '../world.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredReadWithout,
  comesBack,
  flushSeconds,
  forced,
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
import { requestSignal } from '../request_signal.ts';

const movedTwice: Story = {
  name: 'moved-back-and-again',
  issue: 4,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await joins(cluster, 'd', 'c');
    const c = nodeOf(cluster, 'c');
    const d = nodeOf(cluster, 'd');
    await replace(cluster, 'c', 'd');
    await until(cluster, 'd takes the shard', () => stateAt(d) === 'INITIALIZING');
    const { weather } = d.kv!;
    weather.isCut = true;
    weather.heldWatches = new RegExp(placementKey(clusterName, storageService));
    await until(cluster, 'd has the shard, and cannot say so', () => isWhole(d));
    const { admin } = reader(cluster);
    await admin.placementAdd({ instances: [world.infoOf(c)] }, forced, requestSignal());
    await until(cluster, 'the shard is back at c', () => stateAt(c) === 'AVAILABLE');
    // Who writes knows it too, so that d is not written to.
    await seconds(cluster, 1);
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 1));
    await admin.placementRemove({ instanceIds: ['c'] }, plainRequest, requestSignal());
    await seconds(cluster, 10);
    world.trace('d reaches the key-value store again, and was not told of what was in between');
    weather.isCut = false;
    await seconds(cluster, 10);
    weather.heldWatches = null;
    await takesOver(cluster, 'c', 'd');
    await answeredReadWithout(cluster, 'a');
  },
};

const lateNamespace: Story = {
  name: 'late-namespace',
  issue: 5,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { namespaces: ['old'] });
    await joins(cluster, 'd', 'c');
    const d = nodeOf(cluster, 'd');
    const { weather } = d.kv!;
    weather.heldWatches = new RegExp(namespacesKey(clusterName));
    await cluster.addNamespace(namespace);
    await until(
      cluster,
      'a, b, c and the coordinators have the new namespace',
      () =>
        ['a', 'b', 'c'].every((id) => {
          const { database } = nodeOf(cluster, id).runtime!;
          return database.namespaces.get(namespace)?.readyShards.has(0) === true;
        }) && world.coordinators.every(({ topology }) => topology.view.namespaces.has(namespace)),
    );
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 1));
    await replace(cluster, 'c', 'd');
    // A node that waits for what it was not told of yet waits for this.
    await seconds(cluster, 10);
    world.trace('d hears of the new namespace');
    weather.heldWatches = null;
    await takesOver(cluster, 'c', 'd');
    await until(cluster, 'd has the namespace', () => {
      const { database } = d.runtime!;
      return database.namespaces.get(namespace)?.readyShards.has(0) === true;
    });
    await answeredReadWithout(cluster, 'a');
  },
};

const hungDonor: Story = {
  name: 'donor-with-a-hung-disk',
  issue: 13,
  wrong: /the cluster does not settle/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, flushSeconds);
    const c = nodeOf(cluster, 'c');
    world.turnOff(c, false);
    await comesBack(cluster, 'c');
    await joins(cluster, 'd', 'c');
    world.trace('the disk of c hangs where its filesets are; its process answers');
    c.diskState.hangs = /-data\.db$/;
    await replace(cluster, 'c', 'd');
    await cluster.settle(240_000);
    await answeredReadWithout(cluster, 'a');
  },
};

/** d takes the shard from c, and cannot say so, for it does not reach the key-value store. */
async function takesInVain(cluster: SimulatedCluster): Promise<SimulatedNode> {
  await joins(cluster, 'd', 'c');
  const d = nodeOf(cluster, 'd');
  await replace(cluster, 'c', 'd');
  await until(cluster, 'd takes the shard', () => stateAt(d) === 'INITIALIZING');
  d.kv!.weather.isCut = true;
  await until(cluster, 'd has the shard, and cannot say so', () => isWhole(d));
  return d;
}

const killedTaker: Story = {
  name: 'taker-that-is-killed-on-the-way',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const d = await takesInVain(cluster);
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 2));
    world.turnOff(d, false);
    await acknowledged(cluster, rowsOfNow(cluster, 3));
    world.trace('d comes back to the blocks that it took before');
    world.turnOn(d);
    await takesOver(cluster, 'c', 'd');
    await answeredReadWithout(cluster, 'a');
  },
};

const rolledBackTaker: Story = {
  name: 'taker-whose-folder-is-rolled-back',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const d = await takesInVain(cluster);
    const copy = d.disk.copy();
    world.trace('a copy is made of the disk of d, which has taken the shard');
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 2));
    world.turnOff(d, false);
    world.turnOff(nodeOf(cluster, 'c'), false);
    await joinsAgain(cluster, d);
    world.turnOff(d, true);
    d.disk.restore(copy);
    world.trace('the disk of d is what it was when the copy was made');
    world.turnOn(nodeOf(cluster, 'c'));
    world.turnOn(d);
    await takesOver(cluster, 'c', 'd');
    await answeredReadWithout(cluster, 'a');
  },
};

/** It starts, and there is nobody to take the rest from. */
async function joinsAgain(cluster: SimulatedCluster, d: SimulatedNode): Promise<void> {
  cluster.world.turnOn(d);
  await until(cluster, 'd is loaded', () => d.runtime?.database.isLoaded === true);
}

export const moveStories: readonly Story[] = [
  movedTwice,
  lateNamespace,
  hungDonor,
  killedTaker,
  rolledBackTaker,
];
