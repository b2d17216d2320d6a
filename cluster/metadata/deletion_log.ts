/**
 * The deletions of a cluster in the key-value store: appended in one order by compare-and-set,
 * confirmed by the instances, and retired when nothing is left that they would delete.
 */
import type { Clock } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { nextVersion, versionsPerMilli } from '#lib/hybrid_clock.ts';
import { type IndexQuery, queryToJson } from '#lib/index_query.ts';
import type { UnixNanos } from '#lib/time.ts';
import {
  type Deletion,
  type DeletionRequest,
  deletesAll,
  deletionFromJson,
  deletionToJson,
  expiryOf,
  isExpired,
} from './deletions.ts';
import { Fields } from '../fields.ts';
import {
  type ClusterName,
  deletionsAppliedPrefix,
  deletionsPrefix,
  placementKey,
  storageService,
} from '../kv/keys.ts';
import {
  type Compare,
  type KeyValue,
  type Kv,
  type Operation,
  RevisionCompacted,
} from '../kv/kv.ts';
import type { SeenKey } from '../kv/lineage.ts';
import { deletionBytesMax, deletionQueryCharactersMax, deletionsMax } from '../limits.ts';
import type { NamespaceRegistry } from '../namespaces/namespaces.ts';
import { placementFromStored } from '../placement/stored.ts';
import {
  compareAndSet,
  decodeStored,
  encodeJson,
  nothingStored,
  type Stored,
} from '../kv/stored_json.ts';
import { type UnreadKeys, withUnreadKeys } from '../unread_keys.ts';

/** Entries that one transaction retires or publishes anew, beside those that it is made for. */
const operationsAtOnceMax = 64;

/** What stands over all entries. */
export interface DeletionHead {
  /** Of the newest deletion; 0 before the first one. */
  readonly sequence: number;
  readonly version: number;
  /** Files of all deletions up to this one are to be rewritten at once. */
  readonly cleanSequence: number;
}

/** How far an instance is. */
export interface DeletionProgress {
  /** All deletions up to this one are applied. */
  readonly applied: number;
  /** Files hold nothing of all deletions up to this one. */
  readonly cleaned: number;
}

export interface DamagedDeletion {
  readonly key: string;
  readonly reason: string;
}

export interface DeletionListing {
  readonly head: DeletionHead;
  /** By ascending sequence. */
  readonly deletions: readonly Deletion[];
  /** Entries that cannot be read. */
  readonly damaged: readonly DamagedDeletion[];
  /** The key of the head, as it was read. */
  readonly seen: SeenKey;
  /** Watch from the one after it. */
  readonly revision: number;
}

const noHead: Stored<DeletionHead> = nothingStored({ sequence: 0, version: 0, cleanSequence: 0 });

/** Operations of a transaction, with the conditions under which they stand. */
export interface DeletionWrite {
  readonly compares: Compare[];
  readonly operations: Operation[];
  readonly deletions: readonly Deletion[];
}

export class DeletionLog {
  readonly kv: Kv;
  readonly prefix: string;
  readonly #appliedPrefix: string;
  readonly #placementKey: string;
  readonly #writtenVersion: () => number;

  /**
   * @param writtenVersion the highest version that rows are known to have: they were written before
   *   a deletion that is accepted now, also by one whose clock is ahead of ours
   */
  constructor(kv: Kv, cluster: ClusterName, writtenVersion: () => number = () => 0) {
    this.kv = kv;
    this.#writtenVersion = writtenVersion;
    this.prefix = deletionsPrefix(cluster);
    this.#appliedPrefix = deletionsAppliedPrefix(cluster);
    this.#placementKey = placementKey(cluster, storageService);
  }

  get headKey(): string {
    return `${this.prefix}head`;
  }

