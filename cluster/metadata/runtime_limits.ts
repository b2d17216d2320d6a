/**
 * Limits and levels that may be changed while the cluster runs: each is one key of the key-value store, whose
 * value is JSON. Where a key is missing, the configuration of the process holds.
 */
import { badRequest } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import { type ClusterName, clusterPrefix } from '../kv/keys.ts';
import {
  readConsistencies,
  type ReadConsistency,
  type WriteConsistency,
  writeConsistencies,
} from '../session/consistency.ts';

/** How much may be queried within a time; 0 = no limit. */
export interface LookbackLimit {
  readonly limit: number;
  readonly lookbackMillis: number;
  /** Refuse all, whatever the limit: to take the load of queries off a node. */
  readonly forceExceeded: boolean;
}

/** Kinds of work of queries that are limited over a time. */
export const queryLimitNames = ['seriesBlocks', 'diskBytesRead', 'diskRead', 'metadata'] as const;
export type QueryLimitName = (typeof queryLimitNames)[number];
export type QueryLimits = Readonly<Record<QueryLimitName, LookbackLimit>>;

export const lookbackMillisDefault: number = 15_000;
const lookbackMillisMax = 3_600_000;
const limitMax = Number.MAX_SAFE_INTEGER;

/** Names in the value of the key, which are those of the reference system. */
const fieldOfQueryLimit: Readonly<Record<QueryLimitName, string>> = {
  seriesBlocks: 'maxRecentlyQueriedSeriesBlocks',
  diskBytesRead: 'maxRecentlyQueriedSeriesDiskBytesRead',
  diskRead: 'maxRecentlyQueriedSeriesDiskRead',
  metadata: 'maxRecentlyQueriedMetadataRead',
};

/** What the keys say; null where there is none. */
export interface RuntimeLimits {
  /**
   * Of all nodes together, each replica of a series counted: every node takes its share by its
   * shards.
   */
  readonly clusterNewSeriesPerSecondMax: number | null;
  /** Of one node. */
  readonly outstandingWritesMax: number | null;
  /** Of one node. */
  readonly outstandingReadsMax: number | null;
  /** Of one node; a kind that the value does not name has no limit. */
  readonly query: QueryLimits | null;
  /** Of coordinators, and of nodes that are asked for the cluster. */
  readonly writeConsistency: WriteConsistency | null;
  /** The same, where a request names none. */
  readonly readConsistency: ReadConsistency | null;
}

export const noRuntimeLimits: RuntimeLimits = {
  clusterNewSeriesPerSecondMax: null,
  outstandingWritesMax: null,
  outstandingReadsMax: null,
  query: null,
  writeConsistency: null,
  readConsistency: null,
};

export type RuntimeLimitKey =
  | 'tsdb.node.cluster-new-series-insert-limit'
  | 'tsdb.node.max-outstanding-write-requests'
  | 'tsdb.node.max-outstanding-read-requests'
  | 'tsdb.query.limits'
  | 'tsdb.client.write-consistency-level'
  | 'tsdb.client.read-consistency-level';

/** What a key sets. */
const fieldOfKey: Readonly<Record<RuntimeLimitKey, keyof RuntimeLimits>> = {
  'tsdb.node.cluster-new-series-insert-limit': 'clusterNewSeriesPerSecondMax',
  'tsdb.node.max-outstanding-write-requests': 'outstandingWritesMax',
  'tsdb.node.max-outstanding-read-requests': 'outstandingReadsMax',
  'tsdb.query.limits': 'query',
  'tsdb.client.write-consistency-level': 'writeConsistency',
  'tsdb.client.read-consistency-level': 'readConsistency',
};

/** Keys of the reference system that nothing is done by here, and why. */
export const otherKeys: ReadonlyMap<string, string> = new Map([
  ['tsdb.node.namespaces', 'namespaces are made and changed at /api/v1/services/tsdb/namespace'],
  [
    'tsdb.node.encoders-per-block-limit',
    'rows of a block that come late have no encoders of their own',
  ],
  ['tsdb.client.bootstrap-consistency-level', 'a node reads from all donors that it needs'],
]);

export const runtimeLimitKeys: readonly RuntimeLimitKey[] = Object.keys(
  fieldOfKey,
) as RuntimeLimitKey[];

export function isRuntimeLimitKey(key: string): key is RuntimeLimitKey {
  return Object.hasOwn(fieldOfKey, key);
}

