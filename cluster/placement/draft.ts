/**
 * A placement while an algorithm works on it: mutable, indexed by shard, with the one step that
 * everything is made of. `moveShard` keeps the rules of placement.ts, so every sequence of moves
 * gives a valid placement.
 */
import { assert } from '#lib/assert.ts';
import {
  type Instance,
  type InstanceInfo,
  type Placement,
  type Shard,
  type ShardState,
  sortInstances,
} from './placement.ts';

interface DraftShard {
  state: ShardState;
  sourceId: string;
}

export interface DraftInstance {
  info: InstanceInfo;
  readonly shards: Map<number, DraftShard>;
  /** Shards that are not LEAVING. */
  load: number;
}

export class Draft {
  readonly numShards: number;
  readonly instances: Map<string, DraftInstance> = new Map();
  /** Owners of each shard that are not LEAVING. */
  readonly owners: DraftInstance[][];
  readonly #before: Placement;

  constructor(placement: Placement) {
    this.#before = placement;
    this.numShards = placement.numShards;
    this.owners = Array.from({ length: placement.numShards }, () => []);
    for (const instance of placement.instances) {
      const draft = this.addInstance(infoOf(instance));
      for (const { id, state, sourceId } of instance.shards) {
        draft.shards.set(id, { state, sourceId });
        if (state !== 'LEAVING') this.#own(draft, id);
      }
    }
  }

  addInstance(info: InstanceInfo): DraftInstance {
    const draft: DraftInstance = { info, shards: new Map(), load: 0 };
    this.instances.set(info.id, draft);
    return draft;
  }

  removeInstance(id: string): void {
    assert(this.instances.get(id)?.shards.size === 0, 'a removed instance holds no shard');
    this.instances.delete(id);
  }

  /** First owner of a replica: INITIALIZING from nowhere. */
  place(shardId: number, to: DraftInstance): void {
    assert(this.canOwn(shardId, to, null), 'a placed shard breaks no rule');
    to.shards.set(shardId, { state: 'INITIALIZING', sourceId: '' });
    this.#own(to, shardId);
  }

  /**
   * Whether `to` may own the shard when `from` gives it up: it has it not already, no other owner is
   * in its isolation group, and neither of the two is handing it over with a third one just now.
   */
  canOwn(shardId: number, to: DraftInstance, from: DraftInstance | null): boolean {
    const given = from?.shards.get(shardId);
    if (given?.state === 'AVAILABLE' && given.sourceId !== '' && given.sourceId !== to.info.id) {
      return false;
    }
    if (to.shards.get(shardId)?.state === 'LEAVING') {
      const receiver = this.receiverOf(shardId, to);
      const isAwaited = receiver?.shards.get(shardId)!.state === 'INITIALIZING';
      if (!isAwaited && (receiver === null || receiver !== from)) return false;
    }
    for (const owner of this.owners[shardId]!) {
      if (owner === to) return false;
      if (owner !== from && owner.info.isolationGroup === to.info.isolationGroup) return false;
    }
    return true;
  }

  /**
   * Gives a replica from one instance to another. An AVAILABLE one stays LEAVING at the giver until
   * the receiver has it. A receiver that was about to leave the shard keeps it: it has all data, so
   * it is AVAILABLE at once, and whoever took it over from it now takes over from the giver. One that
   * had handed it over to the giver gets it back: the giver then leaves as it was about to do.
   */
  moveShard(shardId: number, from: DraftInstance, to: DraftInstance): void {
    assert(this.canOwn(shardId, to, from), 'a moved shard breaks no rule');
    const given = from.shards.get(shardId);
    assert(given !== undefined && given.state !== 'LEAVING', 'the giver owns the shard');
    const kept = to.shards.get(shardId);
    const receiver = kept === undefined ? null : this.receiverOf(shardId, to);

    let sourceId = given.sourceId;
    if (given.state === 'AVAILABLE') {
      sourceId = from.info.id;
      given.state = 'LEAVING';
      given.sourceId = '';
    } else {
      from.shards.delete(shardId);
    }
    this.#disown(from, shardId);

    if (kept === undefined) {
      to.shards.set(shardId, { state: 'INITIALIZING', sourceId });
    } else {
      kept.state = 'AVAILABLE';
      if (receiver === from && given.state === 'LEAVING') kept.sourceId = from.info.id;
      if (receiver !== null && receiver !== from) receiver.shards.get(shardId)!.sourceId = sourceId;
    }
    this.#own(to, shardId);
  }

