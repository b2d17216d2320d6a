/**
 * What the tests of this room share: a database on a folder, batches, and answers as plain samples.
 */
import type { FetchResponse, WriteResponse } from '#cluster/node/service.ts';
import type { Namespace, NamespaceRegistry } from '#cluster/namespaces/namespaces.ts';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import type { EndedNamespaces } from '#cluster/namespaces/numbers.ts';
import type { Placement, ShardState } from '#cluster/placement/placement.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { readMixedRows } from '#engine/store/read/mixed_rows.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { HybridClock } from '#lib/hybrid_clock.ts';
import { type Log, silentLog } from '#lib/log.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import { bootstrapLocal, type LocalReport } from '../bootstrap/local.ts';
import { openIdentity } from '../identity/node_identity.ts';
import type { CachePolicy } from './filesets/cache_policy.ts';
import { Database, type DatabaseOptions } from './database.ts';
import type { Flusher } from './flush/flusher.ts';
import { Pace } from './flush/pace.ts';
import { messageOf, numberIn, typedColumns } from './typed_rows_testing.ts';

export const never: AbortSignal = new AbortController().signal;

const opened: Database[] = [];

/** Closes every database of `openDatabase`, at the end of a test file. */
export async function closeDatabases(): Promise<void> {
  for (const database of opened.splice(0)) await database[Symbol.asyncDispose]();
}

/** What is due, without a rest on the way. */
export function dueNow({ flusher, env }: Database): ReturnType<Flusher['due']> {
  return flusher.due(new Pace(env.clock, () => 1), never);
}

const secondNanos = 1_000_000_000n;

export function namespaceOf(name: string, more: Partial<Namespace['options']> = {}): Namespace {
  return {
    name,
    options: {
      bootstrapEnabled: true,
      flushEnabled: true,
      writesToCommitLog: true,
      cleanupEnabled: true,
      repairEnabled: false,
      retentionOptions: {
        retentionPeriodNanos: 48n * 3600n * secondNanos,
        blockSizeNanos: 7200n * secondNanos,
        bufferFutureNanos: 600n * secondNanos,
        bufferPastNanos: 3600n * secondNanos,
        blockDataExpiry: true,
        blockDataExpiryAfterNotAccessPeriodNanos: 300n * secondNanos,
        futureRetentionPeriodNanos: 0n,
      },
      snapshotEnabled: true,
      indexOptions: { enabled: true, blockSizeNanos: 7200n * secondNanos },
      coldWritesEnabled: false,
      runtimeOptions: null,
      cacheBlocksOnRetrieve: false,
      aggregations: null,
      stagingStatus: 'READY',
      extendedOptions: null,
      ...more,
    },
  };
}

/** Instances by ID with the states of their shards; all shards below `numShards`. */
export function placementOf(
  shards: Record<string, Record<number, ShardState>>,
  options: { numShards: number; sourceId?: string; replicaFactor?: number },
): Placement {
  return {
    instances: Object.entries(shards).map(([id, states], index) => ({
      id,
      isolationGroup: id,
      zone: 'embedded',
      weight: 1,
      endpoint: `${id}:9000`,
      hostname: id,
      port: 9000,
      shardSetId: index,
      debugPort: 0,
      shards: Object.entries(states).map(([shard, state]) => ({
        id: Number(shard),
        state,
        sourceId: state === 'INITIALIZING' ? (options.sourceId ?? '') : '',
        cutoverNanos: 0n,
        cutoffNanos: 0n,
      })),
    })),
    replicaFactor: options.replicaFactor ?? 1,
    numShards: options.numShards,
    isSharded: true,
    isMirrored: false,
    maxShardSetId: 0,
    cutoverTimeNanos: 0n,
  };
}

export const onePlacement: Placement = placementOf(
  { a: { 0: 'AVAILABLE', 1: 'AVAILABLE', 2: 'AVAILABLE', 3: 'AVAILABLE' } },
  { numShards: 4 },
);

export interface TestDatabaseOptions {
  readonly env?: Env;
  readonly log?: Log;
  readonly instanceId?: string;
  /** Null for none. */
  readonly placement?: Placement | null;
  readonly version?: number;
  readonly registry?: NamespaceRegistry;
  readonly ended?: EndedNamespaces;
  readonly sync?: 'always' | 'interval';
  readonly segmentBytesMax?: number;
  readonly memoryBytesMax?: number;
  readonly pageBytesMax?: number;
  readonly cachePolicy?: CachePolicy;
  readonly limits?: Partial<DatabaseOptions['limits']>;
  readonly slotsOfStretch?: number;
}

