/** A key-value store that is brought back to a backup forgets what the cluster has done since. */
import type { Backup } from '../key_value_store.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { TsdbError } from '#lib/errors.ts';
import { Administration } from '../administration.ts';
import { blockMillis, bufferPastMillis, namespace, type SimulatedCluster } from '../cluster.ts';
import {
  acknowledged,
  acknowledgedWithout,
  answeredRead,
  answeredReadOf,
  answeredReadWithout,
  comesBack,
  foundThree,
  joins,
  nodeOf,
  reader,
  repairSeconds,
  replace,
  rowsOfNow,
  seconds,
  type Story,
  takesOver,
  until,
} from './stage.ts';
import { requestSignal } from '../request_signal.ts';

/** A folder with new rows and the store have a new mark by then. */
const markSeconds = 12;
/** The block of a row is closed, flushed and compared by then. */
const comparedSeconds = (blockMillis + bufferPastMillis) / 1000 + 20;
const revisionsRaised = 1000;

/** Connections end, and find the store as the backup has it. */
async function restores(
  cluster: SimulatedCluster,
  backup: Backup,
  raisedBy: number,
): Promise<void> {
  const { kvStore } = cluster.world;
  kvStore.goAway();
  await seconds(cluster, 2);
  kvStore.restore(backup, raisedBy);
  cluster.world.trace('the key-value store is what the backup has');
  await seconds(cluster, 2);
}

/** A person has it stand again what the nodes knew, once all of them have said it. */
async function approves(cluster: SimulatedCluster): Promise<void> {
  const { admin } = cluster.world.coordinators[0]!;
  for (;;) {
    try {
      await admin.placementApprove({}, plainRequest, requestSignal());
      cluster.world.trace('the placement is approved');
      return;
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      cluster.world.trace(`the placement is not approved: ${error.message}`);
    }
    await seconds(cluster, 5);
  }
}

const olderRevisions: Story = {
  name: 'restored-store-with-older-revisions',
  issue: 17,
  wrong: /the cluster does not settle: . has no namespace/,
  async tell(cluster) {
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const backup = cluster.world.kvStore.backUp();
    for (const name of ['one', 'two']) await cluster.addNamespace(name);
    await cluster.settle();
    await restores(cluster, backup, 0);
    await approves(cluster);
    await cluster.addNamespace('new');
    await cluster.settle(120_000);
    await answeredRead(cluster);
  },
};

const beforeReplacement: Story = {
  name: 'restored-store-before-a-replacement',
  issue: 18,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await joins(cluster, 'd', 'c');
    const backup = world.kvStore.backUp();
    await replace(cluster, 'c', 'd');
    await takesOver(cluster, 'c', 'd');
    await seconds(cluster, 5);
    await acknowledgedWithout(cluster, 'b', rowsOfNow(cluster, 1));
    await restores(cluster, backup, 0);
    world.trace('all machines lose power, and find the placement of the backup');
    for (const id of ['a', 'b', 'c', 'd']) world.killNode(nodeOf(cluster, id), 'power', true);
    for (const coordinator of world.coordinators) world.killCoordinator(coordinator);
    await approves(cluster);
    await cluster.settle();
    await answeredReadWithout(cluster, 'a');
  },
};

const startAgain: Story = {
  name: 'restored-store-and-a-start',
  issue: 19,
  wrong: /a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, markSeconds);
    const backup = world.kvStore.backUp();
    for (const value of [2, 3]) {
      await acknowledged(cluster, rowsOfNow(cluster, value));
      await seconds(cluster, markSeconds);
    }
    await restores(cluster, backup, 0);
    world.turnOff(nodeOf(cluster, 'c'), false);
    for (const id of ['a', 'b']) world.killNode(nodeOf(cluster, id), 'started again', false);
    // c is away for long; a and b run, and have all that they ever had.
    await seconds(cluster, repairSeconds);
    await answeredRead(cluster);
  },
};

const deletedSince: Story = {
  name: 'restored-store-and-deletions-since',
  issue: 25,
  wrong: /is not applied by all nodes|was deleted by/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const backup = world.kvStore.backUp();
    const administration = new Administration(cluster);
    await administration.deleteRows(reader(cluster), { namespace, series: 0, millis: null });
    await restores(cluster, backup, 0);
    // It gets the number of the one that the store has forgotten.
    await administration.deleteRows(reader(cluster), { namespace, series: 1, millis: null });
    await administration.settle();
    await answeredRead(cluster);
  },
};

function appliedBy(cluster: SimulatedCluster, id: string): number {
  return nodeOf(cluster, id).runtime!.database.deletions.appliedSequence;
}

function cutStore(cluster: SimulatedCluster, ids: readonly string[], isCut: boolean): void {
  for (const id of ids) nodeOf(cluster, id).kv!.weather.isCut = isCut;
  cluster.world.trace(`${ids.join()} ${isCut ? 'do not reach' : 'reach'} the key-value store`);
}

