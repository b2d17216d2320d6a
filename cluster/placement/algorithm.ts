/**
 * The steps from one placement to the next, as pure functions. Every one keeps the rules of
 * placement.ts, moves as little as it can, and is refused with BAD_REQUEST when it cannot be done.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { instancesMax, replicationFactorMax, shardsMax } from '../limits.ts';
import { endpointProblem, nameProblem } from '../names.ts';
import {
  type Instance,
  type InstanceInfo,
  instanceById,
  isAvailable,
  isLeaving,
  type Placement,
  type Shard,
} from './placement.ts';
import { Draft, type DraftInstance, targetLoads } from './draft.ts';

export interface ChangeOptions {
  /** Go on although shards are still on their way. */
  readonly force: boolean;
}

/** @throws {TsdbError} BAD_REQUEST */
export function checkReplicaFactor(replicaFactor: number): void {
  if (replicaFactor >= 1 && replicaFactor <= replicationFactorMax) return;
  throw badRequest(
    `replication_factor must be between 1 and ${replicationFactorMax}: ${replicaFactor}`,
  );
}

/**
 * The first placement: every shard INITIALIZING on `replicaFactor` instances of different groups.
 * @throws {TsdbError} BAD_REQUEST
 */
export function initPlacement(
  instances: readonly InstanceInfo[],
  shape: { readonly numShards: number; readonly replicaFactor: number },
): Placement {
  const { numShards, replicaFactor } = shape;
  if (!(numShards >= 1 && numShards <= shardsMax)) {
    throw badRequest(`num_shards must be between 1 and ${shardsMax}: ${numShards}`);
  }
  checkReplicaFactor(replicaFactor);
  if (instances.length === 0)
    throw badRequest('instances: a placement needs at least one instance');
  checkNewInstances([], instances);
  checkGroups(instances, replicaFactor);

  const draft = new Draft({
    instances: [],
    numShards,
    replicaFactor,
    isSharded: true,
    isMirrored: false,
    maxShardSetId: instances.reduce((max, { shardSetId }) => Math.max(max, shardSetId), 0),
    cutoverTimeNanos: 0n,
  });
  const targets = targetLoads(instances, numShards, replicaFactor);
  const groups = new Map<string, InstanceInfo[]>();
  for (const info of instances) {
    const group = groups.get(info.isolationGroup);
    if (group === undefined) groups.set(info.isolationGroup, [info]);
    else group.push(info);
  }
  // A shard takes the groups with the most left to take: then no group is ever left with more than
  // the remaining shards, so the targets are met exactly.
  const order = [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, members]) => new FirstShares(members, draft, targets))
    .sort((a, b) => b.compare(a));
  for (let shard = 0; shard < numShards; shard++) {
    const taking = order.splice(0, replicaFactor);
    for (const group of taking) draft.place(shard, group.take(shard));
    for (const group of taking.reverse()) order.splice(placeIn(order, group), 0, group);
  }
  return draft.finish();
}

/**
 * Adds all of the instances, each with its share. One that is on its way out comes back and keeps
 * its shards. Shards move to the added instances only.
 * @throws {TsdbError} BAD_REQUEST
 */
export function addInstances(
  placement: Placement,
  instances: readonly InstanceInfo[],
  options: ChangeOptions,
): Placement {
  if (instances.length === 0) throw badRequest('instances: no instance to add');
  const leavingIds = new Set(placement.instances.filter(isLeaving).map(({ id }) => id));
  for (const { id } of instances) {
    if (instanceById(placement, id) !== undefined && !leavingIds.has(id)) {
      throw badRequest(`instance ${id} already exists in the placement`);
    }
  }
  checkNewInstances(placement.instances, instances);
  checkAvailable(placement, options, new Set(instances.map(({ id }) => id)));

  const draft = new Draft(placement);
  const added: DraftInstance[] = [];
  for (const info of instances) {
    const back = draft.instances.get(info.id);
    if (back === undefined) {
      added.push(draft.addInstance(info));
      continue;
    }
    back.info = info;
    added.push(back);
    reclaim(draft, back);
  }
  const stay = [...draft.instances.values()].filter(
    ({ info }) => !leavingIds.has(info.id) || instances.some(({ id }) => id === info.id),
  );
  fill(draft, added, stay, placement.replicaFactor);
  return { ...draft.finish(), maxShardSetId: shardSetIdMax(placement, instances) };
}

