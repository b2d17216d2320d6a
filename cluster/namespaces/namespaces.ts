/**
 * Namespaces: their options, the exact JSON of the HTTP API (which is also what is kept under one
 * key of the key-value store), and the rules for adding and changing them. Requests are read in
 * request.ts.
 */
import type { WriteRules } from '#lib/block_time.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { formatDurationNanos } from '#lib/time.ts';
import { namespacesMax } from '../limits.ts';
import { segmentProblem } from '../names.ts';
import { schemasOf, type SchemaVersion } from './schemas.ts';

export interface RetentionOptions {
  readonly retentionPeriodNanos: bigint;
  readonly blockSizeNanos: bigint;
  readonly bufferFutureNanos: bigint;
  readonly bufferPastNanos: bigint;
  readonly blockDataExpiry: boolean;
  readonly blockDataExpiryAfterNotAccessPeriodNanos: bigint;
  readonly futureRetentionPeriodNanos: bigint;
}

export interface IndexOptions {
  readonly enabled: boolean;
  readonly blockSizeNanos: bigint;
}

/** null = not set, so the node's own setting holds. */
export interface RuntimeOptions {
  readonly writeIndexingPerCPUConcurrency: number | null;
  readonly flushIndexingPerCPUConcurrency: number | null;
}

export interface Aggregation {
  readonly aggregated: boolean;
  /** Of an aggregated one; null otherwise. */
  readonly attributes: {
    readonly resolutionNanos: bigint;
    /** null means all. */
    readonly downsampleOptions: { readonly all: boolean } | null;
  } | null;
}

/**
 * UNKNOWN after it was added, INITIALIZING once nodes bootstrap it, READY when it may receive
 * traffic. It goes in this direction only.
 */
export type StagingStatus = 'UNKNOWN' | 'INITIALIZING' | 'READY';

const stagingOrder: readonly StagingStatus[] = ['UNKNOWN', 'INITIALIZING', 'READY'];

export interface ExtendedOptions {
  readonly type: string;
  readonly options: unknown;
}

export interface NamespaceOptions {
  readonly bootstrapEnabled: boolean;
  readonly flushEnabled: boolean;
  readonly writesToCommitLog: boolean;
  readonly cleanupEnabled: boolean;
  readonly repairEnabled: boolean;
  readonly retentionOptions: RetentionOptions;
  readonly snapshotEnabled: boolean;
  readonly indexOptions: IndexOptions;
  readonly coldWritesEnabled: boolean;
  readonly runtimeOptions: RuntimeOptions | null;
  readonly cacheBlocksOnRetrieve: boolean;
  /** null when the request named none, which is the same as one unaggregated element. */
  readonly aggregations: readonly Aggregation[] | null;
  readonly stagingStatus: StagingStatus;
  readonly extendedOptions: ExtendedOptions | null;
}

export interface Namespace {
  readonly name: string;
  readonly options: NamespaceOptions;
  /** Of no other one, also of this name (`numbers.ts`); not set where no number was given. */
  readonly number?: number;
  /** That its values have had, the newest last (`schemas.ts`); not set where it never had one. */
  readonly schemas?: readonly SchemaVersion[];
}

/**
 * All namespaces by name. READY ones are in the order in which they were made ready, which is that
 * of the stored value: queries read the first of equals.
 */
export type NamespaceRegistry = ReadonlyMap<string, Namespace>;

export const emptyRegistry: NamespaceRegistry = new Map();

/** Whether raw samples go into it. */
export function isUnaggregated(namespace: Namespace): boolean {
  const { aggregations } = namespace.options;
  return (
    aggregations === null ||
    aggregations.length === 0 ||
    aggregations.some(({ aggregated }) => !aggregated)
  );
}

export function isReady(namespace: Namespace): boolean {
  return namespace.options.stagingStatus === 'READY';
}

/** What aggregated samples it holds; null when it holds none. */
export function aggregationOf(
  namespace: Namespace,
): { readonly resolutionNanos: bigint; readonly downsampleAll: boolean } | null {
  for (const { aggregated, attributes } of namespace.options.aggregations ?? []) {
    if (!aggregated || attributes === null) continue;
    const { resolutionNanos, downsampleOptions } = attributes;
    return { resolutionNanos, downsampleAll: downsampleOptions?.all ?? true };
  }
  return null;
}

