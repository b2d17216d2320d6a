/** The rules for adding namespaces, and changing them. */
import { badRequest, TsdbError } from '#lib/errors.ts';
import { formatDurationNanos, nanosPerMilli } from '#lib/time.ts';
import { namespacesMax } from '../limits.ts';
import { segmentProblem } from '../names.ts';
import {
  type Aggregation,
  aggregationOf,
  type ExtendedOptions,
  isReady,
  isUnaggregated,
  type Namespace,
  namespaceOf,
  type NamespaceRegistry,
  registryOf,
  type RuntimeOptions,
  type StagingStatus,
} from './namespaces.ts';
import {
  isOfWindows,
  keepingFloor,
  readySamples,
  whenDeleted,
  whenReady,
  windowsWaitNanos,
} from './samples.ts';
import { schemasOf } from './schemas.ts';

const stagingOrder: readonly StagingStatus[] = ['UNKNOWN', 'INITIALIZING', 'READY'];

/**
 * The registry with one namespace more.
 * @throws {TsdbError} CONFLICT when the name is taken, BAD_REQUEST when a rule is broken
 */
export function addNamespace(registry: NamespaceRegistry, namespace: Namespace): NamespaceRegistry {
  if (registry.has(namespace.name)) {
    throw new TsdbError('CONFLICT', 'namespace with the same ID already exists');
  }
  if (registry.size >= namespacesMax) throw badRequest(`more than ${namespacesMax} namespaces`);
  const problem =
    namespaceProblem(namespace) ??
    aggregationProblem(namespace) ??
    aggregationConflict(registry, namespace);
  if (problem !== null) throw badRequest(`bad namespace metadata: ${problem}`);
  // It could not be made ready, and an update cannot change it.
  if (aggregationOf(namespace) !== null) checkFlushes(namespace, 'add');
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
  nowNanos: bigint,
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
  // What a release before has taken stays as it is.
  const problem =
    namespaceProblem(updated) ??
    (update.aggregations === null ? null : aggregationProblem(updated)) ??
    aggregationConflict(registry, updated);
  if (problem !== null) throw badRequest(`bad namespace metadata: ${problem}`);
  if (schemasOf(updated) !== null && aggregationOf(updated) !== null) {
    throw badRequest(
      `options.aggregationOptions: cannot aggregate namespace ${name}: it has a schema, and messages are not aggregated`,
    );
  }
  if (update.aggregations !== null && isReady(updated) && !isSameAggregation(namespace, updated)) {
    throw badRequest(
      `options.aggregationOptions: cannot change what namespace ${name} aggregates: it is ready, and has rows of what it was`,
    );
  }
  const next = withNamespace(registry, keepingFloor(namespace, updated, nowNanos));
  const unmade = unmadeWindows(registry, next);
  if (unmade !== null) {
    throw badRequest(
      `options.retentionOptions: cannot change the retention of namespace ${name}: ${unmade}`,
    );
  }
  return next;
}

/** @throws {TsdbError} NOT_FOUND, BAD_REQUEST when there are windows of it that others do not keep samples for long enough for */
export function deleteNamespace(
  registry: NamespaceRegistry,
  name: string,
  nowNanos: bigint,
): NamespaceRegistry {
  const namespace = namespaceOf(registry, name);
  const others = whenDeleted(without(registry, name), namespace, nowNanos);
  const problem = unmadeWindows(registry, others);
  if (problem !== null) throw badRequest(`cannot delete namespace ${name}: ${problem}`);
  return others;
}

function without(registry: NamespaceRegistry, name: string): NamespaceRegistry {
  return new Map([...registry].filter(([other]) => other !== name));
}

/**
 * Takes a namespace further on its way; a state that it has passed already changes nothing.
 * @returns the registry itself when nothing changes
 * @throws {TsdbError} NOT_FOUND, BAD_REQUEST as `checkReadyable`
 */
export function advanceStaging(
  registry: NamespaceRegistry,
  name: string,
  status: StagingStatus,
  nowNanos: bigint,
): NamespaceRegistry {
  const namespace = namespaceOf(registry, name);
  const { stagingStatus } = namespace.options;
  if (stagingOrder.indexOf(status) <= stagingOrder.indexOf(stagingStatus)) return registry;
  if (status === 'READY') checkReadyable(registry, namespace);
  const advanced = { ...namespace, options: { ...namespace.options, stagingStatus: status } };
  if (status !== 'READY') return withNamespace(registry, advanced);
  const others = without(registry, name);
  return registryOf([...others.values(), whenReady(others, advanced, nowNanos)]);
}

function isSameAggregation(before: Namespace, after: Namespace): boolean {
  const [a, b] = [before, after].map((namespace) => {
    const aggregation = aggregationOf(namespace);
    return `${isUnaggregated(namespace)} ${aggregation?.resolutionNanos} ${aggregation?.downsampleAll}`;
  });
  return a === b;
}

