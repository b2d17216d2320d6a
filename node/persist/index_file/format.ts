/** The file of a saved index: header, sections, directory, footer (docs/formats/index.md). */
import { crc32c } from '#lib/hashing/crc32c.ts';

export const indexFileVersion = 2;
export const indexFileHeaderBytes = 16;
export const indexFileFooterBytes = 32;
export const directoryRowBytes = 24;

const startMagic = 'tsdbnidx';
const endMagic = 'tsdbnend';

/**
 * A saved index that cannot be trusted: it is set aside by name, and the series are found in the
 * filesets.
 */
export class IndexFileCorrupt extends Error {
  override readonly name = 'IndexFileCorrupt';
  readonly path: string;

  constructor(path: string, reason: string, options?: ErrorOptions) {
    super(`cannot read saved index: ${reason}: ${path}`, options);
    this.path = path;
  }
}

export interface DirectoryRow {
  readonly kind: number;
  readonly crc32c: number;
  /** Position in the file. */
  readonly start: number;
  readonly bytes: number;
}

export function encodeIndexFileHeader(): Uint8Array {
  const header = new Uint8Array(indexFileHeaderBytes);
  header.set(new TextEncoder().encode(startMagic));
  new DataView(header.buffer).setUint32(8, indexFileVersion, true);
  return header;
}

/** Why the bytes do not begin a file of this kind, or null. */
export function indexFileHeaderProblem(header: Uint8Array): string | null {
  if (header.length < indexFileHeaderBytes) return 'header is cut off';
  if (textOf(header, 0) !== startMagic) return 'magic is wrong';
  const view = new DataView(header.buffer, header.byteOffset);
  const version = view.getUint32(8, true);
  if (version !== indexFileVersion) return `format version is unknown: ${version}`;
  return view.getUint32(12, true) === 0 ? null : 'header is wrong';
}

/** Directory and footer, which end the file. @param start where they will stand */
export function encodeDirectory(rows: readonly DirectoryRow[], start: number): Uint8Array {
  const bytes = new Uint8Array(rows.length * directoryRowBytes + indexFileFooterBytes);
  const view = new DataView(bytes.buffer);
  rows.forEach((row, i) => {
    const at = i * directoryRowBytes;
    view.setUint32(at, row.kind, true);
    view.setUint32(at + 4, row.crc32c, true);
    view.setBigUint64(at + 8, BigInt(row.start), true);
    view.setBigUint64(at + 16, BigInt(row.bytes), true);
  });
  const footer = rows.length * directoryRowBytes;
  view.setBigUint64(footer, BigInt(start), true);
  view.setUint32(footer + 8, rows.length, true);
  view.setUint32(footer + 12, indexFileVersion, true);
  view.setUint32(footer + 16, crc32c(bytes, 0, 0, footer + 16), true);
  bytes.set(new TextEncoder().encode(endMagic), footer + 24);
  return bytes;
}

/**
 * Where the directory begins, from the footer.
 * @param fileBytes length of the file
 * @throws {Error} with the reason
 */
export function directoryStart(footer: Uint8Array, fileBytes: number): number {
  if (footer.length < indexFileFooterBytes) throw new Error('footer is cut off');
  const view = new DataView(footer.buffer, footer.byteOffset);
  if (textOf(footer, 24) !== endMagic) throw new Error('footer is missing');
  if (view.getUint32(20, true) !== 0) throw new Error('footer is wrong');
  const start = Number(view.getBigUint64(0, true));
  const bytes = view.getUint32(8, true) * directoryRowBytes + indexFileFooterBytes;
  if (start < indexFileHeaderBytes || start + bytes !== fileBytes) {
    throw new Error('directory is not where the footer says');
  }
  return start;
}

/**
 * The directory's rows.
 * @param bytes directory and footer
 * @param start where they stand
 * @throws {Error} with the reason
 */
export function decodeDirectory(bytes: Uint8Array, start: number): DirectoryRow[] {
  const footer = bytes.length - indexFileFooterBytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (view.getUint32(footer + 16, true) !== crc32c(bytes, 0, 0, footer + 16)) {
    throw new Error('checksum of the directory is wrong');
  }
  const version = view.getUint32(footer + 12, true);
  if (version !== indexFileVersion) throw new Error(`format version is unknown: ${version}`);
  const rows: DirectoryRow[] = [];
  let end = indexFileHeaderBytes;
  for (let at = 0; at < footer; at += directoryRowBytes) {
    const row = {
      kind: view.getUint32(at, true),
      crc32c: view.getUint32(at + 4, true),
      start: Number(view.getBigUint64(at + 8, true)),
      bytes: Number(view.getBigUint64(at + 16, true)),
    };
    if (row.start !== end || row.bytes > start - end || row.bytes % 8 !== 0) {
      throw new Error('sections do not lie one after the other');
    }
    rows.push(row);
    end += row.bytes;
  }
  if (end !== start) throw new Error('sections do not reach the directory');
  return rows;
}

function textOf(bytes: Uint8Array, start: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, 8).toString('latin1');
}