/**
 * The registry with one namespace more.
 * @throws {TsdbError} CONFLICT when the name is taken, BAD_REQUEST when a rule is broken
 */
export function addNamespace(registry: NamespaceRegistry, namespace: Namespace): NamespaceRegistry {
  if (registry.has(namespace.name)) {
    throw new TsdbError('CONFLICT', 'namespace with the same ID already exists');
  }
  if (registry.size >= namespacesMax) throw badRequest(`more than ${namespacesMax} namespaces`);
  const problem = namespaceProblem(namespace) ?? aggregationConflict(registry, namespace);
  if (problem !== null) throw badRequest(`bad namespace metadata: ${problem}`);
  return withNamespace(registry, namespace);
}

/** What an update may change; null leaves it as it is. */
export interface NamespaceUpdate {
  readonly repairEnabled: boolean | null;
  readonly retentionPeriodNanos: bigint | null;
  readonly runtimeOptions: RuntimeOptions | null;
  readonly aggregations: readonly Aggregation[] | null;
  readonly extendedOptions: ExtendedOptions | null;
}

/** @throws {TsdbError} NOT_FOUND, BAD_REQUEST */
export function updateNamespace(
  registry: NamespaceRegistry,
  name: string,
  update: NamespaceUpdate,
): NamespaceRegistry {
  const namespace = namespaceOf(registry, name);
  const { options } = namespace;
  const { retentionOptions } = options;
  const updated: Namespace = {
    ...namespace,
    options: {
      ...options,
      repairEnabled: update.repairEnabled ?? options.repairEnabled,
      retentionOptions: {
        ...retentionOptions,
        retentionPeriodNanos: update.retentionPeriodNanos ?? retentionOptions.retentionPeriodNanos,
      },
      runtimeOptions: update.runtimeOptions ?? options.runtimeOptions,
      aggregations: update.aggregations ?? options.aggregations,
      extendedOptions: update.extendedOptions ?? options.extendedOptions,
    },
  };
  const problem = namespaceProblem(updated) ?? aggregationConflict(registry, updated);
  if (problem !== null) throw badRequest(`bad namespace metadata: ${problem}`);
  if (schemasOf(updated) !== null && aggregationOf(updated) !== null) {
    throw badRequest(
      `options.aggregationOptions: cannot aggregate namespace ${name}: it has a schema, and messages are not aggregated`,
    );
  }
  if (update.aggregations !== null && isReady(updated) && aggregationOf(updated) !== null) {
    throw badRequest(
      `options.aggregationOptions: cannot aggregate namespace ${name}: it is ready, and nothing downsamples into it yet`,
    );
  }
  return withNamespace(registry, updated);
}

/** @throws {TsdbError} NOT_FOUND */
export function deleteNamespace(registry: NamespaceRegistry, name: string): NamespaceRegistry {
  namespaceOf(registry, name);
  return new Map([...registry].filter(([other]) => other !== name));
}

/**
 * Takes a namespace further on its way; a state that it has passed already changes nothing.
 * @returns the registry itself when nothing changes
 * @throws {TsdbError} NOT_FOUND, BAD_REQUEST when an aggregated one would be READY
 */
export function advanceStaging(
  registry: NamespaceRegistry,
  name: string,
  status: StagingStatus,
): NamespaceRegistry {
  const namespace = namespaceOf(registry, name);
  const { stagingStatus } = namespace.options;
  if (stagingOrder.indexOf(status) <= stagingOrder.indexOf(stagingStatus)) return registry;
  if (status === 'READY') checkReadyable(namespace);
  const advanced = { ...namespace, options: { ...namespace.options, stagingStatus: status } };
  if (status !== 'READY') return withNamespace(registry, advanced);
  return registryOf([...deleteNamespace(registry, name).values(), advanced]);
}

/** @throws {TsdbError} BAD_REQUEST for an aggregated one */
export function checkReadyable(namespace: Namespace): void {
  if (aggregationOf(namespace) === null) return;
  throw badRequest(
    `cannot make namespace ${namespace.name} ready: it is aggregated, and nothing downsamples into it yet`,
  );
}

