/**
 * Follows the deletions of the cluster: applies them in order, and tells the others how far this
 * node is.
 */
import type { ClusterName } from '#cluster/kv/keys.ts';
import { type KeyValue, type Kv, RevisionCompacted } from '#cluster/kv/kv.ts';
import { breakBetween, type SeenKey } from '#cluster/kv/lineage.ts';
import { decodeStored } from '#cluster/kv/stored_json.ts';
import {
  DeletionLog,
  type DeletionProgress,
  headFromJson,
} from '#cluster/metadata/deletion_log.ts';
import { deletesAll, type Deletion, deletionFromJson } from '#cluster/metadata/deletions.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Deletions } from './storage/deletions/deletions.ts';
import type { NamespaceRemoval } from './storage/deletions/namespace_removal.ts';
import type { NamespaceState } from './storage/namespace/namespace.ts';
import type { ParkedData } from './storage/parking/parked_data.ts';

/** What deletions are applied to. */
export interface DeletionFollowerParts {
  readonly env: Env;
  readonly log: Log;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly deletions: Deletions;
  readonly removal: Pick<NamespaceRemoval, 'removeUnknown'>;
  readonly parked: Pick<ParkedData, 'noteDeletion'>;
}

export interface DeletionFollowerOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly instanceId: string;
  readonly parts: DeletionFollowerParts;
  /** Called when the store is older than what was read of it before. */
  readonly onOlderStore: (reason: string) => Promise<void>;
}

const retryMillisFirst = 100;
const retryMillisMax = 5_000;
/** How often old deletions are looked for, by every node. */
const retireMillis = 600_000;
/** A watch says nothing of a store that went back: how often the head is read anew. */
const rereadMillis = 10_000;

export class DeletionFollower implements AsyncDisposable {
  readonly #options: DeletionFollowerOptions;
  readonly #log: DeletionLog;
  readonly #stop = new AbortController();
  /** Ends the watch when the store has gone back. */
  #renewal = new AbortController();
  #isToRepublish = false;
  /** Head of the deletions as it was seen last. */
  #seen: SeenKey | null = null;
  /** Versions of those that stand. */
  readonly #standing = new Set<number>();
  #published: DeletionProgress = { applied: -1, cleaned: -1 };
  #following: Promise<void> = Promise.resolve();

  constructor(options: DeletionFollowerOptions) {
    this.#options = options;
    this.#log = new DeletionLog(options.kv, options.cluster);
  }

  /**
   * Applies everything that stands: before the node serves.
   * @returns the revision that was read
   * @throws {TsdbError} UNAVAILABLE when key-value store, log or disk fail: to be called again
   */
  async catchUp(signal: AbortSignal): Promise<number> {
    const { parts } = this.#options;
    if (this.#isToRepublish) {
      this.#isToRepublish = false;
      try {
        await this.#republish(signal);
      } catch (error) {
        this.#isToRepublish = true;
        throw error;
      }
    }
    const before = this.#seen;
    const { head, deletions, damaged, seen, revision } = await this.#log.list(signal);
    await this.#compare(before, seen);
    const lost = this.#lostOf(deletions);
    if (lost > 0) {
      // A store that went back may have as many deletions again: no revision tells.
      this.#isToRepublish = true;
      throw new TsdbError('UNAVAILABLE', `the key-value store has lost deletions: ${lost}`);
    }
    this.#seen = seen;
    for (const { key, reason } of damaged) {
      parts.log.error({ key, reason }, 'ignoring a damaged deletion');
    }
    this.#standing.clear();
    for (const { version } of deletions) this.#standing.add(version);
    parts.deletions.cleanSequence = head.cleanSequence;
    await parts.deletions.keep(this.#standing);
    for (const deletion of deletions) {
      signal.throwIfAborted();
      await this.#apply(deletion);
    }
    await this.publish(signal);
    return revision;
  }

  /**
   * Whether everything that stands in the key-value store now is applied here.
   * @throws {TsdbError} UNAVAILABLE
   */
  async isCurrent(signal: AbortSignal): Promise<boolean> {
    const item = await this.#options.kv.get(this.#log.headKey, signal);
    if (this.#seen === null) return false;
    const last = item === null ? 0 : decodeStored(item, headFromJson).value.sequence;
    return this.#options.parts.deletions.appliedSequence >= last;
  }

  /** How many of those that are applied the store should have, and has not. */
  #lostOf(standing: readonly Deletion[]): number {
    const versions = new Set(standing.map(({ version }) => version));
    const all = standing.filter(deletesAll);
    return this.#options.parts.deletions
      .applied()
      .filter(
        ({ version, namespace }) =>
          !versions.has(version) &&
          !all.some((later) => later.namespace === namespace && later.version > version),
      ).length;
  }

  /**
   * The store is another one than before, or an older state of it: it is read anew, and told what this
   * node knows.
   */
  renew(): void {
    this.#isToRepublish = true;
    this.#renewal.abort();
    this.#renewal = new AbortController();
  }

  /** Deletions that the store has lost, and how far this node is. */
  async #republish(signal: AbortSignal): Promise<void> {
    const { parts } = this.#options;
    for (;;) {
      const lost = await this.#log.republish(parts.deletions.applied(), signal);
      if (lost === 0) break;
      parts.log.warn({ lost }, 'the key-value store has lost deletions: they are published again');
    }
    this.#published = { applied: -1, cleaned: -1 };
  }

