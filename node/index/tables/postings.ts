/**
 * Postings: for each list (a term, or a tag name) the slots of its series, sorted. A list takes
 * the form that is smallest for it:
 *
 *     single   the slot itself
 *     array    sorted u32 in a block of the shared arena (capacities 2 … 1024), larger ones on their own
 *     bits     one bit a slot, once that is no larger than an array: 1/32 of all slots
 *
 * So a label with a handful of values costs an eighth of a byte a series and value, not four bytes.
 */
import { assert } from '#lib/assert.ts';

const formEmpty = 0;
const formSingle = 1;
const formBits = 254;
const formLarge = 255;
/** Forms from here on are arena arrays of capacity `capacities[form - formArray]`. */
const formArray = 2;

const capacities: readonly number[] = [
  2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
];
const capacityMax = 1024;
/** Shorter lists stay arrays, whatever the number of slots. */
const bitsCountMin = 128;

const rowWords = 4;
const rowPageBits = 12;
const rowMask = (1 << rowPageBits) - 1;
const firstPageBits = 6;

const pageBits = 16;
const pageWords = 1 << pageBits;
const pageMask = pageWords - 1;

export class PostingsStore {
  /**
   * By list three words side by side, in pages: how many slots, the form, and by form the
   * slot, the offset in the arena, or the index in #large.
   */
  readonly #rows: Uint32Array[];
  /** Rows are below this. */
  #listsEnd: number;
  readonly #pages: Uint32Array[];
  #pageUsed: number;
  /** For each capacity the offset + 1 of a free block, whose first word holds the next one's. */
  readonly #freeBlocks: Uint32Array;
  readonly #large: (Uint32Array | null)[];
  readonly #freeLarge: number[];
  #slotsEnd: number;
  #largeBytes: number;

  constructor() {
    this.#rows = [new Uint32Array(rowWords << firstPageBits)];
    this.#listsEnd = 1 << firstPageBits;
    this.#pages = [];
    this.#pageUsed = pageWords;
    this.#freeBlocks = new Uint32Array(capacities.length);
    this.#large = [];
    this.#freeLarge = [];
    this.#slotsEnd = 0;
    this.#largeBytes = 0;
  }

  /** Number of slots in the list; 0 for a list that was never used. */
  count(list: number): number {
    return list < this.#listsEnd ? this.#countOf(list) : 0;
  }

  /** Adds a slot that the list does not hold. Ascending order is the cheap one. */
  add(list: number, slot: number): void {
    if (list >= this.#listsEnd) this.#growLists(list);
    if (slot >= this.#slotsEnd) this.#slotsEnd = slot + 1;
    const rows = this.#rows[list >>> rowPageBits]!;
    const row = (list & rowMask) << 2;
    const form = rows[row + 1]!;
    if (form === formBits) {
      const words = this.#large[rows[row + 2]!]!;
      const word = slot >>> 5;
      if (word < words.length) {
        const before = words[word]!;
        const bit = 1 << (slot & 31);
        assert((before & bit) === 0, 'a slot is added to a list once');
        words[word] = before | bit;
        rows[row]!++;
      } else this.#growBits(list, slot);
    } else if (form === formEmpty) {
      rows[row] = 1;
      rows[row + 1] = formSingle;
      rows[row + 2] = slot;
    } else {
      this.#addToArray(list, slot);
    }
  }

  #addToArray(list: number, slot: number): void {
    const count = this.#countOf(list);
    if (count === this.#capacity(list) && this.#grow(list)) {
      this.add(list, slot);
      return;
    }
    const rows = this.#rows[list >>> rowPageBits]!;
    const row = (list & rowMask) << 2;
    const handle = rows[row + 2]!;
    let words: Uint32Array;
    let start = 0;
    if (rows[row + 1] === formLarge) {
      words = this.#large[handle]!;
    } else {
      words = this.#pages[handle >>> pageBits]!;
      start = handle & pageMask;
    }
    const end = start + count;
    if (words[end - 1]! < slot) {
      words[end] = slot;
    } else {
      const at = lowerBound(words, start, end, slot);
      assert(words[at] !== slot, 'a slot is added to a list once');
      words.copyWithin(at + 1, at, end);
      words[at] = slot;
    }
    rows[row] = count + 1;
  }

  /**
   * Makes bits reach to the slot and adds it, or makes the list an array when that is smaller
   * now.
   */
  #growBits(list: number, slot: number): void {
    const words = this.#large[this.#handleOf(list)]!;
    const count = this.#countOf(list);
    const size = Math.max(wordsFor(slot + 1), this.#wordsWithSlack(list));
    if (count < size >>> 1) {
      this.#setArray(list, enumerateBits(words, count), count + 1);
    } else {
      const larger = new Uint32Array(size);
      larger.set(words);
      this.#replaceLarge(this.#handleOf(list), larger);
    }
    this.add(list, slot);
  }

  #capacity(list: number): number {
    const form = this.#formOf(list);
    if (form === formSingle) return 1;
    if (form === formLarge) return this.#large[this.#handleOf(list)]!.length;
    return capacities[form - formArray]!;
  }

