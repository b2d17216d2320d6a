/** Folders that are still there after a power loss. */
import type { Disk } from '#lib/env/env.ts';

/**
 * Makes a folder and all above it, and makes their entries durable up to `base`, which exists.
 * @param path `base` followed by the folders to make
 */
export async function makeDurableFolder(disk: Disk, base: string, path: string): Promise<void> {
  await disk.makeFolder(path);
  for (let at = path; at.length > base.length; ) {
    at = at.slice(0, at.lastIndexOf('/'));
    await disk.syncFolder(at);
  }
}
