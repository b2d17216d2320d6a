/**
 * Terms: each (tag name, value) pair that a series has, interned once. A term's text is its piece
 * of the canonical layout (lib/tags.ts), so a pair of a new series is hashed and compared where it
 * lies, and the tags of a series are put together by copying texts.
 *
 *     text of a term    u16 name length | name | u16 value length | value
 *     field             a tag name with the list of its terms
 *
 * Terms and fields without series are removed and their numbers used again.
 */
import { assert } from '#lib/assert.ts';
import { OrdinalTable } from './ordinal_table.ts';
import { TextArena, viewOf } from './text_arena.ts';

const rowWords = 4;
const rowPageBits = 12;
const rowMask = (1 << rowPageBits) - 1;
const firstPageBits = 6;
/** Words of a row after the start of the text. */
const lengthWord = 1;
const fieldWord = 2;
const positionWord = 3;

/**
 * Bytes of a term in the columns (16), its place in the list of its field (4), two pairs of the
 * hash table.
 */
const termRowBytes = 36;
/** Of a field beside its list: object, name, and its entry in the map. */
const fieldBytesAbout = 160;

/** A tag name. */
export interface Field {
  readonly name: string;
  /**
   * Its terms in terms[0 .. positionsEnd), in the order in which they came; `noTerm` where one was
   * removed. A position is not used again before the next compaction, so what is known of a
   * position stays true.
   */
  terms: Uint32Array;
  positionsEnd: number;
  termCount: number;
  /** Another number after each compaction. */
  compaction: number;
  /** The name is empty or holds '=': IDs of the quoted scheme do not tell such tags. */
  readonly isOdd: boolean;
}

/** Marks in the terms of a field where one was removed. */
export const noTerm = 0xffffffff;

/** Terms that one step of a compaction looks at. */
const compactionStepTerms = 16_384;

/** Fields with fewer positions are not compacted. */
const compactedPositionsMin = 64;

/** Keeps a mark of the byte order, so that names with and without one stay apart. */
const textDecoder = new TextDecoder('utf-8', { ignoreBOM: true });

export class TermDictionary {
  readonly #texts: TextArena;
  readonly #table: OrdinalTable;
  readonly #seed: number;
  /**
   * By term four words side by side, in pages: start of the text, its bytes (0 marks a free term),
   * field, position in the field. One line of the cache has all that a comparison needs, and more
   * terms copy nothing.
   */
  readonly #rows: Uint32Array[];
  #termsEnd: number;
  readonly #freeTerms: number[];
  readonly #fields: (Field | null)[];
  readonly #freeFields: number[];
  readonly #fieldByName: Map<string, number>;
  #compactions: number;
  #oddNames: number;
  /** Of all fields: asked after each lot of writes, when there may be millions of them. */
  #fieldBytes: number;
  /** Terms that were removed so far: while it stays, a number of a term means what it did. */
  removals = 0;
  /** Fields that came and went so far: while it stays, their names are the same. */
  fieldsRevision = 0;

  constructor(seed: number) {
    this.#texts = new TextArena();
    this.#table = new OrdinalTable();
    this.#seed = seed;
    this.#rows = [new Uint32Array(rowWords << firstPageBits)];
    this.#termsEnd = 0;
    this.#freeTerms = [];
    this.#fields = [];
    this.#freeFields = [];
    this.#fieldByName = new Map();
    this.#compactions = 0;
    this.#oddNames = 0;
    this.#fieldBytes = 0;
  }

  /** Term whose text is bytes [start, end) of the view, or -1. */
  find(view: DataView, start: number, end: number): number {
    return this.findHashed(this.hash(view, start, end), view, start, end);
  }

