/**
 * Placements of aggregators: instances stand together in shard sets, whose members, each of another isolation group, have
 * the same shards. Nothing has to move with a shard (docs/AGGREGATION.md, Aggregators), so all are AVAILABLE at once. The
 * steps are those of algorithm.ts, with a set in the place of an instance and one replica.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import { shardSetIdMax } from '../limits.ts';
import {
  addInstances,
  checkNewInstances,
  checkReplicaFactor,
  initPlacement,
  removeInstances,
} from './algorithm.ts';
import {
  type Instance,
  type InstanceInfo,
  instanceById,
  type Placement,
  sortInstances,
} from './placement.ts';

const force = { force: true };

/**
 * @param instances that name no shard set are put into sets of equal weights
 * @throws {TsdbError} BAD_REQUEST
 */
export function initMirrored(
  instances: readonly InstanceInfo[],
  { numShards, replicaFactor }: { readonly numShards: number; readonly replicaFactor: number },
): Placement {
  checkReplicaFactor(replicaFactor);
  checkNewInstances([], instances);
  const sets = setsOf(instances, replicaFactor, 0);
  const virtual = initPlacement(sets.map(virtualOf), { numShards, replicaFactor: 1 });
  return expanded(virtual, sets, replicaFactor, 0);
}

/** @throws {TsdbError} BAD_REQUEST */
export function addMirrored(placement: Placement, instances: readonly InstanceInfo[]): Placement {
  if (instances.length === 0) throw badRequest('instances: no instance to add');
  for (const { id } of instances) {
    if (instanceById(placement, id) === undefined) continue;
    throw badRequest(`instance ${id} already exists in the placement`);
  }
  checkNewInstances(placement.instances, instances);
  const { replicaFactor, maxShardSetId } = placement;
  const added = setsOf(instances, replicaFactor, maxShardSetId);
  const present = setsIn(placement);
  const known = present.find(({ id }) => added.some((set) => set.id === id));
  if (known !== undefined) {
    throw badRequest(`shard_set_id ${known.id} is that of other instances: ${idsOf(known)}`);
  }
  const virtual = addInstances(collapsed(placement), added.map(virtualOf), force);
  return expanded(virtual, [...present, ...added], replicaFactor, maxShardSetId);
}

/**
 * Takes whole shard sets out.
 * @throws {TsdbError} NOT_FOUND, BAD_REQUEST
 */
export function removeMirrored(placement: Placement, ids: readonly string[]): Placement {
  if (ids.length === 0) throw badRequest('instance_ids: no instance to remove');
  const leaving = new Set(ids.map((id) => required(placement, id).shardSetId));
  const sets = setsIn(placement);
  for (const { members, id } of sets) {
    if (!leaving.has(id)) continue;
    const other = members.find((member) => !ids.includes(member.id));
    if (other === undefined) continue;
    throw badRequest(
      `instance_ids: shard set ${id} leaves as a whole, and ${other.id} is not named: replace an instance that others are to stay without`,
    );
  }
  const staying = sets.filter(({ id }) => !leaving.has(id));
  if (staying.length === 0) {
    throw badRequest('instance_ids: no instance would stay: delete the placement instead');
  }
  const virtual = removeInstances(collapsed(placement), [...leaving].map(nameOf), force);
  return expanded(virtual, staying, placement.replicaFactor, placement.maxShardSetId);
}

/**
 * Each candidate takes the place of a leaving instance in its shard set.
 * @throws {TsdbError} NOT_FOUND, BAD_REQUEST
 */
