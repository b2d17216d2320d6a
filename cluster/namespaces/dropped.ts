/**
 * The companion namespace of samples that aggregation rules drop: no query reads it, and windows are made of it
 * (docs/AGGREGATION.md, Rules).
 */
import { blockSizeForRetention } from './block_size.ts';
import { updateNamespace } from './changes.ts';
import { companion, droppedNamespace } from './companions.ts';
import {
  aggregationOf,
  isReady,
  type Namespace,
  type NamespaceRegistry,
  registryOf,
} from './namespaces.ts';
import { readySamples } from './samples.ts';

const hourNanos = 3_600_000_000_000n;
/** So long windows have to be made of them at least. */
const droppedRetentionNanosMin = 72n * hourNanos;
const droppedWindowsMin = 3n;
/** From when windows of them can be made until they have to be: nodes may be away, and slices are of half a day. */
const droppedMarginNanos = 48n * hourNanos;

const longest = (nanos: readonly bigint[]): bigint => nanos.reduce((a, b) => (b > a ? b : a), 0n);

/**
 * How long after its time a row may have to be there for windows to be made of it, whatever has kept nodes from that for a
 * while.
 */
export function droppedRetentionNanos(registry: NamespaceRegistry): bigint {
  const samples = readySamples(registry).map(({ options }) => options.retentionOptions);
  const resolutions = [...registry.values()].map(
    (namespace) => aggregationOf(namespace)?.resolutionNanos ?? 0n,
  );
  // A slice is due when the blocks of samples that it needs are closed.
  const dueNanos =
    longest(samples.map(({ blockSizeNanos }) => blockSizeNanos)) +
    longest(samples.map(({ bufferPastNanos }) => bufferPastNanos)) +
    longest(resolutions);
  return longest([
    droppedRetentionNanosMin,
    dueNanos + droppedMarginNanos,
    ...resolutions.map((resolution) => droppedWindowsMin * resolution),
  ]);
}

/** @param registry whose samples they are, and whose windows are made of them */
export function droppedCompanion(registry: NamespaceRegistry): Namespace {
  const samples = readySamples(registry).map(({ options }) => options.retentionOptions);
  const bufferPastNanos = longest(samples.map(({ bufferPastNanos: nanos }) => nanos));
  const bufferFutureNanos = longest(samples.map(({ bufferFutureNanos: nanos }) => nanos));
  const retentionNanos = droppedRetentionNanos(registry);
  const suiting = blockSizeForRetention(retentionNanos);
  // Blocks of samples are longer than their buffers.
  const isLonger = suiting > bufferPastNanos && suiting > bufferFutureNanos;
  const blockSizeNanos = isLonger
    ? suiting
    : longest(samples.map(({ blockSizeNanos: nanos }) => nanos));
  return companion(droppedNamespace, retentionNanos, blockSizeNanos, {
    bufferPastNanos,
    bufferFutureNanos,
  });
}

/**
 * The registry with dropped samples kept for as long as windows of READY namespaces need them, which may have come later than
 * these, as those of a coarser resolution. They are never kept for less than they were, since others may have chosen that.
 * @returns the registry itself when they are
 */
export function withDroppedLongEnough(
  registry: NamespaceRegistry,
  nowNanos: bigint,
): NamespaceRegistry {
  const dropped = registry.get(droppedNamespace);
  if (dropped === undefined || !isReady(dropped)) return registry;
  // What cannot be made ready asks for nothing.
  const ready = registryOf([...registry.values()].filter(isReady));
  const retentionPeriodNanos = droppedRetentionNanos(ready);
  if (dropped.options.retentionOptions.retentionPeriodNanos >= retentionPeriodNanos)
    return registry;
  const nothingElse = {
    repairEnabled: null,
    runtimeOptions: null,
    aggregations: null,
    extendedOptions: null,
  };
  return updateNamespace(
    registry,
    droppedNamespace,
    { ...nothingElse, retentionPeriodNanos },
    nowNanos,
  );
}
