/**
 * The store for callers in its own process, without gRPC: keys are text, errors are TsdbErrors,
 * answers are as durable as those over the network.
 */
import type { Env } from '#lib/env/env.ts';
import { type ErrorCode, TsdbError } from '#lib/errors.ts';
import { isInRange } from './core/keyspace.ts';
import { kvLimits } from './core/limits.ts';
import { bytesOfText, messageOfKind, textOf } from './messages.ts';
import type { Mvcc } from './core/mvcc.ts';
import {
  type Change,
  type Compare,
  everything,
  KvError,
  type KvErrorKind,
  type KeyRange,
  type LiveChange,
  type OperationRequest,
} from './core/requests.ts';
import { drawId } from './storage/storage.ts';
import type { Store } from './store.ts';

export interface LocalItem {
  readonly key: string;
  readonly value: Uint8Array;
  readonly createRevision: number;
  readonly modRevision: number;
  readonly version: number;
  /** Decimal; '0' for none. */
  readonly leaseId: string;
}

/** All of these must be equal; a missing key has numbers of 0. */
export type LocalCompare =
  | {
      readonly key: string;
      readonly target: 'version' | 'createRevision' | 'modRevision';
      readonly equals: number;
    }
  | { readonly key: string; readonly target: 'value'; readonly equals: Uint8Array };

export type LocalOperation =
  | {
      readonly kind: 'put';
      readonly key: string;
      readonly value: Uint8Array;
      readonly leaseId?: string;
    }
  | { readonly kind: 'delete'; readonly key: string }
  | { readonly kind: 'deletePrefix'; readonly prefix: string };

export type LocalEvent =
  | { readonly kind: 'put'; readonly item: LocalItem }
  | { readonly kind: 'delete'; readonly key: string; readonly modRevision: number };

/**
 * Changes of whole revisions, or a watch that came too late: what was before this revision is
 * forgotten.
 */
export type LocalChanges =
  | { readonly revision: number; readonly events: readonly LocalEvent[] }
  | { readonly compactRevision: number };

/** @throws {TsdbError} from every call */
export class LocalClient {
  readonly #store: Store;
  readonly #env: Env;

  constructor(store: Store, env: Env) {
    this.#store = store;
    this.#env = env;
  }

  async get(key: string): Promise<LocalItem | null> {
    const { items } = await this.#range({ key: nameOf(key), rangeEnd: '' });
    return items[0] ?? null;
  }

  list(prefix: string): Promise<{ items: LocalItem[]; revision: number }> {
    return this.#range(rangeOfPrefix(prefix));
  }

  async transact(
    compares: readonly LocalCompare[],
    operations: readonly LocalOperation[],
  ): Promise<{ succeeded: boolean; revision: number }> {
    const success = operations.map(operationOf);
    const bytes = success.reduce(
      (sum, operation) => sum + (operation.kind === 'put' ? operation.value.length : 0),
      0,
    );
    return this.#perform((core) => {
      if (bytes > kvLimits.requestBytesMax) throw new KvError('requestTooLarge');
      const compare = compares.map(compareOf);
      return core.txn({ kind: 'txn', compares: compare, success, failure: [] }, 'process');
    });
  }

  /**
   * What changed under the prefix from the revision on; 0 for what comes from now on. Ends when the
   * signal aborts.
   */
  async *watch(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncGenerator<LocalChanges, void, void> {
    const store = this.#store;
    const range = rangeOfPrefix(prefix);
    let next = fromRevision > 0 ? fromRevision : store.committedRevision + 1;
    let wake = () => {};
    const stir = () => wake();
    using _commits = store.onCommit(stir);
    signal.addEventListener('abort', stir, { once: true });
    try {
      while (!signal.aborted) {
        const through = store.committedRevision;
        if (next <= store.reader.compactRevision - 1) {
          yield { compactRevision: store.reader.compactRevision };
          return;
        }
        if (next <= through) {
          const bytesMax = kvLimits.watchAnswerBytes;
          const isWanted = ({ key }: Change) => isInRange(key, range);
          const found = store.reader.history(next, through, bytesMax, isWanted);
          next = found.throughRevision + 1;
          const revision = found.changes.at(-1)?.modRevision;
          if (revision !== undefined) yield { revision, events: found.changes.map(eventOf) };
          continue;
        }
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      signal.removeEventListener('abort', stir);
    }
  }

  async grant(ttlSeconds: number): Promise<{ id: string; ttlSeconds: number }> {
    const id = drawId(this.#env);
    const granted = await this.#perform((core, now) => core.leaseGrant(id, ttlSeconds, now));
    return { id: String(id), ttlSeconds: granted };
  }

  /** @returns the seconds that it lives on; 0 when it is not there */
  async renew(id: string): Promise<number> {
    return (await this.#perform((core, now) => core.leaseRenew(BigInt(id), now))) ?? 0;
  }

  /** A lease that is gone is no error. */
  revoke(id: string): Promise<void> {
    return this.#perform((core, now) => {
      if (core.leaseInfo(BigInt(id), now) !== null) core.leaseRevoke(BigInt(id));
    });
  }

  async #range(range: KeyRange): Promise<{ items: LocalItem[]; revision: number }> {
    const { items, revision } = await this.#perform((core) =>
      core.range({ ...everything, ...range }),
    );
    return { items: items.map(itemOf), revision };
  }

  async #perform<Answer>(task: (core: Mvcc, nowMillis: number) => Answer): Promise<Answer> {
    try {
      return await this.#store.perform(task);
    } catch (error) {
      if (!(error instanceof KvError)) throw error;
      const code = codeOfKind[error.kind] ?? 'BAD_REQUEST';
      throw new TsdbError(code, messageOfKind(error.kind), { cause: error });
    }
  }
}

