/**
 * A fileset is one sealed block of one shard on disk (docs/formats/fileset.md): five files of which
 * the checkpoint is written last, so that a fileset without one never existed.
 */
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Disk } from '#lib/env/env.ts';

export const filesetFormatVersion = 2;
export const fileHeaderBytes = 16;
export const indexMagic = 'tsdbindx';
export const dataMagic = 'tsdbdata';
export const checkpointMagic = 'tsdbchkp';
/** Entries of the index that are packed together. */
export const indexGroupEntries = 32;
export const indexFooterBytes = 24;

/** In the order in which they are written. */
export const filesetParts = ['info', 'index', 'data', 'digest', 'checkpoint'] as const;
export type FilesetPart = (typeof filesetParts)[number];

/** What a fileset says about itself in its info file. */
export interface FilesetInfo {
  readonly namespace: string;
  /** Revision of the key-value store that created the namespace; 0 when it is not known. */
  readonly namespaceRevision: number;
  readonly shard: number;
  readonly shardCount: number;
  readonly blockStartNanos: bigint;
  readonly blockSizeNanos: bigint;
  /** A higher volume of a block replaces the lower ones. */
  readonly volume: number;
  readonly createdNanos: bigint;
  /** Where the block came from. */
  readonly source: 'peers' | 'flush' | 'merge';
  /**
   * Set of one block that was taken from peers: it has all that these had of it when they gave it.
   */
  readonly takenAs?: TakenAs;
}

/** As what a shard was taken over, by which start of the node. */
export interface TakenAs {
  readonly namespaceNumber: number;
  readonly assignment: string;
  /** Of the assignment; '' for any owner. */
  readonly sourceId: string;
  /** Count of the folder's boots. */
  readonly boot: number;
}

export interface FilesetKey {
  readonly blockStartNanos: bigint;
  readonly volume: number;
}

/** A fileset that cannot be trusted: it is set aside by name and its neighbours are served. */
export class FilesetCorrupt extends Error {
  override readonly name = 'FilesetCorrupt';
  readonly path: string;

  constructor(path: string, reason: string, options?: ErrorOptions) {
    super(`cannot read fileset: ${reason}: ${path}`, options);
    this.path = path;
  }
}

/**
 * A fileset whose checkpoint has its name already and not its bytes, as a power loss leaves it: it
 * never counted.
 */
export class FilesetUnfinished extends FilesetCorrupt {}

/**
 * Folder of a shard: `data/<namespace>/<shard>`, with what is no file name in a namespace escaped.
 */
export function shardFolder(dataFolder: string, namespace: string, shard: number): string {
  return `${namespaceFolder(dataFolder, namespace)}/${shard}`;
}

export function namespaceFolder(dataFolder: string, namespace: string): string {
  const escaped = encodeURIComponent(namespace).replace(/^\.+/, (dots) =>
    '%2E'.repeat(dots.length),
  );
  return `${dataFolder}/data/${escaped}`;
}

/** Name of the namespace that a folder in `data` belongs to. */
export function namespaceOfFolder(folderName: string): string {
  return decodeURIComponent(folderName);
}

export function filesetPath(folder: string, key: FilesetKey, part: FilesetPart): string {
  return `${folder}/fileset-${key.blockStartNanos}-${key.volume}-${part}.db`;
}

/** Where digests of the rows of a fileset are, when replicas were compared (row_digest_file.ts). */
export function rowDigestPath(folder: string, key: FilesetKey): string {
  return `${folder}/fileset-${key.blockStartNanos}-${key.volume}-rows.db`;
}

/** Where the series of a closed fileset are column by column (../series_columns/file.ts). */
export function seriesColumnsPath(folder: string, key: FilesetKey): string {
  return `${folder}/fileset-${key.blockStartNanos}-${key.volume}-columns.db`;
}

/** Of what is derived from a fileset and stands beside it. */
const besideName = /^fileset-(-?\d+)-(\d+)-(rows|columns)\.db$/;

