/**
 * A placement: which instance owns which shards, in which state. Values are immutable; the
 * functions of algorithm.ts make the next one from the last one. `placementToJson` gives the exact
 * form that the HTTP API answers with; stored.ts has the form kept in the key-value store.
 *
 * What always holds (`placementProblem`):
 *
 *     every shard has exactly `replicaFactor` owners that are INITIALIZING or AVAILABLE,
 *     these lie in different isolation groups,
 *     a LEAVING shard has one partner elsewhere whose `sourceId` names the leaving owner: INITIALIZING as
 *     long as it takes the shard over, then AVAILABLE until the leaving owner goes (handover.ts), and
 *     a shard with a `sourceId` has its LEAVING partner there.
 */
import { badRequest } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import { instancesMax, replicationFactorMax, shardsMax } from '../limits.ts';
import { endpointProblem } from '../names.ts';

export type ShardState = 'INITIALIZING' | 'AVAILABLE' | 'LEAVING';

export interface Shard {
  readonly id: number;
  readonly state: ShardState;
  /**
   * The instance that an INITIALIZING shard takes over from, or that an AVAILABLE one has taken over
   * from and that has not left yet; '' in the first placement and after a reset.
   */
  readonly sourceId: string;
  /** 0 for storage; aggregators take a shard over, and give it up, at a time. */
  readonly cutoverNanos: bigint;
  readonly cutoffNanos: bigint;
  /** Random, of the time when the instance was to take the shard over (assignments.ts). */
  readonly assignment?: string;
}

/** An instance without its shards, as requests name it. */
export interface InstanceInfo {
  readonly id: string;
  readonly isolationGroup: string;
  readonly zone: string;
  /** Share of the shards relative to the other instances; at least 1. */
  readonly weight: number;
  /** `<host>:<port>` of the node's gRPC listener. */
  readonly endpoint: string;
  readonly hostname: string;
  readonly port: number;
  readonly shardSetId: number;
  readonly debugPort: number;
}

export interface Instance extends InstanceInfo {
  /** Sorted by ID, each shard once. */
  readonly shards: readonly Shard[];
}

export interface Placement {
  /** Sorted by ID. */
  readonly instances: readonly Instance[];
  readonly replicaFactor: number;
  readonly numShards: number;
  readonly isSharded: boolean;
  readonly isMirrored: boolean;
  readonly maxShardSetId: number;
  readonly cutoverTimeNanos: bigint;
  /** Of the shards that nobody ever had (assignments.ts); not there when that is not known. */
  readonly firstAssignment?: string;
}

/** A placement as read from the store. */
export interface VersionedPlacement {
  readonly placement: Placement;
  /** Number of successful writes: 1 after init. */
  readonly version: number;
}

export function instanceById(placement: Placement, id: string): Instance | undefined {
  return placement.instances.find((instance) => instance.id === id);
}

/** Whether every shard of the instance is AVAILABLE (true for one without shards). */
export function isAvailable(instance: Instance): boolean {
  return instance.shards.every((shard) => shard.state === 'AVAILABLE');
}

/** Whether the instance is on its way out: it has shards and all of them leave. */
export function isLeaving(instance: Instance): boolean {
  return instance.shards.length > 0 && instance.shards.every((shard) => shard.state === 'LEAVING');
}

/** Whether no shard is on its way: all of all instances are AVAILABLE. */
export function isSettled(placement: Placement): boolean {
  return placement.instances.every(isAvailable);
}

