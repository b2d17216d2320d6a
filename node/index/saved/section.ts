/** Sections of a saved index (docs/formats/index.md): kinds, and how they begin and end. */
import { PackedReader, type PackedWriter } from './packed.ts';
import { wordsFor } from '../tables/postings.ts';

export const sectionKind = {
  manifest: 1,
  summary: 2,
  fields: 3,
  terms: 4,
  series: 5,
  liveBlock: 6,
} as const;

export type SectionKind = (typeof sectionKind)[keyof typeof sectionKind];

export interface IndexSection {
  readonly kind: SectionKind;
  readonly bytes: Uint8Array;
}

/** The sections of a saved index, to be read in any order. */
export interface IndexSectionSource {
  /** By section. */
  readonly kinds: readonly number[];
  /** @throws {IndexDamaged} when the bytes are not those that were written */
  read(section: number): Promise<Uint8Array>;
}

/** A saved index that cannot be trusted, or not by this namespace. */
export class IndexDamaged extends Error {
  override readonly name = 'IndexDamaged';
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(`cannot load index: ${reason}`, options);
    this.reason = reason;
  }
}

export function damagedUnless(condition: boolean, reason: string): asserts condition {
  if (!condition) throw new IndexDamaged(reason);
}

/** What was written, padded; a copy. Then the writer is empty again. */
export function finishSection(kind: SectionKind, writer: PackedWriter): IndexSection {
  while (writer.length % 8 !== 0) writer.u8(0);
  const bytes = writer.view(0).slice();
  writer.clear();
  return { kind, bytes };
}

/** Reads a section from its start. @param what for reasons: 'series' */
export function readerOfSection(bytes: Uint8Array, what: string): PackedReader {
  return new PackedReader(
    bytes,
    0,
    bytes.length,
    (reason) => new IndexDamaged(`section of ${what}: ${reason}`),
  );
}

/** Compares what is left of a section with what pads it. */
export function endSection(reader: PackedReader, what: string): void {
  const left = reader.end - reader.position;
  damagedUnless(left < 8, `section of ${what} is longer than its columns`);
  for (let i = 0; i < left; i++) {
    damagedUnless(reader.u8() === 0, `section of ${what} has bytes after its columns`);
  }
}

/** Bits of all numbers below `end`. */
export function allBits(end: number): Uint32Array {
  const words = new Uint32Array(wordsFor(end)).fill(0xffffffff);
  if ((end & 31) !== 0) words[end >>> 5] = 2 ** (end & 31) - 1;
  return words;
}
