/**
 * Sets of rules as they are decoded of the key-value store: a large one takes a second, which it gives way to others in between, and
 * what is decoded somewhere in this process is not decoded again, by whichever client it was read.
 */
import { gunzipSync } from 'node:zlib';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { digest128 } from '#lib/hashing/digest128.ts';
import { withRests } from '#lib/turns/steps.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import type { KeyValue } from '../../kv/kv.ts';
import { decodeStored } from '../../kv/stored_json.ts';
import { ruleSetBytesMax, ruleSetsMax } from '../../limits.ts';
import type { UnreadKeys } from '../../unread_keys.ts';
import { ruleSetFromStored } from './json.ts';
import type { RuleSet } from './set.ts';
import { addedSizes, allMax, followedBytesMax, noSize, type SetsSize, sizeOfSet } from './size.ts';

export interface DecodedSet {
  readonly set: RuleSet;
  /** What a later version has put into it. */
  readonly unread: readonly UnreadKeys[];
  readonly size: SetsSize;
}

/** Bytes of a set up to which it is decoded in one go, but for its rules. */
export const atOnceBytesMax: number = 64 << 10;

/** Of who follows sets the process has each in memory; nothing is held for others. */
interface Known extends Omit<DecodedSet, 'set'> {
  readonly set: WeakRef<RuleSet>;
}

/** By the digest of the stored bytes. */
const known = new Map<string, Known>();
/** Then those are left out that nobody has any more. */
const knownMax: number = 2 * ruleSetsMax;

/** @throws {TsdbError} INTERNAL naming the key when it is damaged */
export async function decodedSet(item: KeyValue): Promise<DecodedSet> {
  const digest = digest128(item.value);
  const before = knownSet(digest);
  if (before !== null) return before;
  const made = await withRests(decodedInSteps(item), ownTurn);
  // Another one may have been as far meanwhile: then there is one of both.
  const meanwhile = knownSet(digest);
  if (meanwhile !== null) return meanwhile;
  if (known.size >= knownMax) {
    for (const [each, { set }] of known) if (set.deref() === undefined) known.delete(each);
  }
  known.set(digest, { ...made, set: new WeakRef(made.set) });
  return made;
}

/** Null of one that was not decoded lately. */
function knownSize(item: KeyValue): SetsSize | null {
  return known.get(digest128(item.value))?.size ?? null;
}

function knownSet(digest: string): DecodedSet | null {
  const found = known.get(digest);
  const set = found?.set.deref();
  return found === undefined || set === undefined ? null : { ...found, set };
}

/** @throws {TsdbError} INTERNAL naming the key when it is damaged */
export function* decodedInSteps(item: KeyValue): Generator<void, DecodedSet> {
  try {
    const value = gunzipSync(item.value, { maxOutputLength: ruleSetBytesMax });
    const isLarge = value.length > atOnceBytesMax;
    if (isLarge) yield;
    const unread: UnreadKeys[] = [];
    const json = decodeStored<unknown>({ ...item, value }, (parsed) => parsed).value;
    if (isLarge) yield;
    const set = yield* ruleSetFromStored(json, unread);
    return { set, unread, size: sizeOfSet(set, value.length) };
  } catch (error) {
    if (error instanceof TsdbError && error.code === 'INTERNAL') throw error;
    throw new TsdbError('INTERNAL', `value of key ${item.key} is damaged: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** What it takes as JSON, as the compressed value itself says; 0 when it is damaged. */
function plainBytes({ value }: KeyValue): number {
  const isCompressed = value.length >= gzipBytesMin && value[0] === 0x1f && value[1] === 0x8b;
  if (!isCompressed) return 0;
  return new DataView(value.buffer, value.byteOffset).getUint32(value.length - 4, true);
}

/** Header and trailer; the last four bytes of this say how long it was. */
const gzipBytesMin = 18;

/** Gives way to others before what takes long, of sets that are decoded one after the other. */
class Rests {
  readonly #signal: AbortSignal;
  #bytes = 0;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** @throws the signal's reason */
  async before(item: KeyValue): Promise<void> {
    this.#bytes += plainBytes(item);
    if (this.#bytes <= atOnceBytesMax) return;
    this.#bytes = 0;
    await ownTurn();
    this.#signal.throwIfAborted();
  }
}

/**
 * Something of each set, of all of which never more than one is decoded for that.
 * @throws {TsdbError} INTERNAL naming the key of one that is damaged; the signal's reason
 */
export async function ofEachSet<T>(
  items: Iterable<KeyValue>,
  of: (key: string, set: RuleSet) => T,
  signal: AbortSignal,
): Promise<T[]> {
  const rests = new Rests(signal);
  const all: T[] = [];
  for (const item of items) {
    await rests.before(item);
    all.push(of(item.key, (await decodedSet(item)).set));
  }
  return all;
}

export interface SetsOfAll {
  /** By their keys. */
  readonly sets: ReadonlyMap<string, DecodedSet>;
  /** Keys of those that there is no room for. */
  readonly refused: readonly string[];
  /** Of both, as far as it is known of those that are refused. */
  readonly size: SetsSize;
}

/**
 * All sets of a cluster, the oldest first, as far as there is room for them: they may stand from before there was a limit. Whoever
 * reads the same has the same.
 * @throws {TsdbError} INTERNAL naming the key of one that is damaged; the signal's reason
 */
export async function setsOfAll(
  items: Iterable<KeyValue>,
  signal: AbortSignal,
): Promise<SetsOfAll> {
  const byAge = [...items].sort(
    (a, b) => a.createRevision - b.createRevision || (a.key < b.key ? -1 : 1),
  );
  const rests = new Rests(signal);
  const sets = new Map<string, DecodedSet>();
  const refused: string[] = [];
  let taken = noSize;
  let left = noSize;
  for (const item of byAge) {
    await rests.before(item);
    const told = knownSize(item) ?? { ...noSize, bytes: plainBytes(item) };
    const decoded = hasRoom(taken, told) ? await decodedSet(item) : null;
    if (decoded !== null && hasRoom(taken, decoded.size)) {
      taken = addedSizes(taken, decoded.size);
      sets.set(item.key, decoded);
    } else {
      left = addedSizes(left, decoded?.size ?? told);
      refused.push(item.key);
    }
  }
  return { sets, refused, size: addedSizes(taken, left) };
}

/** Patterns of paths find none by themselves: rules are without them then. */
function hasRoom(taken: SetsSize, more: SetsSize): boolean {
  const { rules, bytes } = addedSizes(taken, more);
  return rules <= allMax.rules && bytes <= followedBytesMax;
}
