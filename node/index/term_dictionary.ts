/**
 * Terms: each (tag name, value) pair that a series has, interned once. A term's text is its piece of the
 * canonical layout (lib/tags.ts), so a pair of a new series is hashed and compared where it lies, and the
 * tags of a series are put together by copying texts.
 *
 *     text of a term    u16 name length | name | u16 value length | value
 *     field             a tag name with the list of its terms
 *
 * Terms and fields without series are removed and their numbers used again.
 */
import { assert } from '#lib/assert.ts';
import { OrdinalTable } from './ordinal_table.ts';
import { TextArena, viewOf } from './text_arena.ts';

/** A tag name. */
export interface Field {
  readonly name: string;
  /** Its terms in terms[0 .. termCount), in no order. */
  terms: Uint32Array;
  termCount: number;
  /** Grows with every removal of a term; a list of terms seen before is then worthless. */
  removals: number;
}

const textDecoder = new TextDecoder();

export class TermDictionary {
  #texts: TextArena;
  readonly #table: OrdinalTable;
  readonly #seed: number;
  #starts: Uint32Array;
  /** Bytes of the text; 0 marks a free term. */
  #lengths: Uint16Array;
  #fieldOfTerm: Uint32Array;
  #indexInField: Uint32Array;
  #termsEnd: number;
  readonly #freeTerms: number[];
  readonly #fields: (Field | null)[];
  readonly #freeFields: number[];
  readonly #fieldByName: Map<string, number>;
  #removals: number;

  constructor(seed: number) {
    this.#texts = new TextArena();
    this.#table = new OrdinalTable();
    this.#seed = seed;
    this.#starts = new Uint32Array(64);
    this.#lengths = new Uint16Array(64);
    this.#fieldOfTerm = new Uint32Array(64);
    this.#indexInField = new Uint32Array(64);
    this.#termsEnd = 0;
    this.#freeTerms = [];
    this.#fields = [];
    this.#freeFields = [];
    this.#fieldByName = new Map();
    this.#removals = 0;
  }

  /** Term whose text is bytes [start, end) of the view, or -1. */
  find(view: DataView, start: number, end: number): number {
    return this.#find(hashText(view, start, end, this.#seed), view, start, end);
  }