  /** @throws {TsdbError} UNAVAILABLE when the store has gone back: all is to be read again */
  async #compare(before: SeenKey | null, now: SeenKey): Promise<void> {
    const reason = before === null ? null : breakOfHead(before, now);
    if (reason === null) return;
    await this.#options.onOlderStore(`${this.#log.headKey}: ${reason}`);
    this.#seen = null;
    this.renew();
    throw new TsdbError('UNAVAILABLE', `the key-value store has gone back: ${reason}`);
  }

  async #apply(deletion: Deletion): Promise<void> {
    const { parts } = this.#options;
    await parts.deletions.apply(deletion);
    if (!deletesAll(deletion)) return;
    await parts.removal.removeUnknown(deletion.namespace);
    await parts.parked.noteDeletion(deletion);
  }

  /** Goes on with what comes, until it is closed. */
  follow(): void {
    const { env, log } = this.#options.parts;
    const { signal } = this.#stop;
    this.#following = this.#run();
    env.clock.every(
      rereadMillis,
      () => this.#reread(),
      (error) => log.debug({ error: messageOf(error) }, 'cannot read the deletions'),
      signal,
    );
    env.clock.every(
      retireMillis,
      () => this.#retire(),
      (error) => log.warn({ error: messageOf(error) }, 'old deletions are not retired yet'),
      signal,
    );
  }

  /** When the watch has missed something, all are listed. */
  async #reread(): Promise<void> {
    const seen = this.#seen;
    const item = await this.#options.kv.get(this.#log.headKey, this.#stop.signal);
    const now = { item, modRevision: item?.modRevision ?? seen?.modRevision ?? 0 };
    const isSame = item?.modRevision === seen?.item?.modRevision;
    if (seen === null || (isSame && breakOfHead(seen, now) === null)) return;
    this.#renewal.abort();
    this.#renewal = new AbortController();
  }

  async #run(): Promise<void> {
    const { kv, parts } = this.#options;
    const { env, log } = parts;
    const { signal } = this.#stop;
    for (let delay = retryMillisFirst; !signal.aborted; ) {
      try {
        const until = AbortSignal.any([signal, this.#renewal.signal]);
        const revision = await this.catchUp(signal);
        delay = retryMillisFirst;
        for await (const { events } of kv.watch(this.#log.prefix, revision + 1, until)) {
          let gone = false;
          for (const event of events) {
            if (event.kind === 'delete') gone = true;
            else if (event.item.key === this.#log.headKey) this.#note(event.item);
            else await this.#take(event.item);
          }
          // Those that were retired are looked for by a listing.
          if (gone) await this.catchUp(signal);
          else await this.publish(signal);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RevisionCompacted) continue;
        if (!(error instanceof TsdbError)) throw error;
        log.warn({ error: messageOf(error) }, 'deletions are not applied yet; retrying');
        await env.clock.sleep(delay * (0.5 + env.random.fraction()), signal).catch(() => {});
        delay = Math.min(retryMillisMax, delay * 2);
      }
    }
  }

  async #take(item: Parameters<typeof decodeStored>[0]): Promise<void> {
    let deletion: Deletion;
    try {
      deletion = decodeStored(item, deletionFromJson).value;
    } catch (error) {
      const fields = { key: item.key, reason: messageOf(error) };
      this.#options.parts.log.error(fields, 'ignoring a damaged deletion');
      return;
    }
    this.#standing.add(deletion.version);
    await this.#apply(deletion);
  }

  #note(item: KeyValue): void {
    const { value, modRevision } = item;
    const { deletions } = this.#options.parts;
    if (modRevision > (this.#seen?.modRevision ?? 0)) this.#seen = { item, modRevision };
    try {
      const { cleanSequence } = headFromJson(JSON.parse(new TextDecoder().decode(value)), []);
      deletions.cleanSequence = Math.max(deletions.cleanSequence, cleanSequence);
    } catch {
      // The next listing names it.
    }
  }

  /** Tells the others how far this node is, when that has changed. */
  async publish(signal: AbortSignal): Promise<void> {
    const { parts, instanceId } = this.#options;
    const { appliedSequence, cleanedSequence } = parts.deletions;
    const progress = { applied: appliedSequence, cleaned: cleanedSequence };
    const published = this.#published;
    if (progress.applied === published.applied && progress.cleaned === published.cleaned) return;
    await this.#log.confirm(instanceId, progress, signal);
    this.#published = progress;
  }

  async #retire(): Promise<void> {
    const { parts } = this.#options;
    if (this.#standing.size === 0) return;
    const registry = new Map(
      [...parts.namespaces].map(([name, { definition }]) => [name, definition]),
    );
    await this.#log.retire(registry, parts.env.clock, this.#stop.signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
    await this.#following;
  }
}

/** As `breakBetween`, of a key that is made with the first deletion, and never goes. */
function breakOfHead(seen: SeenKey, now: SeenKey): string | null {
  const { item: before } = seen;
  if (before !== null && before.createRevision !== now.item?.createRevision) {
    return `it was made in revision ${before.createRevision}, and is not there or another one`;
  }
  return breakBetween(seen, now);
}
