/** JSON values under one key of the key-value store, changed by compare-and-set. */
import { messageOf, TsdbError } from '#lib/errors.ts';
import { abortable } from '#lib/turns/abortable.ts';
import type { UnreadKeys } from '../unread_keys.ts';
import type { Compare, KeyValue, Kv, Operation } from './kv.ts';
import { compareAndSetAttemptsMax } from '../limits.ts';

/** A value with what a compare-and-set needs; version and modRevision are 0 when there is none. */
export interface Stored<T> {
  readonly value: T;
  /** Number of successful writes since the key was made. */
  readonly version: number;
  readonly modRevision: number;
  /** What a later version has put into it; whoever writes the next value keeps it. */
  readonly unread: readonly UnreadKeys[];
}

const textEncoder = new TextEncoder();
const textDecoder = new TextDecoder('utf-8', { fatal: true });

export function encodeJson(value: unknown): Uint8Array {
  return textEncoder.encode(JSON.stringify(value));
}

/**
 * @param parse notes the keys that it does not know
 * @throws {TsdbError} INTERNAL naming the key when its value is not JSON of the right form
 */
export function decodeStored<T>(
  item: KeyValue,
  parse: (json: unknown, unread: UnreadKeys[]) => T,
): Stored<T> {
  try {
    const unread: UnreadKeys[] = [];
    const value = parse(JSON.parse(textDecoder.decode(item.value)), unread);
    return { value, version: item.version, modRevision: item.modRevision, unread };
  } catch (error) {
    throw new TsdbError('INTERNAL', `value of key ${item.key} is damaged: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** What there is before the first write. */
export function nothingStored<T>(value: T): Stored<T> {
  return { value, version: 0, modRevision: 0, unread: [] };
}

/** The condition that nobody has changed the key since it was read. */
export function unchanged(key: string, stored: { readonly modRevision: number }): Compare {
  return { key, target: 'modRevision', equals: stored.modRevision };
}

/** What a step of `compareAndSet` wants written, and what it answers once it is. */
export interface Step<R> {
  readonly compares: readonly Compare[];
  /** None: nothing has to be written. */
  readonly operations: readonly Operation[];
  readonly result: R;
}

/** The last change of this process by each client, which the next one waits for. */
const lastChanges = new WeakMap<Kv, Promise<unknown>>();

/**
 * Reads, computes and writes until no other writer was in between. Changes of one process follow each
 * other: at once all but one of them would be computed in vain, and what many of them take together
 * nobody else would get.
 * @param step reads afresh on every attempt
 * @throws {TsdbError} CONFLICT when others won every time
 */
export async function compareAndSet<R>(
  kv: Kv,
  step: () => Promise<Step<R>>,
  signal: AbortSignal,
): Promise<R> {
  const before = lastChanges.get(kv);
  const { promise, resolve } = Promise.withResolvers<void>();
  lastChanges.set(
    kv,
    Promise.all([before, promise]).then(() => {}),
  );
  try {
    if (before !== undefined) await abortable(signal, (done) => void before.then(done));
    return await attempts(kv, step, signal);
  } finally {
    resolve();
  }
}

async function attempts<R>(kv: Kv, step: () => Promise<Step<R>>, signal: AbortSignal): Promise<R> {
  for (let attempt = 0; attempt < compareAndSetAttemptsMax; attempt++) {
    const { compares, operations, result } = await step();
    if (operations.length === 0) return result;
    if ((await kv.transact(compares, operations, signal)).succeeded) return result;
  }
  throw new TsdbError(
    'CONFLICT',
    `others changed the same value ${compareAndSetAttemptsMax} times in between; try again`,
  );
}
