/**
 * The deletions that a node has applied, as a file of its data folder (docs/formats/deletions.md).
 */
import { type Deletion, deletionOfFields, deletionToJson } from '#cluster/metadata/deletions.ts';
import { Fields } from '#cluster/fields.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Disk } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';

/** A deletion with the time of its record. */
export interface AppliedDeletion {
  readonly deletion: Deletion;
  readonly atNanos: bigint;
}

export interface AppliedDeletions {
  /** All deletions up to this sequence are applied. */
  readonly applied: number;
  readonly tombstones: readonly AppliedDeletion[];
}

const magic = 'tsdbtomb';
const formatVersion = 1;
const headerBytes = 16;

export function tombstonePath(dataFolder: string): string {
  return `${dataFolder}/tombstones.bin`;
}

export function appliedToJson({ deletion, atNanos }: AppliedDeletion): Record<string, unknown> {
  return { ...deletionToJson(deletion), atNanos: String(atNanos) };
}

/** @throws {TsdbError} BAD_REQUEST */
export function appliedFromJson(json: unknown): AppliedDeletion {
  return appliedOf(Fields.ofStored(json, 'deletion', []));
}

function appliedOf(fields: Fields): AppliedDeletion {
  const deletion = deletionOfFields(fields);
  const atNanos = fields.int64('atNanos', 0n);
  return { deletion, atNanos };
}

export async function writeTombstones(
  disk: Disk,
  dataFolder: string,
  state: AppliedDeletions,
): Promise<void> {
  const { applied, tombstones } = state;
  const json = JSON.stringify({ applied, tombstones: tombstones.map(appliedToJson) });
  const body = new TextEncoder().encode(json);
  const bytes = new Uint8Array(headerBytes + body.length);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode(magic), 0);
  view.setUint32(8, formatVersion, true);
  view.setUint32(12, crc32c(body), true);
  bytes.set(body, headerBytes);
  await disk.writeFileAtomic(tombstonePath(dataFolder), bytes);
}

/** @returns what the file has, null when there is none, or why it cannot be read */
export async function readTombstones(
  disk: Disk,
  dataFolder: string,
): Promise<AppliedDeletions | null | string> {
  const path = tombstonePath(dataFolder);
  if ((await disk.size(path)) === null) return null;
  let bytes: Uint8Array;
  try {
    bytes = await disk.readFile(path);
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return 'the disk cannot read it';
  }
  if (bytes.length < headerBytes) return 'the header is cut off';
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (new TextDecoder('latin1').decode(bytes.subarray(0, 8)) !== magic) return 'the magic is wrong';
  const version = view.getUint32(8, true);
  if (version !== formatVersion) return `the format version is unknown: ${version}`;
  const body = bytes.subarray(headerBytes);
  if (view.getUint32(12, true) !== crc32c(body)) return 'the checksum is wrong';
  const fields = Fields.ofStored(JSON.parse(new TextDecoder().decode(body)), 'tombstones', []);
  return {
    applied: Number(fields.int64('applied', 0n)),
    tombstones: fields.list('tombstones', appliedOf),
  };
}
