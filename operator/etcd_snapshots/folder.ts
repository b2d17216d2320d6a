/**
 * The folder that snapshots of etcd are kept in, as the pods of the operator's jobs see it. A snapshot
 * is a file as `etcdctl snapshot save` writes it: the database, and the SHA-256 of that.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Clock, Disk, DiskFile } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';

export interface Snapshot {
  readonly name: string;
  readonly bytes: number;
}

const checksumBytes = 32;
/** Of a page of the database: a snapshot has whole ones, and the checksum. */
const pageBytes = 512;
const chunkBytes = 1 << 20;
const suffix = '.db';
const incomingSuffix = '.incoming';

/** Names that a snapshot may have; none leads out of the folder. */
export const snapshotName: RegExp = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.db$/;

/**
 * Takes a file that has just been written among the snapshots, under the time at which it was, and
 * removes those that are too many and what earlier jobs did not end.
 * @param incoming its name, which ends with `.incoming`
 * @throws {TsdbError} BAD_REQUEST when it is not whole; the snapshots stay as they are
 */
export async function keepSnapshot(
  { disk, clock }: { readonly disk: Disk; readonly clock: Clock },
  folder: string,
  incoming: string,
  snapshotsMax: number,
): Promise<Snapshot> {
  const bytes = await copyChecked(disk, join(folder, incoming), null);
  const name = `${timeName(clock.nowMillis())}${suffix}`;
  await disk.rename(join(folder, incoming), join(folder, name));
  await disk.syncFolder(folder);
  const names = await disk.list(folder);
  const old = timesOf(names).slice(snapshotsMax);
  const left = names.filter((other) => other.includes(incomingSuffix));
  for (const other of [...old, ...left]) await disk.remove(join(folder, other));
  return { name, bytes };
}

/**
 * Copies a snapshot to where etcd's own tool finds it.
 * @param wish a name, or `latest`: the newest one that is whole
 * @throws {TsdbError} NOT_FOUND, or BAD_REQUEST when the file is damaged
 */
export async function fetchSnapshot(
  disk: Disk,
  folder: string,
  wish: string,
  target: string,
): Promise<Snapshot> {
  const names = (await disk.list(folder)).filter((name) => snapshotName.test(name));
  const candidates = wish === 'latest' ? timesOf(names) : names.filter((name) => name === wish);
  if (candidates.length === 0) {
    const list = names.length === 0 ? 'there are none' : `there are ${names.join(', ')}`;
    throw new TsdbError('NOT_FOUND', `no snapshot ${wish}: ${list}`);
  }
  const problems: string[] = [];
  for (const name of candidates) {
    try {
      return { name, bytes: await copyChecked(disk, join(folder, name), target) };
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
      problems.push(error.message);
    }
  }
  throw badRequest(problems.join('; '));
}

/** Those that a job took, newest first; a person may put others beside them, which stay. */
const timesOf = (names: readonly string[]): string[] =>
  names.filter((name) => /^[0-9]{8}T[0-9]{6}Z\.db$/.test(name)).sort((a, b) => (a < b ? 1 : -1));

/** 20261123T170000Z */
const timeName = (unixMillis: number): string =>
  `${new Date(unixMillis).toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;

/**
 * @param target null to check only
 * @returns bytes of the file
 */
async function copyChecked(disk: Disk, path: string, target: string | null): Promise<number> {
  await using file = await disk.open(path, 'read');
  const bytes = await file.size();
  const content = bytes - checksumBytes;
  if (content < pageBytes || content % pageBytes !== 0) {
    throw badRequest(`${path}: ${bytes} bytes are no whole snapshot of etcd`);
  }
  if (target !== null) await disk.remove(target);
  await using copy = target === null ? null : await disk.open(target, 'create');
  const hash = createHash('sha256');
  for (let at = 0; at < content; ) {
    const part = await file.read(at, Math.min(chunkBytes, content - at));
    if (part.length === 0) throw badRequest(`${path} ends at ${at} of ${bytes} bytes`);
    hash.update(part);
    await copy?.write(at, [part]);
    at += part.length;
  }
  const checksum = await file.read(content, checksumBytes);
  if (!hash.digest().equals(checksum)) throw badRequest(`${path}: its checksum does not hold`);
  await endCopy(copy, content, checksum);
  return bytes;
}

async function endCopy(
  copy: DiskFile | null,
  position: number,
  checksum: Uint8Array,
): Promise<void> {
  await copy?.write(position, [checksum]);
  await copy?.sync();
}