/** @throws {TsdbError} BAD_REQUEST for an aggregated one that nobody makes windows for, CONFLICT as long as there are no samples */
export function checkReadyable(registry: NamespaceRegistry, namespace: Namespace): void {
  const aggregation = aggregationOf(namespace);
  if (aggregation === null) return;
  const cannot = `cannot make namespace ${namespace.name} ready: it is aggregated`;
  if (isUnaggregated(namespace)) {
    throw badRequest(
      `${cannot} and takes samples (an element of aggregations with aggregated false)`,
    );
  }
  checkFlushes(namespace, 'make');
  if (isReady(namespace)) return;
  if (readySamples(registry).length === 0) {
    throw new TsdbError(
      'CONFLICT',
      `${cannot}, and no namespace of samples is ready yet, of which its windows would be made`,
    );
  }
  const problem = problemOfWindows(registry, namespace);
  if (problem !== null) throw badRequest(`${cannot}, and ${problem}`);
}

/** @throws {TsdbError} BAD_REQUEST */
function checkFlushes({ name, options }: Namespace, what: 'add' | 'make'): void {
  if (options.flushEnabled) return;
  throw badRequest(
    `cannot ${what} namespace ${name}${what === 'make' ? ' ready' : ''}: it is aggregated, and flushEnabled is false: windows are kept in filesets alone, so there would be none`,
  );
}

/** Which windows of a READY namespace could be made before a change and cannot after it, and why; null for none. */
function unmadeWindows(before: NamespaceRegistry, after: NamespaceRegistry): string | null {
  // Who takes the last samples away wants no more of them, nor windows.
  if (readySamples(after).length === 0) return null;
  for (const namespace of after.values()) {
    if (!isReady(namespace) || !isOfWindows(namespace)) continue;
    const problem = problemOfWindows(after, namespace);
    const known = before.get(namespace.name);
    if (problem === null || known === undefined || problemOfWindows(before, known) !== null) {
      continue;
    }
    return `namespace ${namespace.name} has windows of its samples: ${problem}`;
  }
  return null;
}

/** Why no windows can be made for a namespace of any of samples; null when they can. */
function problemOfWindows(registry: NamespaceRegistry, namespace: Namespace): string | null {
  const problems = readySamples(registry)
    .filter(({ options }) => options.flushEnabled)
    .toSorted((a, b) => (retentionOf(a) > retentionOf(b) ? -1 : 1))
    .map((samples) => problemOfWindowsOf(samples, namespace));
  if (problems.includes(null)) return null;
  return (
    problems[0] ??
    'no namespace of samples with flushEnabled is ready: windows are made of filesets'
  );
}

const retentionOf = ({ options }: Namespace): bigint =>
  options.retentionOptions.retentionPeriodNanos;

function problemOfWindowsOf(samples: Namespace, namespace: Namespace): string | null {
  const { blockSizeNanos, bufferPastNanos } = samples.options.retentionOptions;
  const [samplesNanos, windowsNanos] = [samples, namespace].map(retentionOf) as [bigint, bigint];
  const neededNanos =
    aggregationOf(namespace)!.resolutionNanos +
    blockSizeNanos +
    bufferPastNanos +
    windowsWaitNanos(samplesNanos);
  const show = formatDurationNanos;
  if (neededNanos > samplesNanos) {
    return `samples are not kept for as long as it takes to make a window: ${show(samplesNanos)}, ${show(neededNanos)} are needed`;
  }
  if (neededNanos > windowsNanos) {
    return `windows are not kept for as long as it takes to make one: ${show(windowsNanos)}, ${show(neededNanos)} are needed`;
  }
  return null;
}

/** Time inside a block is a number of nanoseconds, exact below this. */
const blockSizeNanosMax = BigInt(Number.MAX_SAFE_INTEGER);

/** Windows of less would be no fewer than the samples. */
const resolutionNanosMin = 1_000_000_000n;

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
    return `retention period must be at least block size ${show(blockSize)}, which stays as the namespace was made: ${show(retention.retentionPeriodNanos)}`;
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
    if (!aggregated) continue;
    if (attributes === null || attributes.resolutionNanos <= 0n) {
      return 'an aggregated namespace needs a positive resolution in attributes';
    }
    const { resolutionNanos } = attributes;
    if (resolutionNanos < resolutionNanosMin) {
      return `resolution must be at least ${show(resolutionNanosMin)}: ${show(resolutionNanos)}`;
    }
    if (blockSize % resolutionNanos !== 0n && resolutionNanos % blockSize !== 0n) {
      return `resolution must divide the block size ${show(blockSize)}, or be a multiple of it: ${show(resolutionNanos)}`;
    }
  }
  return null;
}

/** What namespaces may have that were made before it was looked at. */
function aggregationProblem({ options }: Namespace): string | null {
  const all = (options.aggregations ?? []).filter(({ aggregated }) => aggregated);
  if (all.length > 1) {
    return `an aggregated namespace has one resolution: ${all.length} elements of aggregations are aggregated`;
  }
  const resolutionNanos = all[0]?.attributes?.resolutionNanos ?? 0n;
  return resolutionNanos % nanosPerMilli === 0n
    ? null
    : `resolution must be whole milliseconds: ${formatDurationNanos(resolutionNanos)}`;
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