  /** Makes room for one more in an array; true when the list became bits instead. */
  #grow(list: number): boolean {
    const count = this.#countOf(list);
    if (this.#isBetterAsBits(count)) {
      this.#toBits(list);
      return true;
    }
    const form = this.#formOf(list);
    if (form === formLarge || count + 1 > capacityMax) {
      this.#setArray(list, this.toArray(list), count + 1);
      return false;
    }
    // From block to block, without an array in between: lists of a few slots are by far the
    // most.
    const handle = this.#handleOf(list);
    const size = form === formSingle ? 0 : form - formArray + 1;
    const offset = this.#takeBlock(size);
    const page = this.#pages[offset >>> pageBits]!;
    const start = offset & pageMask;
    if (form === formSingle) {
      page[start] = handle;
    } else {
      const from = this.#pages[handle >>> pageBits]!;
      const fromStart = handle & pageMask;
      for (let i = 0; i < count; i++) page[start + i] = from[fromStart + i]!;
      from[fromStart] = this.#freeBlocks[form - formArray]!;
      this.#freeBlocks[form - formArray] = handle + 1;
    }
    this.#setForm(list, formArray + size, offset);
    return false;
  }

  /** Makes the list an array of these values, with room for at least `room` of them. */
  #setArray(list: number, values: Uint32Array, room: number): void {
    this.#release(list);
    if (room > capacityMax) {
      const words = new Uint32Array(Math.ceil(room * 1.25));
      words.set(values);
      this.#setForm(list, formLarge, this.#takeLarge(words));
      return;
    }
    let size = 0;
    while (capacities[size]! < room) size++;
    const offset = this.#takeBlock(size);
    const page = this.#pages[offset >>> pageBits]!;
    for (let i = 0; i < values.length; i++) page[(offset & pageMask) + i] = values[i]!;
    this.#setForm(list, formArray + size, offset);
  }

  #takeBlock(size: number): number {
    const free = this.#freeBlocks[size]!;
    if (free !== 0) {
      const offset = free - 1;
      this.#freeBlocks[size] = this.#pages[offset >>> pageBits]![offset & pageMask]!;
      return offset;
    }
    const capacity = capacities[size]!;
    if (capacity > pageWords - this.#pageUsed) {
      this.#pages.push(new Uint32Array(pageWords));
      this.#pageUsed = 0;
    }
    const offset = (this.#pages.length - 1) * pageWords + this.#pageUsed;
    this.#pageUsed += capacity;
    return offset;
  }

  #takeLarge(words: Uint32Array): number {
    this.#largeBytes += words.byteLength;
    const index = this.#freeLarge.pop() ?? this.#large.length;
    this.#large[index] = words;
    return index;
  }

  #replaceLarge(index: number, words: Uint32Array): void {
    this.#largeBytes += words.byteLength - this.#large[index]!.byteLength;
    this.#large[index] = words;
  }

  /** Gives the list's memory back; its form must be set anew. */
  #release(list: number): void {
    const form = this.#formOf(list);
    const handle = this.#handleOf(list);
    if (form === formBits || form === formLarge) {
      this.#largeBytes -= this.#large[handle]!.byteLength;
      this.#large[handle] = null;
      this.#freeLarge.push(handle);
    } else if (form >= formArray) {
      this.#pages[handle >>> pageBits]![handle & pageMask] = this.#freeBlocks[form - formArray]!;
      this.#freeBlocks[form - formArray] = handle + 1;
    }
  }

  /** The first page begins small, so that an empty namespace costs little. */
  #growLists(list: number): void {
    const rows = this.#rows;
    const first = rows[0]!;
    if (first.length < rowWords << rowPageBits) {
      let { length } = first;
      while (length <= list * rowWords && length < rowWords << rowPageBits) length *= 2;
      rows[0] = new Uint32Array(length);
      rows[0].set(first);
      this.#listsEnd = length / rowWords;
    }
    while (this.#listsEnd <= list) {
      rows.push(new Uint32Array(rowWords << rowPageBits));
      this.#listsEnd += 1 << rowPageBits;
    }
  }

  #countOf(list: number): number {
    return this.#rows[list >>> rowPageBits]![(list & rowMask) << 2]!;
  }

  #formOf(list: number): number {
    return this.#rows[list >>> rowPageBits]![((list & rowMask) << 2) + 1]!;
  }

  #handleOf(list: number): number {
    return this.#rows[list >>> rowPageBits]![((list & rowMask) << 2) + 2]!;
  }

  #setCount(list: number, count: number): void {
    this.#rows[list >>> rowPageBits]![(list & rowMask) << 2] = count;
  }

  #setForm(list: number, form: number, handle: number): void {
    const rows = this.#rows[list >>> rowPageBits]!;
    const row = (list & rowMask) << 2;
    rows[row + 1] = form;
    rows[row + 2] = handle;
  }

  /**
   * Removes from the list all slots whose bit is set, and shrinks it to the form that fits.
   * @param bits as long as all slots of the list
   * @param slots the same slots: when they are few, a list of bits is not walked whole
   */
  removeAll(list: number, bits: Uint32Array, slots: Uint32Array): void {
    const form = this.#formOf(list);
    const handle = this.#handleOf(list);
    if (form === formEmpty) return;
    if (form === formBits) {
      const words = this.#large[handle]!;
      const isFew = slots.length < words.length;
      const removed = isFew ? clearSlots(words, slots) : clearWords(words, bits);
      const count = this.#countOf(list) - removed;
      this.#setCount(list, count);
      if (count < words.length >>> 1) this.#settle(list, enumerateBits(words, count));
    } else if (form === formSingle) {
      if (hasBit(bits, handle)) this.#settle(list, noSlots);
    } else {
      const isLarge = form === formLarge;
      const words = isLarge ? this.#large[handle]! : this.#pages[handle >>> pageBits]!;
      const start = isLarge ? 0 : handle & pageMask;
      const kept = keepOthers(words, start, start + this.#countOf(list), bits);
      this.#setCount(list, kept);
      if (kept < 2 || kept * 2 < this.#capacity(list)) {
        this.#settle(list, words.slice(start, start + kept));
      }
    }
  }

  /** Gives an empty list these values, which are sorted and copied. */
  load(list: number, values: Uint32Array): void {
    if (list >= this.#listsEnd) this.#growLists(list);
    if (values.length === 0) return;
    const end = values[values.length - 1]! + 1;
    if (end > this.#slotsEnd) this.#slotsEnd = end;
    this.#settle(list, values);
    if (this.#formOf(list) === formLarge && this.#isBetterAsBits(values.length)) this.#toBits(list);
  }

  /** Says before lists are loaded how far slots will reach, by which their forms are chosen. */
  expectSlots(slotsEnd: number): void {
    if (slotsEnd > this.#slotsEnd) this.#slotsEnd = slotsEnd;
  }

  /**
   * Gives an empty list the slots of these bits, which are copied. @param count how many are set
   */
  loadBits(list: number, bits: Uint32Array, count: number): void {
    if (list >= this.#listsEnd) this.#growLists(list);
    if (!this.#isBetterAsBits(count)) {
      this.load(list, enumerateBits(bits, count));
      return;
    }
    const words = new Uint32Array(Math.max(bits.length, this.#bitsWords));
    words.set(bits);
    this.#setCount(list, count);
    this.#setForm(list, formBits, this.#takeLarge(words));
  }

  /** Words of a new list of bits: some more than are needed now. */
  get #bitsWords(): number {
    return wordsFor(Math.ceil(this.#slotsEnd * 1.25));
  }

  /**
   * The same, more or less by list: a hundred lists that grow at the same slot would be one long
   * stretch.
   */
  #wordsWithSlack(list: number): number {
    return wordsFor(Math.ceil(this.#slotsEnd * (1.125 + (list & 15) / 64)));
  }

  #isBetterAsBits(count: number): boolean {
    return count >= bitsCountMin && count >= this.#bitsWords;
  }

  #toBits(list: number): void {
    const bits = new Uint32Array(this.#wordsWithSlack(list));
    this.orInto(list, bits);
    this.#release(list);
    this.#setForm(list, formBits, this.#takeLarge(bits));
  }

  /** Bytes that the list takes beside its row in the columns. */
  bytesOf(list: number): number {
    if (list >= this.#listsEnd) return 0;
    const form = this.#formOf(list);
    if (form < formArray) return 0;
    if (form >= formBits) return this.#large[this.#handleOf(list)]!.byteLength;
    return 4 * capacities[form - formArray]!;
  }

  /** Gives the list exactly these values, which are a copy. */
  #settle(list: number, values: Uint32Array): void {
    this.#setCount(list, values.length);
    if (values.length > 1) {
      this.#setArray(list, values, values.length);
      return;
    }
    this.#release(list);
    this.#setForm(
      list,
      values.length === 0 ? formEmpty : formSingle,
      values.length === 0 ? 0 : values[0]!,
    );
  }

  /** The bits of the list, borrowed until the next change; null when the list has another form. */
  bitsOf(list: number): Uint32Array | null {
    if (list >= this.#listsEnd || this.#formOf(list) !== formBits) return null;
    return this.#large[this.#handleOf(list)]!;
  }

  /** Sorted slots, borrowed until the next change; null when the list is bits. */
  arrayOf(list: number): Uint32Array | null {
    if (list >= this.#listsEnd) return new Uint32Array(0);
    const form = this.#formOf(list);
    const handle = this.#handleOf(list);
    const count = this.#countOf(list);
    if (form === formBits) return null;
    if (form === formEmpty) return new Uint32Array(0);
    if (form === formSingle) return Uint32Array.of(handle);
    if (form === formLarge) return this.#large[handle]!.subarray(0, count);
    const start = handle & pageMask;
    return this.#pages[handle >>> pageBits]!.subarray(start, start + count);
  }

  /** A copy of the sorted slots. */
  toArray(list: number): Uint32Array {
    const bits = this.bitsOf(list);
    if (bits !== null) return enumerateBits(bits, this.#countOf(list));
    return this.arrayOf(list)!.slice();
  }

  /** Sets the bit of each slot; `words` reaches over all of them. */
  orInto(list: number, words: Uint32Array): void {
    if (list >= this.#listsEnd) return;
    const form = this.#formOf(list);
    const handle = this.#handleOf(list);
    if (form === formBits) {
      const bits = this.#large[handle]!;
      const length = Math.min(bits.length, words.length);
      for (let i = 0; i < length; i++) words[i]! |= bits[i]!;
    } else if (form === formSingle) {
      words[handle >>> 5]! |= 1 << (handle & 31);
    } else if (form !== formEmpty) {
      const isLarge = form === formLarge;
      const values = isLarge ? this.#large[handle]! : this.#pages[handle >>> pageBits]!;
      const start = isLarge ? 0 : handle & pageMask;
      const end = start + this.#countOf(list);
      for (let i = start; i < end; i++) words[values[i]! >>> 5]! |= 1 << (values[i]! & 31);
    }
  }

  /** True when a slot of the list has its bit set; ends at the first one. */
  intersects(list: number, words: Uint32Array): boolean {
    const bits = this.bitsOf(list);
    if (bits !== null) {
      const length = Math.min(bits.length, words.length);
      for (let i = 0; i < length; i++) if ((bits[i]! & words[i]!) !== 0) return true;
      return false;
    }
    if (list < this.#listsEnd && this.#formOf(list) === formSingle) {
      return hasBit(words, this.#handleOf(list));
    }
    const values = this.arrayOf(list)!;
    for (let i = 0; i < values.length; i++) if (hasBit(words, values[i]!)) return true;
    return false;
  }

  get memoryBytes(): number {
    let lists = 0;
    for (const rows of this.#rows) lists += rows.byteLength;
    return lists + this.#pages.length * pageWords * 4 + this.#largeBytes;
  }
}

const noSlots = new Uint32Array(0);

/** Clears the bits of these slots. @returns how many were set */
function clearSlots(words: Uint32Array, slots: Uint32Array): number {
  let cleared = 0;
  for (let i = 0; i < slots.length; i++) {
    const word = slots[i]! >>> 5;
    const bit = 1 << (slots[i]! & 31);
    if (word < words.length && (words[word]! & bit) !== 0) {
      words[word]! &= ~bit;
      cleared++;
    }
  }
  return cleared;
}

/** Clears the set bits of another bitset. @returns how many were set in both */
function clearWords(words: Uint32Array, bits: Uint32Array): number {
  const length = Math.min(words.length, bits.length);
  let cleared = 0;
  for (let i = 0; i < length; i++) {
    const both = words[i]! & bits[i]!;
    if (both === 0) continue;
    words[i]! ^= both;
    cleared += bitCount(both);
  }
  return cleared;
}

/**
 * Moves the values of words[start, end) whose bit is not set together. @returns how many they are
 */
function keepOthers(words: Uint32Array, start: number, end: number, bits: Uint32Array): number {
  let at = start;
  for (let i = start; i < end; i++) {
    const value = words[i]!;
    if (hasBit(bits, value)) continue;
    words[at++] = value;
  }
  return at - start;
}

/** Number of set bits of a word. */
export function bitCount(word: number): number {
  let bits = word - ((word >>> 1) & 0x55555555);
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** Words of 32 bits that hold this many bits. */
export function wordsFor(bitCount: number): number {
  return (bitCount + 31) >>> 5;
}

/** False also beyond the end. */
export function hasBit(words: Uint32Array, slot: number): boolean {
  const word = slot >>> 5;
  return word < words.length && (words[word]! & (1 << (slot & 31))) !== 0;
}

/** Index of the first value in words[start, end) that is at least `value`; `end` when none is. */
export function lowerBound(words: Uint32Array, start: number, end: number, value: number): number {
  let low = start;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (words[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Slots whose bits are set, ascending. @param count how many there are, or more */
export function enumerateBits(words: Uint32Array, count: number): Uint32Array {
  const values = new Uint32Array(count);
  let found = 0;
  for (let i = 0; i < words.length && found < count; i++) {
    let word = words[i]!;
    while (word !== 0 && found < count) {
      const low = word & -word;
      values[found++] = i * 32 + (31 - Math.clz32(low));
      word ^= low;
    }
  }
  return found === count ? values : values.slice(0, found);
}
