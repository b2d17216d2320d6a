/** What befalls the data folders of nodes: bits that flip, and a disk that is full. */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { bytesOf } from './folder.ts';

/** Flips a bit of a file in place, at a share of its length. */
export function flipBit(path: string, share: number, bit: number): void {
  const at = Math.floor(statSync(path).size * share);
  const file = openSync(path, 'r+');
  try {
    const byte = Buffer.alloc(1);
    if (readSync(file, byte, 0, 1, at) !== 1) throw new Error(`${path} has no byte ${at}`);
    byte[0]! ^= 1 << bit;
    writeSync(file, byte, 0, 1, at);
  } finally {
    closeSync(file);
  }
}

/** Files with series of the filesets of a namespace. */
export function filesetsOf(data: string, namespace: string): string[] {
  return globSync(join(data, 'data', namespace, '*', 'fileset-*-data.db'))
    .filter((path) => statSync(path).size > 0)
    .sort();
}

/** Unix milliseconds of the block start that a fileset's file is named by. */
export function blockStartOf(path: string): number {
  const nanos = /^fileset-(\d+)-/.exec(basename(path))?.[1];
  if (nanos === undefined) throw new Error(`no fileset: ${path}`);
  return Number(BigInt(nanos) / 1_000_000n);
}

export function longestLogOf(data: string): string {
  const logs = globSync(join(data, 'commitlogs', '*.db'));
  const [longest] = logs.sort((a, b) => statSync(b).size - statSync(a).size);
  if (longest === undefined) throw new Error(`no log in ${data}`);
  return longest;
}

/** Null when this process may mount, else why it may not. */
export function whyNoMount(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-mount-'));
  try {
    mount(folder, 1);
    unmount(folder);
    return null;
  } catch (error) {
    return (error as Error).message;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** But for the sockets that killed processes leave, of which there is no copy. */
function copyFolder(from: string, to: string): void {
  const filter = (path: string): boolean => !statSync(path).isSocket();
  cpSync(from, to, { recursive: true, preserveTimestamps: true, filter });
}

/** Puts a folder onto a disk of its own, a tmpfs that has so many mebibytes left. */
export function putOnSmallDisk(folder: string, mebibytesLeft: number): void {
  const aside = asideOf(folder);
  renameSync(folder, aside);
  mkdirSync(folder);
  // Files take whole pages there.
  mount(folder, Math.ceil((1.2 * bytesOf(aside)) / 2 ** 20) + mebibytesLeft);
  copyFolder(aside, folder);
  rmSync(aside, { recursive: true });
}

/** Back to the disk that it was on. */
export function takeFromSmallDisk(folder: string): void {
  const aside = asideOf(folder);
  copyFolder(folder, aside);
  unmount(folder);
  rmSync(folder, { recursive: true });
  renameSync(aside, folder);
}

const asideOf = (folder: string): string => `${folder}.aside`;

const ballastOf = (folder: string): string => join(folder, 'ballast');

/** Takes all that is left of the folder's disk. */
export function fillDisk(folder: string): void {
  const chunk = Buffer.alloc(64 * 1024, 1);
  const file = openSync(ballastOf(folder), 'w');
  try {
    for (;;) writeSync(file, chunk);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(file);
  }
}

export function freeDisk(folder: string): void {
  rmSync(ballastOf(folder), { force: true });
}

function mount(folder: string, mebibytes: number): void {
  run('mount', '-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', folder);
}

function unmount(folder: string): void {
  run('umount', folder);
}

/** Small disks below a folder that a fault has left behind. */
export function unmountBelow(folder: string): void {
  for (const line of readFileSync('/proc/self/mounts', 'utf8').split('\n')) {
    const [, path] = line.split(' ');
    if (path?.startsWith(`${folder}/`)) unmount(path);
  }
}

function run(command: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw error ?? new Error(`${command}: ${stderr.trim()}`);
}