/** What is not here is a fault of the request. */
const codeOfKind: Partial<Record<KvErrorKind, ErrorCode>> = {
  leaseNotFound: 'NOT_FOUND',
  noSpace: 'RESOURCE_EXHAUSTED',
  tooManyRequests: 'RESOURCE_EXHAUSTED',
  storageFailed: 'UNAVAILABLE',
  stopped: 'UNAVAILABLE',
};

const targetKinds = {
  version: 'version',
  createRevision: 'create',
  modRevision: 'mod',
} as const;

/** The store's keys have a character for each byte. */
function nameOf(key: string): string {
  return textOf(Buffer.from(key));
}

function keyOf(name: string): string {
  return Buffer.from(bytesOfText(name)).toString();
}

function rangeOfPrefix(prefix: string): KeyRange {
  const key = nameOf(prefix);
  if (key === '') return { key: '\0', rangeEnd: '\0' };
  // UTF-8 has no byte 0xff, so the last byte can always be raised.
  const raised = String.fromCharCode(key.charCodeAt(key.length - 1) + 1);
  return { key, rangeEnd: key.slice(0, -1) + raised };
}

function operationOf(operation: LocalOperation): OperationRequest {
  switch (operation.kind) {
    case 'put':
      return {
        kind: 'put',
        key: nameOf(operation.key),
        value: new Uint8Array(operation.value),
        leaseId: BigInt(operation.leaseId ?? 0),
        previous: false,
        ignoreValue: false,
        ignoreLease: false,
      };
    case 'delete':
      return {
        kind: 'deleteRange',
        key: nameOf(operation.key),
        rangeEnd: '',
        previous: false,
      };
    case 'deletePrefix':
      return { kind: 'deleteRange', ...rangeOfPrefix(operation.prefix), previous: false };
  }
}

function compareOf(compare: LocalCompare): Compare {
  const base = { key: nameOf(compare.key), rangeEnd: '', result: 'equal' } as const;
  if (compare.target === 'value') {
    return { ...base, target: { kind: 'value', value: compare.equals } };
  }
  const kind = targetKinds[compare.target];
  return { ...base, target: { kind, number: BigInt(compare.equals) } };
}

function itemOf(change: LiveChange): LocalItem {
  return {
    key: keyOf(change.key),
    // A copy, since the store's own bytes never change.
    value: new Uint8Array(change.value),
    createRevision: change.createRevision,
    modRevision: change.modRevision,
    version: change.version,
    leaseId: String(change.leaseId),
  };
}

function eventOf(change: Change): LocalEvent {
  const { value } = change;
  return value === null
    ? { kind: 'delete', key: keyOf(change.key), modRevision: change.modRevision }
    : { kind: 'put', item: itemOf({ ...change, value }) };
}