  #entryKey(sequence: number): string {
    return `${this.prefix}entry/${String(sequence).padStart(16, '0')}`;
  }

  #puttingHead(before: Stored<DeletionHead>, next: DeletionHead): Operation {
    const value = encodeJson(withUnreadKeys(next, before.value, before.unread));
    return { kind: 'put', key: this.headKey, value };
  }

  /** @throws {TsdbError} INTERNAL when the head is damaged */
  async list(signal: AbortSignal): Promise<DeletionListing> {
    const { head, ...listed } = await this.#read(signal);
    return { head: head.value, ...listed };
  }

  async #read(
    signal: AbortSignal,
  ): Promise<Omit<DeletionListing, 'head'> & { readonly head: Stored<DeletionHead> }> {
    const { items, revision } = await this.kv.list(this.prefix, signal);
    let head = noHead;
    let headItem: KeyValue | null = null;
    const deletions: Deletion[] = [];
    const damaged: DamagedDeletion[] = [];
    for (const item of items) {
      if (item.key === this.headKey) {
        headItem = item;
        head = decodeStored(item, headFromJson);
      } else {
        try {
          deletions.push(decodeStored(item, deletionFromJson).value);
        } catch (error) {
          damaged.push({ key: item.key, reason: messageOf(error) });
        }
      }
    }
    deletions.sort((a, b) => a.sequence - b.sequence);
    const seen = { item: headItem, modRevision: headItem?.modRevision ?? revision };
    return { head, deletions, damaged, seen, revision };
  }

  /**
   * Appends deletions, all or none, and retires old ones, also those that a new one covers.
   * @throws {TsdbError} NOT_FOUND for an unknown namespace, RESOURCE_EXHAUSTED when too many stand,
   *   BAD_REQUEST when a query is too long or a time has more than 64 bits, CONFLICT
   */
  append(
    requests: readonly DeletionRequest[],
    registry: NamespaceRegistry,
    clock: Clock,
    signal: AbortSignal,
  ): Promise<readonly Deletion[]> {
    return compareAndSet(
      this.kv,
      async () => {
        const { compares, operations, deletions } = await this.writing(
          requests,
          registry,
          clock,
          signal,
        );
        return { compares, operations, result: deletions };
      },
      signal,
    );
  }

  /** The transaction that appends them, for those who write other keys with it. */
  async writing(
    requests: readonly DeletionRequest[],
    registry: NamespaceRegistry,
    clock: Clock,
    signal: AbortSignal,
    standingMax: number = deletionsMax,
  ): Promise<DeletionWrite> {
    for (const { query } of requests) checkQuery(query);
    const { head, deletions } = await this.#read(signal);
    const now = clock.nowNanos();
    const expired = await this.#retirable(deletions, registry, now, signal);
    const gone = new Set(
      [...expired, ...coveredBy(requests, deletions)].slice(0, operationsAtOnceMax),
    );
    if (deletions.length - gone.size + requests.length > standingMax) {
      throw new TsdbError(
        'RESOURCE_EXHAUSTED',
        `cannot delete: ${standingMax} deletions stand until the retention of their namespaces is over and every instance has applied them`,
      );
    }
    let { sequence, version } = head.value;
    const made: Deletion[] = [];
    for (const request of requests) {
      const namespace = registry.get(request.namespace);
      if (namespace === undefined) {
        throw new TsdbError('NOT_FOUND', `namespace is not found: ${request.namespace}`);
      }
      version = nextVersion(clock.nowMillis(), Math.max(version, this.#writtenVersion()));
      sequence = nextSequence(sequence, version);
      const expiresNanos = expiryOf(namespace, now);
      const deletion = { ...request, sequence, version, createdNanos: now, expiresNanos };
      // What its reader refuses would stand for ever and delete nothing.
      deletionFromJson(deletionToJson(deletion));
      made.push(deletion);
    }
    const entries = made.map((deletion) => encodeJson(deletionToJson(deletion)));
    checkBytes(entries);
    return {
      compares: [{ key: this.headKey, target: 'modRevision', equals: head.modRevision }],
      operations: [
        ...[...gone].map(
          (old): Operation => ({ kind: 'delete', key: this.#entryKey(old.sequence) }),
        ),
        ...made.map(
          ({ sequence: own }, i): Operation => ({
            kind: 'put',
            key: this.#entryKey(own),
            value: entries[i]!,
          }),
        ),
        this.#puttingHead(head, { ...head.value, sequence, version }),
      ],
      deletions: made,
    };
  }

  /**
   * Appends deletions anew that the store has lost, as one does that is restored from a backup. They
   * keep their versions, and their numbers where nobody else has these.
   * @returns how many were lost
   */
  republish(known: readonly Deletion[], signal: AbortSignal): Promise<number> {
    return compareAndSet(
      this.kv,
      async () => {
        const { head, deletions } = await this.#read(signal);
        const versions = new Set(deletions.map(({ version }) => version));
        const taken = new Set(deletions.map(({ sequence }) => sequence));
        const lost = known
          .filter(({ version }) => !versions.has(version))
          .sort((a, b) => a.sequence - b.sequence);
        const operations: Operation[] = [];
        let { sequence, version } = head.value;
        for (const deletion of lost.slice(0, operationsAtOnceMax)) {
          version = Math.max(version, deletion.version);
          const isTaken = taken.has(deletion.sequence);
          const own = isTaken ? nextSequence(sequence, version) : deletion.sequence;
          sequence = Math.max(sequence, own);
          const value = encodeJson(deletionToJson({ ...deletion, sequence: own }));
          operations.push({ kind: 'put', key: this.#entryKey(own), value });
        }
        if (operations.length > 0) {
          operations.push(this.#puttingHead(head, { ...head.value, sequence, version }));
        }
        return {
          compares: [{ key: this.headKey, target: 'modRevision', equals: head.modRevision }],
          operations,
          result: lost.length,
        };
      },
      signal,
    );
  }

  /** Retires what has expired. @returns how many, at most some dozens at a time */
  retire(registry: NamespaceRegistry, clock: Clock, signal: AbortSignal): Promise<number> {
    return compareAndSet(
      this.kv,
      async () => {
        const { head, deletions } = await this.#read(signal);
        const expired = await this.#retirable(deletions, registry, clock.nowNanos(), signal);
        return {
          compares: [{ key: this.headKey, target: 'modRevision', equals: head.modRevision }],
          operations: expired.map(
            ({ sequence }): Operation => ({ kind: 'delete', key: this.#entryKey(sequence) }),
          ),
          result: expired.length,
        };
      },
      signal,
    );
  }

  /**
   * Those that are past their time, some dozens at most. By a clock that is ahead that may be any:
   * so every instance has to have rewritten its files for them, too, before they are forgotten.
   */
  async #retirable(
    deletions: readonly Deletion[],
    registry: NamespaceRegistry,
    nowNanos: UnixNanos,
    signal: AbortSignal,
  ): Promise<readonly Deletion[]> {
    const expired = deletions
      .filter((deletion) => isExpired(deletion, registry.get(deletion.namespace), nowNanos))
      .slice(0, operationsAtOnceMax);
    if (expired.length === 0) return expired;
    const placement = await this.kv.get(this.#placementKey, signal);
    if (placement === null) return expired;
    const { instances } = decodeStored(placement, placementFromStored).value;
    const { items } = await this.kv.list(this.#appliedPrefix, signal);
    const progress = new Map(items.map(({ key, value }) => [key, progressOf(value)]));
    const done = instances.map(({ id }) => {
      const { applied, cleaned } = progress.get(this.#appliedPrefix + id) ?? noProgress;
      return Math.min(applied, cleaned);
    });
    const doneByAll = Math.min(...done);
    return expired.filter(({ sequence }) => sequence <= doneByAll);
  }

  /**
   * Asks all nodes to rewrite the files of all deletions so far. @returns up to which one that is
   */
  clean(signal: AbortSignal): Promise<number> {
    return compareAndSet(
      this.kv,
      async () => {
        const { head } = await this.#read(signal);
        const { sequence, cleanSequence } = head.value;
        const operations: Operation[] =
          cleanSequence >= sequence
            ? []
            : [this.#puttingHead(head, { ...head.value, cleanSequence: sequence })];
        return {
          compares: [{ key: this.headKey, target: 'modRevision', equals: head.modRevision }],
          operations,
          result: sequence,
        };
      },
      signal,
    );
  }

  /** What an instance says of itself. */
  async confirm(
    instanceId: string,
    progress: DeletionProgress,
    signal: AbortSignal,
  ): Promise<void> {
    const key = this.#appliedPrefix + instanceId;
    await this.kv.transact([], [{ kind: 'put', key, value: encodeJson(progress) }], signal);
  }

  /**
   * Waits until all of the instances are that far.
   * @returns those that are not, when the signal aborts
   */
  async whenAll(
    instanceIds: readonly string[],
    holds: (progress: DeletionProgress) => boolean,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const waiting = new Set(instanceIds);
    while (waiting.size > 0 && !signal.aborted) {
      try {
        await this.#noteProgress(waiting, holds, signal);
      } catch (error) {
        // What was compacted is listed.
        if (!signal.aborted && !(error instanceof RevisionCompacted)) throw error;
      }
    }
    return [...waiting];
  }

  /** Takes those out that are that far; resolves when none is left, or the watch has ended. */
  async #noteProgress(
    waiting: Set<string>,
    holds: (progress: DeletionProgress) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const note = (key: string, value: Uint8Array): void => {
      if (holds(progressOf(value))) waiting.delete(key.slice(this.#appliedPrefix.length));
    };
    const { items, revision } = await this.kv.list(this.#appliedPrefix, signal);
    for (const { key, value } of items) note(key, value);
    if (waiting.size === 0) return;
    const stop = new AbortController();
    const until = AbortSignal.any([signal, stop.signal]);
    for await (const { events } of this.kv.watch(this.#appliedPrefix, revision + 1, until)) {
      for (const event of events) {
        if (event.kind === 'put') note(event.item.key, event.item.value);
      }
      if (waiting.size === 0) stop.abort();
    }
  }
}

/**
 * The number of the next deletion: at least the time of its version in Unix milliseconds, so that a
 * store that was restored from a backup gives no number again.
 */
function nextSequence(last: number, version: number): number {
  return Math.max(last + 1, Math.floor(version / versionsPerMilli));
}

/**
 * Entries that need not stand beside deletions of everything in their namespaces, which are later
 * than all that stand.
 */
function coveredBy(
  requests: readonly DeletionRequest[],
  standing: readonly Deletion[],
): readonly Deletion[] {
  const all = new Set(requests.filter(deletesAll).map(({ namespace }) => namespace));
  return standing.filter(({ namespace }) => all.has(namespace));
}

/** One transaction writes all of them: a deletion stands in all of its namespaces, or in none. */
function checkBytes(entries: readonly Uint8Array[]): void {
  const bytes = entries.reduce((sum, { length }) => sum + length, 0);
  if (bytes <= deletionBytesMax) return;
  throw badRequest(
    `match[]: selectors are too long for ${entries.length} namespaces at once, which take ` +
      `${bytes} bytes of ${deletionBytesMax}: name fewer of them (namespace=…)`,
  );
}

function checkQuery(query: IndexQuery): void {
  const { length } = JSON.stringify(queryToJson(query));
  if (length <= deletionQueryCharactersMax) return;
  throw badRequest(
    `match[]: selectors are too long, ${deletionQueryCharactersMax} characters at most: ${length}`,
  );
}

/** @param unread gets the keys that this version does not know */
export function headFromJson(json: unknown, unread: UnreadKeys[]): DeletionHead {
  const fields = Fields.ofStored(json, 'head', unread);
  const head = {
    sequence: Number(fields.int64('sequence', 0n)),
    version: Number(fields.int64('version', 0n)),
    cleanSequence: Number(fields.int64('cleanSequence', 0n)),
  };
  fields.end();
  return head;
}

const noProgress: DeletionProgress = { applied: 0, cleaned: 0 };

/** What cannot be read confirms nothing. */
function progressOf(value: Uint8Array): DeletionProgress {
  try {
    const fields = Fields.of(JSON.parse(new TextDecoder().decode(value)), 'progress');
    return {
      applied: Number(fields.int64('applied', 0n)),
      cleaned: Number(fields.int64('cleaned', 0n)),
    };
  } catch {
    return noProgress;
  }
}