  #find(hash: number, view: DataView, start: number, end: number): number {
    const table = this.#table;
    for (let term = table.first(hash); term >= 0; term = table.next()) {
      if (this.isText(term, view, start, end)) return term;
    }
    return -1;
  }

  /** True when the term's text is bytes [start, end) of the view. */
  isText(term: number, view: DataView, start: number, end: number): boolean {
    const length = end - start;
    if (this.#lengths[term] !== length) return false;
    const page = this.#texts.viewOf(this.#starts[term]!);
    const at = this.#texts.positionOf(this.#starts[term]!);
    // The end first, for there texts differ most; a text has at least the four bytes of its lengths.
    const last = length - 4;
    if (page.getUint32(at + last, true) !== view.getUint32(start + last, true)) return false;
    for (let i = 0; i < last; i += 4) {
      if (page.getUint32(at + i, true) !== view.getUint32(start + i, true)) return false;
    }
    return true;
  }

  /**
   * Term whose text is bytes [start, end) of the view, made when there is none.
   * @throws {TsdbError} RESOURCE_EXHAUSTED
   */
  intern(view: DataView, start: number, end: number): number {
    const hash = hashText(view, start, end, this.#seed);
    const found = this.#find(hash, view, start, end);
    if (found >= 0) return found;
    const textStart = this.#texts.add(bytesOf(view, start, end), 0, end - start);
    const term = this.#freeTerms.pop() ?? this.#termsEnd++;
    if (term >= this.#starts.length) this.#growTerms();
    this.#starts[term] = textStart;
    this.#lengths[term] = end - start;
    this.#table.add(hash, term);
    this.#joinField(term, this.#fieldFor(view, start));
    return term;
  }

  #fieldFor(view: DataView, start: number): number {
    const nameLength = view.getUint16(start, true);
    const name = textDecoder.decode(bytesOf(view, start + 2, start + 2 + nameLength));
    const known = this.#fieldByName.get(name);
    if (known !== undefined) return known;
    const index = this.#freeFields.pop() ?? this.#fields.length;
    this.#fields[index] = {
      name,
      terms: new Uint32Array(4),
      termCount: 0,
      removals: ++this.#removals,
    };
    this.#fieldByName.set(name, index);
    return index;
  }

  #joinField(term: number, fieldIndex: number): void {
    const field = this.#fields[fieldIndex]!;
    if (field.termCount === field.terms.length) {
      const larger = new Uint32Array(2 * field.terms.length);
      larger.set(field.terms);
      field.terms = larger;
    }
    field.terms[field.termCount] = term;
    this.#fieldOfTerm[term] = fieldIndex;
    this.#indexInField[term] = field.termCount++;
  }

  #growTerms(): void {
    const size = 2 * this.#starts.length;
    const grow = (from: Uint32Array) => {
      const to = new Uint32Array(size);
      to.set(from);
      return to;
    };
    this.#starts = grow(this.#starts);
    this.#fieldOfTerm = grow(this.#fieldOfTerm);
    this.#indexInField = grow(this.#indexInField);
    const lengths = new Uint16Array(size);
    lengths.set(this.#lengths);
    this.#lengths = lengths;
  }

  /** Forgets a term that no series has; its number will be used again. */
  remove(term: number): void {
    assert(this.#lengths[term] !== 0, 'a removed term is in the dictionary');
    const page = this.#texts.viewOf(this.#starts[term]!);
    const start = this.#texts.positionOf(this.#starts[term]!);
    const length = this.#lengths[term]!;
    this.#table.remove(hashText(page, start, start + length, this.#seed), term);
    this.#texts.free(length);
    this.#leaveField(term);
    this.#lengths[term] = 0;
    this.#freeTerms.push(term);
  }

  #leaveField(term: number): void {
    const fieldIndex = this.#fieldOfTerm[term]!;
    const field = this.#fields[fieldIndex]!;
    const last = field.terms[--field.termCount]!;
    field.terms[this.#indexInField[term]!] = last;
    this.#indexInField[last] = this.#indexInField[term]!;
    field.removals = ++this.#removals;
    if (field.termCount > 0) return;
    this.#fieldByName.delete(field.name);
    this.#fields[fieldIndex] = null;
    this.#freeFields.push(fieldIndex);
  }

  /** Copies the texts into fresh pages when more than half of the pages are holes. */
  compactWhenWasteful(): void {
    if (!this.#texts.isWasteful) return;
    const fresh = new TextArena();
    for (let term = 0; term < this.#termsEnd; term++) {
      const length = this.#lengths[term]!;
      if (length === 0) continue;
      const page = this.#texts.pageOf(this.#starts[term]!);
      const start = this.#texts.positionOf(this.#starts[term]!);
      this.#starts[term] = fresh.add(page, start, start + length);
    }
    this.#texts = fresh;
  }

  /** Bytes of the term's text. */
  textLength(term: number): number {
    return this.#lengths[term]!;
  }

  /** Copies the term's text to `target` and returns the position behind it. */
  copyText(term: number, target: DataView, targetStart: number): number {
    const page = this.#texts.viewOf(this.#starts[term]!);
    const start = this.#texts.positionOf(this.#starts[term]!);
    const last = this.#lengths[term]! - 4;
    for (let i = 0; i < last; i += 4) {
      target.setUint32(targetStart + i, page.getUint32(start + i, true), true);
    }
    // The last word overlaps the one before.
    target.setUint32(targetStart + last, page.getUint32(start + last, true), true);
    return targetStart + last + 4;
  }

  /** Calls `test` with the bytes of the term's value. */
  testValue(
    term: number,
    test: (bytes: Uint8Array, start: number, end: number) => boolean,
  ): boolean {
    const page = this.#texts.pageOf(this.#starts[term]!);
    const start = this.#texts.positionOf(this.#starts[term]!);
    const nameLength = page[start]! | (page[start + 1]! << 8);
    return test(page, start + nameLength + 4, start + this.#lengths[term]!);
  }

  /** The term's value as text. */
  value(term: number): string {
    let text = '';
    this.testValue(term, (bytes, start, end) => {
      text = textDecoder.decode(bytes.subarray(start, end));
      return true;
    });
    return text;
  }

  fieldOfTerm(term: number): number {
    return this.#fieldOfTerm[term]!;
  }

  /** Index of the field with this name, or -1. */
  fieldIndex(name: string): number {
    return this.#fieldByName.get(name) ?? -1;
  }

  field(index: number): Field {
    return this.#fields[index]!;
  }

  /** Names of all fields with their index, in no order. */
  fieldNames(): IterableIterator<[string, number]> {
    return this.#fieldByName.entries();
  }

  /** Term of a name and value given as text, or -1. */
  findTerm(name: string, value: string): number {
    const nameBytes = Buffer.from(name);
    const valueBytes = Buffer.from(value);
    if (nameBytes.length > 0xffff || valueBytes.length > 0xffff) return -1;
    const text = Buffer.allocUnsafe(4 + nameBytes.length + valueBytes.length);
    text.writeUInt16LE(nameBytes.length, 0);
    text.set(nameBytes, 2);
    text.writeUInt16LE(valueBytes.length, 2 + nameBytes.length);
    text.set(valueBytes, 4 + nameBytes.length);
    return this.find(viewOf(text), 0, text.length);
  }

  /** All terms are below this number. */
  get termsEnd(): number {
    return this.#termsEnd;
  }

  get termCount(): number {
    return this.#termsEnd - this.#freeTerms.length;
  }

  get textBytes(): number {
    return this.#texts.memoryBytes;
  }

  /** Without the texts. */
  get memoryBytes(): number {
    let bytes = this.#table.memoryBytes + this.#freeTerms.length * 8;
    bytes += this.#starts.byteLength + this.#lengths.byteLength;
    bytes += this.#fieldOfTerm.byteLength + this.#indexInField.byteLength;
    for (const field of this.#fields) if (field !== null) bytes += field.terms.byteLength + 64;
    return bytes;
  }
}

/** Seeded hash of bytes[start, end): four bytes a step, mixed by multiplication and rotation. */
export function hashBytes(bytes: Uint8Array, start: number, end: number, seed: number): number {
  let h = (seed ^ Math.imul(end - start, 0x9e3779b1)) | 0;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    const word =
      bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    h = mix(h, word);
  }
  let tail = 0;
  for (; at < end; at++) tail = (tail << 8) | bytes[at]!;
  return finish(mix(h, tail));
}

function bytesOf(view: DataView, start: number, end: number): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset + start, end - start);
}

/** Seeded hash of a text of at least four bytes; the last word overlaps the one before. */
function hashText(view: DataView, start: number, end: number, seed: number): number {
  const last = end - 4;
  let h = mix(seed ^ (end - start), view.getUint32(last, true));
  for (let at = start; at < last; at += 4) h = mix(h, view.getUint32(at, true));
  return finish(h);
}

/** One step of the hash. */
export function mix(hash: number, word: number): number {
  let k = Math.imul(word, 0xcc9e2d51);
  k = (k << 15) | (k >>> 17);
  const h = hash ^ Math.imul(k, 0x1b873593);
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

/** Spreads the hash over all bits; u32. */
export function finish(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
