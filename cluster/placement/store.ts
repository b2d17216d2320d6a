/** The placement of a service in the key-value store: read, compare-and-set, history, deletion. */
import type { Random } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import {
  assignmentsKey,
  type ClusterName,
  lineageKey,
  placementHistoryKey,
  placementHistoryPrefix,
  placementKey,
  storageService,
} from '../kv/keys.ts';
import type { Compare, KeyValue, Kv, Operation } from '../kv/kv.ts';
import {
  firstLineage,
  lineageToStored,
  refuseUnapproved,
  type StoreLineage,
  storedLineage,
} from '../kv/lineage.ts';
import { placementHistoryMax } from '../limits.ts';
import type { UnreadKeys } from '../unread_keys.ts';
import { assignmentsToStored, withAssignments, withStoredAssignments } from './assignments.ts';
import type { Placement, VersionedPlacement } from './placement.ts';
import { placementFromStored, placementToStored, readStoredPlacement } from './stored.ts';
import {
  compareAndSet,
  decodeStored,
  encodeJson,
  nothingStored,
  type Stored,
  unchanged,
} from '../kv/stored_json.ts';

/**
 * `value` is null, and version and modRevision 0, when there is no placement. The version is that of
 * the key and `versionOffset`.
 */
export interface StoredPlacement extends Stored<Placement | null> {
  readonly versionOffset: number;
  /** As `unread`, of the key of the assignments. */
  readonly unreadOfAssignments?: readonly UnreadKeys[];
  /** Of the store it was read from. */
  readonly lineage: StoreLineage;
}

export class PlacementStore {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly service: string;
  readonly key: string;
  readonly #assignmentsKey: string;
  readonly #lineageKey: string;
  readonly #random: Random;

  /** @param random gives assignments their IDs */
  constructor(kv: Kv, cluster: ClusterName, random: Random, service: string = storageService) {
    this.kv = kv;
    this.cluster = cluster;
    this.service = service;
    this.key = placementKey(cluster, service);
    this.#assignmentsKey = assignmentsKey(cluster, service);
    this.#lineageKey = lineageKey(cluster, service);
    this.#random = random;
  }