/** @throws {TsdbError} NOT_FOUND */
export function namespaceOf(registry: NamespaceRegistry, name: string): Namespace {
  const namespace = registry.get(name);
  if (namespace === undefined) {
    throw new TsdbError(
      'NOT_FOUND',
      `unable to find a namespace with specified name: ${JSON.stringify(name)}`,
    );
  }
  return namespace;
}

/** Time inside a block is a number of nanoseconds, exact below this. */
const blockSizeNanosMax = BigInt(Number.MAX_SAFE_INTEGER);

function namespaceProblem(namespace: Namespace): string | null {
  const { retentionOptions: retention, indexOptions, aggregations } = namespace.options;
  const named = segmentProblem('name', namespace.name);
  if (named !== null) return named;
  const show = formatDurationNanos;
  const blockSize = retention.blockSizeNanos;
  if (blockSize <= 0n) return `block size must be positive: ${show(blockSize)}`;
  if (blockSize > blockSizeNanosMax) return `block size must be below 104 days: ${show(blockSize)}`;
  if (retention.bufferPastNanos < 0n || retention.bufferPastNanos >= blockSize) {
    return `buffer past must be less than block size ${show(blockSize)}: ${show(retention.bufferPastNanos)}`;
  }
  if (retention.bufferFutureNanos < 0n || retention.bufferFutureNanos >= blockSize) {
    return `buffer future must be less than block size ${show(blockSize)}: ${show(retention.bufferFutureNanos)}`;
  }
  if (retention.retentionPeriodNanos < blockSize) {
    return `retention period must be at least block size ${show(blockSize)}: ${show(retention.retentionPeriodNanos)}`;
  }
  if (retention.futureRetentionPeriodNanos < 0n) {
    return `future retention period is negative: ${show(retention.futureRetentionPeriodNanos)}`;
  }
  if (retention.blockDataExpiryAfterNotAccessPeriodNanos < 0n) {
    return `block data expiry period is negative: ${show(retention.blockDataExpiryAfterNotAccessPeriodNanos)}`;
  }
  if (indexOptions.enabled && indexOptions.blockSizeNanos !== blockSize) {
    return `index block size must be the data block size ${show(blockSize)}: ${show(indexOptions.blockSizeNanos)}`;
  }
  for (const { aggregated, attributes } of aggregations ?? []) {
    if (aggregated && (attributes === null || attributes.resolutionNanos <= 0n)) {
      return 'an aggregated namespace needs a positive resolution in attributes';
    }
  }
  return null;
}

/** Two aggregated namespaces of one resolution and retention could not be told apart. */
function aggregationConflict(registry: NamespaceRegistry, namespace: Namespace): string | null {
  const mine = aggregationOf(namespace);
  if (mine === null) return null;
  const { retentionPeriodNanos } = namespace.options.retentionOptions;
  for (const other of registry.values()) {
    if (other.name === namespace.name) continue;
    const theirs = aggregationOf(other);
    if (
      theirs?.resolutionNanos === mine.resolutionNanos &&
      other.options.retentionOptions.retentionPeriodNanos === retentionPeriodNanos
    ) {
      return `namespace ${other.name} has the same resolution and retention`;
    }
  }
  return null;
}

/** In the place of the one of its name, or after all others. */
function withNamespace(registry: NamespaceRegistry, namespace: Namespace): NamespaceRegistry {
  return new Map(registry).set(namespace.name, namespace);
}

/** Which times the namespace takes. */
export function writeRulesOf({
  retentionOptions,
  coldWritesEnabled,
}: Pick<NamespaceOptions, 'retentionOptions' | 'coldWritesEnabled'>): WriteRules {
  const { bufferPastNanos, bufferFutureNanos, retentionPeriodNanos } = retentionOptions;
  return {
    bufferPastNanos,
    bufferFutureNanos,
    retentionNanos: retentionPeriodNanos,
    coldWrites: coldWritesEnabled,
  };
}

/** In the order given. */
export function registryOf(namespaces: readonly Namespace[]): NamespaceRegistry {
  return new Map(namespaces.map((namespace) => [namespace.name, namespace]));
}
