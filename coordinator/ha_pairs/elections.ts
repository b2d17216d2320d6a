/**
 * Which replica of each cluster of Prometheus is taken: one key a cluster in the key-value store, which coordinators write anew
 * while rows of that replica come. Another replica takes over when the key has not changed for a while, by compare-and-set, so
 * that of several coordinators one does it. By what this coordinator has seen, and for how long: clocks of others say nothing.
 */
import type { ClusterName } from '#cluster/kv/keys.ts';
import { haPairsPrefix } from '#cluster/kv/keys.ts';
import type { KeyValue, Kv } from '#cluster/kv/kv.ts';
import { followPrefix } from '#cluster/kv/follow_prefix.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, shownText, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { CounterMetric } from '#lib/metrics.ts';
import type { Decision, Elections } from '../ingest/ha_pairs.ts';

const rereadMillis = 60_000;
/** Of a request that waits for an election. */
const electionMillisMax = 2_000;
/** How long it is believed that there are too many clusters, of one that came too late. */
const refusedMillis = 10_000;
/** Clusters that were not heard of for so long are forgotten. */
const forgottenMillis = 24 * 3_600_000;

export interface ElectionsOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  /** Without rows of the replica that is taken. */
  readonly takeoverMillis: number;
  /** Between two writings of a key. */
  readonly updateMillis: number;
  readonly clustersMax: number;
  /** Label: cluster. */
  readonly takeovers: CounterMetric;
}

/** What stands, as this coordinator knows it. */
interface Elected {
  readonly replica: string;
  readonly modRevision: number;
  /** When its key was seen to change. */
  readonly changedMillis: number;
  /** When rows of it came here. */
  heardMillis: number;
}

export class StoredElections implements Elections {
  readonly #options: ElectionsOptions;
  readonly #prefix: string;
  readonly #elected = new Map<string, Elected>();
  /** Until when each is refused, in milliseconds. */
  readonly #refused = new Map<string, number>();
  readonly #asking = new Map<string, Promise<void>>();
  /** When the store did not answer last: others may not have been able to say whom they take. */
  #failedMillis = -Infinity;
  #signal: AbortSignal = AbortSignal.abort();
  readonly #updating = new Set<string>();

  constructor(options: ElectionsOptions) {
    this.#options = options;
    this.#prefix = haPairsPrefix(options.cluster);
  }

  get clusterCount(): number {
    return this.#elected.size;
  }

