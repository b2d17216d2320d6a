/**
 * Approval of a key-value store that went back or was made anew (kv/lineage.ts): the placement that
 * the instances knew last stands again, with all namespaces that they had.
 */
import { TsdbError } from '#lib/errors.ts';
import { placementOffsetFormatLevel } from '#lib/format_level.ts';
import { type ClusterName, finishedFormatsKey, knownPrefix } from '../kv/keys.ts';
import type { Compare, Kv, Operation } from '../kv/kv.ts';
import type { StoreLineage } from '../kv/lineage.ts';
import { unchanged } from '../kv/stored_json.ts';
import { placementRaisesMax } from '../limits.ts';
import { finishedLevelOf, finishedLevelValue } from '../metadata/finished_formats.ts';
import { emptyRegistry, type NamespaceRegistry } from '../namespaces/namespaces.ts';
import {
  type EndedNamespaces,
  joinedEnded,
  joinedRegistry,
  withoutEnded,
} from '../namespaces/numbers.ts';
import { withoutPromises } from '../namespaces/samples.ts';
import type { NamespaceStore } from '../namespaces/store.ts';
import { resetInstance } from '../placement/algorithm.ts';
import { instanceById, type Placement, type VersionedPlacement } from '../placement/placement.ts';
import type { PlacementStore, StoredPlacement } from '../placement/store.ts';
import { type KnownReport, readKnownReports } from './known_reports.ts';

export interface ApproveTarget {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly placements: PlacementStore;
  readonly namespaces: NamespaceStore;
}

export interface ApproveOptions {
  readonly dryRun: boolean;
  /** Although instances have not said what they knew. */
  readonly force: boolean;
}

/**
 * @returns the placement that stands then; null when there was none anywhere
 * @throws {TsdbError} CONFLICT when nothing awaits approval, when instances have not said what they
 *   knew, or when somebody else approves at the same time
 */
export async function approvePlacement(
  target: ApproveTarget,
  { dryRun, force }: ApproveOptions,
  signal: AbortSignal,
): Promise<VersionedPlacement | null> {
  const { kv, cluster, placements } = target;
  let current = await placements.get(signal);
  const { lineage } = current;
  if (!lineage.awaitsApproval) {
    throw new TsdbError(
      'CONFLICT',
      'nothing awaits approval: the key-value store has not gone back',
    );
  }
  const { reports, damaged } = await readKnownReports(kv, cluster, lineage.id, signal);
  const last = lastKnown(current, reports);
  if (!force) {
    refuseUnknown(last, reports, damaged);
    refuseMissing(last, reports, damaged);
  }
  const next = last.placement === null ? null : withoutFresh(last.placement, reports);
  // A version that was seen before must not come again for another placement.
  const version = Math.max(current.version, last.version) + 1;
  const stands = next === null ? null : { placement: next, version };
  const formats = await readFormats(target, reports, signal);
  const hasOffset = formats.level >= placementOffsetFormatLevel;
  const raises = hasOffset || next === null ? 0 : version - current.version - 1;
  if (raises > placementRaisesMax) {
    throw new TsdbError(
      'CONFLICT',
      `cannot raise the version of the placement from ${current.version} to ${version}: by ${placementRaisesMax} at most until the upgrade is finished`,
    );
  }
  if (dryRun) return stands;
  for (let raise = 0; raise < raises; raise++) {
    const raised = { current, known: last.placement, next, version: current.version + 1, lineage };
    await write(target, await placements.approving(raised, signal), signal);
    current = await placements.get(signal);
    if (current.lineage.id !== lineage.id || !current.lineage.awaitsApproval) throw overtaken();
  }
  const registry = await target.namespaces.get(signal);
  const ended = joinedEnded(
    reports.flatMap(({ known }) => (known === null ? [] : [known.endedNamespaces])),
  );
  const namespaces = withoutPromises(lastNamespaces(reports, registry.value, ended));
  const approved = approvedLineage(current.lineage, reports);
  const placing = await placements.approving(
    { current, known: last.placement, next, version, lineage: approved },
    signal,
  );
  const naming = target.namespaces.approving(registry, namespaces, ended);
  await write(
    target,
    {
      compares: [...placing.compares, ...naming.compares, ...formats.compares],
      operations: [
        ...placing.operations,
        ...naming.operations,
        ...formats.operations,
        { kind: 'deletePrefix', prefix: knownPrefix(cluster) },
      ],
    },
    signal,
  );
  return stands;
}

interface Formats {
  readonly level: number;
  readonly compares: readonly Compare[];
  readonly operations: readonly Operation[];
}