const filesetName = /^fileset-(-?\d+)-(\d+)-(info|index|data|digest|checkpoint)\.db(\.corrupt)?$/;

type ListedFileset = FilesetKey & { readonly complete: boolean };

/** Filesets in a shard's folder, by block start and volume. */
export async function listFilesets(disk: Disk, folder: string): Promise<ListedFileset[]> {
  return (await listShardFolder(disk, folder)).filesets;
}

/**
 * Filesets in a shard's folder, each list by block start and volume; `asides` were set aside, whole
 * or in part.
 */
export async function listShardFolder(
  disk: Disk,
  folder: string,
): Promise<{ readonly filesets: ListedFileset[]; readonly asides: ListedFileset[] }> {
  const filesets = new Map<string, FilesetKey & { complete: boolean }>();
  const asides: typeof filesets = new Map();
  for (const name of await disk.list(folder)) {
    const match = filesetName.exec(name);
    if (match === null) continue;
    const found = match[4] === undefined ? filesets : asides;
    const key = `${match[1]}-${match[2]}`;
    let fileset = found.get(key);
    if (fileset === undefined) {
      fileset = { blockStartNanos: BigInt(match[1]!), volume: Number(match[2]), complete: false };
      found.set(key, fileset);
    }
    if (match[3] === 'checkpoint') fileset.complete = true;
  }
  const sorted = (found: typeof filesets) =>
    [...found.values()].sort(
      (a, b) => Number(a.blockStartNanos - b.blockStartNanos) || a.volume - b.volume,
    );
  return { filesets: sorted(filesets), asides: sorted(asides) };
}

/** Deletes a fileset; the checkpoint goes first, so that half of it never counts. */
export async function removeFileset(disk: Disk, folder: string, key: FilesetKey): Promise<void> {
  await disk.remove(filesetPath(folder, key, 'checkpoint'));
  await disk.syncFolder(folder);
  for (const part of filesetParts) await disk.remove(filesetPath(folder, key, part));
  await removeBeside(disk, folder, key);
}

async function removeBeside(disk: Disk, folder: string, key: FilesetKey): Promise<void> {
  await disk.remove(rowDigestPath(folder, key));
  await disk.remove(seriesColumnsPath(folder, key));
}

/** Removes what was derived from filesets that are not there any more. */
export async function removeLeftBeside(disk: Disk, folder: string): Promise<void> {
  const names = new Set(await disk.list(folder));
  for (const name of names) {
    const match = besideName.exec(name);
    if (match === null) continue;
    const key = { blockStartNanos: BigInt(match[1]!), volume: Number(match[2]) };
    const checkpoint = filesetPath(folder, key, 'checkpoint').slice(folder.length + 1);
    if (!names.has(checkpoint)) await disk.remove(`${folder}/${name}`);
  }
}

/**
 * Renames every file of a fileset to `….corrupt`, so that it is not read and that a later start
 * knows what is missing. The checkpoint goes first: half of it never counts.
 */
export async function setFilesetAside(disk: Disk, folder: string, key: FilesetKey): Promise<void> {
  for (const part of filesetParts.toReversed()) {
    const path = filesetPath(folder, key, part);
    if ((await disk.size(path)) !== null) await disk.rename(path, pathAside(path));
  }
  await removeBeside(disk, folder, key);
  await disk.syncFolder(folder);
}

export async function removeFilesetAside(
  disk: Disk,
  folder: string,
  key: FilesetKey,
): Promise<void> {
  for (const part of filesetParts) await disk.remove(pathAside(filesetPath(folder, key, part)));
}

/** Where a file of a fileset is that was set aside. */
export function pathAside(path: string): string {
  return `${path}.corrupt`;
}

export function encodeFileHeader(magic: string): Uint8Array {
  const bytes = new Uint8Array(fileHeaderBytes);
  bytes.set(new TextEncoder().encode(magic), 0);
  new DataView(bytes.buffer).setUint32(8, filesetFormatVersion, true);
  return bytes;
}