export function replaceMirrored(
  placement: Placement,
  leavingIds: readonly string[],
  candidates: readonly InstanceInfo[],
): Placement {
  if (leavingIds.length === 0) throw badRequest('leavingInstanceIDs: no instance to replace');
  if (candidates.length < leavingIds.length) {
    throw badRequest(
      `candidates: each instance that leaves needs one: ${candidates.length} for ${leavingIds.length}`,
    );
  }
  const leaving = leavingIds.map((id) => required(placement, id));
  let instances = placement.instances.filter(({ id }) => !leavingIds.includes(id));
  checkNewInstances(instances, candidates);
  const left = [...candidates];
  const waiting = [...leaving];
  while (waiting.length > 0) {
    const [next, fitting] = waiting
      .map((each) => [each, fittingOf(each, instances, left)] as const)
      .reduce((a, b) => (isBefore(b, a) ? b : a));
    const [candidate] = fitting;
    if (candidate === undefined) {
      const groups = partnersOf(next, instances).map(({ isolationGroup }) => isolationGroup);
      throw badRequest(
        `candidates: none can replace ${next.id}: it needs weight ${next.weight}, and another isolation group than ${groups.join(', ')}`,
      );
    }
    waiting.splice(waiting.indexOf(next), 1);
    left.splice(left.indexOf(candidate), 1);
    const { shardSetId, shards } = next;
    instances = [...instances, { ...candidate, shardSetId, shards }];
  }
  return { ...placement, instances: sortInstances(instances) };
}

const partnersOf = ({ shardSetId }: Instance, instances: readonly Instance[]): Instance[] =>
  instances.filter((each) => each.shardSetId === shardSetId);

/** Who may take the place of one, those of its isolation group first. */
function fittingOf(
  leaving: Instance,
  instances: readonly Instance[],
  candidates: readonly InstanceInfo[],
): InstanceInfo[] {
  const groups = partnersOf(leaving, instances).map(({ isolationGroup }) => isolationGroup);
  const isSameGroup = ({ isolationGroup }: InstanceInfo): boolean =>
    isolationGroup === leaving.isolationGroup;
  return candidates
    .filter(({ weight, isolationGroup }) => {
      return weight === leaving.weight && !groups.includes(isolationGroup);
    })
    .sort((a, b) => Number(isSameGroup(b)) - Number(isSameGroup(a)));
}

type Choice = readonly [Instance, readonly InstanceInfo[]];

/** Those first for whom there is one of their own group, then those who have least to choose from. */
function isBefore([a, ofA]: Choice, [b, ofB]: Choice): boolean {
  const [hasOwnA, hasOwnB] = [a.isolationGroup, b.isolationGroup].map(
    (group, at) => [ofA, ofB][at]![0]?.isolationGroup === group,
  );
  return hasOwnA === hasOwnB ? ofA.length < ofB.length : hasOwnA === true;
}

/** The first broken rule of a placement of aggregators in words, or null, where it is a placement. */
export function mirroredProblem(placement: Placement): string | null {
  if (!placement.isMirrored) return 'isMirrored must be true';
  for (const { id, members } of setsIn(placement)) {
    if (id === 0) return `shardSetId of instance ${members[0]!.id} must be above 0`;
    if (placement.maxShardSetId > shardSetIdMax) {
      return `maxShardSetId must be at most ${shardSetIdMax}: ${placement.maxShardSetId}`;
    }
    if (id > placement.maxShardSetId) return `maxShardSetId is below the shard set ${id}`;
    const problem = setProblem(members, placement.replicaFactor);
    if (problem !== null) return `shard set ${id} ${problem}`;
    const shards = members.map((member) => {
      const instance = instanceById(placement, member.id)!;
      return instance.shards.map((shard) => `${shard.id} ${shard.state}`).join();
    });
    if (new Set(shards).size > 1) return `instances of shard set ${id} have different shards`;
    if (shards[0]!.includes('ING')) return `shards of shard set ${id} are not all AVAILABLE`;
  }
  return null;
}

interface ShardSet {
  readonly id: number;
  readonly members: readonly InstanceInfo[];
}

function required(placement: Placement, id: string): Instance {
  const instance = instanceById(placement, id);
  if (instance === undefined) throw new TsdbError('NOT_FOUND', `instance not found: ${id}`);
  return instance;
}

/** As they are, by their IDs. */
function setsIn({ instances }: Placement): ShardSet[] {
  return [...Map.groupBy(instances, ({ shardSetId }) => shardSetId)]
    .sort(([a], [b]) => a - b)
    .map(([id, members]) => ({ id, members }));
}

