/** Namespaces that the resources ask for, and their options in the coordinator's interface. */
import { TsdbError } from '#lib/errors.ts';
import { formatDurationNanos, parseDurationNanos } from '#lib/time.ts';
import type { NamespaceView } from '../coordinator/coordinator_client.ts';
import type { NamespaceSpec, TsdbNamespace } from '../resource/tsdb_namespace.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

export interface DesiredNamespace {
  readonly name: string;
  readonly spec: NamespaceSpec;
  /** The TSDBNamespace that asks for it; null when the cluster's own list does. */
  readonly claim: TsdbNamespace | null;
}

export interface NamespaceClaims {
  readonly desired: readonly DesiredNamespace[];
  /** Resources whose namespace another one claimed before, with the one that did. */
  readonly conflicts: ReadonlyMap<TsdbNamespace, string>;
}

export function nameOfNamespace(claim: TsdbNamespace): string {
  return claim.spec.name ?? claim.metadata.name;
}

/** The cluster's list wins over resources; of two resources the older one wins. */
export function namespaceClaims(
  cluster: TsdbCluster,
  claims: readonly TsdbNamespace[],
): NamespaceClaims {
  const desired = new Map<string, DesiredNamespace>();
  const conflicts = new Map<TsdbNamespace, string>();
  for (const spec of cluster.spec.namespaces ?? []) {
    desired.set(spec.name, { name: spec.name, spec, claim: null });
  }
  const age = ({ metadata }: TsdbNamespace) => `${metadata.creationTimestamp} ${metadata.name}`;
  for (const claim of claims.toSorted((a, b) => (age(a) < age(b) ? -1 : 1))) {
    if (claim.metadata.deletionTimestamp !== undefined) continue;
    const name = nameOfNamespace(claim);
    const first = desired.get(name);
    if (first === undefined) desired.set(name, { name, spec: claim.spec, claim });
    else {
      const winner =
        first.claim === null
          ? `TSDBCluster ${cluster.metadata.name}`
          : `TSDBNamespace ${first.claim.metadata.name}`;
      conflicts.set(claim, winner);
    }
  }
  return { desired: [...desired.values()], conflicts };
}

const retentionDefault = '48h';
const hourNanos = 3_600_000_000_000n;

/** Null when the resource does not say: what is there then stays as it is. */
export function retentionNanosOf({ retentionTime }: NamespaceSpec): bigint | null {
  return retentionTime === undefined ? null : parseDurationNanos(retentionTime, 'retentionTime');
}

/** Of one that is not there yet. */
const wantedRetentionNanos = (spec: NamespaceSpec): bigint =>
  parseDurationNanos(spec.retentionTime ?? retentionDefault, 'retentionTime');

/** What of a namespace that is there already cannot become as it is asked for; null for nothing. */
export function changeRefused(spec: NamespaceSpec, live: NamespaceView): string | null {
  const durations = [
    ['blockSize', live.blockSizeNanos],
    ['bufferPast', live.bufferPastNanos],
    ['bufferFuture', live.bufferFutureNanos],
  ] as const;
  for (const [field, nanos] of durations) {
    const wanted = spec[field];
    if (wanted === undefined || parseDurationNanos(wanted, field) === BigInt(nanos)) continue;
    return `${field} is ${formatDurationNanos(BigInt(nanos))} and cannot become ${wanted}`;
  }
  const { coldWritesEnabled, resolution, downsampleAll } = spec;
  const resolutionNanos =
    resolution === undefined ? null : String(parseDurationNanos(resolution, 'resolution'));
  if (resolutionNanos !== live.resolutionNanos) {
    const is =
      live.resolutionNanos === null
        ? 'it has samples'
        : `it has windows of ${formatDurationNanos(BigInt(live.resolutionNanos))}`;
    // What was never ready has nothing that would be lost.
    const way = live.ready
      ? ''
      : '; it was never ready: with reclaimPolicy: Delete it goes with this resource, and can be applied anew';
    return `${is} and cannot have ${resolution === undefined ? 'samples' : `windows of ${resolution}`}${way}`;
  }
  if (resolution !== undefined && (downsampleAll ?? live.downsampleAll) !== live.downsampleAll) {
    return `downsampleAll is ${live.downsampleAll} and cannot become ${downsampleAll}`;
  }
  if (coldWritesEnabled === undefined || coldWritesEnabled === live.coldWritesEnabled) return null;
  return `coldWritesEnabled is ${live.coldWritesEnabled} and cannot become ${coldWritesEnabled}`;
}

