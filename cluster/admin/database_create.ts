/**
 * POST database/create: a namespace with sensible defaults, and the placement when there is none
 * yet.
 */
import { badRequest, TsdbError, shownText } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import type { Compare, Kv, Operation } from '../kv/kv.ts';
import { blockSizeForRetention, blockSizeForWindows } from '../namespaces/block_size.ts';
import { checkNoCompanion } from '../namespaces/companions.ts';
import type { NamespaceStore } from '../namespaces/store.ts';
import { addNamespace } from '../namespaces/changes.ts';
import {
  type Aggregation,
  type Namespace,
  type NamespaceOptions,
  type NamespaceRegistry,
} from '../namespaces/namespaces.ts';
import { type RegistryJson, registryToJson } from '../namespaces/json.ts';
import {
  type InstanceInfo,
  type Placement,
  type PlacementJson,
  placementToJson,
} from '../placement/placement.ts';
import { initPlacement } from '../placement/algorithm.ts';
import type { PlacementStore } from '../placement/store.ts';
import { compareAndSet, type Stored } from '../kv/stored_json.ts';

const minuteNanos = 60_000_000_000n;
const hourNanos = 60n * minuteNanos;
const dayNanos = 24n * hourNanos;

const localShardCount = 64;
const shardsPerHost = 64;
const replicationFactorDefault = 3;
const retentionNanosDefault = 24n * hourNanos;

/** Points of one series that compress well in one block. */
const pointsPerBlock = 720n;

export interface DatabaseTarget {
  readonly kv: Kv;
  readonly placements: PlacementStore;
  readonly namespaces: NamespaceStore;
  readonly localInstance: InstanceInfo;
  readonly zone: string;
  /** What is written together with a first placement. */
  readonly withFirst: (
    placement: Placement,
  ) => Promise<{ compares: readonly Compare[]; operations: readonly Operation[] }>;
}

interface DatabaseRequest {
  readonly type: '' | 'local' | 'cluster';
  readonly namespaces: readonly Namespace[];
  /** 0 = not given. */
  readonly numShards: number;
  readonly replicaFactor: number;
  readonly hosts: readonly InstanceInfo[];
}

export function databaseCreate(
  target: DatabaseTarget,
  body: unknown,
  options: { readonly dryRun: boolean },
  signal: AbortSignal,
): Promise<{
  namespace: { registry: RegistryJson };
  placement: { placement: PlacementJson; version: number };
}> {
  const request = readRequest(body, target.zone);
  return compareAndSet(
    target.kv,
    async () => {
      const currentPlacement = await target.placements.get(signal);
      const currentRegistry = await target.namespaces.get(signal);
      const registry = addAll(currentRegistry, request.namespaces);
      const placement = placementFor(request, currentPlacement.value, target.localInstance);
      const writes = target.namespaces.writing(currentRegistry, registry);
      if (currentPlacement.value === null) {
        const placing = target.placements.writing(currentPlacement, placement);
        writes.compares.push(...placing.compares);
        writes.operations.push(...placing.operations);
        const others = await target.withFirst(placement);
        writes.compares.push(...others.compares);
        writes.operations.push(...others.operations);
      }
      const result = {
        namespace: { registry: registryToJson(registry) },
        placement: { placement: placementToJson(placement), version: currentPlacement.version },
      };
      return { ...writes, operations: options.dryRun ? [] : writes.operations, result };
    },
    signal,
  );
}

/**
 * Block size that holds about 720 points of a series, in steps of 5 minutes from 30 minutes to a
 * day.
 * @returns nanoseconds
 */
export function blockSizeForDatapoints(datapointsPerHour: bigint): bigint {
  const step = 5n * minuteNanos;
  const exact = (pointsPerBlock * hourNanos) / datapointsPerHour;
  const snapped = ((exact + step / 2n) / step) * step;
  if (snapped < 30n * minuteNanos) return 30n * minuteNanos;
  return snapped > dayNanos ? dayNanos : snapped;
}

function readRequest(body: unknown, zone: string): DatabaseRequest {
  const fields = Fields.of(body, '');
  const name = fields.string('namespaceName', '');
  if (name === '') throw badRequest('missing required field: namespaceName');
  checkNoCompanion(name);
  const type = fields.string('type', '');
  if (type !== '' && type !== 'local' && type !== 'cluster') {
    throw badRequest(`invalid database type: ${JSON.stringify(shownText(type))}`);
  }
  const retentionNanos = fields.duration('retentionTime') ?? retentionNanosDefault;
  const blockSizeNanos = blockSizeOf(fields) ?? blockSizeForRetention(retentionNanos);
  const named = namespaceWithDefaults(name, retentionNanos, blockSizeNanos, unaggregated);
  const { retentionOptions } = named.options;
  const bufferPastNanos = fields.nanos('bufferPast') ?? retentionOptions.bufferPastNanos;
  const options: NamespaceOptions = {
    ...named.options,
    retentionOptions: { ...retentionOptions, bufferPastNanos },
    coldWritesEnabled: fields.boolean('coldWritesEnabled', false),
  };
  const namespaces = [{ name, options }];
  const aggregated = aggregatedOf(fields);
  if (aggregated !== null) namespaces.push(aggregated);
  const request: DatabaseRequest = {
    type,
    namespaces,
    numShards: fields.uint('numShards', 0),
    replicaFactor: fields.uint('replicationFactor', 0),
    hosts: fields.list('hosts', (host, index) => hostOf(host, zone, `hosts[${index}]`)),
  };
  fields.end();
  return request;
}

