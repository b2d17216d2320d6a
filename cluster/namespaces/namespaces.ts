/**
 * Namespaces and their options. The JSON of the HTTP API, which is also what is kept under one key of
 * the key-value store, is json.ts; requests are read in request.ts, the rules for adding and changing
 * them are in changes.ts.
 */
import type { WriteRules } from '#lib/block_time.ts';
import { TsdbError } from '#lib/errors.ts';
import type { SchemaVersion } from './schemas.ts';

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

/** Of a namespace of samples, by the rows' times (`samples.ts`). */
export interface RowsSince {
  /**
   * Since when it has every row that was acknowledged for namespaces of samples; not set as long as nobody can tell. Of one
   * of windows, since when these were made.
   */
  readonly completeSinceNanos?: bigint;
  /**
   * Rows of before are gone, whatever its retention is: they had expired when that was made longer, or others that had
   * them were deleted. Not set where that is not so.
   */
  readonly goneBeforeNanos?: bigint;
}

export interface Namespace extends RowsSince {
  readonly name: string;
  readonly options: NamespaceOptions;
  /** Of no other one, also of this name (`numbers.ts`); not set where no number was given. */
  readonly number?: number;
  /** That its values have had, the newest last (`schemas.ts`); not set where it never had one. */
  readonly schemas?: readonly SchemaVersion[];
}

/** @returns what it has of these fields, to be spread */
export function rowsSinceOf({ completeSinceNanos, goneBeforeNanos }: RowsSince): RowsSince {
  return {
    ...(completeSinceNanos === undefined ? {} : { completeSinceNanos }),
    ...(goneBeforeNanos === undefined ? {} : { goneBeforeNanos }),
  };
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

/** Which times the namespace takes. */
export function writeRulesOf({
  retentionOptions,
  coldWritesEnabled,
  aggregations,
}: Pick<NamespaceOptions, 'retentionOptions' | 'coldWritesEnabled' | 'aggregations'>): WriteRules {
  const { bufferPastNanos, bufferFutureNanos, retentionPeriodNanos } = retentionOptions;
  return {
    bufferPastNanos,
    bufferFutureNanos,
    retentionNanos: retentionPeriodNanos,
    // Windows of any age are made, whenever that is.
    coldWrites: coldWritesEnabled || (aggregations ?? []).some(({ aggregated }) => aggregated),
  };
}

/** In the order given. */
export function registryOf(namespaces: readonly Namespace[]): NamespaceRegistry {
  return new Map(namespaces.map((namespace) => [namespace.name, namespace]));
}