/** Opens a folder as a start of the node does, up to where it serves. */
export async function openDatabase(
  dataFolder: string,
  options: TestDatabaseOptions = {},
): Promise<{ database: Database; report: LocalReport }> {
  const env = options.env ?? realEnv;
  const log = options.log ?? silentLog;
  const database = await Database.open(env, log, {
    instanceId: options.instanceId ?? 'a',
    dataFolder,
    identity: await openIdentity(env, dataFolder),
    memoryBytesMax: options.memoryBytesMax ?? 256 * 1024 * 1024,
    pageBytesMax: options.pageBytesMax ?? 1024 * 1024,
    cachePolicy: options.cachePolicy ?? 'lru',
    ...(options.slotsOfStretch === undefined ? {} : { slotsOfStretch: options.slotsOfStretch }),
    commitlog: {
      sync: options.sync ?? 'always',
      syncEveryMillis: 1000,
      syncBytesMax: 1 << 20,
      segmentBytesMax: options.segmentBytesMax ?? 1 << 24,
    },
    limits: {
      outstandingWritesMax: 0,
      outstandingReadsMax: 0,
      newSeriesPerSecondMax: 0,
      ...options.limits,
    },
  });
  opened.push(database);
  const topology = [
    options.placement === undefined ? onePlacement : options.placement,
    options.version ?? 1,
    options.registry ?? registryOf([namespaceOf('metrics')]),
    options.ended,
  ] as const;
  await database.applyTopology(...topology);
  const report = await bootstrapLocal(database, never);
  database.noteFilled();
  if (database.parking.isDue || hasLost(database, topology[2])) await adopt(database, ...topology);
  database.setLoaded();
  return { database, report };
}

function hasLost({ namespaces }: Database, registry: NamespaceRegistry): boolean {
  return [...namespaces.values()].some(({ name, definition }) => registry.get(name) !== definition);
}

/** Takes a topology as a node does that runs: what it takes away is parked. */
export async function adopt(
  database: Database,
  ...topology: Parameters<Database['applyTopology']>
): Promise<void> {
  for (;;) {
    const waits = await database.applyTopology(...topology).then(
      () => false,
      (error: unknown) => {
        if (!database.parking.isDue) throw error;
        return true;
      },
    );
    await database.parking.run(never);
    if (!waits) return;
  }
}

/** The placements of a handover of shards to another instance: on their way, taken, and left. */
export function handoverSteps(database: Database, shards: readonly number[]): Placement[] {
  const { placement } = database.shards;
  const own = placement!.instances.find(({ id }) => id === database.instanceId)!;
  const others = placement!.instances.filter(({ id }) => id !== database.instanceId);
  const withStates = (giver: ShardState | null, taker: ShardState): Placement => {
    const given = own.shards.flatMap((shard) => {
      if (!shards.includes(shard.id)) return [shard];
      return giver === null ? [] : [{ ...shard, state: giver }];
    });
    const sourceId = giver === null ? '' : own.id;
    const taken = own.shards
      .filter(({ id }) => shards.includes(id))
      .map((shard) => ({ ...shard, state: taker, sourceId, assignment: 'moved' }));
    const info = { ...own, id: 'taker', isolationGroup: 'taker', endpoint: 'taker:9000' };
    const instances = [{ ...own, shards: given }, ...others, { ...info, shards: taken }];
    return { ...placement!, instances: instances.filter((each) => each.shards.length > 0) };
  };
  return [
    withStates('LEAVING', 'INITIALIZING'),
    withStates('LEAVING', 'AVAILABLE'),
    withStates(null, 'AVAILABLE'),
  ];
}

/** Hands shards over to another instance. */
export async function handOver(
  database: Database,
  shards: readonly number[],
  registry: NamespaceRegistry,
): Promise<void> {
  const { version } = database.shards;
  for (const [step, placement] of handoverSteps(database, shards).entries()) {
    await database.applyTopology(placement, version + 1 + step, registry);
  }
}

export interface TestRow {
  /** Tags by name, or the reference that a write has answered with. */
  readonly series: Record<string, string> | { readonly slot: number; readonly generation: number };
  readonly nanos: bigint;
  readonly value: number;
  /** The value is one of a message (typed_rows_testing.ts). */
  readonly isTyped?: boolean;
  /** Of a typed one, in the place of what `value` would be. */
  readonly message?: Uint8Array;
  readonly startNanos?: bigint;
}

