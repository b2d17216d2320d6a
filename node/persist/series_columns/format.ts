/**
 * The series of a closed fileset column by column (docs/formats/columns.md): what a query needs of them is read without the
 * rest. It is derived of the index of the fileset, belongs to no checkpoint, and is made again when it is lost.
 */
export const columnsMagic = 'tsdbcols';
export const columnsFormatVersion = 1;
export const columnsHeaderBytes = 16;
/** Checksum and length of the footer, and the magic. */
export const columnsTrailerBytes = 16;
/** Values of a column that stand one behind the other; the first of them shares nothing with what is before it. */
export const textsOfBlock = 16;
/** Chunks of so many entries follow each other from a place that is written down. */
export const entriesOfPlace = 32;

/** A file that cannot be used: it is made again. */
export class SeriesColumnsCorrupt extends Error {
  override readonly name = 'SeriesColumnsCorrupt';
}

/** Bytes that a number takes of which there are so many, 0 where there is one. */
export function widthOf(numbers: number): 0 | 1 | 2 | 4 {
  if (numbers <= 1) return 0;
  if (numbers <= 0x100) return 1;
  return numbers <= 0x10000 ? 2 : 4;
}
