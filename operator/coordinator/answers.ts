/**
 * What the coordinator says, read strictly: its image is the author's of the resource, and may answer
 * anything. Nothing is kept of an answer but what is needed.
 */
import { TsdbError } from '#lib/errors.ts';

export interface PlacementShard {
  readonly id: number;
  readonly state: 'INITIALIZING' | 'AVAILABLE' | 'LEAVING';
}

export interface PlacementInstance {
  readonly id: string;
  readonly isolationGroup: string;
  readonly endpoint: string;
  readonly shards: readonly PlacementShard[];
}

export interface PlacementView {
  readonly instances: Readonly<Record<string, PlacementInstance>>;
  readonly numberOfShards: number;
  readonly replicationFactor: number;
  readonly version: number;
  /** The key-value store has gone back: nothing is changed before its approval. */
  readonly awaitsApproval: boolean;
}

/** What a storage node says of itself, or why it does not. */
export type InstanceHealth =
  | {
      /** Blocks of shards of which acknowledged rows may be missing. */
      readonly blocksLacking: number;
      /** The shards that they are of. */
      readonly shardsLacking: readonly number[];
      /** Blocks that it has filled from fewer replicas than have all rows. */
      readonly blocksLost: number;
      /** The highest level of formats that it reads. */
      readonly formatLevel: number;
      /** The one that it writes. */
      readonly formatLevelWritten: number;
    }
  | { readonly error: string };

export interface NamespaceView {
  readonly ready: boolean;
  readonly retentionNanos: string;
  readonly blockSizeNanos: string;
  readonly bufferPastNanos: string;
  readonly bufferFutureNanos: string;
  readonly coldWritesEnabled: boolean;
  /** Of an aggregated one; null for samples. */
  readonly resolutionNanos: string | null;
  /** Whether that one has windows of all series. */
  readonly downsampleAll: boolean;
}

export interface RegistryView {
  readonly namespaces: ReadonlyMap<string, NamespaceView>;
  /** As of `PlacementView`, where there is no placement too. */
  readonly awaitsApproval: boolean;
}

/** As the schema of TSDBCluster has it. */
const numberOfShardsMax = 65_536;
const shardStates: readonly PlacementShard['state'][] = ['INITIALIZING', 'AVAILABLE', 'LEAVING'];

export function placementOf(answer: unknown): PlacementView {
  const placement = objectIn(answer, 'placement');
  const numberOfShards = wholeIn(placement, 'numShards', numberOfShardsMax);
  const instances = Object.entries(objectIn(placement, 'instances')).map(
    ([id, one]): [string, PlacementInstance] => [id, instanceOf(one, numberOfShards)],
  );
  return {
    instances: Object.fromEntries(instances),
    numberOfShards,
    replicationFactor: wholeIn(placement, 'replicaFactor'),
    version: wholeIn(answer, 'version'),
    awaitsApproval: memberOf(answer, 'awaitsApproval') === true,
  };
}

function instanceOf(instance: unknown, numberOfShards: number): PlacementInstance {
  return {
    id: textIn(instance, 'id'),
    isolationGroup: textIn(instance, 'isolationGroup'),
    endpoint: textIn(instance, 'endpoint'),
    shards: listIn(instance, 'shards').map((shard): PlacementShard => {
      const state = shardStates.find((one) => one === memberOf(shard, 'state'));
      if (state === undefined) throw unlike('state');
      return { id: wholeIn(shard, 'id', numberOfShards - 1), state };
    }),
  };
}

export function healthsOf(answer: unknown): ReadonlyMap<string, InstanceHealth> {
  const healths = Object.entries(objectIn(answer, 'instances'));
  return new Map(healths.map(([id, health]) => [id, healthOf(health)]));
}

function healthOf(health: unknown): InstanceHealth {
  if (memberOf(health, 'error') !== undefined) return { error: textIn(health, 'error') };
  return {
    blocksLacking: wholeIn(health, 'blocksLacking'),
    shardsLacking: listIn(health, 'shardsLacking').map((shard) => whole(shard, 'shardsLacking')),
    // A coordinator of a release before does not say it.
    blocksLost: memberOf(health, 'blocksLost') === undefined ? 0 : wholeIn(health, 'blocksLost'),
    formatLevel: wholeIn(health, 'formatLevel'),
    formatLevelWritten: wholeIn(health, 'formatLevelWritten'),
  };
}

export function registryOf(answer: unknown): RegistryView {
  const namespaces = Object.entries(objectIn(objectIn(answer, 'registry'), 'namespaces'));
  return {
    namespaces: new Map(namespaces.map(([name, options]) => [name, namespaceOf(options)])),
    awaitsApproval: memberOf(answer, 'awaitsApproval') === true,
  };
}

function namespaceOf(options: unknown): NamespaceView {
  const retention = objectIn(options, 'retentionOptions');
  return {
    ready: memberOf(objectIn(options, 'stagingState'), 'status') === 'READY',
    retentionNanos: nanosIn(retention, 'retentionPeriodNanos'),
    blockSizeNanos: nanosIn(retention, 'blockSizeNanos'),
    bufferPastNanos: nanosIn(retention, 'bufferPastNanos'),
    bufferFutureNanos: nanosIn(retention, 'bufferFutureNanos'),
    coldWritesEnabled: memberOf(options, 'coldWritesEnabled') === true,
    ...aggregationOf(memberOf(options, 'aggregationOptions')),
  };
}

function aggregationOf(
  aggregationOptions: unknown,
): Pick<NamespaceView, 'resolutionNanos' | 'downsampleAll'> {
  const aggregated = isRecord(aggregationOptions)
    ? listIn(aggregationOptions, 'aggregations').find((one) => memberOf(one, 'aggregated') === true)
    : undefined;
  if (aggregated === undefined) return { resolutionNanos: null, downsampleAll: false };
  const attributes = objectIn(aggregated, 'attributes');
  return {
    resolutionNanos: nanosIn(attributes, 'resolutionNanos'),
    // Where it is not said it is all.
    downsampleAll: memberOf(memberOf(attributes, 'downsampleOptions'), 'all') !== false,
  };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const unlike = (member: string): TsdbError =>
  new TsdbError('UNAVAILABLE', `the coordinator answers something else: ${member}`);

function memberOf(parent: unknown, member: string): unknown {
  return isRecord(parent) && Object.hasOwn(parent, member) ? parent[member] : undefined;
}

function objectIn(parent: unknown, member: string): Readonly<Record<string, unknown>> {
  const value = memberOf(parent, member);
  if (!isRecord(value)) throw unlike(member);
  return value;
}

function listIn(parent: unknown, member: string): readonly unknown[] {
  const value = memberOf(parent, member);
  if (!Array.isArray(value)) throw unlike(member);
  return value;
}

function textIn(parent: unknown, member: string): string {
  const value = memberOf(parent, member);
  if (typeof value !== 'string') throw unlike(member);
  return value;
}

function nanosIn(parent: unknown, member: string): string {
  const text = textIn(parent, member);
  if (!/^-?[0-9]{1,19}$/.test(text)) throw unlike(member);
  return text;
}

const wholeIn = (parent: unknown, member: string, max?: number): number =>
  whole(memberOf(parent, member), member, max);

function whole(value: unknown, member: string, max: number = Number.MAX_SAFE_INTEGER): number {
  if (!Number.isInteger(value) || Number(value) < 0 || Number(value) > max) throw unlike(member);
  return Number(value);
}
