/**
 * Folders of M3: names of folders and files are those of ours, and what is in the files is not, so that its filesets would be taken
 * for some that were never finished, and deleted.
 */
import { join } from 'node:path';
import type { Disk } from '#lib/env/env.ts';

/** Of M3, which has two numbers there. */
const commitlogName = /^commitlog-\d+-\d+\.db$/;
/** Of M3 it is a checksum and nothing else. */
const checkpointBytes = 4;

/** A file of M3 in a data folder; null when there is none. */
export async function m3FileIn(disk: Disk, folder: string): Promise<string | null> {
  const logs = join(folder, 'commitlogs');
  const log = (await disk.list(logs)).find((name) => commitlogName.test(name));
  if (log !== undefined) return join(logs, log);
  for (const kind of ['data', 'snapshots']) {
    for (const namespace of await disk.list(join(folder, kind))) {
      for (const shard of await disk.list(join(folder, kind, namespace))) {
        const files = join(folder, kind, namespace, shard);
        for (const name of await disk.list(files)) {
          if (!name.startsWith('fileset-') || !name.endsWith('-checkpoint.db')) continue;
          const path = join(files, name);
          if ((await disk.size(path)) === checkpointBytes) return path;
        }
      }
    }
  }
  return null;
}