  /** Hash of a text, for `findHashed` and `internHashed`. */
  hash(view: DataView, start: number, end: number): number {
    return hashText(view, start, end, this.#seed);
  }

  /** `find` with the text's hash. */
  findHashed(hash: number, view: DataView, start: number, end: number): number {
    const table = this.#table;
    for (let term = table.first(hash); term >= 0; term = table.next()) {
      if (this.isText(term, view, start, end)) return term;
    }
    return -1;
  }

  /** True when the term's text is bytes [start, end) of the view. */
  isText(term: number, view: DataView, start: number, end: number): boolean {
    const length = end - start;
    const rows = this.#rows[term >>> rowPageBits]!;
    const row = (term & rowMask) << 2;
    if (rows[row + lengthWord] !== length) return false;
    const textStart = rows[row]!;
    const page = this.#texts.viewOf(textStart);
    const at = this.#texts.positionOf(textStart);
    // The end first, for there texts differ most; a text has at least the four bytes of its
    // lengths.
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
    return this.internHashed(this.hash(view, start, end), view, start, end);
  }

  /** `intern` with the text's hash. */
  internHashed(hash: number, view: DataView, start: number, end: number): number {
    const found = this.findHashed(hash, view, start, end);
    if (found >= 0) return found;
    const textStart = this.#texts.add(bytesOf(view, start, end), 0, end - start);
    const term = this.#freeTerms.pop() ?? this.#termsEnd++;
    this.#reserveRows(term + 1);
    this.#setText(term, textStart, end - start);
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
    this.#fields[index] = this.#newField(name);
    this.#fieldByName.set(name, index);
    return index;
  }

  #newField(name: string): Field {
    const isOdd = name === '' || name.includes('=');
    if (isOdd) this.#oddNames++;
    this.fieldsRevision++;
    const terms = new Uint32Array(4);
    this.#fieldBytes += fieldBytesAbout + terms.byteLength;
    return {
      name,
      terms,
      positionsEnd: 0,
      termCount: 0,
      compaction: ++this.#compactions,
      isOdd,
    };
  }

