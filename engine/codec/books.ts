/**
 * The sixteen fixed Huffman books of the codec (docs/formats/codec.md). They are part of the
 * format: a chunk names its book by number and carries no table, so they never change.
 */
import { assert } from '#lib/assert.ts';
import { bookCount, bookSymbolCount, codeBitsMax, tableEntryBytes } from './layout.ts';

export { bookCount, codeBitsMax } from './layout.ts';

export const escapeSymbol: number = bookSymbolCount - 1;

/**
 * Code lengths in bits of the symbols 0 to 15, one hexadecimal digit each; one string a book. They
 * came from clustering: Gaussian, Laplacian, uniform and mostly-zero residuals of many widths and
 * offsets.
 */
const codeLengths = [
  '12356999999aaaa4',
  '1326497a9bbbbbb5',
  '123456889aabbbb9',
  '1234578bbbbbbbb6',
  '132547699bbbbbba',
  '1336667777777763',
  '1427688888888883',
  '1425386a8b9babb9',
  '1257777777777773',
  '1437777888888882',
  '222436597aabbbb9',
  '2223456799abbbba',
  '2324354657687997',
  '2333344556677887',
  '3333444445555665',
  '4444443333456887',
];

export interface Book {
  /** Bits of each symbol's code. */
  readonly lengths: Uint8Array;
  /** The code of each symbol as it stands in the stream: its first bit is the lowest. */
  readonly codes: Uint16Array;
  /** By `codeBitsMax` bits: the symbol whose code they begin with. */
  readonly symbols: Uint8Array;
}

/** Canonical codes: shorter first, equal lengths by symbol, counted up. */
function bookOf(digits: string): Book {
  const lengths = Uint8Array.from(digits, (digit) => Number.parseInt(digit, 16));
  const codes = new Uint16Array(bookSymbolCount);
  const symbols = Array.from(lengths.keys()).sort((a, b) => lengths[a]! - lengths[b]! || a - b);
  let code = 0;
  let lengthBefore = 0;
  for (const symbol of symbols) {
    const length = lengths[symbol]!;
    code <<= length - lengthBefore;
    lengthBefore = length;
    codes[symbol] = reversed(code, length);
    code++;
  }
  assert(code === 1 << lengthBefore, 'the codes of a book use up all bit patterns');
  const symbolOf = new Uint8Array(1 << codeBitsMax);
  for (const symbol of symbols) {
    const step = 1 << lengths[symbol]!;
    for (let bits = codes[symbol]!; bits < symbolOf.length; bits += step) symbolOf[bits] = symbol;
  }
  return { lengths, codes, symbols: symbolOf };
}

function reversed(code: number, length: number): number {
  let result = 0;
  for (let bit = 0; bit < length; bit++) {
    if (code & (1 << bit)) result |= 1 << (length - 1 - bit);
  }
  return result;
}

export const books: readonly Book[] = codeLengths.map(bookOf);

/** One table. */
const tableBytes = tableEntryBytes << codeBitsMax;
/** Where the lengths (a byte each) and codes (16 bits each) of all books lie after the tables. */
export const bookLengthsOffset: number = bookCount * tableBytes;
export const bookCodesOffset: number = bookLengthsOffset + bookCount * bookSymbolCount;
export const codecTablesBytes: number = bookCodesOffset + bookCount * bookSymbolCount * 2;

/**
 * The tables that the kernels decode with, `codecTablesBytes` long. An entry says what 11 bits
 * begin with: bytes 0 to 7 are the running sums of up to eight residuals (int8; after the last one
 * the sum repeats), byte 8 their number, byte 9 the bits that they and an escape take, byte 10 is 1
 * when an escape ends them, byte 11 their sum. They are made once, when first asked for, and are
 * not to be changed.
 */
export function codecTables(): Uint8Array<ArrayBuffer> {
  return (made ??= makeCodecTables());
}

let made: Uint8Array<ArrayBuffer> | null = null;

function makeCodecTables(): Uint8Array<ArrayBuffer> {
  const tables = new Uint8Array(codecTablesBytes);
  const entries = new Int8Array(tables.buffer);
  books.forEach((book, number) => {
    for (let pattern = 0; pattern < 1 << codeBitsMax; pattern++) {
      fillEntry(entries, number * tableBytes + pattern * tableEntryBytes, book, pattern);
    }
    tables.set(book.lengths, bookLengthsOffset + number * bookSymbolCount);
    const codes = new Uint8Array(book.codes.buffer);
    tables.set(codes, bookCodesOffset + number * codes.length);
  });
  return tables;
}

function fillEntry(entries: Int8Array, at: number, book: Book, pattern: number): void {
  let [bits, count, sum] = [0, 0, 0];
  while (count < 8) {
    const symbol = symbolAt(book, pattern >> bits, codeBitsMax - bits);
    if (symbol === -1) break;
    bits += book.lengths[symbol]!;
    if (symbol === escapeSymbol) {
      entries[at + 10] = 1;
      break;
    }
    sum += (symbol >> 1) ^ -(symbol & 1);
    entries[at + count++] = sum;
  }
  for (let rest = count; rest < 8; rest++) entries[at + rest] = sum;
  entries[at + 8] = count;
  entries[at + 9] = bits;
  entries[at + 11] = sum;
}

/** The symbol whose code the bits begin with, or -1 when it is longer than `bitCount`. */
export function symbolAt(book: Book, bits: number, bitCount: number): number {
  const symbol = book.symbols[bits & ((1 << codeBitsMax) - 1)]!;
  return book.lengths[symbol]! <= bitCount ? symbol : -1;
}
