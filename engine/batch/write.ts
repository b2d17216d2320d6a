/** Lays the sections and columns of a batch out as bytes (docs/formats/batch.md). */
import { badRequest } from '#lib/errors.ts';
import {
  alignColumn,
  batchBytesMax,
  batchFlag,
  batchFormatVersion,
  batchMagic,
  columnEntryBytes,
  headerBytes,
  sectionEntryBytes,
} from './format.ts';

export interface PlacedColumn {
  readonly id: number;
  readonly encoding: number;
  /** Copied by `writeSections`. */
  readonly bytes: Uint8Array;
}

export interface PlacedSection {
  readonly kind: number;
  readonly timeExponent: number;
  readonly rowCount: number;
  readonly columns: readonly PlacedColumn[];
}

/**
 * Lays sections out as a batch. For the builder and the compactor.
 * @throws {TsdbError} BAD_REQUEST when the batch would be too large
 */
export function writeSections(
  version: number,
  sections: readonly PlacedSection[],
  derivesVersions: boolean = false,
): Uint8Array<ArrayBuffer> {
  let directory = headerBytes + sections.length * sectionEntryBytes;
  let data = directory;
  for (const section of sections) data += section.columns.length * columnEntryBytes;
  let byteLength = data;
  for (const { columns } of sections) {
    for (const column of columns) byteLength = alignColumn(byteLength) + column.bytes.length;
  }
  byteLength = alignColumn(byteLength);
  if (byteLength > batchBytesMax) {
    throw badRequest(`cannot build batch: larger than ${batchBytesMax} bytes: ${byteLength}`);
  }
  const bytes = new Uint8Array(byteLength);
  const words = new DataView(bytes.buffer);
  words.setUint32(0, batchMagic, true);
  words.setUint16(4, batchFormatVersion, true);
  words.setUint16(6, sections.length, true);
  words.setUint32(8, byteLength, true);
  words.setUint32(12, derivesVersions ? batchFlag.derivesVersions : 0, true);
  words.setFloat64(16, version, true);
  sections.forEach((section, index) => {
    const entry = headerBytes + index * sectionEntryBytes;
    words.setUint8(entry, section.kind);
    words.setUint8(entry + 1, section.timeExponent);
    words.setUint16(entry + 2, section.columns.length, true);
    words.setUint32(entry + 4, section.rowCount, true);
    words.setUint32(entry + 8, directory, true);
    for (const column of section.columns) {
      data = alignColumn(data);
      words.setUint8(directory, column.id);
      words.setUint8(directory + 1, column.encoding);
      words.setUint32(directory + 4, data, true);
      words.setUint32(directory + 8, column.bytes.length, true);
      bytes.set(column.bytes, data);
      data += column.bytes.length;
      directory += columnEntryBytes;
    }
  });
  return bytes;
}