/**
 * Takes instances out: their shards go to the others, and each stays until its LEAVING shards are
 * taken over.
 * @throws {TsdbError} NOT_FOUND, BAD_REQUEST
 */
export function removeInstances(
  placement: Placement,
  ids: readonly string[],
  options: ChangeOptions,
): Placement {
  if (ids.length === 0) throw badRequest('instance_ids: no instance to remove');
  return takeOut(placement, ids, [], options);
}

/**
 * Puts candidates in the place of instances. Of more candidates than are needed, those are taken
 * that keep the isolation groups and reach the weight of the leaving ones. What they cannot take
 * goes to the others.
 * @throws {TsdbError} NOT_FOUND, BAD_REQUEST
 */
export function replaceInstances(
  placement: Placement,
  leavingIds: readonly string[],
  candidates: readonly InstanceInfo[],
  options: ChangeOptions,
): Placement {
  if (leavingIds.length === 0) throw badRequest('leavingInstanceIDs: no instance to replace');
  if (candidates.length === 0) throw badRequest('candidates: no instance to put in its place');
  for (const { id } of candidates) {
    if (instanceById(placement, id) !== undefined) {
      throw badRequest(`instance ${id} already exists in the placement`);
    }
  }
  checkNewInstances(placement.instances, candidates);
  const leaving = leavingIds.map((id) => existing(placement, id));
  const groups = new Set(leaving.map(({ isolationGroup }) => isolationGroup));
  const weight = leaving.reduce((sum, instance) => sum + instance.weight, 0);
  const byFit = [...candidates].sort(
    (a, b) => Number(groups.has(b.isolationGroup)) - Number(groups.has(a.isolationGroup)),
  );
  const chosen: InstanceInfo[] = [];
  for (let reached = 0; reached < weight && byFit.length > 0; reached += chosen.at(-1)!.weight) {
    chosen.push(byFit.shift()!);
  }
  return takeOut(placement, leavingIds, chosen, options);
}

/** Whether an instance has bootstrapped a shard, for the very assignment that it has. */
export type IsBootstrapped = (shard: Shard) => boolean;

/**
 * Marks INITIALIZING shards of an instance AVAILABLE: step 1 of a handover, so the LEAVING partners
 * stay until `finishHandovers`. A shard that was assigned anew since it was bootstrapped stays
 * INITIALIZING, since writes that others acknowledged meanwhile may be missing; others that are not
 * INITIALIZING are passed over.
 *
 * @returns the placement itself when nothing changes
 * @throws {TsdbError} NOT_FOUND when the instance is not in the placement
 */
export function markShardsAvailable(
  placement: Placement,
  instanceId: string,
  isBootstrapped: IsBootstrapped,
): Placement {
  const instance = existing(placement, instanceId);
  const isReady = (shard: Shard) => shard.state === 'INITIALIZING' && isBootstrapped(shard);
  if (!instance.shards.some(isReady)) return placement;
  const givers = new Map(placement.instances.map(({ id, shards }) => [id, shards]));
  const isGiver = ({ id, sourceId }: Shard) =>
    givers.get(sourceId)?.some((given) => given.id === id && given.state === 'LEAVING') === true;
  const shards = instance.shards.map((shard): Shard => {
    if (!isReady(shard)) return shard;
    return { ...shard, state: 'AVAILABLE', sourceId: isGiver(shard) ? shard.sourceId : '' };
  });
  const instances = placement.instances.map((owner) =>
    owner === instance ? { ...owner, shards } : owner,
  );
  return { ...placement, instances };
}

/**
 * An instance lost its data or went back in time: its AVAILABLE shards are INITIALIZING again, from
 * any peer, or from an owner that has not left yet. What it was about to hand over it cannot: the
 * receiver takes it from any peer too; what it has handed over it leaves.
 *
 * @param isLost of which shards; of all when it is not given
 * @returns the placement itself when nothing changes
 * @throws {TsdbError} NOT_FOUND when the instance is not in the placement
 */