/** Where a key lies in the store. */
export function runtimeLimitPath(cluster: ClusterName, key: RuntimeLimitKey): string {
  return clusterPrefix(cluster) + key;
}

/**
 * The limits with the value of one key in them.
 * @param json null when the key is missing
 * @param source of a request unknown keys are refused, of a stored value they are passed over
 * @throws {TsdbError} BAD_REQUEST naming the field, the reason and the value
 */
export function withRuntimeLimit(
  limits: RuntimeLimits,
  key: RuntimeLimitKey,
  json: unknown,
  source: 'request' | 'stored',
): RuntimeLimits {
  const field = fieldOfKey[key];
  if (json === null) return { ...limits, [field]: null };
  const fieldsOf = (object: unknown): Fields =>
    source === 'request' ? Fields.of(object, 'value') : Fields.ofStored(object, 'value', []);
  return { ...limits, [field]: valueOf(field, json, fieldsOf) };
}

function valueOf(
  field: keyof RuntimeLimits,
  json: unknown,
  fieldsOf: (object: unknown) => Fields,
): unknown {
  if (field === 'query') return queryLimitsOf(fieldsOf(json));
  const { value, path } = plainOf(json, fieldsOf);
  if (field === 'writeConsistency') return levelIn(value, writeConsistencies, path);
  if (field === 'readConsistency') return levelIn(value, readConsistencies, path);
  return countIn(value, path);
}

/** The value itself, or as the reference system has it `{"value": …}`. */
function plainOf(
  json: unknown,
  fieldsOf: (object: unknown) => Fields,
): { readonly value: unknown; readonly path: string } {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return { value: json, path: 'value' };
  }
  const fields = fieldsOf(json);
  const value = fields.any('value');
  fields.end();
  return { value, path: 'value.value' };
}

function levelIn<Level extends string>(
  value: unknown,
  levels: readonly Level[],
  path: string,
): Level {
  const level = levels.find((each) => each === value);
  if (level !== undefined) return level;
  throw badRequest(`${path}: not one of ${levels.join(', ')}: ${JSON.stringify(value)}`);
}

function countIn(value: unknown, path: string): number {
  const number = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  if (typeof number === 'number' && Number.isSafeInteger(number) && number >= 0) return number;
  throw badRequest(`${path}: not a whole number from 0 to ${limitMax}: ${JSON.stringify(value)}`);
}

function queryLimitsOf(fields: Fields): QueryLimits {
  const limits = Object.fromEntries(
    queryLimitNames.map((name) => {
      const inner = fields.object(fieldOfQueryLimit[name]);
      return [name, inner === null ? noLookbackLimit : lookbackLimitOf(inner)];
    }),
  );
  fields.end();
  return limits as Record<QueryLimitName, LookbackLimit>;
}

const noLookbackLimit: LookbackLimit = {
  limit: 0,
  lookbackMillis: lookbackMillisDefault,
  forceExceeded: false,
};

export const noQueryLimits: QueryLimits = {
  seriesBlocks: noLookbackLimit,
  diskBytesRead: noLookbackLimit,
  diskRead: noLookbackLimit,
  metadata: noLookbackLimit,
};

function lookbackLimitOf(fields: Fields): LookbackLimit {
  const limit = countIn(fields.any('limit') ?? 0, `${fields.path}.limit`);
  const seconds = countIn(fields.any('lookbackSeconds') ?? 0, `${fields.path}.lookbackSeconds`);
  const forceExceeded = fields.boolean('forceExceeded', false);
  // Nothing here waits for a permit.
  fields.ignore('forceWaited');
  fields.end();
  const lookbackMillis = seconds === 0 ? lookbackMillisDefault : seconds * 1000;
  if (lookbackMillis > lookbackMillisMax) {
    throw badRequest(`${fields.path}.lookbackSeconds: more than an hour: ${seconds}`);
  }
  return { limit, lookbackMillis, forceExceeded };
}

/**
 * A node's share of a limit of the cluster: by the shards that it has, counted with their replicas.
 */
export function shareOf(
  clusterMax: number,
  placement: { readonly numShards: number; readonly replicaFactor: number } | null,
  ownShards: number,
): number {
  if (clusterMax === 0 || placement === null) return 0;
  const placed = placement.numShards * placement.replicaFactor;
  return Math.max(1, Math.ceil((clusterMax * ownShards) / Math.max(1, placed)));
}