/** Why the bytes do not begin as a file of this kind, or null. */
export function fileHeaderProblem(bytes: Uint8Array, magic: string): string | null {
  if (bytes.length < fileHeaderBytes) return 'header is cut off';
  if (new TextDecoder('latin1').decode(bytes.subarray(0, 8)) !== magic) return 'magic is wrong';
  const version = new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true);
  return version === filesetFormatVersion ? null : `format version is unknown: ${version}`;
}

export function encodeInfo(info: FilesetInfo): Uint8Array {
  const plain = {
    formatVersion: filesetFormatVersion,
    ...info,
    blockStartNanos: String(info.blockStartNanos),
    blockSizeNanos: String(info.blockSizeNanos),
    createdNanos: String(info.createdNanos),
  };
  return new TextEncoder().encode(`${JSON.stringify(plain, null, 2)}\n`);
}

/** @throws {Error} when a field is missing or of another kind */
export function decodeInfo(bytes: Uint8Array): FilesetInfo {
  const plain = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
  const text = (field: string): string => {
    const value = plain[field];
    if (typeof value !== 'string') throw new Error(`info field is no text: ${field}`);
    return value;
  };
  const whole = (field: string): number => {
    const value = plain[field];
    if (!Number.isSafeInteger(value)) throw new Error(`info field is no whole number: ${field}`);
    return value as number;
  };
  if (whole('formatVersion') !== filesetFormatVersion) throw new Error('format version is unknown');
  const source = text('source');
  if (source !== 'peers' && source !== 'flush' && source !== 'merge') {
    throw new Error(`info field source is unknown: ${source}`);
  }
  return {
    namespace: text('namespace'),
    namespaceRevision: whole('namespaceRevision'),
    shard: whole('shard'),
    shardCount: whole('shardCount'),
    blockStartNanos: BigInt(text('blockStartNanos')),
    blockSizeNanos: BigInt(text('blockSizeNanos')),
    volume: whole('volume'),
    createdNanos: BigInt(text('createdNanos')),
    source,
    ...(plain['takenAs'] === undefined ? {} : { takenAs: takenAsOf(plain['takenAs']) }),
  };
}

function takenAsOf(plain: unknown): TakenAs {
  const { namespaceNumber, assignment, sourceId, boot } = Object(plain) as Record<string, unknown>;
  if (
    !Number.isSafeInteger(namespaceNumber) ||
    !Number.isSafeInteger(boot) ||
    typeof assignment !== 'string' ||
    typeof sourceId !== 'string'
  ) {
    throw new Error('info field takenAs is not whole');
  }
  return { namespaceNumber: namespaceNumber as number, assignment, sourceId, boot: boot as number };
}

/** Sizes and checksums of the files, as the digest file holds them. */
export interface FilesetDigest {
  readonly info: FileDigest;
  readonly index: FileDigest;
  readonly data: FileDigest;
}
export interface FileDigest {
  readonly bytes: number;
  readonly crc32c: number;
}

export function encodeDigest(digest: FilesetDigest): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(digest)}\n`);
}

/** @throws {Error} when it is not whole */
export function decodeDigest(bytes: Uint8Array): FilesetDigest {
  const plain = JSON.parse(new TextDecoder().decode(bytes)) as Record<
    string,
    FileDigest | undefined
  >;
  const part = (name: 'info' | 'index' | 'data'): FileDigest => {
    const file = plain[name];
    if (!Number.isSafeInteger(file?.bytes) || !Number.isSafeInteger(file?.crc32c)) {
      throw new Error(`digest of ${name} is missing`);
    }
    return file!;
  };
  return { info: part('info'), index: part('index'), data: part('data') };
}

/** The checkpoint: magic, version, checksum of the digest file. */
export function encodeCheckpoint(digestBytes: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(fileHeaderBytes + 4);
  bytes.set(encodeFileHeader(checkpointMagic));
  new DataView(bytes.buffer).setUint32(fileHeaderBytes, crc32c(digestBytes), true);
  return bytes;
}