/** The first broken rule of a placement in words, or null. */
export function placementProblem(placement: Placement): string | null {
  const { numShards, replicaFactor } = placement;
  if (!(numShards >= 1 && numShards <= shardsMax)) {
    return `numShards must be between 1 and ${shardsMax}: ${numShards}`;
  }
  if (!(replicaFactor >= 1 && replicaFactor <= replicationFactorMax)) {
    return `replicaFactor must be between 1 and ${replicationFactorMax}: ${replicaFactor}`;
  }
  if (placement.instances.length > instancesMax) {
    return `more than ${instancesMax} instances: ${placement.instances.length}`;
  }
  const ids = new Set<string>();
  const endpoints = new Set<string>();
  const groupsOfShard: string[][] = Array.from({ length: numShards }, () => []);
  const leaving = new Set<string>();
  const sources = new Set<string>();
  for (const instance of placement.instances) {
    if (instance.id === '') return 'instance id is empty';
    if (ids.has(instance.id)) return `instance id appears twice: ${instance.id}`;
    ids.add(instance.id);
    const endpoint = endpointProblem(`endpoint of instance ${instance.id}`, instance.endpoint);
    if (endpoint !== null) return endpoint;
    if (endpoints.has(instance.endpoint)) return `endpoint appears twice: ${instance.endpoint}`;
    endpoints.add(instance.endpoint);
    const seen = new Set<number>();
    for (const shard of instance.shards) {
      if (!(shard.id >= 0 && shard.id < numShards)) {
        return `shard of instance ${instance.id} is outside of numShards ${numShards}: ${shard.id}`;
      }
      if (seen.has(shard.id)) return `shard appears twice on instance ${instance.id}: ${shard.id}`;
      seen.add(shard.id);
      if (shard.state === 'LEAVING') leaving.add(`${shard.id}/${instance.id}`);
      else groupsOfShard[shard.id]!.push(instance.isolationGroup);
      if (shard.sourceId === '') continue;
      if (shard.state === 'LEAVING') {
        return `shard ${shard.id} of instance ${instance.id} is LEAVING and has a source: ${shard.sourceId}`;
      }
      const pair = `${shard.id}/${shard.sourceId}`;
      if (sources.has(pair)) return `shard ${shard.id} leaves ${shard.sourceId} for two instances`;
      sources.add(pair);
    }
  }
  for (const pair of sources) {
    if (!leaving.has(pair)) return `a shard has no LEAVING source (shard/source): ${pair}`;
  }
  for (const pair of leaving) {
    if (!sources.has(pair)) return `a LEAVING shard has no receiver (shard/instance): ${pair}`;
  }
  for (const [shard, groups] of groupsOfShard.entries()) {
    if (groups.length !== replicaFactor) {
      return `shard ${shard} has ${groups.length} replicas instead of ${replicaFactor}`;
    }
    if (new Set(groups).size !== groups.length) {
      return `shard ${shard} has two replicas in one isolation group: ${groups.join(', ')}`;
    }
  }
  return null;
}

/** JSON of the HTTP API: every field, int64 as strings. */
export interface PlacementJson {
  readonly instances: Record<string, InstanceJson>;
  readonly replicaFactor: number;
  readonly numShards: number;
  readonly isSharded: boolean;
  readonly cutoverTime: string;
  readonly isMirrored: boolean;
  readonly maxShardSetId: number;
  readonly isSubclustered: boolean;
  readonly instancesPerSubcluster: number;
}

export interface InstanceJson {
  readonly id: string;
  readonly isolationGroup: string;
  readonly zone: string;
  readonly weight: number;
  readonly endpoint: string;
  readonly shards: readonly ShardJson[];
  readonly shardSetId: number;
  readonly hostname: string;
  readonly port: number;
  readonly metadata: { readonly debugPort: number };
  readonly subclusterId: number;
}

export interface ShardJson {
  readonly id: number;
  readonly state: ShardState;
  readonly sourceId: string;
  readonly cutoverNanos: string;
  readonly cutoffNanos: string;
  readonly redirectToShardId: null;
}

export function placementToJson(placement: Placement): PlacementJson {
  return {
    instances: Object.fromEntries(
      placement.instances.map((instance) => [instance.id, instanceToJson(instance)]),
    ),
    replicaFactor: placement.replicaFactor,
    numShards: placement.numShards,
    isSharded: placement.isSharded,
    cutoverTime: String(placement.cutoverTimeNanos),
    isMirrored: placement.isMirrored,
    maxShardSetId: placement.maxShardSetId,
    isSubclustered: false,
    instancesPerSubcluster: 0,
  };
}