/**
 * What the schema lets pass and no namespace can have, a duration of 10,000 years for example; null
 * when there is nothing.
 */
export function namespaceProblem(spec: NamespaceSpec): string | null {
  const { blockSize, bufferPast, bufferFuture, resolution } = spec;
  try {
    retentionNanosOf(spec);
    const durations = { blockSize, bufferPast, bufferFuture, resolution };
    for (const [field, value] of Object.entries(durations)) {
      if (value !== undefined) parseDurationNanos(value, field);
    }
    return null;
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
    return error.message;
  }
}

/** Block sizes as database/create of the coordinator chooses them. */
function blockSizeOf(retentionNanos: bigint, resolutionNanos: bigint | null): string {
  const ofRetention = blockSizeOfRetention(retentionNanos);
  if (resolutionNanos === null) return ofRetention;
  // Of whole windows, or a window of whole blocks.
  const blockSizeNanos = parseDurationNanos(ofRetention, 'blockSize');
  const [longer, shorter] =
    resolutionNanos > blockSizeNanos
      ? [resolutionNanos, blockSizeNanos]
      : [blockSizeNanos, resolutionNanos];
  if (longer % shorter === 0n) return ofRetention;
  return formatDurationNanos(
    longer === resolutionNanos ? longer : longer - (longer % shorter) + shorter,
  );
}

function blockSizeOfRetention(retentionNanos: bigint): string {
  if (retentionNanos <= 12n * hourNanos) return '30m';
  if (retentionNanos <= 24n * hourNanos) return '1h';
  if (retentionNanos <= 7n * 24n * hourNanos) return '2h';
  if (retentionNanos <= 30n * 24n * hourNanos) return '12h';
  return '24h';
}

/**
 * `options` of POST namespace. Cold writes are on by default: an outage longer than bufferPast must
 * lose nothing.
 */
export function namespaceOptions(spec: NamespaceSpec): object {
  const retentionTime = spec.retentionTime ?? retentionDefault;
  const retentionNanos = wantedRetentionNanos(spec);
  const { resolution } = spec;
  const resolutionNanos =
    resolution === undefined ? null : parseDurationNanos(resolution, 'resolution');
  const blockSizeDuration = spec.blockSize ?? blockSizeOf(retentionNanos, resolutionNanos);
  return {
    bootstrapEnabled: true,
    flushEnabled: true,
    writesToCommitLog: true,
    cleanupEnabled: true,
    snapshotEnabled: true,
    repairEnabled: false,
    coldWritesEnabled: spec.coldWritesEnabled ?? true,
    retentionOptions: {
      retentionPeriodDuration: retentionTime,
      blockSizeDuration,
      bufferPastDuration: spec.bufferPast ?? '10m',
      bufferFutureDuration: spec.bufferFuture ?? '2m',
      blockDataExpiry: true,
      blockDataExpiryAfterNotAccessPeriodDuration: '5m',
    },
    indexOptions: { enabled: true, blockSizeDuration },
    aggregationOptions: { aggregations: [aggregationOf(spec)] },
  };
}

function aggregationOf({ resolution, downsampleAll = true }: NamespaceSpec): object {
  if (resolution === undefined) return { aggregated: false };
  const attributes = { resolutionDuration: resolution, downsampleOptions: { all: downsampleAll } };
  return { aggregated: true, attributes };
}