function setsOf(
  instances: readonly InstanceInfo[],
  replicaFactor: number,
  maxShardSetId: number,
): ShardSet[] {
  const named = instances.filter(({ shardSetId }) => shardSetId > 0);
  const sets = [...Map.groupBy(named, ({ shardSetId }) => shardSetId)].map(([id, members]) => ({
    id,
    members,
  }));
  for (const set of sets) checkSet(set, replicaFactor);
  let next = sets.reduce((max, { id }) => Math.max(max, id), maxShardSetId) + 1;
  const free = sortInstances(instances.filter(({ shardSetId }) => shardSetId === 0));
  for (const [weight, some] of Map.groupBy(free, ({ weight: its }) => its)) {
    for (const members of grouped(some, replicaFactor, weight)) {
      const id = next++;
      if (id > shardSetIdMax) {
        throw badRequest(
          `instances: numbers of shard sets do not come again, and ${shardSetIdMax} is the last: name a shard_set_id that was never used`,
        );
      }
      sets.push({ id, members: members.map((info) => ({ ...info, shardSetId: id })) });
    }
  }
  return sets;
}

function checkSet({ id, members }: ShardSet, replicaFactor: number): void {
  const problem = setProblem(members, replicaFactor);
  if (problem === null) return;
  const ids = members.map((member) => member.id).join(', ');
  throw badRequest(`instances: shard_set_id ${id} ${problem}: ${ids}`);
}

function setProblem(members: readonly InstanceInfo[], replicaFactor: number): string | null {
  const [{ shardSetId }] = members as readonly [InstanceInfo];
  if (shardSetId > shardSetIdMax) return `is above ${shardSetIdMax}`;
  const groups = new Set(members.map(({ isolationGroup }) => isolationGroup));
  const weights = new Set(members.map(({ weight }) => weight));
  if (members.length !== replicaFactor) {
    return `has ${members.length} instances instead of ${replicaFactor}`;
  }
  if (groups.size < members.length) return 'has two instances of one isolation group';
  return weights.size > 1 ? 'has instances of several weights' : null;
}

/** Each time one of those isolation groups of which most are left. */
function grouped(
  instances: readonly InstanceInfo[],
  replicaFactor: number,
  weight: number,
): InstanceInfo[][] {
  const left = [...Map.groupBy(instances, ({ isolationGroup }) => isolationGroup)].map(
    ([group, members]) => ({ group, members: [...members] }),
  );
  const sets: InstanceInfo[][] = [];
  for (let count = instances.length; count > 0; count -= replicaFactor) {
    left.sort((a, b) => b.members.length - a.members.length || (a.group < b.group ? -1 : 1));
    const taken = left.slice(0, replicaFactor).flatMap(({ members }) => members.splice(0, 1));
    if (taken.length < replicaFactor) {
      throw badRequest(
        `instances: those of weight ${weight} make no shard sets of ${replicaFactor} in different isolation groups: ` +
          `${taken.map(({ id }) => id).join(', ')} would be left`,
      );
    }
    sets.push(sortInstances(taken));
  }
  return sets;
}

const nameOf = (id: number): string => `set${id}`;

const idsOf = ({ members }: ShardSet): string => members.map(({ id }) => id).join(', ');

/** A set as an instance. */
function virtualOf({ id, members }: ShardSet): InstanceInfo {
  const name = nameOf(id);
  return { ...members[0]!, id: name, isolationGroup: name, endpoint: `${name}:1` };
}

function collapsed(placement: Placement): Placement {
  return {
    ...placement,
    replicaFactor: 1,
    instances: sortInstances(
      setsIn(placement).map((set) => ({
        ...virtualOf(set),
        shards: instanceById(placement, set.members[0]!.id)!.shards,
      })),
    ),
  };
}

function expanded(
  virtual: Placement,
  sets: readonly ShardSet[],
  replicaFactor: number,
  maxShardSetId: number,
): Placement {
  const instances = sets.flatMap(({ id, members }) => {
    const shards = instanceById(virtual, nameOf(id))!
      .shards.filter(({ state }) => state !== 'LEAVING')
      .map((shard) => ({ ...shard, state: 'AVAILABLE' as const, sourceId: '' }));
    return members.map((member) => ({ ...member, shards }));
  });
  return {
    ...virtual,
    instances: sortInstances(instances),
    replicaFactor,
    isMirrored: true,
    maxShardSetId: sets.reduce((max, { id }) => Math.max(max, id), maxShardSetId),
  };
}