export function resetInstance(
  placement: Placement,
  instanceId: string,
  isLost: (shard: number) => boolean = () => true,
): Placement {
  const instance = existing(placement, instanceId);
  const lost = instance.shards.filter(({ id, state }) => state !== 'INITIALIZING' && isLost(id));
  if (lost.length === 0) return placement;
  const ids = new Set(lost.map(({ id }) => id));
  const left = new Set(lost.filter(({ state }) => state === 'LEAVING').map(({ id }) => id));
  const instances = placement.instances.flatMap((owner): Instance[] => {
    if (owner !== instance) {
      const shards = owner.shards.map(
        (shard): Shard =>
          shard.sourceId === instanceId && left.has(shard.id) ? { ...shard, sourceId: '' } : shard,
      );
      return [{ ...owner, shards }];
    }
    const shards = owner.shards
      .filter(({ id }) => !left.has(id))
      .map((shard): Shard => (ids.has(shard.id) ? { ...shard, state: 'INITIALIZING' } : shard));
    return shards.length === 0 ? [] : [{ ...owner, shards }];
  });
  return { ...placement, instances };
}

/**
 * The data of instances are not to be counted any more: they are gone for good, or not trusted.
 *
 * @throws {TsdbError} NOT_FOUND; BAD_REQUEST when shards would have no owner left that has their
 *   data, unless that is forced
 */
export function resetInstances(
  placement: Placement,
  ids: readonly string[],
  { force }: { readonly force: boolean },
): Placement {
  const next = ids.reduce((reset, id) => resetInstance(reset, id), placement);
  if (force) return next;
  const lost = wholeShards(placement).difference(wholeShards(next));
  if (lost.size === 0) return next;
  const shown = [...lost].slice(0, 5).join(', ');
  throw badRequest(
    `nobody else has all data of ${lost.size} shards (${shown}${lost.size > 5 ? ', …' : ''}): reset by force gives them up: ${ids.join(', ')}`,
  );
}

/** Shards of which an owner has all data. */
function wholeShards({ instances }: Placement): ReadonlySet<number> {
  return new Set(
    instances.flatMap(({ shards }) =>
      shards.flatMap(({ id, state }) => (state === 'INITIALIZING' ? [] : [id])),
    ),
  );
}

function takeOut(
  placement: Placement,
  ids: readonly string[],
  candidates: readonly InstanceInfo[],
  options: ChangeOptions,
): Placement {
  const out = new Set(ids);
  for (const id of out) existing(placement, id);
  checkAvailable(placement, options, new Set());
  const draft = new Draft(placement);
  const added = candidates.map((info) => draft.addInstance(info));
  const stay = [...draft.instances.values()].filter(
    ({ info, shards, load }) => !out.has(info.id) && !(load === 0 && shards.size > 0),
  );
  if (stay.length === 0) throw badRequest(`cannot remove the last instance: ${ids.join(', ')}`);
  const { replicaFactor } = placement;
  checkGroups(
    stay.map(({ info }) => info),
    replicaFactor,
  );
  const targets = targetLoads(
    stay.map(({ info }) => info),
    placement.numShards,
    replicaFactor,
  );
  const moved: { shard: number; at: DraftInstance }[] = [];
  for (const id of out) {
    const instance = draft.instances.get(id)!;
    for (const [shard, { state, sourceId }] of [...instance.shards].sort(([a], [b]) => a - b)) {
      if (state === 'LEAVING') continue;
      if (state === 'AVAILABLE' && sourceId !== '') {
        throw badRequest(
          `shard ${shard} of ${id} is being handed over: ${sourceId} has not left it yet`,
        );
      }
      const source = draft.instances.get(sourceId);
      const fits = (to: DraftInstance) => draft.canOwn(shard, to, instance);
      // Who names another one for it does not want it back where it came from, which may be gone.
      const canReturn =
        source !== undefined && !out.has(sourceId) && fits(source) && !added.some(fits);
      const eligible = added.some(fits) ? added.filter(fits) : stay.filter(fits);
      if (!canReturn && eligible.length === 0) {
        throw badRequest(
          `cannot place shard ${shard} of ${id}: every isolation group left has a replica of it`,
        );
      }
      const to = canReturn ? source : mostSpare(shard, eligible, targets);
      draft.moveShard(shard, instance, to);
      if (!canReturn && !added.includes(to)) moved.push({ shard, at: to });
    }
    if (instance.shards.size === 0) draft.removeInstance(id);
  }
  evenOut(draft, moved, stay, targets);
  return { ...draft.finish(), maxShardSetId: shardSetIdMax(placement, candidates) };
}

/**
 * Takes back what a leaving instance was about to hand over, where its group has no other replica
 * by now.
 */
function reclaim(draft: Draft, instance: DraftInstance): void {
  for (const shard of instance.shards.keys()) {
    const receiver = draft.receiverOf(shard, instance);
    if (receiver !== null && draft.canOwn(shard, instance, receiver)) {
      draft.moveShard(shard, receiver, instance);
    }
  }
}

