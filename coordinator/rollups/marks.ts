/** Up to where rollups are made, in the key-value store: of each policy the end of the last window that is final. */
import { badRequest } from '#lib/errors.ts';
import type { StoragePolicy } from '#cluster/aggregation_rules/rules.ts';
import { type ClusterName, rollupsPrefix } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';

/** Who makes rollups is who has this key. */
export interface Leadership {
  readonly key: string;
  readonly createRevision: number;
}

export class RollupMarks {
  readonly #kv: Pick<Kv, 'get' | 'transact'>;
  readonly #cluster: ClusterName;

  constructor(kv: Pick<Kv, 'get' | 'transact'>, cluster: ClusterName) {
    this.#kv = kv;
    this.#cluster = cluster;
  }

  /** Null where nothing has been made. */
  async read(policy: StoragePolicy, signal: AbortSignal): Promise<bigint | null> {
    const key = this.#keyOf(policy);
    const item = await this.#kv.get(key, signal);
    if (item === null) return null;
    const text = Buffer.from(item.value).toString();
    const fields = JSON.parse(text) as { readonly finalEndNanos?: unknown };
    const { finalEndNanos } = fields;
    if (typeof finalEndNanos !== 'string' || !/^\d{1,19}$/.test(finalEndNanos)) {
      throw badRequest(`cannot read ${key}: finalEndNanos: not a time in nanoseconds`);
    }
    return BigInt(finalEndNanos);
  }

  /** @returns false when somebody else makes rollups by now */
  async write(
    policy: StoragePolicy,
    finalEndNanos: bigint,
    { key, createRevision }: Leadership,
    signal: AbortSignal,
  ): Promise<boolean> {
    const value = Buffer.from(JSON.stringify({ finalEndNanos: String(finalEndNanos) }));
    const { succeeded } = await this.#kv.transact(
      [{ key, target: 'createRevision', equals: createRevision }],
      [{ kind: 'put', key: this.#keyOf(policy), value }],
      signal,
    );
    return succeeded;
  }

  #keyOf({ resolutionNanos, retentionNanos }: StoragePolicy): string {
    return `${rollupsPrefix(this.#cluster)}final/${resolutionNanos}:${retentionNanos}`;
  }
}
