/**
 * What was made of bytes that came before is known by these bytes, below what they belong to: resources, scopes, metrics and series of
 * OTLP, metrics of lines of JSON. What came before costs a comparison, mostly with the one that followed its predecessor last time.
 */
import type { Random } from '#lib/env/env.ts';

/** Words of an entry. */
const hashWord = 0;
const parentWord = 1;
const extraWord = 2;
const keyWord = 3;
const lengthWord = 4;
const nextWord = 5;
const slotsWord = 6;
const countWord = 7;
const entryWords = 8;

const entriesFirst = 1024;
const bytesFirst: number = 64 << 10;
/** Of hashes that meet at one place: what finds none is made anew each time. */
const probesMax = 64;

export class SeriesCache {
  readonly #bytesMax: number;
  readonly #seed: number;
  #table = new Uint32Array(2 * entriesFirst);
  #entries = new Uint32Array(entriesFirst * entryWords);
  #entryCount = 1;
  #keys = new Uint8Array(bytesFirst);
  #keysView = new DataView(this.#keys.buffer);
  #keysEnd = 0;
  /** Slots and generations in turns. */
  #slots = new Uint32Array(entriesFirst * 2);
  #slotsEnd = 0;
  #last = 0;
  #hash = 0;
  /** Where a new entry would stand; -1 for nowhere. */
  #place = -1;

  /** @param bytesMax of what is known, about */
  constructor(random: Pick<Random, 'u32'>, bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#seed = random.u32();
  }

  get bytes(): number {
    return this.#keys.length + 4 * (this.#table.length + this.#entries.length + this.#slots.length);
  }