const versions = new HybridClock(realEnv.clock);

/**
 * A batch of rows in nanoseconds, floats before typed ones; its version is higher than that of the
 * batch before.
 */
export function batchOf(
  rows: readonly TestRow[],
  values?: Float64Array,
  version: number = versions.next(),
  derivesVersions: boolean = false,
): Uint8Array {
  const builder = new BatchBuilder();
  builder.begin(version, derivesVersions);
  const placed = rows.map((row) => {
    const { series } = row;
    if (typeof series['slot'] === 'number') {
      return { ...row, slot: series['slot'], generation: series['generation'] as number };
    }
    const tags = Object.entries(series).map(([name, value]) => ({ name, value: String(value) }));
    const slot = builder.addSeries(encodeTags(tags), idSchemeCode.quoted, new Uint8Array(0));
    return { ...row, slot, generation: 0 };
  });
  const floats = placed.filter(({ isTyped }) => isTyped !== true);
  builder.setRows(
    floats.length,
    Uint32Array.from(floats, ({ slot }) => slot),
    Uint32Array.from(floats, ({ generation }) => generation),
    BigInt64Array.from(floats, ({ nanos }) => nanos),
    1,
    values ?? Float64Array.from(floats, ({ value }) => value),
    BigInt64Array.from(floats, ({ startNanos = 0n }) => startNanos),
  );
  const typed = placed.filter(({ isTyped }) => isTyped === true);
  const messages = typed.map((row) => ({ ...row, message: row.message ?? messageOf(row.value) }));
  builder.setTypedRows(typedColumns(messages));
  return builder.finish();
}

export async function writeRows(
  database: Database,
  rows: readonly TestRow[],
  more: {
    namespace?: string;
    namespaceNumber?: number;
    placementVersion?: number;
    namespacesRevision?: number;
    namespacesLineageId?: string;
    formatLevel?: number;
    /** Of the batch. */
    version?: number;
    referenceEpoch?: string;
  } = {},
): Promise<WriteResponse> {
  return database.write(
    {
      namespace: more.namespace ?? 'metrics',
      namespaceNumber: more.namespaceNumber ?? 0,
      placementVersion: more.placementVersion ?? database.shards.version,
      namespacesRevision: more.namespacesRevision ?? 0,
      ...(more.namespacesLineageId === undefined
        ? {}
        : { namespacesLineageId: more.namespacesLineageId }),
      ...(more.formatLevel === undefined ? {} : { formatLevel: more.formatLevel }),
      referenceEpoch: more.referenceEpoch ?? database.referenceEpoch,
      batch: batchOf(rows, undefined, more.version),
    },
    never,
  );
}

/** All samples of a namespace by series: `name=value,…` → [nanoseconds, value] in order of time. */
export async function readAll(
  database: Database,
  namespace = 'metrics',
): Promise<Map<string, [bigint, number][]>> {
  const response = await database.fetch(
    {
      namespace,
      placementVersion: 0,
      query: { kind: 'all' },
      shards: null,
      seriesLimit: 0,
      fetchData: true,
      startNanos: 0n,
      endNanos: 2n ** 62n,
    },
    never,
  );
  return samplesOf(response);
}

export function samplesOf(
  response: Pick<FetchResponse, 'bundle'>,
): Map<string, [bigint, number][]> {
  return samplesOfBundle(response.bundle);
}

export function samplesOfBundle(bundle: SeriesBundle): Map<string, [bigint, number][]> {
  const all = new Map<string, [bigint, number][]>();
  for (let i = 0; i < bundle.seriesCount; i += 1) {
    const tags = decodeTags(
      bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!),
    );
    const chunks = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
    const { timestampNanos, values, typed } = readMixedRows([chunks], [0n, 2n ** 62n]);
    const rows = Array.from(timestampNanos, (nanos, row): [bigint, number] => {
      const message = typed[row] ?? null;
      return [nanos, message === null ? values[row]! : numberIn(message)];
    });
    all.set(tags.map(({ name, value }) => `${name}=${value}`).join(','), rows);
  }
  return all;
}

/**
 * Deletes all of a namespace by the node's own log alone, as releases before truncated, and as a
 * namespace goes.
 * @returns how many series went
 */
export function truncateByLog(database: Database, name: string): Promise<number> {
  return database.sequencer.exclusive(() => {
    const namespace = database.namespaces.get(name);
    if (namespace === undefined) throw new TsdbError('NOT_FOUND', `no namespace: ${name}`);
    return database.removal.deleteAll(namespace);
  });
}