/**
 * Moves shards to the added instances until each has its share, always from the fullest that can
 * give.
 */
function fill(
  draft: Draft,
  added: readonly DraftInstance[],
  stay: readonly DraftInstance[],
  replicaFactor: number,
): void {
  const targets = targetLoads(
    stay.map(({ info }) => info),
    draft.numShards,
    replicaFactor,
  );
  const excess = (instance: DraftInstance) => instance.load - targets.get(instance.info.id)!;
  const givers = stay.filter((instance) => !added.includes(instance));
  const hungry = new Set(added);
  while (hungry.size > 0) {
    const to = [...hungry].reduce((a, b) => (excess(b) < excess(a) ? b : a));
    if (excess(to) >= 0) break;
    const fullest = [...givers].filter((giver) => excess(giver) > 0);
    fullest.sort((a, b) => excess(b) - excess(a) || (a.info.id < b.info.id ? -1 : 1));
    const found = firstGiven(draft, fullest, to);
    if (found === null) hungry.delete(to);
    else draft.moveShard(found.shard, found.from, to);
  }
}

/**
 * A shard that one of the givers can hand over; those that have no data yet are the cheapest to
 * move.
 */
function firstGiven(
  draft: Draft,
  givers: readonly DraftInstance[],
  to: DraftInstance,
): { shard: number; from: DraftInstance } | null {
  for (const from of givers) {
    let best = -1;
    let bestRank = Number.POSITIVE_INFINITY;
    for (const [shard, { state }] of from.shards) {
      if (state === 'LEAVING' || to.shards.has(shard) || !draft.canOwn(shard, to, from)) continue;
      const rank = (state === 'INITIALIZING' ? 0 : 2 ** 32) + spread(shard, hashOf(to));
      if (rank < bestRank) {
        best = shard;
        bestRank = rank;
      }
    }
    if (best >= 0) return { shard: best, from };
  }
  return null;
}

/** Moves what was placed just now from instances above their share to ones below; nothing else. */
function evenOut(
  draft: Draft,
  moved: { shard: number; at: DraftInstance }[],
  stay: readonly DraftInstance[],
  targets: ReadonlyMap<string, number>,
): void {
  const excess = (instance: DraftInstance) => instance.load - targets.get(instance.info.id)!;
  for (let changed = true; changed; ) {
    changed = false;
    for (const placed of moved) {
      const from = placed.at;
      if (excess(from) <= 0 || from.shards.get(placed.shard)!.state !== 'INITIALIZING') continue;
      const to = stay.find(
        (other) =>
          excess(other) < 0 &&
          !other.shards.has(placed.shard) &&
          draft.canOwn(placed.shard, other, from),
      );
      if (to === undefined) continue;
      draft.moveShard(placed.shard, from, to);
      placed.at = to;
      changed = true;
    }
  }
}

interface Share {
  readonly instance: DraftInstance;
  readonly hash: number;
  readonly index: number;
  /** Shards that it has left to take. */
  spare: number;
}

/**
 * What the instances of one group have left to take. Each shard goes to the instance furthest below its
 * share, among equals to a spread choice: as `mostSpare`, which looks at all of them.
 */
class FirstShares {
  /** Most to take first. */
  readonly #members: Share[];
  /** So many members, the first ones, have as much to take as the first one. */
  #equals = 0;
  readonly #weight: number;
  #left = 0;

  constructor(
    members: readonly InstanceInfo[],
    draft: Draft,
    targets: ReadonlyMap<string, number>,
  ) {
    this.#members = members
      .map((info, index) => {
        const instance = draft.addInstance(info);
        return { instance, hash: hashOf(instance), index, spare: targets.get(info.id)! };
      })
      .sort((a, b) => b.spare - a.spare);
    this.#weight = members.reduce((sum, { weight }) => sum + weight, 0);
    this.#left = this.#members.reduce((sum, { spare }) => sum + spare, 0);
  }

  /** @returns more than zero when this one has more to take, or as much and weighs more */
  compare(other: FirstShares): number {
    return this.#left - other.#left || this.#weight - other.#weight;
  }

