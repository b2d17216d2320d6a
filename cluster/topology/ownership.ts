/**
 * A placement as the session needs it: by shard, who owns it and what counts as one replica. Shards
 * with the same owners in the same roles form a class, so that most questions are asked once a
 * class and not once a shard or row.
 */
import { assert } from '#lib/assert.ts';
import { retiredOwners } from '../placement/handover.ts';
import type { Instance, Placement, ShardState } from '../placement/placement.ts';

/**
 * One replica of a shard whose acknowledgement counts: an AVAILABLE owner, or a LEAVING one and the
 * one that takes over from it as one, also when the latter is AVAILABLE already (handover.ts). An INITIALIZING owner without a source is written to but does not
 * count: its shard may be given to another instance before it is AVAILABLE, and what only it has
 * would be lost then.
 */
export interface Replica {
  /** Bits of the class's members that must all acknowledge a write. */
  readonly mask: number;
}

export interface ShardClass {
  /** Instance indexes; bit i of the masks is member i. */
  readonly members: readonly number[];
  readonly replicas: readonly Replica[];
}

/** What the pairs of a placement need at most: two owners for each replica. */
const membersMax = 16;

export class Ownership {
  readonly numShards: number;
  readonly replicaFactor: number;
  readonly instances: readonly Instance[];
  readonly classes: readonly ShardClass[];
  /** Index into `classes` by shard. */
  readonly classOfShard: Uint32Array;
  /** Shards that an instance may be read for, by instance index; sorted. */
  readonly readableShards: readonly Uint32Array[];
  /** Whether the instance owns no shard that it may not be read for. */
  readonly readsWhole: readonly boolean[];

  constructor(placement: Placement) {
    this.numShards = placement.numShards;
    this.replicaFactor = placement.replicaFactor;
    this.instances = placement.instances;
    const owners: Owner[][] = Array.from({ length: placement.numShards }, () => []);
    const readable: number[][] = placement.instances.map(() => []);
    const retired = retiredOwners(placement);
    for (const [index, { id: instanceId, shards }] of placement.instances.entries()) {
      for (const { id, state, sourceId } of shards) {
        owners[id]!.push({ index, state, sourceId });
        const isRetired = retired.get(id)?.has(instanceId) === true;
        if (state !== 'INITIALIZING' && !isRetired) readable[index]!.push(id);
      }
    }
    this.readableShards = readable.map((shards) => Uint32Array.from(shards));
    this.readsWhole = placement.instances.map(
      ({ shards }, index) => shards.length === readable[index]!.length,
    );
    this.classOfShard = new Uint32Array(placement.numShards);
    const classes: ShardClass[] = [];
    const indexOfKey = new Map<string, number>();
    for (const [shard, ofShard] of owners.entries()) {
      const key = ofShard
        .map(({ index, state, sourceId }) => `${index} ${state} ${sourceId}`)
        .join('\n');
      let at = indexOfKey.get(key);
      if (at === undefined) {
        at = classes.length;
        indexOfKey.set(key, at);
        classes.push(classOf(ofShard, placement.instances));
      }
      this.classOfShard[shard] = at;
    }
    this.classes = classes;
  }

  /** Instance indexes that own the shard, in any state. */
  ownersOf(shard: number): readonly number[] {
    return this.classes[this.classOfShard[shard]!]!.members;
  }
}

interface Owner {
  readonly index: number;
  readonly state: ShardState;
  readonly sourceId: string;
}

function classOf(owners: readonly Owner[], instances: readonly Instance[]): ShardClass {
  assert(owners.length <= membersMax, 'a shard has at most two owners for each replica');
  const replicas: Replica[] = [];
  for (const [bit, owner] of owners.entries()) {
    if (owner.state === 'LEAVING') continue;
    const source = owners.findIndex(
      ({ index, state }) => state === 'LEAVING' && instances[index]!.id === owner.sourceId,
    );
    if (source >= 0) replicas.push({ mask: (1 << bit) | (1 << source) });
    else if (owner.state === 'AVAILABLE') replicas.push({ mask: 1 << bit });
  }
  return { members: owners.map(({ index }) => index), replicas };
}