  /** Resolves when the signal aborts. */
  follow(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    const { kv, env, log } = this.#options;
    const onItems = (items: ReadonlyMap<string, KeyValue>): void => {
      for (const item of items.values()) this.#note(item);
      for (const cluster of this.#elected.keys()) {
        if (!items.has(this.#keyOf(cluster))) this.#elected.delete(cluster);
      }
    };
    return followPrefix({ kv, env, log, prefix: this.#prefix, rereadMillis, onItems }, signal);
  }

  decide(cluster: string, replica: string): Decision {
    const elected = this.#elected.get(cluster);
    if (elected === undefined) {
      const until = this.#refused.get(cluster) ?? -Infinity;
      return this.#now < until ? 'refused' : 'ask';
    }
    const { takeoverMillis, updateMillis } = this.#options;
    const now = this.#now;
    if (elected.replica === replica) {
      elected.heardMillis = now;
      if (now - elected.changedMillis >= updateMillis) this.#update(cluster, elected);
      return 'taken';
    }
    const lastMillis = Math.max(elected.changedMillis, elected.heardMillis);
    return now - lastMillis < takeoverMillis ? 'duplicate' : 'ask';
  }

  async elect(cluster: string, replica: string, signal: AbortSignal): Promise<void> {
    let asking = this.#asking.get(cluster);
    if (asking === undefined) {
      // Of several senders that wait for it none ends it by leaving.
      asking = this.#ask(cluster, replica).finally(() => this.#asking.delete(cluster));
      this.#asking.set(cluster, asking);
    }
    await asking;
    signal.throwIfAborted();
  }

  async #ask(cluster: string, replica: string): Promise<void> {
    const { kv, env, clustersMax, updateMillis } = this.#options;
    const until = env.clock.deadline(electionMillisMax, this.#signal);
    // While the store was away nobody could say whom it takes: it is given the time to do so.
    const isEarly = this.#now - this.#failedMillis < updateMillis;
    try {
      const item = await kv.get(this.#keyOf(cluster), until);
      const before = this.#elected.get(cluster);
      if (item !== null) this.#note(item);
      else if (before !== undefined) this.#elected.delete(cluster);
      if (item !== null && this.decide(cluster, replica) !== 'ask') return;
      if (item === null && this.#elected.size >= clustersMax) {
        if (this.#refused.size >= clustersMax) this.#refused.clear();
        this.#refused.set(cluster, this.#now + refusedMillis);
        return;
      }
      if (item === null || !isEarly) {
        await this.#write(cluster, replica, item?.modRevision ?? 0, until);
        return;
      }
    } catch (error) {
      if (!(error instanceof TsdbError) && !until.aborted) throw error;
      this.#failedMillis = this.#now;
      throw new TsdbError(
        'UNAVAILABLE',
        `which replica of cluster ${shownText(cluster)} is taken is not known now: ${messageOf(error)}`,
        { cause: error },
      );
    }
    throw new TsdbError(
      'UNAVAILABLE',
      `which replica of cluster ${shownText(cluster)} is taken is not known yet: the key-value store was away`,
    );
  }

  /** @param modRevision of the key as it was seen, 0 for none */
  async #write(
    cluster: string,
    replica: string,
    modRevision: number,
    until: AbortSignal,
  ): Promise<void> {
    const { kv, log, takeovers } = this.#options;
    const key = this.#keyOf(cluster);
    const value = Buffer.from(JSON.stringify({ replica }));
    // Before, for the watch may tell of it before the answer comes.
    const before = this.#elected.get(cluster)?.replica ?? null;
    const { succeeded, revision } = await kv.transact(
      [{ key, target: 'modRevision', equals: modRevision }],
      [{ kind: 'put', key, value }],
      until,
    );
    if (!succeeded) {
      const item = await kv.get(key, until);
      if (item !== null) this.#note(item);
      return;
    }
    const now = this.#now;
    this.#elected.set(cluster, {
      replica,
      modRevision: revision,
      changedMillis: now,
      heardMillis: now,
    });
    if (before === replica) return;
    log.info({ cluster, replica, before }, 'rows of this replica of a cluster are taken');
    if (before !== null) takeovers.increase(1, { cluster });
  }

  #update(cluster: string, { replica, modRevision }: Elected): void {
    if (this.#updating.has(cluster)) return;
    this.#updating.add(cluster);
    const until = this.#options.env.clock.deadline(electionMillisMax, this.#signal);
    void this.#write(cluster, replica, modRevision, until)
      // Tried again with the next rows; while the store is away all stays as it is.
      .catch((error: unknown) => {
        if (!(error instanceof TsdbError) && !until.aborted) throw error;
      })
      .finally(() => this.#updating.delete(cluster));
  }

  /** Deletes keys of clusters that nobody has heard of for a day. */
  async forget(signal: AbortSignal): Promise<void> {
    const { kv } = this.#options;
    for (const [cluster, { modRevision, changedMillis }] of this.#elected) {
      if (this.#now - changedMillis < forgottenMillis) continue;
      const key = this.#keyOf(cluster);
      await kv.transact(
        [{ key, target: 'modRevision', equals: modRevision }],
        [{ kind: 'delete', key }],
        signal,
      );
    }
  }

  #note({ key, value, modRevision }: KeyValue): void {
    const cluster = decodeURIComponent(key.slice(this.#prefix.length));
    const before = this.#elected.get(cluster);
    if (before !== undefined && before.modRevision >= modRevision) return;
    const { replica } = JSON.parse(Buffer.from(value).toString()) as { replica: string };
    const heardMillis = before?.replica === replica ? before.heardMillis : -Infinity;
    this.#elected.set(cluster, { replica, modRevision, changedMillis: this.#now, heardMillis });
  }

  #keyOf(cluster: string): string {
    return `${this.#prefix}${encodeURIComponent(cluster)}`;
  }

  get #now(): number {
    return this.#options.env.clock.monotonicMillis();
  }
}