function instanceToJson(instance: Instance): InstanceJson {
  return {
    id: instance.id,
    isolationGroup: instance.isolationGroup,
    zone: instance.zone,
    weight: instance.weight,
    endpoint: instance.endpoint,
    shards: instance.shards.map((shard) => ({
      id: shard.id,
      state: shard.state,
      sourceId: shard.sourceId,
      cutoverNanos: String(shard.cutoverNanos),
      cutoffNanos: String(shard.cutoffNanos),
      redirectToShardId: null,
    })),
    shardSetId: instance.shardSetId,
    hostname: instance.hostname,
    port: instance.port,
    metadata: { debugPort: instance.debugPort },
    subclusterId: 0,
  };
}

/**
 * A placement from its JSON, as in a 'set' request. Checks the form only; see `placementProblem`.
 * @throws {TsdbError} BAD_REQUEST naming the field
 */
export function placementFromJson(json: unknown, path = 'placement'): Placement {
  return readPlacement(Fields.of(json, path), (fields) => {
    const info = instanceInfoOf(fields);
    const shards = fields.list('shards', shardOf).sort((a, b) => a.id - b.id);
    fields.constant('subclusterId', 0);
    fields.end();
    return { ...info, shards };
  });
}

/** A placement from its JSON, whatever form its instances have there. */
export function readPlacement(
  fields: Fields,
  readInstance: (fields: Fields) => Instance,
): Placement {
  const instances = fields.record('instances', (instanceFields, key) => {
    const instance = readInstance(instanceFields);
    if (instance.id !== key) {
      throw badRequest(
        `${fields.path}.instances.${key}: id differs from its key: ${JSON.stringify(instance.id)}`,
      );
    }
    return instance;
  });
  const placement: Placement = {
    instances: sortInstances(instances),
    replicaFactor: fields.uint('replicaFactor', 0),
    numShards: fields.uint('numShards', 0),
    isSharded: fields.boolean('isSharded', false),
    cutoverTimeNanos: fields.int64('cutoverTime', 0n),
    isMirrored: fields.boolean('isMirrored', false),
    maxShardSetId: fields.uint('maxShardSetId', 0),
  };
  fields.constant('isSubclustered', false);
  fields.constant('instancesPerSubcluster', 0);
  fields.end();
  return placement;
}

/** Reads the fields of an instance that are not its shards; the caller ends the object. */
export function instanceInfoOf(fields: Fields): InstanceInfo {
  const metadata = fields.object('metadata');
  const debugPort = metadata?.uint('debugPort', 0) ?? 0;
  metadata?.end();
  return {
    id: fields.string('id', ''),
    isolationGroup: fields.string('isolationGroup', ''),
    zone: fields.string('zone', ''),
    weight: fields.uint('weight', 1),
    endpoint: fields.string('endpoint', ''),
    hostname: fields.string('hostname', ''),
    port: fields.uint('port', 0),
    shardSetId: fields.uint('shardSetId', 0),
    debugPort,
  };
}

function shardOf(fields: Fields): Shard {
  const state = fields.oneOf('state', ['INITIALIZING', 'AVAILABLE', 'LEAVING'], 'INITIALIZING');
  const shard: Shard = {
    id: fields.uint('id', 0),
    state,
    sourceId: fields.string('sourceId', ''),
    cutoverNanos: fields.int64('cutoverNanos', 0n),
    cutoffNanos: fields.int64('cutoffNanos', 0n),
  };
  fields.ignore('redirectToShardId');
  fields.end();
  return shard;
}

/** Sorted copy: placements list their instances by ID. */
export function sortInstances<T extends InstanceInfo>(instances: readonly T[]): T[] {
  return [...instances].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
}