  async get(signal: AbortSignal): Promise<StoredPlacement> {
    const { items } = await this.kv.list(this.key, signal);
    const itemOf = (wanted: string) => items.find(({ key }) => key === wanted) ?? null;
    const lineage = storedLineage(itemOf(this.#lineageKey));
    const item = itemOf(this.key);
    if (item === null) return { ...nothingStored(null), versionOffset: 0, lineage };
    return { ...storedPlacement(item, itemOf(this.#assignmentsKey)), lineage };
  }

  /** @throws {TsdbError} NOT_FOUND when there is no placement */
  async require(signal: AbortSignal): Promise<StoredPlacement & { readonly value: Placement }> {
    const { value, ...stored } = await this.get(signal);
    if (value === null) throw missing();
    return { ...stored, value };
  }

  /**
   * A past placement; the last hundred are kept.
   * @throws {TsdbError} NOT_FOUND
   */
  async getVersion(version: number, signal: AbortSignal): Promise<VersionedPlacement> {
    const item = await this.kv.get(
      placementHistoryKey(this.cluster, this.service, version),
      signal,
    );
    if (item === null) {
      throw new TsdbError('NOT_FOUND', `placement does not exist in version ${version}`);
    }
    return { placement: decodeStored(item, placementFromStored).value, version };
  }

  /**
   * Puts the next placement in the place of the current one.
   * @param change gets the current placement and returns the next; returning the same writes
   * nothing
   * @param alsoHolds conditions of other keys, asked for with each attempt
   * @returns the placement that stands now
   * @throws {TsdbError} NOT_FOUND when there is none, CONFLICT when others were faster each time
   */
  update(
    change: (current: Placement) => Placement,
    signal: AbortSignal,
    alsoHolds: () => readonly Compare[] = () => [],
  ): Promise<VersionedPlacement> {
    return compareAndSet(
      this.kv,
      async () => {
        const current = await this.require(signal);
        const placement = change(current.value);
        if (placement === current.value) {
          const result = { placement, version: current.version };
          return { compares: [], operations: [], result };
        }
        const { compares, operations } = this.writing(current, placement);
        const result = { placement, version: current.version + 1 };
        return { compares: [...compares, ...alsoHolds()], operations, result };
      },
      signal,
    );
  }

  /** @throws {TsdbError} CONFLICT when there is one already, or the store awaits approval */
  async create(placement: Placement, signal: AbortSignal): Promise<void> {
    const current = await this.get(signal);
    if (current.value !== null) throw alreadyExists();
    const { compares, operations } = this.writing(current, placement);
    const { succeeded } = await this.kv.transact(compares, operations, signal);
    if (!succeeded) throw alreadyExists();
  }

  /** Also one whose value cannot be read. @throws {TsdbError} NOT_FOUND when there is none */
  delete(signal: AbortSignal): Promise<void> {
    return compareAndSet(
      this.kv,
      async () => {
        const { items } = await this.kv.list(this.key, signal);
        const current = items.find(({ key }) => key === this.key);
        if (current === undefined) throw missing();
        const lineage = storedLineage(items.find(({ key }) => key === this.#lineageKey) ?? null);
        refuseUnapproved(lineage);
        return {
          compares: [unchanged(this.key, current), unchanged(this.#lineageKey, lineage)],
          operations: [
            { kind: 'delete', key: this.key },
            { kind: 'delete', key: this.#assignmentsKey },
            { kind: 'deletePrefix', prefix: placementHistoryPrefix(this.cluster, this.service) },
          ],
          result: undefined,
        };
      },
      signal,
    );
  }

  /**
   * The transaction that writes `next` over `current`, for those who write other keys with it.
   * @throws {TsdbError} CONFLICT when the store awaits approval
   */
  writing(
    current: StoredPlacement,
    next: Placement,
  ): { compares: Compare[]; operations: Operation[] } {
    const { lineage } = current;
    refuseUnapproved(lineage);
    const value = encodeJson(placementToStored(next, current));
    const id = this.#random.bytes(8).toHex();
    const { value: before, unreadOfAssignments = [] } = current;
    const assignments = assignmentsToStored(
      withAssignments(before, next, id),
      before === null ? null : { placement: before, unread: unreadOfAssignments },
    );
    const version = current.version + 1;
    const historyKey = (of: number) => placementHistoryKey(this.cluster, this.service, of);
    const operations = this.#puttingPlacement(version, value, encodeJson(assignments));
    if (version > placementHistoryMax) {
      operations.push({ kind: 'delete', key: historyKey(version - placementHistoryMax) });
    }
    // A store that is made anew is told from this one by its lineage.
    if (lineage.modRevision === 0) {
      const first = { ...lineage, id, follows: [firstLineage.id] };
      operations.push(this.#puttingLineage(first));
    }
    const compares = [unchanged(this.key, current), unchanged(this.#lineageKey, lineage)];
    return { compares, operations };
  }

  #puttingLineage(lineage: StoreLineage): Operation {
    return { kind: 'put', key: this.#lineageKey, value: encodeJson(lineageToStored(lineage)) };
  }

  #puttingPlacement(version: number, value: Uint8Array, assignments: Uint8Array): Operation[] {
    const historyKey = placementHistoryKey(this.cluster, this.service, version);
    return [
      { kind: 'put', key: this.key, value },
      { kind: 'put', key: historyKey, value },
      { kind: 'put', key: this.#assignmentsKey, value: assignments },
    ];
  }

  /**
   * The transaction that writes what was known before the store went back, with the IDs of its
   * assignments, as the placement of the lineage that awaits approval.
   */
  async approving(
    { current, known, next, version, lineage }: ApprovedPlacement,
    signal: AbortSignal,
  ): Promise<{ compares: Compare[]; operations: Operation[] }> {
    const compares = [unchanged(this.key, current), unchanged(this.#lineageKey, current.lineage)];
    const operations: Operation[] = [this.#puttingLineage(lineage)];
    if (next === null) return { compares, operations };
    const versionOffset = current.versionOffset + version - (current.version + 1);
    const value = encodeJson(placementToStored(next, { ...current, versionOffset }));
    const id = this.#random.bytes(8).toHex();
    const assignments = assignmentsToStored(withAssignments(known, next, id), null);
    operations.push(...this.#puttingPlacement(version, value, encodeJson(assignments)));
    // Those of the store as it was: a version that is passed over has none to take away.
    const { cluster, service } = this;
    const { items } = await this.kv.list(placementHistoryPrefix(cluster, service), signal);
    const kept = placementHistoryKey(cluster, service, Math.max(version - placementHistoryMax, 0));
    for (const { key } of items.slice(0, placementHistoryMax)) {
      if (key <= kept) operations.push({ kind: 'delete', key });
    }
    return { compares, operations };
  }
}

export interface ApprovedPlacement {
  readonly current: StoredPlacement;
  /** What instances knew last. */
  readonly known: Placement | null;
  /** What stands then; null when there was none. */
  readonly next: Placement | null;
  /** Of `next`: above that of `current`; by one, as long as nobody may write an offset. */
  readonly version: number;
  /** What stands then. */
  readonly lineage: StoreLineage;
}

/**
 * A placement with the IDs of its assignments, from their two keys.
 * @throws {TsdbError} INTERNAL naming the key that is damaged
 */
export function storedPlacement(
  item: KeyValue,
  assignments: KeyValue | null,
): Omit<StoredPlacement, 'lineage'> & { readonly value: Placement } {
  const { value: read, ...decoded } = decodeStored(item, readStoredPlacement);
  const { placement, versionOffset } = read;
  const version = decoded.version + versionOffset;
  const stored = { ...decoded, value: placement, version, versionOffset };
  if (assignments === null) return stored;
  const { value, unread } = decodeStored(assignments, (json, unreadKeys) =>
    withStoredAssignments(placement, json, unreadKeys),
  );
  return { ...stored, value, unreadOfAssignments: unread };
}

export function alreadyExists(): TsdbError {
  return new TsdbError('CONFLICT', 'key already has a value');
}

const missing = (): TsdbError => new TsdbError('NOT_FOUND', 'placement does not exist');
