/**
 * Assignments: each time that an instance is to take a shard over, the two get a random ID. What an
 * instance has done for an assignment counts for no other one, however alike they look: a shard may
 * go from c to d, back to c, and from c to d again while d hears of nothing.
 *
 * The IDs lie beside the placement in a key of their own, since releases before this one refuse
 * placements with keys that they do not know. What such a release changes leaves the IDs as they
 * are; of a pair that is not among them the ID is not known.
 */
import { Fields } from '../fields.ts';
import { type UnreadKeys, withUnreadKeys } from '../unread_keys.ts';
import type { Instance, Placement, Shard } from './placement.ts';
import { rangesOf, shardsOfRanges } from './shard_ranges.ts';

/** As what a shard is to be taken over. */
export interface Assigned {
  readonly sourceId: string;
  readonly assignment?: string | undefined;
}

/** Whether nobody ever had the shard: its owners were named when the placement was made. */
export function isFirstAssignment(
  { firstAssignment }: Placement,
  { assignment }: Pick<Assigned, 'assignment'>,
): boolean {
  return firstAssignment !== undefined && assignment === firstAssignment;
}

/** Whether what was done for one is done for the other. */
export function isSameAssignment(one: Assigned, other: Assigned): boolean {
  return one.sourceId === other.sourceId && one.assignment === other.assignment;
}

/**
 * The placement that follows another one, with the IDs of its assignments.
 * @param id for those that are new
 */
export function withAssignments(before: Placement | null, next: Placement, id: string): Placement {
  const known = new Map(
    before?.instances.map((instance) => [
      instance.id,
      new Map(instance.shards.map((shard) => [shard.id, shard])),
    ]),
  );
  const firstAssignment = before === null ? id : before.firstAssignment;
  const untouched = shardsOfNobody(before);
  return withEach(next, firstAssignment, (shard, instance) => {
    const earlier = known.get(instance.id)?.get(shard.id);
    if (shard.state !== 'INITIALIZING') return earlier?.assignment;
    const goesOn = earlier?.state === 'INITIALIZING' && earlier.sourceId === shard.sourceId;
    const fresh = untouched.has(shard.id) ? firstAssignment : id;
    return (goesOn ? earlier.assignment : undefined) ?? fresh;
  });
}

/** Shards that nobody ever had: whoever gets one of these begins as those did that were named first. */
function shardsOfNobody(placement: Placement | null): ReadonlySet<number> {
  const all = new Set<number>();
  const had = new Set<number>();
  for (const { shards } of placement?.instances ?? []) {
    for (const shard of shards) {
      all.add(shard.id);
      const isFirst = isFirstAssignment(placement!, shard);
      if (shard.state !== 'INITIALIZING' || !isFirst) had.add(shard.id);
    }
  }
  return all.difference(had);
}

/**
 * `{"first": "…", "instances": {"a": {"assignments": [{"id": "…", "shards": "0-5,9"}]}}}`
 * @param before what is stored, with the keys of a later version, which stay; null for nothing
 */
export function assignmentsToStored(
  placement: Placement,
  before: StoredAssignments | null,
): object {
  const json = jsonOf(placement);
  return before === null ? json : withUnreadKeys(json, jsonOf(before.placement), before.unread);
}

/** A placement with the IDs that are stored of it. */
export interface StoredAssignments {
  readonly placement: Placement;
  readonly unread: readonly UnreadKeys[];
}

function jsonOf({ instances, firstAssignment }: Placement): object {
  const byInstance = instances.map(({ id, shards }) => {
    const assigned = shards.filter(({ assignment }) => assignment !== undefined);
    const groups = Map.groupBy(assigned, ({ assignment }) => assignment!);
    const assignments = [...groups].map(([assignment, those]) => ({
      id: assignment,
      shards: rangesOf(those.map((shard) => shard.id)),
    }));
    return [id, { assignments }] as const;
  });
  const first = firstAssignment === undefined ? {} : { first: firstAssignment };
  return { ...first, instances: Object.fromEntries(byInstance) };
}

/**
 * @param json as `assignmentsToStored` makes it
 * @param unread gets the keys that this version does not know
 * @throws {TsdbError} BAD_REQUEST naming the field
 */
export function withStoredAssignments(
  placement: Placement,
  json: unknown,
  unread: UnreadKeys[],
): Placement {
  const fields = Fields.ofStored(json, 'assignments', unread);
  const first = fields.string('first', '');
  const known = new Map<string, Map<number, string>>();
  fields.record('instances', (ofInstance, instanceId) => {
    const assignments = new Map<number, string>();
    ofInstance.list('assignments', (group) => {
      const id = group.string('id', '');
      const text = group.string('shards', '');
      const shards = shardsOfRanges(text);
      if (shards === null) throw group.bad('shards', 'not ranges of shards such as "0-5,9"', text);
      for (const shard of shards) assignments.set(shard, id);
      group.end();
    });
    ofInstance.end();
    known.set(instanceId, assignments);
  });
  fields.end();
  const firstAssignment = first === '' ? undefined : first;
  return withEach(placement, firstAssignment, (shard, instance) =>
    known.get(instance.id)?.get(shard.id),
  );
}

function withEach(
  placement: Placement,
  firstAssignment: string | undefined,
  assignmentOf: (shard: Shard, instance: Instance) => string | undefined,
): Placement {
  const instances = placement.instances.map((instance) => ({
    ...instance,
    shards: instance.shards.map((shard): Shard => {
      const { id, state, sourceId, cutoverNanos, cutoffNanos } = shard;
      const bare = { id, state, sourceId, cutoverNanos, cutoffNanos };
      const assignment = assignmentOf(shard, instance);
      return assignment === undefined ? bare : { ...bare, assignment };
    }),
  }));
  return { ...placement, ...(firstAssignment === undefined ? {} : { firstAssignment }), instances };
}