  #joinField(term: number, fieldIndex: number): void {
    const field = this.#fields[fieldIndex]!;
    if (field.positionsEnd === field.terms.length) {
      const larger = new Uint32Array(2 * field.terms.length);
      larger.set(field.terms);
      this.#fieldBytes += larger.byteLength - field.terms.byteLength;
      field.terms = larger;
    }
    field.terms[field.positionsEnd] = term;
    field.termCount++;
    const rows = this.#rows[term >>> rowPageBits]!;
    const row = (term & rowMask) << 2;
    rows[row + fieldWord] = fieldIndex;
    rows[row + positionWord] = field.positionsEnd++;
  }

  /** The first page begins small, so that an empty namespace costs little. */
  #reserveRows(termsEnd: number): void {
    const rows = this.#rows;
    const first = rows[0]!;
    if (termsEnd * rowWords > first.length && first.length < rowWords << rowPageBits) {
      let { length } = first;
      while (length < termsEnd * rowWords && length < rowWords << rowPageBits) length *= 2;
      rows[0] = new Uint32Array(length);
      rows[0].set(first);
    }
    while (rows.length << rowPageBits < termsEnd) {
      rows.push(new Uint32Array(rowWords << rowPageBits));
    }
  }

  #setText(term: number, start: number, length: number): void {
    const rows = this.#rows[term >>> rowPageBits]!;
    const row = (term & rowMask) << 2;
    rows[row] = start;
    rows[row + lengthWord] = length;
  }

  #startOf(term: number): number {
    return this.#rows[term >>> rowPageBits]![(term & rowMask) << 2]!;
  }

  /** Makes room for terms that are loaded, up to this number. */
  reserve(termsEnd: number): void {
    this.#reserveRows(termsEnd);
    this.#table.reserve(termsEnd - this.#termsEnd);
    this.#termsEnd = termsEnd;
  }

  /**
   * Takes texts of terms that lie one after the other; `loadTerm` tells whose they are.
   * @returns offset of the first one
   * @throws {TsdbError} RESOURCE_EXHAUSTED
   */
  loadTexts(texts: Uint8Array): number {
    return this.#texts.addMany(texts);
  }

  /**
   * Gives a reserved number its text, which `loadTexts` took.
   * @returns false when the text is no pair of a name and a value, or another term has it
   */
  loadTerm(term: number, textStart: number, length: number): boolean {
    const page = this.#texts.viewOf(textStart);
    const start = this.#texts.positionOf(textStart);
    if (!isPair(page, start, length)) return false;
    const hash = hashText(page, start, start + length, this.#seed);
    if (this.findHashed(hash, page, start, start + length) >= 0) return false;
    this.#setText(term, textStart, length);
    this.#table.add(hash, term);
    return true;
  }

  /** Says that a text that `loadTexts` took belongs to no term. */
  dropText(textStart: number, length: number): void {
    this.#texts.free(textStart, length);
  }

  /**
   * Puts a loaded term into the field with this number. @returns false when its text has another
   * name
   */
  loadField(term: number, fieldIndex: number, nameBytes: Uint8Array): boolean {
    const page = this.#texts.pageOf(this.#startOf(term));
    const start = this.#texts.positionOf(this.#startOf(term));
    if ((page[start]! | (page[start + 1]! << 8)) !== nameBytes.length) return false;
    for (let i = 0; i < nameBytes.length; i++) {
      if (page[start + 2 + i] !== nameBytes[i]) return false;
    }
    if (this.#fields[fieldIndex] === undefined || this.#fields[fieldIndex] === null) {
      const name = textDecoder.decode(nameBytes);
      if (this.#fieldByName.has(name)) return false;
      while (this.#fields.length < fieldIndex) this.#fields.push(null);
      this.#fields[fieldIndex] = this.#newField(name);
      this.#fieldByName.set(name, fieldIndex);
    }
    this.#joinField(term, fieldIndex);
    return true;
  }

  /** Numbers that no loaded term has will be given to new ones. */
  endLoading(): void {
    for (let term = this.#termsEnd - 1; term >= 0; term--) {
      if (this.textLength(term) === 0) this.#freeTerms.push(term);
    }
    for (let index = this.#fields.length - 1; index >= 0; index--) {
      if (this.#fields[index] === null) this.#freeFields.push(index);
    }
  }

  /** Forgets a term that no series has; its number will be used again. */
  remove(term: number): void {
    this.removals += 1;
    assert(this.textLength(term) !== 0, 'a removed term is in the dictionary');
    const page = this.#texts.viewOf(this.#startOf(term));
    const start = this.#texts.positionOf(this.#startOf(term));
    const length = this.textLength(term);
    this.#table.remove(hashText(page, start, start + length, this.#seed), term);
    this.#texts.free(this.#startOf(term), length);
    this.#leaveField(term);
    this.#setText(term, 0, 0);
    this.#freeTerms.push(term);
  }

  #leaveField(term: number): void {
    const fieldIndex = this.fieldOfTerm(term);
    const field = this.#fields[fieldIndex]!;
    field.terms[this.#rows[term >>> rowPageBits]![((term & rowMask) << 2) + positionWord]!] =
      noTerm;
    field.termCount--;
    if (field.termCount === 0) {
      if (field.isOdd) this.#oddNames--;
      this.fieldsRevision++;
      this.#fieldBytes -= fieldBytesAbout + field.terms.byteLength;
      this.#fieldByName.delete(field.name);
      this.#fields[fieldIndex] = null;
      this.#freeFields.push(fieldIndex);
    } else if (
      field.positionsEnd > compactedPositionsMin &&
      field.termCount * 2 < field.positionsEnd
    ) {
      this.#compact(field);
    }
  }

  #compact(field: Field): void {
    const terms = new Uint32Array(Math.ceil(field.termCount * 1.25));
    let end = 0;
    for (let i = 0; i < field.positionsEnd; i++) {
      const term = field.terms[i]!;
      if (term === noTerm) continue;
      this.#rows[term >>> rowPageBits]![((term & rowMask) << 2) + positionWord] = end;
      terms[end++] = term;
    }
    this.#fieldBytes += terms.byteLength - field.terms.byteLength;
    field.terms = terms;
    field.positionsEnd = end;
    field.compaction = ++this.#compactions;
  }

  /**
   * Moves texts together when more than half of their pages is holes. Each step takes some
   * milliseconds at most; between two of them terms may come and go.
   */
  *compaction(): Generator<void, void, void> {
    if (!this.#texts.beginCompaction()) return;
    for (let term = 0; term < this.#termsEnd; term++) {
      const length = this.textLength(term);
      if (length !== 0) {
        this.#setText(term, this.#texts.moved(this.#startOf(term), length), length);
      }
      if (term % compactionStepTerms === compactionStepTerms - 1) yield;
    }
  }

  /** Bytes of the term's text. */
  textLength(term: number): number {
    return this.#rows[term >>> rowPageBits]![((term & rowMask) << 2) + lengthWord]!;
  }

  /** Copies the term's text to `target` and returns the position after it. */
  copyText(term: number, target: DataView, targetStart: number): number {
    const rows = this.#rows[term >>> rowPageBits]!;
    const row = (term & rowMask) << 2;
    const textStart = rows[row]!;
    const page = this.#texts.viewOf(textStart);
    const start = this.#texts.positionOf(textStart);
    const last = rows[row + lengthWord]! - 4;
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
    const page = this.#texts.pageOf(this.#startOf(term));
    const start = this.#texts.positionOf(this.#startOf(term));
    const nameLength = page[start]! | (page[start + 1]! << 8);
    return test(page, start + nameLength + 4, start + this.textLength(term));
  }

  /** Bytes of the term's value. */
  valueLength(term: number): number {
    const start = this.#startOf(term);
    const nameLength = this.#texts.viewOf(start).getUint16(this.#texts.positionOf(start), true);
    return this.textLength(term) - nameLength - 4;
  }

  /** The term's value as text. */
  value(term: number): string {
    const start = this.#texts.positionOf(this.#startOf(term));
    const page = this.#texts.bufferOf(this.#startOf(term));
    const valueStart = start + 4 + page.readUInt16LE(start);
    return page.toString('utf8', valueStart, start + this.textLength(term));
  }

  /** Bytes of the term's value; a copy. */
  valueBytes(term: number): Uint8Array {
    const page = this.#texts.pageOf(this.#startOf(term));
    const start = this.#texts.positionOf(this.#startOf(term));
    const nameLength = page[start]! | (page[start + 1]! << 8);
    return page.slice(start + nameLength + 4, start + this.textLength(term));
  }

  fieldOfTerm(term: number): number {
    return this.#rows[term >>> rowPageBits]![((term & rowMask) << 2) + fieldWord]!;
  }

  /** Index of the field with this name, or -1. */
  fieldIndex(name: string): number {
    return this.#fieldByName.get(name) ?? -1;
  }

  field(index: number): Field {
    return this.#fields[index]!;
  }

  /** Whether any field is odd. */
  get hasOddNames(): boolean {
    return this.#oddNames > 0;
  }

  hasField(index: number): boolean {
    return index < this.#fields.length && this.#fields[index] !== null;
  }

  /** Names of all fields with their index, in no order. */
  fieldNames(): IterableIterator<[string, number]> {
    return this.#fieldByName.entries();
  }

  get fieldCount(): number {
    return this.#fieldByName.size;
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

  /** All fields are below this number; those of which `field` gives null have no terms. */
  get fieldsEnd(): number {
    return this.#fields.length;
  }

  has(term: number): boolean {
    return term < this.#termsEnd && this.textLength(term) !== 0;
  }

  /** Copies the term's text to the position. */
  copyTextTo(term: number, target: Uint8Array, targetStart: number): void {
    const page = this.#texts.pageOf(this.#startOf(term));
    const start = this.#texts.positionOf(this.#startOf(term));
    for (let i = 0; i < this.textLength(term); i++) target[targetStart + i] = page[start + i]!;
  }

  /** Bytes that the term takes in the dictionary, with its text and its part of the hash table. */
  bytesOf(term: number): number {
    return this.textLength(term) + termRowBytes;
  }

  get termCount(): number {
    return this.#termsEnd - this.#freeTerms.length;
  }

  get textBytes(): number {
    return this.#texts.memoryBytes;
  }

  /** Without the texts. */
  get memoryBytes(): number {
    let bytes = this.#table.memoryBytes + this.#freeTerms.length * 4;
    for (const rows of this.#rows) bytes += rows.byteLength;
    return bytes + this.#fieldBytes;
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

/** True when the bytes are a name and a value with their lengths, and nothing more. */
function isPair(view: DataView, start: number, length: number): boolean {
  if (length < 4) return false;
  const nameLength = view.getUint16(start, true);
  if (nameLength > length - 4) return false;
  return view.getUint16(start + 2 + nameLength, true) === length - 4 - nameLength;
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