  take(shard: number): DraftInstance {
    const members = this.#members;
    const most = members[0]!.spare;
    while (this.#equals < members.length && members[this.#equals]!.spare === most) this.#equals++;
    let best = 0;
    let bestRank = -1;
    for (let at = 0; at < this.#equals; at++) {
      const { hash, index } = members[at]!;
      const rank = spread(shard, hash);
      if (rank < bestRank || (rank === bestRank && index > members[best]!.index)) continue;
      best = at;
      bestRank = rank;
    }
    // It is now the first of those that have less.
    const taken = members[best]!;
    this.#equals--;
    members[best] = members[this.#equals]!;
    members[this.#equals] = taken;
    taken.spare--;
    this.#left--;
    return taken.instance;
  }
}

/** Where a group belongs in groups that are in order: before those that have as much to take. */
function placeIn(order: readonly FirstShares[], group: FirstShares): number {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (order[middle]!.compare(group) > 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The instance furthest below its share; among equals a spread choice, so that replicas mix well.
 */
function mostSpare(
  shard: number,
  instances: readonly DraftInstance[],
  targets: ReadonlyMap<string, number>,
): DraftInstance {
  let best = instances[0]!;
  let bestSpare = Number.NEGATIVE_INFINITY;
  let bestRank = -1;
  for (const instance of instances) {
    const spare = targets.get(instance.info.id)! - instance.load;
    if (spare < bestSpare) continue;
    const rank = spread(shard, hashOf(instance));
    if (spare > bestSpare || rank > bestRank) {
      best = instance;
      bestSpare = spare;
      bestRank = rank;
    }
  }
  return best;
}

const hashOfId = new Map<string, number>();

function hashOf({ info: { id } }: DraftInstance): number {
  let hash = hashOfId.get(id);
  if (hash === undefined) {
    hash = murmur3(Buffer.from(id));
    if (hashOfId.size >= instancesMax) hashOfId.clear();
    hashOfId.set(id, hash);
  }
  return hash;
}

/** A number in [0, 2^32) that is different for each pair and always the same. */
function spread(shard: number, hash: number): number {
  let mixed = Math.imul(hash ^ shard, 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}

function existing(placement: Placement, id: string): Instance {
  const instance = instanceById(placement, id);
  if (instance === undefined) throw new TsdbError('NOT_FOUND', `instance not found: ${id}`);
  return instance;
}

/** @throws {TsdbError} BAD_REQUEST */
export function checkNewInstances(
  present: readonly InstanceInfo[],
  instances: readonly InstanceInfo[],
): void {
  if (present.length + instances.length > instancesMax) {
    throw badRequest(`instances: more than ${instancesMax} in one placement`);
  }
  const ids = new Set(instances.map(({ id }) => id));
  if (ids.size < instances.length) throw badRequest('instances: an id appears twice');
  const endpoints = new Map(
    present.filter(({ id }) => !ids.has(id)).map(({ id, endpoint }) => [endpoint, id]),
  );
  for (const [index, { id, endpoint, weight, isolationGroup, hostname }] of instances.entries()) {
    const problem =
      nameProblem('id', id) ??
      endpointProblem('endpoint', endpoint) ??
      (isolationGroup === '' ? null : nameProblem('isolation_group', isolationGroup)) ??
      (hostname === '' ? null : nameProblem('hostname', hostname));
    if (problem !== null) throw badRequest(`instances[${index}].${problem}`);
    if (!(weight >= 1))
      throw badRequest(`instances[${index}].weight must be at least 1: ${weight}`);
    const other = endpoints.get(endpoint);
    if (other !== undefined) {
      throw badRequest(`instances[${index}].endpoint is the one of instance ${other}: ${endpoint}`);
    }
    endpoints.set(endpoint, id);
  }
}

function checkGroups(instances: readonly InstanceInfo[], replicaFactor: number): void {
  const groups = new Set(instances.map(({ isolationGroup }) => isolationGroup));
  if (groups.size >= replicaFactor) return;
  throw badRequest(
    'not enough isolation groups to take shards, please make sure RF is less than number of isolation groups' +
      `: replication factor ${replicaFactor}, isolation groups ${groups.size}`,
  );
}

function checkAvailable(
  placement: Placement,
  options: ChangeOptions,
  except: ReadonlySet<string>,
): void {
  if (options.force) return;
  const busy = placement.instances
    .filter((instance) => !isAvailable(instance) && !except.has(instance.id))
    .map(({ id }) => id);
  if (busy.length > 0) {
    throw badRequest(`instances do not have all shards available: [${busy.join(', ')}]`);
  }
}

function shardSetIdMax(placement: Placement, added: readonly InstanceInfo[]): number {
  return added.reduce((max, { shardSetId }) => Math.max(max, shardSetId), placement.maxShardSetId);
}
