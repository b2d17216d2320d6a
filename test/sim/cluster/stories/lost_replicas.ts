/** Machines that never come back, and those that take their place. */
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import {
  acknowledged,
  answeredRead,
  foundThree,
  joins,
  nodeOf,
  reader,
  replace,
  rowsOfNow,
  seconds,
  statesIn,
  type Story,
} from './stage.ts';
import { requestSignal } from '../request_signal.ts';

const twoLost: Story = {
  name: 'two-replicas-lost',
  issue: 11,
  wrong: /the cluster does not settle/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    for (const id of ['a', 'c']) world.turnOff(nodeOf(cluster, id), true);
    world.trace('a and c are lost for good');
    await joins(cluster, 'd', 'a');
    await joins(cluster, 'e', 'c');
    await replace(cluster, 'a', 'd', true);
    await replace(cluster, 'c', 'e', true);
    await seconds(cluster, 30);
    const { admin } = reader(cluster);
    const gone = { instanceIds: ['a', 'c'] };
    await admin.placementReset(gone, plainRequest, async () => false, requestSignal());
    world.trace('a and c are said to be gone for good');
    // b has every row of this story, and is all that there is.
    await cluster.settle();
    await answeredRead(cluster);
  },
};

const replacedTwice: Story = {
  name: 'failing-replacement-of-a-dead-node',
  issue: 12,
  wrong: /c is dead and has \d+ shards that it is to keep/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { numShards: 4 });
    world.turnOff(nodeOf(cluster, 'c'), true);
    world.trace('c is lost for good');
    // d is named in the placement before it ever runs.
    world.turnOff(world.addNode('d', 'c'), true);
    await replace(cluster, 'c', 'd', true);
    await joins(cluster, 'e', 'c');
    await replace(cluster, 'd', 'e', true);
    const states = statesIn(cluster);
    const kept = (states.get('c') ?? []).filter((state) => state !== 'LEAVING');
    if (kept.length > 0) {
      cluster.fail(`c is dead and has ${kept.length} shards that it is to keep`);
    }
    await cluster.settle();
  },
};

export const lostReplicaStories: readonly Story[] = [twoLost, replacedTwice];