function blockSizeOf(fields: Fields): bigint | null {
  const blockSize = fields.object('blockSize');
  if (blockSize === null) return null;
  const time = blockSize.duration('time');
  const expected = blockSize.int64('expectedSeriesDatapointsPerHour', 0n);
  if (expected < 0n) {
    throw blockSize.bad('expectedSeriesDatapointsPerHour', 'is negative', String(expected));
  }
  blockSize.end();
  if (time !== null) return time;
  return expected === 0n ? null : blockSizeForDatapoints(expected);
}

const unaggregated: Aggregation = { aggregated: false, attributes: null };

function aggregatedOf(fields: Fields): Namespace | null {
  const aggregated = fields.object('aggregatedNamespace');
  if (aggregated === null) return null;
  const name = aggregated.string('name', '');
  const resolutionNanos = aggregated.duration('resolution');
  const retentionNanos = aggregated.duration('retentionTime');
  aggregated.end();
  if (name === '') throw badRequest('missing required field: aggregatedNamespace.name');
  checkNoCompanion(name);
  if (resolutionNanos === null) {
    throw badRequest('missing required field: aggregatedNamespace.resolution');
  }
  if (retentionNanos === null) {
    throw badRequest('missing required field: aggregatedNamespace.retentionTime');
  }
  if (resolutionNanos <= 0n) {
    throw aggregated.bad('resolution', 'is not positive', String(resolutionNanos));
  }
  const blockSizeNanos = blockSizeForWindows(resolutionNanos, retentionNanos);
  return namespaceWithDefaults(name, retentionNanos, blockSizeNanos, {
    aggregated: true,
    attributes: { resolutionNanos, downsampleOptions: { all: true } },
  });
}

function namespaceWithDefaults(
  name: string,
  retentionPeriodNanos: bigint,
  blockSizeNanos: bigint,
  aggregation: Aggregation,
): Namespace {
  return {
    name,
    options: {
      bootstrapEnabled: true,
      flushEnabled: true,
      writesToCommitLog: true,
      cleanupEnabled: true,
      repairEnabled: false,
      retentionOptions: {
        retentionPeriodNanos,
        blockSizeNanos,
        bufferFutureNanos: 2n * minuteNanos,
        bufferPastNanos: 10n * minuteNanos,
        blockDataExpiry: true,
        blockDataExpiryAfterNotAccessPeriodNanos: 5n * minuteNanos,
        futureRetentionPeriodNanos: 0n,
      },
      snapshotEnabled: true,
      indexOptions: { enabled: true, blockSizeNanos },
      coldWritesEnabled: false,
      runtimeOptions: null,
      cacheBlocksOnRetrieve: false,
      aggregations: [aggregation],
      stagingStatus: 'UNKNOWN',
      extendedOptions: null,
    },
  };
}

/** Hosts name `address` and `port`; zone `local` is an old default and means the service's own. */
function hostOf(fields: Fields, serviceZone: string, path: string): InstanceInfo {
  const address = fields.string('address', '');
  const port = fields.uint('port', 0);
  const givenZone = fields.string('zone', '');
  const zone = givenZone === '' || givenZone === 'local' ? serviceZone : givenZone;
  const host: InstanceInfo = {
    id: fields.string('id', ''),
    isolationGroup: fields.string('isolationGroup', '') || 'local',
    zone,
    weight: fields.uint('weight', 1),
    endpoint: address === '' ? '' : `${address}:${port}`,
    hostname: address,
    port,
    shardSetId: 0,
    debugPort: 0,
  };
  fields.end();
  if (address === '') throw badRequest(`missing required field: ${path}.address`);
  if (port < 1 || port > 65_535) throw badRequest(`${path}.port is not a port: ${port}`);
  if (zone !== serviceZone) {
    throw badRequest(
      `${path}.zone differs from the zone of the service, ${serviceZone}: ${shownText(zone)}`,
    );
  }
  return host;
}

function addAll(
  current: Stored<NamespaceRegistry>,
  namespaces: readonly Namespace[],
): NamespaceRegistry {
  let registry = current.value;
  for (const namespace of namespaces) {
    try {
      registry = addNamespace(registry, namespace);
    } catch (error) {
      // A taken name is a plain mistake here, as it is in M3, and not the lost race that CONFLICT
      // says.
      if (error instanceof TsdbError && error.code === 'CONFLICT') {
        throw badRequest(
          `unable to create namespace: ${namespace.name} because it already exists`,
          {
            cause: error,
          },
        );
      }
      throw error;
    }
  }
  return registry;
}

function placementFor(
  request: DatabaseRequest,
  current: Placement | null,
  localInstance: InstanceInfo,
): Placement {
  const { type, hosts } = request;
  if (type === 'local' && hosts.length > 0) {
    throw badRequest('hosts: a database of type local has no hosts');
  }
  if (current !== null) {
    const isLocal = current.instances.length === 1 && current.instances[0]!.id === localInstance.id;
    if (type === 'local' && !isLocal) {
      throw badRequest('cannot use database type local: the placement is of type cluster');
    }
    if (type === 'cluster' && isLocal) {
      throw badRequest('cannot use database type cluster: the placement is of type local');
    }
    if (hosts.length > 0) {
      throw badRequest('hosts: the placement exists already, add instances to it instead');
    }
    return current;
  }
  switch (type) {
    case '':
      throw badRequest('invalid database type: "" (there is no placement to take it from)');
    case 'local':
      return initPlacement([localInstance], {
        numShards: request.numShards || localShardCount,
        replicaFactor: request.replicaFactor || 1,
      });
    case 'cluster':
      if (hosts.length === 0) throw badRequest('missing required field: hosts');
      return initPlacement(hosts, {
        numShards: request.numShards || 2 ** Math.ceil(Math.log2(hosts.length * shardsPerHost)),
        replicaFactor: request.replicaFactor || replicationFactorDefault,
      });
    default:
      return type satisfies never;
  }
}