/**
 * Nobody goes back behind formats that instances write: else those that join would write earlier
 * ones, and releases that cannot read the data would be let in.
 */
async function readFormats(
  { kv, cluster }: ApproveTarget,
  reports: readonly KnownReport[],
  signal: AbortSignal,
): Promise<Formats> {
  const key = finishedFormatsKey(cluster);
  const item = await kv.get(key, signal);
  const stored = finishedLevelOf(item?.value ?? null);
  const level = reports.reduce((most, { formatLevel }) => Math.max(most, formatLevel), stored);
  if (level === stored) return { level, compares: [], operations: [] };
  return {
    level,
    compares: [unchanged(key, { modRevision: item?.modRevision ?? 0 })],
    operations: [{ kind: 'put', key, value: finishedLevelValue(level) }],
  };
}

async function write(
  { kv }: ApproveTarget,
  { compares, operations }: Pick<Formats, 'compares' | 'operations'>,
  signal: AbortSignal,
): Promise<void> {
  const { succeeded } = await kv.transact(compares, operations, signal);
  if (!succeeded) throw overtaken();
}

function overtaken(): TsdbError {
  return new TsdbError('CONFLICT', 'the key-value store was changed meanwhile: try again');
}

/** The highest version that anybody knew: of equal ones they are the same. */
function lastKnown(
  { value, version }: StoredPlacement,
  reports: readonly KnownReport[],
): { readonly placement: Placement | null; readonly version: number } {
  let last = { placement: value, version: value === null ? 0 : version };
  for (const { known } of reports) {
    const { placement = null, placementVersion = 0 } = known ?? {};
    if (placement !== null && placementVersion > last.version) {
      last = { placement, version: placementVersion };
    }
  }
  return last;
}

/**
 * All that were known, each as it was known last, and those of the store that nobody knows to be deleted. One that is
 * deleted for some and not for others comes back: those who had not heard of it have taken rows.
 */
function lastNamespaces(
  reports: readonly KnownReport[],
  stored: NamespaceRegistry,
  ended: EndedNamespaces,
): NamespaceRegistry {
  const known = reports
    .flatMap(({ known: one }) => (one === null ? [] : [one]))
    .sort((one, other) => other.namespacesRevision - one.namespacesRevision)
    .reduce((joined, { namespaces }) => joinedRegistry(joined, namespaces), emptyRegistry);
  return joinedRegistry(known, withoutEnded(stored, ended));
}

/** A store that is made anew names nobody to wait for. */
function refuseUnknown(
  last: { readonly placement: Placement | null },
  reports: readonly KnownReport[],
  damaged: readonly string[],
): void {
  // Who knows a store without a placement knows that there was none.
  if (last.placement !== null || reports.some(({ known }) => known !== null)) return;
  const fresh = reports.map(({ instanceId }) => instanceId).sort();
  const nothing = fresh.length === 0 ? [] : [`new themselves: ${fresh.join(', ')}`];
  const why = [...nothing, ...damaged].join('; ');
  throw new TsdbError(
    'CONFLICT',
    `no instance has said what it knew of the placement${why === '' ? '' : ` (${why})`}; they do soon after they start. Approve by force only when nobody knows of one any more`,
  );
}

/** Instances that have left since the store was backed up have nothing to say any more. */
function refuseMissing(
  last: { readonly placement: Placement | null },
  reports: readonly KnownReport[],
  damaged: readonly string[],
): void {
  const owners = last.placement?.instances ?? [];
  const said = new Set(reports.map(({ instanceId }) => instanceId));
  const missing = new Set(owners.map(({ id }) => id)).difference(said);
  if (missing.size === 0 && damaged.length === 0) return;
  const why = [
    ...(missing.size === 0 ? [] : [`not told by: ${[...missing].sort().join(', ')}`]),
    ...damaged,
  ].join('; ');
  throw new TsdbError(
    'CONFLICT',
    `instances have not said what they knew of the placement (${why}); they do soon after they start. Approve by force only when they are gone for good`,
  );
}

/** Instances that know nothing of the time before have nothing of it either. */
function withoutFresh(placement: Placement, reports: readonly KnownReport[]): Placement {
  const fresh = reports.filter(({ known }) => known === null);
  return fresh.reduce(
    (next, { instanceId }) =>
      instanceById(next, instanceId) === undefined ? next : resetInstance(next, instanceId),
    placement,
  );
}

function approvedLineage(lineage: StoreLineage, reports: readonly KnownReport[]): StoreLineage {
  const before = reports.flatMap(({ known }) => (known === null ? [] : [known.lineageId]));
  return { ...lineage, follows: [...lineage.follows, ...before], awaitsApproval: false };
}