  /** Forgets all when there is too much: entries hold until the next call. @returns whether it has */
  makeRoom(): boolean {
    const used = this.#keysEnd + 4 * (this.#entryCount * (entryWords + 2) + this.#slotsEnd);
    if (used < this.#bytesMax) return false;
    this.#table.fill(0);
    this.#entries.fill(0, 0, entryWords);
    this.#entryCount = 1;
    this.#keysEnd = 0;
    this.#slotsEnd = 0;
    this.#last = 0;
    return true;
  }

  /** A walk begins: what is asked for first followed nothing. */
  begin(): void {
    this.#last = 0;
  }

  /**
   * Entry of the bytes in [start, end) below `parent`; 0 when there is none, which `add` may make then.
   * @param extra what else tells it apart, a word
   */
  find(view: DataView, parent: number, extra: number, start: number, end: number): number {
    const length = end - start;
    const predicted = this.#entries[this.#last * entryWords + nextWord]!;
    if (predicted !== 0 && this.#is(predicted, view, parent, extra, start, length)) {
      this.#last = predicted;
      return predicted;
    }
    const hash = hashOf(view, start, length, this.#seed ^ Math.imul(parent, 0x85ebca6b) ^ extra);
    const mask = this.#table.length - 1;
    this.#hash = hash;
    this.#place = -1;
    for (let probe = 0, i = hash & mask; probe < probesMax; probe++, i = (i + 1) & mask) {
      const entry = this.#table[i]!;
      if (entry === 0) {
        this.#place = i;
        return 0;
      }
      if (this.#entries[entry * entryWords + hashWord] !== hash) continue;
      if (!this.#is(entry, view, parent, extra, start, length)) continue;
      this.#follow(entry);
      return entry;
    }
    return 0;
  }

  /**
   * End of the key, from `start` on, of the entry that followed the last one before, where that stands below `parent` and its
   * key is there; `last` is it then. 0 when it is not so.
   */
  predictedEnd(view: DataView, parent: number, start: number, end: number): number {
    const predicted = this.#entries[this.#last * entryWords + nextWord]!;
    const length = this.#entries[predicted * entryWords + lengthWord]!;
    if (predicted === 0 || length > end - start) return 0;
    if (!this.#is(predicted, view, parent, 0, start, length)) return 0;
    this.#last = predicted;
    return start + length;
  }

  /** Entry that was found, or added, last. */
  get last(): number {
    return this.#last;
  }

  /** Entry of what `find` has just not found. */
  add(view: DataView, parent: number, extra: number, start: number, end: number): number {
    const entry = this.#entryCount++;
    const at = entry * entryWords;
    if (at === this.#entries.length) this.#entries = grown(this.#entries, 2 * at);
    const length = end - start;
    this.#copyKey(view, start, length);
    const entries = this.#entries;
    entries[at + hashWord] = this.#hash;
    entries[at + parentWord] = parent;
    entries[at + extraWord] = extra;
    entries[at + keyWord] = this.#keysEnd;
    entries[at + lengthWord] = length;
    entries[at + nextWord] = 0;
    entries[at + countWord] = 0;
    this.#keysEnd += (length + 3) & ~3;
    if (this.#place >= 0) this.#table[this.#place] = entry;
    if (this.#entryCount * 2 > this.#table.length) this.#growTable();
    this.#follow(entry);
    return entry;
  }

  /** Room for the slots of the series of an entry, which `setSlot` says. */
  reserveSlots(entry: number, count: number): void {
    const at = entry * entryWords;
    if (this.#slotsEnd + 2 * count > this.#slots.length) {
      this.#slots = grown(this.#slots, 2 * (this.#slotsEnd + 2 * count));
    }
    this.#entries[at + slotsWord] = this.#slotsEnd;
    this.#entries[at + countWord] = count;
    // What stands there is of entries that are forgotten.
    this.#slots.fill(0, this.#slotsEnd, this.#slotsEnd + 2 * count);
    this.#slotsEnd += 2 * count;
  }

  slotCount(entry: number): number {
    return this.#entries[entry * entryWords + countWord]!;
  }

  setSlot(entry: number, index: number, slot: number, generation: number): void {
    const at = this.#entries[entry * entryWords + slotsWord]! + 2 * index;
    this.#slots[at] = slot;
    this.#slots[at + 1] = generation;
  }

  slot(entry: number, index: number): number {
    return this.#slots[this.#entries[entry * entryWords + slotsWord]! + 2 * index]!;
  }

  generation(entry: number, index: number): number {
    return this.#slots[this.#entries[entry * entryWords + slotsWord]! + 2 * index + 1]!;
  }

  #follow(entry: number): void {
    this.#entries[this.#last * entryWords + nextWord] = entry;
    this.#last = entry;
  }

  #is(
    entry: number,
    view: DataView,
    parent: number,
    extra: number,
    start: number,
    length: number,
  ): boolean {
    const entries = this.#entries;
    const at = entry * entryWords;
    if (entries[at + parentWord] !== parent || entries[at + lengthWord] !== length) return false;
    if (entries[at + extraWord] !== extra) return false;
    const keys = this.#keysView;
    let key = entries[at + keyWord]!;
    const words = start + (length & ~3);
    let i = start;
    for (; i < words; i += 4, key += 4) {
      if (view.getUint32(i, true) !== keys.getUint32(key, true)) return false;
    }
    for (const end = start + length; i < end; i++, key++) {
      if (view.getUint8(i) !== keys.getUint8(key)) return false;
    }
    return true;
  }

  #copyKey(view: DataView, start: number, length: number): void {
    const end = this.#keysEnd + ((length + 3) & ~3);
    if (end > this.#keys.length) {
      const larger = new Uint8Array(2 * end);
      larger.set(this.#keys);
      this.#keys = larger;
      this.#keysView = new DataView(larger.buffer);
    }
    this.#keys.set(new Uint8Array(view.buffer, view.byteOffset + start, length), this.#keysEnd);
  }

  #growTable(): void {
    const table = new Uint32Array(2 * this.#table.length);
    const mask = table.length - 1;
    for (let entry = 1; entry < this.#entryCount; entry++) {
      let i = this.#entries[entry * entryWords + hashWord]! & mask;
      let probe = 0;
      for (; probe < probesMax && table[i] !== 0; probe++) i = (i + 1) & mask;
      if (probe < probesMax) table[i] = entry;
    }
    this.#table = table;
  }
}

function grown(words: Uint32Array<ArrayBuffer>, length: number): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(length);
  larger.set(words);
  return larger;
}

function hashOf(view: DataView, start: number, length: number, seed: number): number {
  let hash = Math.imul(seed ^ length, 0x9e3779b1);
  const words = start + (length & ~3);
  let i = start;
  for (; i < words; i += 4) {
    hash = Math.imul(hash ^ view.getUint32(i, true), 0xcc9e2d51);
    hash = (hash << 15) | (hash >>> 17);
  }
  for (const end = start + length; i < end; i++) {
    hash = Math.imul(hash ^ view.getUint8(i), 0xcc9e2d51);
    hash = (hash << 15) | (hash >>> 17);
  }
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
