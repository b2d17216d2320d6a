/** The namespaces of a cluster in the key-value store: read, and changed by compare-and-set. */
import {
  type ClusterName,
  lineageKey,
  namespaceNumbersKey,
  namespacesKey,
  storageService,
} from '../kv/keys.ts';
import { refuseUnapproved, type StoreLineage, storedLineage } from '../kv/lineage.ts';
import type { Compare, KeyValue, Kv, Operation } from '../kv/kv.ts';
import { emptyRegistry, type Namespace, type NamespaceRegistry } from './namespaces.ts';
import { registryFromJson, registryToStored } from './json.ts';
import {
  compareAndSet,
  decodeStored,
  encodeJson,
  nothingStored,
  unchanged,
} from '../kv/stored_json.ts';
import {
  type EndedNamespaces,
  namespaceNumber,
  noneEnded,
  numbersToStored,
  type StoredRegistry,
  withNewNumbers,
  withStoredNumbers,
} from './numbers.ts';
import { withUnreadKeys } from '../unread_keys.ts';

/** With the lineage of the store that it was read from. */
export type RegistryOfStore = StoredRegistry & { readonly lineage: StoreLineage };

export class NamespaceStore {
  readonly kv: Kv;
  readonly key: string;
  readonly #numbersKey: string;
  readonly #lineageKey: string;
  readonly #clock: { nowMillis(): number };

  /** @param clock of whoever makes namespaces: numbers are at least its time */
  constructor(
    kv: Kv,
    cluster: ClusterName,
    clock: { nowMillis(): number } = { nowMillis: () => 0 },
  ) {
    this.kv = kv;
    this.key = namespacesKey(cluster);
    this.#numbersKey = namespaceNumbersKey(cluster);
    this.#lineageKey = lineageKey(cluster, storageService);
    this.#clock = clock;
  }

  /** An empty registry of version 0 when none was ever added. */
  async get(signal: AbortSignal): Promise<RegistryOfStore> {
    const lineage = storedLineage(await this.kv.get(this.#lineageKey, signal));
    const { items } = await this.kv.list(this.key, signal);
    const itemOf = (key: string) => items.find((item) => item.key === key) ?? null;
    const item = itemOf(this.key);
    const stored =
      item === null ? nothingStored(emptyRegistry) : storedRegistry(item, itemOf(this.#numbersKey));
    return { ...stored, lineage };
  }

  /**
   * Puts the next registry in the place of the current one.
   * @param change gets the current registry; returning the same writes nothing
   * @returns the registry that stands now
   */
  update(
    change: (current: NamespaceRegistry) => NamespaceRegistry,
    signal: AbortSignal,
  ): Promise<NamespaceRegistry> {
    return compareAndSet(
      this.kv,
      async () => {
        const current = await this.get(signal);
        const next = change(current.value);
        if (next === current.value) return { compares: [], operations: [], result: next };
        return { ...this.writing(current, next), result: next };
      },
      signal,
    );
  }

  /**
   * The transaction that writes `next` over `current`, for those who write other keys with it.
   * @throws {TsdbError} CONFLICT when the store awaits approval
   */
  writing(
    current: RegistryOfStore,
    next: NamespaceRegistry,
  ): { compares: Compare[]; operations: Operation[] } {
    refuseUnapproved(current.lineage);
    // What stands beside the registry is written when it changes.
    const isSame = ({ name, schemas, ...since }: Namespace): boolean => {
      const before = current.value.get(name);
      return (
        before !== undefined &&
        before.schemas === schemas &&
        before.completeSinceNanos === since.completeSinceNanos &&
        before.goneBeforeNanos === since.goneBeforeNanos
      );
    };
    const isSameBeside = next.size === current.value.size && next.values().every(isSame);
    if (isSameBeside) return this.#putting(current, next, null);
    const atLeast = Math.floor(this.#clock.nowMillis());
    const { registry, lastNumber } = withNewNumbers(current, next, atLeast);
    return this.#putting(current, registry, lastNumber);
  }

  /**
   * The same for who approves what was known: namespaces keep the numbers that they have.
   * @param ended deletions that were known
   */
  approving(
    current: RegistryOfStore,
    next: NamespaceRegistry,
    ended: EndedNamespaces,
  ): { compares: Compare[]; operations: Operation[] } {
    const numbers = [...next.values()].map(namespaceNumber);
    const lastNumber = Math.max(current.lastNumber ?? 0, ...numbers, ...ended.values(), 1);
    return this.#putting(current, next, lastNumber, ended);
  }

  /** @param lastNumber null when no number changes */
  #putting(
    current: RegistryOfStore,
    next: NamespaceRegistry,
    lastNumber: number | null,
    ended: EndedNamespaces = noneEnded,
  ): { compares: Compare[]; operations: Operation[] } {
    const stored = registryToStored(next);
    const json =
      current.unread.length === 0
        ? stored
        : withUnreadKeys(stored, registryToStored(current.value), current.unread);
    const operations: Operation[] = [{ kind: 'put', key: this.key, value: encodeJson(json) }];
    if (lastNumber !== null) {
      const numbers = numbersToStored(current, next, lastNumber, ended);
      operations.push({ kind: 'put', key: this.#numbersKey, value: encodeJson(numbers) });
    }
    const compares = [unchanged(this.key, current), unchanged(this.#lineageKey, current.lineage)];
    return { compares, operations };
  }
}

/** What was read last: several parts of a process read each change, and hundreds of namespaces take milliseconds. */
let lastRead: {
  readonly item: KeyValue;
  readonly numbers: KeyValue | null;
  readonly registry: StoredRegistry;
} | null = null;

/**
 * A registry with the numbers of its namespaces, from their two keys.
 * @throws {TsdbError} INTERNAL naming the key that is damaged
 */
export function storedRegistry(item: KeyValue, numbers: KeyValue | null): StoredRegistry {
  if (lastRead !== null && isSame(lastRead.item, item) && isSame(lastRead.numbers, numbers)) {
    return lastRead.registry;
  }
  const registry = readRegistry(item, numbers);
  lastRead = { item, numbers, registry };
  return registry;
}

function isSame(a: KeyValue | null, b: KeyValue | null): boolean {
  if (a === null || b === null) return a === b;
  if (a.key !== b.key || a.version !== b.version || a.modRevision !== b.modRevision) return false;
  return Buffer.compare(a.value, b.value) === 0;
}

function readRegistry(item: KeyValue, numbers: KeyValue | null): StoredRegistry {
  const stored = decodeStored(item, registryFromJson);
  if (numbers === null) return stored;
  const { value, unread } = decodeStored(numbers, (json, unreadKeys) =>
    withStoredNumbers(stored.value, json, unreadKeys),
  );
  const { registry, lastNumber, ended } = value;
  return { ...stored, value: registry, lastNumber, ended, unreadOfNumbers: unread };
}