  /** Who takes over the LEAVING shard of the instance. */
  receiverOf(shardId: number, leaving: DraftInstance): DraftInstance | null {
    for (const owner of this.owners[shardId]!) {
      if (owner.shards.get(shardId)!.sourceId === leaving.info.id) return owner;
    }
    return null;
  }

  finish(): Placement {
    const before = new Map(this.#before.instances.map((instance) => [instance.id, instance]));
    const instances = [...this.instances.values()].map((draft): Instance => {
      const oldShards = new Map(
        before.get(draft.info.id)?.shards.map((shard) => [shard.id, shard]),
      );
      const shards = [...draft.shards.entries()]
        .sort(([a], [b]) => a - b)
        .map(([id, { state, sourceId }]): Shard => {
          const shard = oldShards.get(id);
          if (shard?.state === state && shard.sourceId === sourceId) return shard;
          return { id, state, sourceId, cutoverNanos: 0n, cutoffNanos: 0n };
        });
      return { ...draft.info, shards };
    });
    return { ...this.#before, instances: sortInstances(instances) };
  }

  #own(instance: DraftInstance, shardId: number): void {
    this.owners[shardId]!.push(instance);
    instance.load++;
  }

  #disown(instance: DraftInstance, shardId: number): void {
    const owners = this.owners[shardId]!;
    owners.splice(owners.indexOf(instance), 1);
    instance.load--;
  }
}

function infoOf(instance: Instance): InstanceInfo {
  const { shards: _, ...info } = instance;
  return info;
}

/**
 * How many shards each instance should own: by weight, whole numbers that add up to shards times
 * replicas. A group holds each shard at most once, so a group that is too heavy gets every shard
 * once and the others share the rest.
 */
export function targetLoads(
  instances: readonly InstanceInfo[],
  numShards: number,
  replicaFactor: number,
): Map<string, number> {
  const groups = new Map<string, InstanceInfo[]>();
  for (const instance of sortInstances(instances)) {
    const group = groups.get(instance.isolationGroup);
    if (group === undefined) groups.set(instance.isolationGroup, [instance]);
    else group.push(instance);
  }
  const weights = [...groups].map(([name, members]) => ({
    name,
    weight: members.reduce((sum, member) => sum + member.weight, 0),
  }));

  const full = new Set<string>();
  for (let grew = true; grew; ) {
    grew = false;
    const open = weights.filter(({ name }) => !full.has(name));
    const weightLeft = open.reduce((sum, { weight }) => sum + weight, 0);
    const replicasLeft = replicaFactor - full.size;
    for (const { name, weight } of open) {
      if (weight * replicasLeft >= weightLeft) {
        full.add(name);
        grew = true;
      }
    }
  }
  const open = weights.filter(({ name }) => !full.has(name));
  const shares = apportion(Math.max(0, replicaFactor - full.size) * numShards, open);

  const targets = new Map<string, number>();
  for (const { name } of weights) {
    const quota = full.has(name) ? numShards : (shares.get(name) ?? 0);
    const members = groups.get(name)!.map(({ id, weight }) => ({ name: id, weight }));
    for (const [id, share] of apportion(quota, members)) targets.set(id, share);
  }
  return targets;
}

/**
 * Divides whole units by weight; the largest remainders, then the first names, get what rounding
 * left.
 */
function apportion(
  units: number,
  parts: readonly { name: string; weight: number }[],
): Map<string, number> {
  const weightSum = parts.reduce((sum, { weight }) => sum + weight, 0);
  const exact = parts.map(({ name, weight }) => ({
    name,
    whole: Math.floor((units * weight) / weightSum),
    rest: (units * weight) % weightSum,
  }));
  let left = units - exact.reduce((sum, { whole }) => sum + whole, 0);
  exact.sort((a, b) => b.rest - a.rest || (a.name < b.name ? -1 : 1));
  return new Map(exact.map(({ name, whole }) => [name, left-- > 0 ? whole + 1 : whole]));
}
