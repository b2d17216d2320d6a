/**
 * What the pods of the snapshot and restore jobs (desired/etcd_snapshots.ts) run of the operator's
 * image, before and after etcd's own tools: those images have no shell.
 */
import { join } from 'node:path';
import type { Env } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { fetchSnapshot, keepSnapshot, type Snapshot } from './folder.ts';

/** Names within the data folder of the member that is restored. */
export const restoredFiles = {
  snapshot: 'restoring.db',
  incomplete: 'restoring',
  data: 'data',
} as const;

/** Of a process that is asked for a snapshot which is not there, or not whole. */
export const noSnapshotExitCode = 3;

export type SnapshotCommand = (env: Env, args: readonly string[]) => Promise<Snapshot | null>;

/** By name, with the names of their arguments. */
export const snapshotCommands: ReadonlyMap<
  string,
  { readonly arguments: readonly string[]; readonly run: SnapshotCommand }
> = new Map([
  [
    'keep-etcd-snapshot',
    {
      arguments: ['FOLDER', 'INCOMING', 'COUNT'],
      run: (env: Env, [folder, incoming, count]: readonly string[]) =>
        keepSnapshot(env, folder!, incoming!, countOf(count!)),
    },
  ],
  [
    'fetch-etcd-snapshot',
    {
      arguments: ['FOLDER', 'SNAPSHOT', 'TARGET'],
      run: async ({ disk }: Env, [folder, wish, target]: readonly string[]) => {
        // Of an attempt before this one; no member runs on them yet.
        await disk.removeTree(join(target!, restoredFiles.incomplete));
        await disk.removeTree(join(target!, restoredFiles.data));
        return fetchSnapshot(disk, folder!, wish!, join(target!, restoredFiles.snapshot));
      },
    },
  ],
  [
    'finish-etcd-restore',
    {
      arguments: ['TARGET'],
      run: async ({ disk }: Env, [target]: readonly string[]) => {
        const { incomplete, data, snapshot } = restoredFiles;
        await disk.rename(join(target!, incomplete), join(target!, data));
        await disk.syncFolder(target!);
        await disk.remove(join(target!, snapshot));
        return null;
      },
    },
  ],
]);

function countOf(text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1) throw badRequest(`COUNT is no number: ${text}`);
  return count;
}