const publishedAgain: Story = {
  name: 'restored-store-and-a-deletion-behind-a-later-one',
  issue: 0,
  wrong: /rows are wrong[^]*was deleted by delete rows/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster, { options: { repairEnabled: true } });
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, comparedSeconds);
    const administration = new Administration(cluster);
    const of = (series: number) => ({ namespace, series, millis: null });
    await administration.deleteRows(reader(cluster), of(2));
    const first = appliedBy(cluster, 'a');
    const backup = world.kvStore.backUp();
    world.turnOff(nodeOf(cluster, 'c'), false);
    void administration.deleteRows(reader(cluster), of(0));
    await until(cluster, 'a and b have applied what c has not heard of', () =>
      ['a', 'b'].every((id) => appliedBy(cluster, id) > first),
    );
    cutStore(cluster, ['a', 'b'], true);
    await restores(cluster, backup, 0);
    await comesBack(cluster, 'c');
    await administration.deleteRows(reader(cluster), of(1));
    const last = appliedBy(cluster, 'c');
    cutStore(cluster, ['c'], true);
    cutStore(cluster, ['a', 'b'], false);
    await until(cluster, 'a and b have applied the last one too', () =>
      ['a', 'b'].every((id) => appliedBy(cluster, id) === last),
    );
    // They are compared with c, and each publishes what the store has lost.
    await seconds(cluster, 30);
    cutStore(cluster, ['c'], false);
    await approves(cluster);
    await administration.settle();
    await seconds(cluster, 5);
    await answeredReadWithout(cluster, 'c');
  },
};

const firstDeletion: Story = {
  name: 'restored-store-before-the-first-deletion',
  issue: 0,
  wrong: /rows are wrong[^]*was deleted by delete rows/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, 2 * markSeconds);
    const backup = world.kvStore.backUp();
    const administration = new Administration(cluster);
    world.turnOff(nodeOf(cluster, 'c'), false);
    await administration.deleteRows(reader(cluster), { namespace, series: 0, millis: null });
    await seconds(cluster, 2 * markSeconds);
    // Its revisions are above all that were seen, and nothing but the deletion is missing.
    await restores(cluster, backup, revisionsRaised);
    await comesBack(cluster, 'c');
    await administration.deleteRows(reader(cluster), { namespace, series: 1, millis: null });
    await seconds(cluster, repairSeconds);
    await administration.settle();
    await seconds(cluster, 1);
    await answeredReadWithout(cluster, 'b');
  },
};

const asManyAgain: Story = {
  name: 'restored-store-with-as-many-deletions-again',
  issue: 0,
  wrong: /rows are wrong[^]*was deleted by delete rows/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, 2 * markSeconds);
    const administration = new Administration(cluster);
    const of = (series: number) => ({ namespace, series, millis: null });
    await administration.deleteRows(reader(cluster), of(3));
    await seconds(cluster, 2 * markSeconds);
    const backup = world.kvStore.backUp();
    world.turnOff(nodeOf(cluster, 'c'), false);
    await administration.deleteRows(reader(cluster), of(0));
    cutStore(cluster, ['a', 'b'], true);
    await restores(cluster, backup, revisionsRaised);
    await comesBack(cluster, 'c');
    for (const series of [1, 2]) await administration.deleteRows(reader(cluster), of(series));
    cutStore(cluster, ['a', 'b'], false);
    await seconds(cluster, repairSeconds);
    await administration.settle();
    await seconds(cluster, 1);
    await answeredReadWithout(cluster, 'b');
  },
};

const restoredTwice: Story = {
  name: 'restored-store-that-is-restored-once-more',
  issue: 0,
  wrong: /the placement is not approved/,
  async tell(cluster) {
    const { kvStore } = cluster.world;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const backup = kvStore.backUp();
    await cluster.addNamespace('one');
    await cluster.settle();
    cutStore(cluster, ['c'], true);
    await restores(cluster, backup, 0);
    await until(cluster, 'the store awaits approval', () => cluster.world.awaitsApproval);
    // c has not said what it knew.
    const second = kvStore.backUp();
    cutStore(cluster, ['c'], false);
    await seconds(cluster, repairSeconds);
    await restores(cluster, second, 0);
    const approving = approves(cluster).then(() => true);
    const patience = seconds(cluster, repairSeconds).then(() => false);
    if (!(await Promise.race([approving, patience]))) {
      cluster.fail('the placement is not approved');
    }
    await cluster.settle();
    await answeredRead(cluster);
  },
};

