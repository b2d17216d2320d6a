/** The namespaces of a cluster in the key-value store: read, and changed by compare-and-set. */
import { type ClusterName, namespacesKey } from '../kv/keys.ts';
import type { Compare, Kv, Operation } from '../kv/kv.ts';
import { emptyRegistry, type NamespaceRegistry } from './namespaces.ts';
import { registryFromJson, registryToStored } from './json.ts';
import {
  compareAndSet,
  decodeStored,
  encodeJson,
  nothingStored,
  type Stored,
  unchanged,
} from '../kv/stored_json.ts';
import { withUnreadKeys } from '../unread_keys.ts';

export class NamespaceStore {
  readonly kv: Kv;
  readonly key: string;

  constructor(kv: Kv, cluster: ClusterName) {
    this.kv = kv;
    this.key = namespacesKey(cluster);
  }

  /** An empty registry of version 0 when none was ever added. */
  async get(signal: AbortSignal): Promise<Stored<NamespaceRegistry>> {
    const item = await this.kv.get(this.key, signal);
    if (item === null) return nothingStored(emptyRegistry);
    return decodeStored(item, registryFromJson);
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

  /** The transaction that writes `next` over `current`, for those who write other keys with it. */
  writing(
    current: Stored<NamespaceRegistry>,
    next: NamespaceRegistry,
  ): { compares: Compare[]; operations: Operation[] } {
    const before = registryToStored(current.value);
    const json = withUnreadKeys(registryToStored(next), before, current.unread);
    return {
      compares: [unchanged(this.key, current)],
      operations: [{ kind: 'put', key: this.key, value: encodeJson(json) }],
    };
  }
}
