/**
 * Companion namespaces: what comes with samples and is none, stored as rows of ordinary namespaces (docs/EXEMPLARS.md).
 * Coordinators make them; they are told by their names, which no request can give another one.
 */
import { badRequest } from '#lib/errors.ts';
import { blockSizeForRetention } from './block_size.ts';
import type { Namespace } from './namespaces.ts';

export const exemplarsNamespace = '_exemplars';
export const metadataNamespace = '_metadata';
/** Samples that aggregation rules drop, of which windows are made (docs/AGGREGATION.md). */
export const droppedNamespace = '_dropped';

const names: ReadonlySet<string> = new Set([
  exemplarsNamespace,
  metadataNamespace,
  droppedNamespace,
]);

/** Whether it is none that people write to and read. */
export function isCompanion(name: string): boolean {
  return names.has(name);
}

/** @throws {TsdbError} BAD_REQUEST when a request would make a companion */
export function checkNoCompanion(name: string): void {
  if (!isCompanion(name)) return;
  throw badRequest(`name is reserved for what coordinators store beside samples: ${name}`);
}

const minuteNanos = 60_000_000_000n;
const hourNanos = 60n * minuteNanos;

/** Metadata is written once in an interval, with its start as the time. */
export const metadataIntervalNanos: bigint = 2n * hourNanos;

/** @param retentionNanos at least half an hour */
export function exemplarsCompanion(retentionNanos: bigint): Namespace {
  // Times may be ahead by what Prometheus takes.
  return companion(exemplarsNamespace, retentionNanos, blockSizeForRetention(retentionNanos), {
    bufferPastNanos: 10n * minuteNanos,
    bufferFutureNanos: 10n * minuteNanos,
  });
}

export function metadataCompanion(): Namespace {
  return companion(metadataNamespace, 24n * hourNanos, 6n * hourNanos, {
    bufferPastNanos: metadataIntervalNanos + hourNanos,
    bufferFutureNanos: 10n * minuteNanos,
  });
}

/** A namespace that coordinators make. */
export function companion(
  name: string,
  retentionPeriodNanos: bigint,
  blockSizeNanos: bigint,
  buffers: { readonly bufferPastNanos: bigint; readonly bufferFutureNanos: bigint },
): Namespace {
  return {
    name,
    options: {
      bootstrapEnabled: true,
      flushEnabled: true,
      writesToCommitLog: true,
      cleanupEnabled: true,
      repairEnabled: true,
      retentionOptions: {
        retentionPeriodNanos,
        blockSizeNanos,
        ...buffers,
        blockDataExpiry: true,
        blockDataExpiryAfterNotAccessPeriodNanos: 5n * minuteNanos,
        futureRetentionPeriodNanos: 0n,
      },
      snapshotEnabled: true,
      indexOptions: { enabled: true, blockSizeNanos },
      coldWritesEnabled: true,
      runtimeOptions: null,
      cacheBlocksOnRetrieve: false,
      aggregations: [{ aggregated: false, attributes: null }],
      stagingStatus: 'UNKNOWN',
      extendedOptions: null,
    },
  };
}
