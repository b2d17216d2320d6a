/**
 * What instances say that they knew of the key-value store before it went back (kv/lineage.ts), each
 * in a key of its own: from this the cluster is approved again.
 */
import { messageOf } from '#lib/errors.ts';
import { formatLevelFirst } from '#lib/format_level.ts';
import { type ClusterName, knownPrefix } from '../kv/keys.ts';
import type { KeyValue, Kv } from '../kv/kv.ts';
import { encodeJson } from '../kv/stored_json.ts';
import { emptyRegistry, type NamespaceRegistry } from '../namespaces/namespaces.ts';
import { type EndedNamespaces, noneEnded } from '../namespaces/numbers.ts';
import { storedRegistry } from '../namespaces/store.ts';
import type { Placement } from '../placement/placement.ts';
import { storedPlacement } from '../placement/store.ts';
import type { KnownStore } from '../topology/topology.ts';

/** What somebody knew. */
export interface Known {
  readonly lineageId: string;
  /** Null and 0 for nothing. */
  readonly placement: Placement | null;
  readonly placementVersion: number;
  readonly namespaces: NamespaceRegistry;
  readonly endedNamespaces: EndedNamespaces;
  /** When they were changed last; 0 when there were none. */
  readonly namespacesRevision: number;
}

export interface KnownReport {
  readonly instanceId: string;
  /** Null for an instance that knows nothing but the store as it is now. */
  readonly known: Known | null;
  /** That it writes (lib/format_level.ts): its data folder cannot go back behind it. */
  readonly formatLevel: number;
}

export interface KnownReports {
  readonly reports: readonly KnownReport[];
  /** Keys that cannot be read, with the reason. */
  readonly damaged: readonly string[];
}

const itemNames = ['placement', 'assignments', 'namespaces', 'numbers'] as const;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

interface StoredReport {
  readonly awaits: string;
  readonly known:
    | (Record<(typeof itemNames)[number], StoredItem | null> & { readonly lineageId: string })
    | null;
  readonly formatLevel?: number;
}

type StoredItem = Omit<KeyValue, 'value'> & { readonly value: string };

/**
 * @param awaits the lineage that awaits approval
 * @param known null for nothing of an earlier one
 * @param formatLevel that the instance writes
 */
export function encodeKnownReport(
  awaits: string,
  known: KnownStore | null,
  formatLevel: number,
): Uint8Array {
  if (known === null) return encodeJson({ awaits, known: null, formatLevel });
  const items = itemNames.map((name) => {
    const item = known[name];
    return [name, item === null ? null : { ...item, value: decoder.decode(item.value) }];
  });
  const { lineageId } = known;
  return encodeJson({ awaits, known: { lineageId, ...Object.fromEntries(items) }, formatLevel });
}

/** Of those that say something of this lineage. */
export async function readKnownReports(
  kv: Kv,
  cluster: ClusterName,
  awaits: string,
  signal: AbortSignal,
): Promise<KnownReports> {
  const prefix = knownPrefix(cluster);
  const { items } = await kv.list(prefix, signal);
  const reports: KnownReport[] = [];
  const damaged: string[] = [];
  for (const { key, value } of items) {
    try {
      const report = JSON.parse(decoder.decode(value)) as StoredReport;
      if (report.awaits !== awaits) continue;
      const { known, formatLevel = formatLevelFirst } = report;
      reports.push({
        instanceId: key.slice(prefix.length),
        known: known === null ? null : knownOf(known),
        formatLevel,
      });
    } catch (error) {
      damaged.push(`${key}: ${messageOf(error)}`);
    }
  }
  return { reports, damaged };
}

function knownOf(stored: NonNullable<StoredReport['known']>): Known {
  const itemOf = (name: (typeof itemNames)[number]): KeyValue | null => {
    const item = stored[name];
    return item === null ? null : { ...item, value: encoder.encode(item.value) };
  };
  return knownOfStore({
    lineageId: stored.lineageId,
    revision: 0,
    placement: itemOf('placement'),
    assignments: itemOf('assignments'),
    namespaces: itemOf('namespaces'),
    numbers: itemOf('numbers'),
  });
}

/** @throws {TsdbError} INTERNAL when a value is damaged */
export function knownOfStore(known: KnownStore): Known {
  const { lineageId, placement, assignments, namespaces, numbers } = known;
  const read = placement === null ? null : storedPlacement(placement, assignments);
  const registry = namespaces === null ? null : storedRegistry(namespaces, numbers);
  return {
    lineageId,
    placement: read?.value ?? null,
    placementVersion: read?.version ?? 0,
    namespaces: registry?.value ?? emptyRegistry,
    endedNamespaces: registry?.ended ?? noneEnded,
    namespacesRevision: namespaces?.modRevision ?? 0,
  };
}
