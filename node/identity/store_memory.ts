/**
 * What this node remembers of the key-value store: written to its folder before anything is done by
 * it, and told to a store that has gone back (#cluster/kv/lineage.ts).
 */
import { encodeKnownReport, knownOfStore } from '#cluster/admin/known_reports.ts';
import { type ClusterName, knownPrefix } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { instanceById, type Shard } from '#cluster/placement/placement.ts';
import type { KnownStore, Topology, TopologyView } from '#cluster/topology/topology.ts';
import type { Env } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { knownStoreFile, writeKnownStore } from './known_store.ts';

export interface StoreMemoryOptions {
  readonly env: Env;
  readonly log: Log;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly topology: Pick<Topology, 'known' | 'refresh'>;
  readonly instanceId: string;
  readonly dataFolder: string;
  /** The level of formats that this node writes. */
  readonly formatLevel: () => number;
  /** Shards whose rows may be here; null when this node never had any. */
  readonly heldShards: () => ReadonlySet<number> | null;
  /**
   * Takes from the instance what the placement believes it has.
   * @param isLost of which shards; of all when it is not given
   */
  readonly resetShards: (isLost?: (shard: number) => boolean) => Promise<void>;
  /** Called when this node goes by another lineage, or the store has another one. */
  readonly onOtherLineage: () => Promise<void>;
  /** Aborts when the node stops. */
  readonly signal: AbortSignal;
}

export class StoreMemory {
  readonly #options: StoreMemoryOptions;
  /** What the folder says of the store. */
  #known: KnownStore | null;
  /** Lineages of the view and of the store for which this node has told what it knows. */
  #lineages = '';

  /** @param known what the folder says */
  constructor(options: StoreMemoryOptions, known: KnownStore | null) {
    this.#options = options;
    this.#known = known;
  }

  /**
   * The folder knows what is adopted before anything is done by it.
   * @throws {TsdbError} UNAVAILABLE when the disk fails, or the placement names shards that are not
   *   here: to be called again
   */
  async remember(): Promise<void> {
    const { topology, env, dataFolder } = this.#options;
    const { known } = topology;
    if (known === null || isSameStore(known, this.#known)) return;
    await this.#giveUpWhatIsNotHere(known);
    try {
      await writeKnownStore(env.disk, dataFolder, known);
    } catch (error) {
      throw new TsdbError('UNAVAILABLE', `cannot write ${knownStoreFile}`, { cause: error });
    }
    this.#known = known;
  }

  /**
   * A placement that was approved without this node may name it as the owner of what it has given
   * away since, and one that was written by hand of what it was without for a time: others have
   * acknowledged rows meanwhile.
   */
  async #giveUpWhatIsNotHere(known: KnownStore): Promise<void> {
    const before = this.#known;
    if (before === null) return;
    const { topology, log, resetShards, signal } = this.#options;
    const isOfOther = before.lineageId !== known.lineageId;
    const had = isOfOther ? this.#wholeShards(before) : this.#shardsBefore(before);
    if (had === null) return;
    const gone = this.#wholeShards(known).difference(had);
    if (gone.size === 0) return;
    log.error({ shards: [...gone].join() }, 'shards that are not here are given up');
    await (isOfOther ? resetShards() : resetShards((shard) => gone.has(shard)));
    await topology.refresh(signal);
    throw new TsdbError('UNAVAILABLE', 'the placement names shards that are not here');
  }

  /** Shards of which the instance has everything by what was known. */
  #wholeShards(known: KnownStore): ReadonlySet<number> {
    const shards = ownShards(known, this.#options.instanceId) ?? [];
    return new Set(shards.flatMap(({ id, state }) => (state === 'INITIALIZING' ? [] : [id])));
  }

  /** Those that it has had until now, be it that it was still taking them. */
  #shardsBefore(known: KnownStore): ReadonlySet<number> | null {
    const shards = ownShards(known, this.#options.instanceId);
    // Without a placement nobody takes anything away.
    return shards === null ? this.#options.heldShards() : new Set(shards.map(({ id }) => id));
  }

  /**
   * When the store has gone back: it is told what this node has known of it and what it has lost, and
   * that this instance is there.
   */
  async report({ lineageId, storeLineageId, awaitsApproval }: TopologyView): Promise<void> {
    const { kv, cluster, topology, instanceId, formatLevel, onOtherLineage, signal } =
      this.#options;
    const lineages = `${lineageId}/${storeLineageId}/${awaitsApproval}`;
    const key = knownPrefix(cluster) + instanceId;
    if (lineages === this.#lineages) {
      // It may have been restored once more, to before it was told.
      if (!awaitsApproval || (await kv.get(key, signal)) !== null) return;
    }
    const isOfFolder = lineageId !== storeLineageId;
    if (awaitsApproval) {
      const known = isOfFolder ? topology.known : null;
      const value = encodeKnownReport(storeLineageId, known, formatLevel());
      await kv.transact([], [{ kind: 'put', key, value }], signal);
    }
    const isOther = this.#lineages !== '' && this.#lineages !== lineages;
    this.#lineages = lineages;
    if (isOther) await onOtherLineage();
  }
}

/** Shards of the instance by what was known; null without a placement. */
function ownShards(known: KnownStore, instanceId: string): readonly Shard[] | null {
  const { placement } = knownOfStore(known);
  return placement === null ? null : (instanceById(placement, instanceId)?.shards ?? []);
}

/** Whether two say the same of what is adopted. */
function isSameStore(one: KnownStore, other: KnownStore | null): boolean {
  const revisionsOf = ({ lineageId, placement, assignments, namespaces, numbers }: KnownStore) =>
    [placement, assignments, namespaces, numbers].map((item) => item?.modRevision ?? 0).join() +
    lineageId;
  return other !== null && revisionsOf(one) === revisionsOf(other);
}
