/**
 * Changes in columns, each at a slot of its own. As objects with arrays of bytes they were nine objects of V8's heap
 * each, all of which its collector visits again and again: of half a million a collection took hundreds of milliseconds,
 * in which nobody was served. Here a change is a row of typed arrays, beside its key, which all changes of the key share, and its
 * value as a string of bytes, which refers to nothing.
 */
import { assert } from '#lib/assert.ts';
import { kvLimits } from './limits.ts';
import type { Change, ChangeName, LiveChange } from './requests.ts';

/** Who holds a change: it goes when nobody does. */
export type Holder = 'history' | 'log';

const pageBits = 12;
const pageSlots = 1 << pageBits;
const slotMask = pageSlots - 1;
const holderBit = { history: 1, log: 2 } as const;
const none = -1;

/** Columns of so many slots; numbers of revisions are whole and below 2^53. */
class Page {
  readonly modRevisions = new Float64Array(pageSlots);
  readonly createRevisions = new Float64Array(pageSlots);
  readonly versions = new Float64Array(pageSlots);
  readonly leaseIds = new BigInt64Array(pageSlots);
  /** Of a slot that is free, the next one that is. */
  readonly subs = new Int32Array(pageSlots);
  readonly holders = new Uint8Array(pageSlots);
  readonly keys: string[] = new Array<string>(pageSlots).fill('');
  /** Null of a deletion. */
  readonly values: (string | null)[] = new Array<string | null>(pageSlots).fill(null);
}

/** As the columns had it when it was asked for; the value's bytes are made when somebody wants them: most do not. */
class TableChange implements Change {
  readonly key: string;
  readonly modRevision: number;
  readonly sub: number;
  readonly createRevision: number;
  readonly version: number;
  readonly leaseId: bigint;
  readonly #text: string | null;
  #value: Uint8Array | null = null;

  constructor(page: Page, row: number) {
    this.key = page.keys[row]!;
    this.modRevision = page.modRevisions[row]!;
    this.sub = page.subs[row]!;
    this.createRevision = page.createRevisions[row]!;
    this.version = page.versions[row]!;
    this.leaseId = page.leaseIds[row]!;
    this.#text = page.values[row]!;
  }

  get value(): Uint8Array | null {
    if (this.#value === null && this.#text !== null)
      this.#value = Buffer.from(this.#text, 'latin1');
    return this.#value;
  }
}

export class ChangeTable {
  readonly #pages: Page[] = [];
  #freeSlot = none;

  /**
   * @param key that of the change: the text that others of it have
   * @returns the slot, which both hold
   */
  add(change: Change, key: string): number {
    if (this.#freeSlot === none) this.#grow();
    const slot = this.#freeSlot;
    const page = this.#pageOf(slot);
    const row = slot & slotMask;
    this.#freeSlot = page.subs[row]!;
    page.modRevisions[row] = change.modRevision;
    page.createRevisions[row] = change.createRevision;
    page.versions[row] = change.version;
    page.leaseIds[row] = change.leaseId;
    page.subs[row] = change.sub;
    page.holders[row] = holderBit.history | holderBit.log;
    page.keys[row] = key;
    page.values[row] = change.value === null ? null : textOf(change.value);
    return slot;
  }

  release(slot: number, holder: Holder): void {
    const page = this.#pageOf(slot);
    const row = slot & slotMask;
    const held = page.holders[row]!;
    assert((held & holderBit[holder]) !== 0, 'a change is released once by each that holds it');
    const left = held & ~holderBit[holder];
    page.holders[row] = left;
    // Whoever reads it comes by its key's history.
    if (holder === 'history') page.values[row] = null;
    if (left !== 0) return;
    page.keys[row] = '';
    page.values[row] = null;
    page.subs[row] = this.#freeSlot;
    this.#freeSlot = slot;
  }

  keyOf(slot: number): string {
    return this.#pageOf(slot).keys[slot & slotMask]!;
  }

  modRevisionOf(slot: number): number {
    return this.#pageOf(slot).modRevisions[slot & slotMask]!;
  }

  nameOf(slot: number): ChangeName {
    return {
      modRevision: this.modRevisionOf(slot),
      sub: this.#pageOf(slot).subs[slot & slotMask]!,
    };
  }

  /** Whether its key lives from it on. */
  isLive(slot: number): boolean {
    return this.#pageOf(slot).values[slot & slotMask] !== null;
  }

  /** As of the change. */
  bytesOf(slot: number): number {
    return this.sizeOf(slot) + kvLimits.changeOverheadBytes;
  }

  /** Bytes of its key and its value, which is not made for that. */
  sizeOf(slot: number): number {
    const page = this.#pageOf(slot);
    const row = slot & slotMask;
    return page.keys[row]!.length + (page.values[row]?.length ?? 0);
  }

  /** As `Buffer.compare` of its value and another one; no more of it is looked at than the other one has. */
  compareValue(slot: number, other: Uint8Array): number {
    const text = this.#pageOf(slot).values[slot & slotMask]!;
    const length = Math.min(text.length, other.length);
    for (let at = 0; at < length; at += 1) {
      const difference = text.charCodeAt(at) - other[at]!;
      if (difference !== 0) return difference;
    }
    return text.length - other.length;
  }

  changeAt(slot: number): Change {
    return new TableChange(this.#pageOf(slot), slot & slotMask);
  }

  /** Null for a deletion. */
  liveAt(slot: number): LiveChange | null {
    return this.isLive(slot) ? (this.changeAt(slot) as LiveChange) : null;
  }

  #pageOf(slot: number): Page {
    return this.#pages[slot >>> pageBits]!;
  }

  #grow(): void {
    const first = this.#pages.length << pageBits;
    const page = new Page();
    this.#pages.push(page);
    for (let row = 0; row < pageSlots - 1; row += 1) page.subs[row] = first + row + 1;
    page.subs[slotMask] = none;
    this.#freeSlot = first;
  }
}

/** Memory and disk that a change is counted for. */
export function bytesOf({ key, value }: Pick<Change, 'key' | 'value'>): number {
  return key.length + (value?.length ?? 0) + kvLimits.changeOverheadBytes;
}

/** One character for each byte. */
function textOf(value: Uint8Array): string {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('latin1');
}
