/**
 * Numbers of the batch layout (docs/formats/batch.md): ids, sizes and limits that its writer, its
 * reader and the compactor share.
 */
import { assert } from '#lib/assert.ts';

assert(
  new Uint8Array(new Uint16Array([1]).buffer)[0] === 1,
  'the machine is little-endian, as the byte layouts are',
);

/** 'TSDB' read as a little-endian u32, followed by the format version. */
export const batchMagic = 0x42_44_53_54;
export const batchFormatVersion = 1;

export const headerBytes = 32;
export const sectionEntryBytes = 16;
export const columnEntryBytes = 16;

/** Largest batch in bytes; more is refused by writer and reader. */
export const batchBytesMax: number = 128 * 1024 * 1024;
/**
 * Most rows of a section, and most dictionary entries: also what a constant column may expand to.
 */
export const batchRowsMax: number = 1 << 20;
/** Versions are whole numbers up to here (Number.MAX_SAFE_INTEGER). */
export const batchVersionMax: number = Number.MAX_SAFE_INTEGER;
/** Sections and columns a section that a reader looks at; more cannot be valid. */
export const batchSectionsMax = 8;
export const batchColumnsMax = 16;

/** Bits of a batch's header. */
export const batchFlag = {
  /** Rows have the versions that `derivedVersion` of lib/hybrid_clock.ts gives. */
  derivesVersions: 1,
} as const;

/** What the rows of a section are. */
export const sectionKind = { floatSamples: 1, dictionary: 2, typedValues: 3 } as const;

export const columnId = {
  slot: 1,
  generation: 2,
  timestamp: 3,
  value: 4,
  /** Unix nanoseconds, 0 for none; only where a row has one. */
  start: 6,
  typedEnd: 9,
  typedBytes: 10,
  idScheme: 16,
  idEnd: 17,
  idBytes: 18,
  tagsEnd: 19,
  tagsBytes: 20,
} as const;

export const columnEncoding = {
  /** The array as in memory, little-endian. */
  raw: 0,
  /** One element that holds for every row. */
  constant: 1,
  /** Differences between neighbours in runs, variable length: integer columns. */
  delta: 2,
  /** Whole numbers at variable length, others at eight bytes: the value column. */
  whole: 3,
} as const;

export type TimeUnitNanos = 1 | 1_000 | 1_000_000 | 1_000_000_000;

/** Decimal exponent of the time unit, as it stands in a section entry. */
export const exponentOfTimeUnit: Readonly<Record<TimeUnitNanos, number>> = {
  1: 0,
  1_000: 3,
  1_000_000: 6,
  1_000_000_000: 9,
};

export const timeUnitOfExponent: ReadonlyMap<number, TimeUnitNanos> = new Map([
  [0, 1],
  [3, 1_000],
  [6, 1_000_000],
  [9, 1_000_000_000],
]);

/** Next multiple of eight: columns start there. */
export function alignColumn(offset: number): number {
  return (offset + 7) & ~7;
}