const approvedAtOnce: Story = {
  name: 'restored-store-that-awaited-and-is-approved-at-once',
  issue: 0,
  wrong: /awaits approval once more/,
  async tell(cluster) {
    const { world } = cluster;
    const { kvStore } = world;
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    const backup = kvStore.backUp();
    await cluster.addNamespace('one');
    await cluster.settle();
    await restores(cluster, backup, 0);
    await seconds(cluster, markSeconds);
    // All have said what they knew, and that stays true; deletions do not.
    const second = kvStore.backUp();
    const deleted = { namespace, series: 0, millis: null };
    await new Administration(cluster).deleteRows(reader(cluster), deleted);
    // The coordinator has read the store since.
    await seconds(cluster, markSeconds);
    kvStore.goAway();
    await seconds(cluster, 2);
    kvStore.restore(second, 0);
    await approves(cluster);
    await seconds(cluster, repairSeconds);
    if (world.awaitsApproval) cluster.fail('it awaits approval once more');
    await cluster.settle();
    await answeredRead(cluster);
  },
};

/** Whoever publishes the namespace again, if it is gone, finds every row that was acknowledged. */
async function hasAllOf(cluster: SimulatedCluster, name: string): Promise<void> {
  await cluster.settle();
  if (!cluster.namespaces().has(name)) await cluster.addNamespace(name);
  await cluster.settle();
  await answeredReadOf(cluster, name);
}

const deletedNamespace: Story = {
  name: 'restored-store-and-a-namespace-deleted-since',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await cluster.addNamespace('one');
    await cluster.settle();
    const before = world.kvStore.backUp();
    await new Administration(cluster).deleteNamespace(reader(cluster), 'one');
    await seconds(cluster, markSeconds);
    const since = world.kvStore.backUp();
    await restores(cluster, before, revisionsRaised);
    await until(cluster, 'the store awaits approval', () => world.awaitsApproval);
    await seconds(cluster, 2);
    // Nobody has to take these; what is acknowledged has to stay.
    await cluster.write(reader(cluster), rowsOfNow(cluster, 1), 'one');
    await restores(cluster, since, 0);
    await seconds(cluster, 2 * markSeconds);
    if (world.awaitsApproval) await approves(cluster);
    await hasAllOf(cluster, 'one');
  },
};

const deletedForSome: Story = {
  name: 'restored-store-and-a-deletion-that-one-has-heard-of',
  issue: 0,
  wrong: /rows are wrong[^]*is missing/,
  async tell(cluster) {
    const { world } = cluster;
    await foundThree(cluster);
    await cluster.addNamespace('one');
    await cluster.settle();
    await seconds(cluster, markSeconds);
    const before = world.kvStore.backUp();
    for (const id of ['a', 'b']) world.turnOff(nodeOf(cluster, id), false);
    void new Administration(cluster).deleteNamespace(reader(cluster), 'one');
    await until(cluster, 'c has heard of the deletion', () => !cluster.namespaces().has('one'));
    await seconds(cluster, 3);
    await restores(cluster, before, revisionsRaised);
    world.killCoordinator(reader(cluster));
    for (const id of ['a', 'b']) world.turnOn(nodeOf(cluster, id));
    await until(cluster, 'the store awaits approval', () => world.awaitsApproval);
    await seconds(cluster, 8);
    // A majority knows it by what it remembers.
    await cluster.write(reader(cluster), rowsOfNow(cluster, 1), 'one');
    await seconds(cluster, markSeconds);
    await approves(cluster);
    await hasAllOf(cluster, 'one');
  },
};

const sameBackupTwice: Story = {
  name: 'restored-store-of-the-same-backup-twice',
  issue: 0,
  wrong: /a majority read is refused/,
  async tell(cluster) {
    const { world } = cluster;
    const ids = ['a', 'b', 'c'];
    await foundThree(cluster);
    await acknowledged(cluster, rowsOfNow(cluster, 1));
    await seconds(cluster, markSeconds);
    const backup = world.kvStore.backUp();
    // It names former disks of all.
    for (const id of ids) {
      world.wipe(nodeOf(cluster, id));
      await comesBack(cluster, id);
      await cluster.settle();
      await seconds(cluster, markSeconds);
    }
    await restores(cluster, backup, 0);
    await approves(cluster);
    await cluster.settle();
    for (const id of ids) {
      world.turnOff(nodeOf(cluster, id), false);
      await comesBack(cluster, id);
    }
    await acknowledged(cluster, rowsOfNow(cluster, 2));
    await seconds(cluster, markSeconds);
    await restores(cluster, backup, 0);
    await until(cluster, 'the store awaits approval', () => world.awaitsApproval);
    await acknowledged(cluster, rowsOfNow(cluster, 3));
    await seconds(cluster, markSeconds);
    await answeredRead(cluster);
    await approves(cluster);
    await cluster.settle();
    await answeredRead(cluster);
  },
};

export const restoreStories: readonly Story[] = [
  olderRevisions,
  beforeReplacement,
  startAgain,
  deletedSince,
  publishedAgain,
  firstDeletion,
  asManyAgain,
  restoredTwice,
  approvedAtOnce,
  deletedNamespace,
  deletedForSome,
  sameBackupTwice,
];
