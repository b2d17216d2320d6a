/** What somebody takes away from nodes by hand is there when it is set right. */
import { namespacesKey } from '#cluster/kv/keys.ts';
import { placementToJson, type Placement } from '#cluster/placement/placement.ts';
import type { SimulatedCluster } from '../cluster.ts';
import { requestSignal } from '../request_signal.ts';
import { clusterName } from '../world.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadWithout,
  flushSeconds,
  forced,
  foundThree,
  joins,
  nodeOf,
  reader,
  rowsOfNow,
  seconds,
  type Story,
  until,
} from './stage.ts';

/** Puts a placement in the place of the one that stands, confirmed and forced. */
async function set(cluster: SimulatedCluster, placement: Placement): Promise<void> {
  const { admin } = reader(cluster);
  const { version } = await admin.placements.get(requestSignal());
  const body = { placement: placementToJson(placement), version, confirm: true };
  await admin.placementSet(body, forced, requestSignal());
}

/** Instances by who has their shards instead. */
function givenTo(placement: Placement, takers: ReadonlyMap<string, string>): Placement {
  const instances = placement.instances.map((each) => {
    const id = takers.get(each.id) ?? each.id;
    return { ...each, id, hostname: id, endpoint: `${id}:9000` };
  });
  return { ...placement, instances };
}

async function isTaken(cluster: SimulatedCluster, id: string): Promise<void> {
  await until(cluster, `nothing of ${id} is in use`, () => {
    const { runtime } = nodeOf(cluster, id);
    return runtime!.database.shards.all().length === 0 && !runtime!.database.parking.isDue;
  });
}

const allTaken: Story = {
  name: 'all-shards-given-to-strangers',
  issue: 18,
  wrong: /rows are wrong[^]*is missing|a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, flushSeconds);
    await acknowledged(cluster, rowsOfNow(cluster, 2));
    const before = cluster.placement()!;
    const strangers = new Map(['a', 'b', 'c'].map((id) => [id, `stranger-${id}`]));
    await set(cluster, givenTo(before, strangers));
    for (const id of ['a', 'b', 'c']) await isTaken(cluster, id);
    await set(cluster, before);
    world.trace('the placement is what it was');
    await seconds(cluster, 2);
    await cluster.settle();
    await answeredRead(cluster);
    await answeredReadWithout(cluster, 'b');
  },
};

const onceAway: Story = {
  name: 'owner-set-aside-for-a-time',
  issue: 18,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await joins(cluster, 'd', 'c');
    const before = cluster.placement()!;
    await set(cluster, givenTo(before, new Map([['c', 'd']])));
    await isTaken(cluster, 'c');
    await seconds(cluster, 5);
    // By a and d alone.
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 2));
    await set(cluster, before);
    world.trace('the placement says that c has everything');
    await seconds(cluster, 2);
    await cluster.settle();
    await answeredReadWithout(cluster, 'a');
  },
};

const lostRegistry: Story = {
  name: 'registry-without-its-namespace',
  issue: 18,
  wrong: /rows are wrong[^]*is missing|a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const key = namespacesKey(clusterName);
    const { kv } = reader(cluster);
    const { value } = (await kv.get(key, requestSignal()))!;
    const put = (bytes: Uint8Array) =>
      kv.transact([], [{ kind: 'put', key, value: bytes }], requestSignal());
    await put(new TextEncoder().encode('{"namespaces":{}}'));
    await until(cluster, 'no node has the namespace', () =>
      ['a', 'b', 'c'].every((id) => {
        const { namespaces, parking } = nodeOf(cluster, id).runtime!.database;
        return namespaces.size === 0 && !parking.isDue;
      }),
    );
    world.turnOff(nodeOf(cluster, 'a'), true);
    await put(value);
    world.trace('the registry is what it was');
    world.turnOn(nodeOf(cluster, 'a'));
    await cluster.settle();
    await answeredRead(cluster);
    await answeredReadWithout(cluster, 'b');
  },
};

export const takenAwayStories: readonly Story[] = [allTaken, onceAway, lostRegistry];
