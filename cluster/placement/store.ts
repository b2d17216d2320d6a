/** The placement of a service in the key-value store: read, compare-and-set, history, deletion. */
import { TsdbError } from '#lib/errors.ts';
import {
  type ClusterName,
  placementHistoryKey,
  placementHistoryPrefix,
  placementKey,
  storageService,
} from '../kv/keys.ts';
import type { Compare, Kv, Operation } from '../kv/kv.ts';
import { placementHistoryMax } from '../limits.ts';
import type { Placement, VersionedPlacement } from './placement.ts';
import { placementFromStored, placementToStored } from './stored.ts';
import {
  compareAndSet,
  decodeStored,
  encodeJson,
  nothingStored,
  type Stored,
  unchanged,
} from '../kv/stored_json.ts';

/** `value` is null, and version and modRevision 0, when there is no placement. */
export type StoredPlacement = Stored<Placement | null>;

export class PlacementStore {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly service: string;
  readonly key: string;

  constructor(kv: Kv, cluster: ClusterName, service: string = storageService) {
    this.kv = kv;
    this.cluster = cluster;
    this.service = service;
    this.key = placementKey(cluster, service);
  }

  async get(signal: AbortSignal): Promise<StoredPlacement> {
    const item = await this.kv.get(this.key, signal);
    if (item === null) return nothingStored(null);
    return decodeStored(item, placementFromStored);
  }

  /** @throws {TsdbError} NOT_FOUND when there is no placement */
  async require(signal: AbortSignal): Promise<Stored<Placement>> {
    const { value, ...stored } = await this.get(signal);
    if (value === null) throw new TsdbError('NOT_FOUND', 'placement does not exist');
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
   * @returns the placement that stands now
   * @throws {TsdbError} NOT_FOUND when there is none
   */
  update(
    change: (current: Placement) => Placement,
    signal: AbortSignal,
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
        return { compares, operations, result: { placement, version: current.version + 1 } };
      },
      signal,
    );
  }

  /** @throws {TsdbError} CONFLICT when there is one already */
  async create(placement: Placement, signal: AbortSignal): Promise<void> {
    const { compares, operations } = this.writing(nothingStored(null), placement);
    const { succeeded } = await this.kv.transact(compares, operations, signal);
    if (!succeeded) throw alreadyExists();
  }

  /** @throws {TsdbError} NOT_FOUND when there is none */
  delete(signal: AbortSignal): Promise<void> {
    return compareAndSet(
      this.kv,
      async () => ({
        compares: [unchanged(this.key, await this.require(signal))],
        operations: [
          { kind: 'delete', key: this.key },
          { kind: 'deletePrefix', prefix: placementHistoryPrefix(this.cluster, this.service) },
        ],
        result: undefined,
      }),
      signal,
    );
  }

  /** The transaction that writes `next` over `current`, for those who write other keys with it. */
  writing(
    current: StoredPlacement,
    next: Placement,
  ): { compares: Compare[]; operations: Operation[] } {
    const value = encodeJson(placementToStored(next, current));
    const version = current.version + 1;
    const historyKey = (of: number) => placementHistoryKey(this.cluster, this.service, of);
    const operations: Operation[] = [
      { kind: 'put', key: this.key, value },
      { kind: 'put', key: historyKey(version), value },
    ];
    if (version > placementHistoryMax) {
      operations.push({ kind: 'delete', key: historyKey(version - placementHistoryMax) });
    }
    return { compares: [unchanged(this.key, current)], operations };
  }
}

export function alreadyExists(): TsdbError {
  return new TsdbError('CONFLICT', 'key already has a value');
}
