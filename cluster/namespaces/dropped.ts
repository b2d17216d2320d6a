/**
 * The companion namespace of samples that aggregation rules drop: no query reads it, and windows are made of it
 * (docs/AGGREGATION.md, Rules).
 */
import { blockSizeForRetention } from './block_size.ts';
import { companion, droppedNamespace } from './companions.ts';
import { aggregationOf, type Namespace, type NamespaceRegistry } from './namespaces.ts';
import { readySamples } from './samples.ts';

const hourNanos = 3_600_000_000_000n;
/** So long windows have to be made of them at least. */
const droppedRetentionNanosMin = 72n * hourNanos;
const droppedWindowsMin = 3n;

/** @param registry whose samples they are, and whose windows are made of them */
export function droppedCompanion(registry: NamespaceRegistry): Namespace {
  const buffers = readySamples(registry).map(({ options }) => options.retentionOptions);
  const longest = (nanos: readonly bigint[]): bigint => nanos.reduce((a, b) => (b > a ? b : a), 0n);
  const resolutions = [...registry.values()].map(
    (namespace) => aggregationOf(namespace)?.resolutionNanos ?? 0n,
  );
  const retentionNanos = longest([
    droppedRetentionNanosMin,
    ...resolutions.map((resolution) => droppedWindowsMin * resolution),
  ]);
  return companion(droppedNamespace, retentionNanos, blockSizeForRetention(retentionNanos), {
    bufferPastNanos: longest(buffers.map(({ bufferPastNanos }) => bufferPastNanos)),
    bufferFutureNanos: longest(buffers.map(({ bufferFutureNanos }) => bufferFutureNanos)),
  });
}
