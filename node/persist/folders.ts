/** Folders that are still there after a power loss. */
import type { Disk, Env } from '#lib/env/env.ts';

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

/**
 * Folders in `data` that were taken out of use begin with this, which no namespace's folder does.
 */
const removedPrefix = '.removed-';

/**
 * Takes a folder out of use in one step. After a power loss it may be back as it was, until
 * `syncFolder` of its parent.
 * @param dataFolder with the folder `data`
 * @returns where it is now, to be removed; what is left of it goes at the next start
 */
export async function setFolderAside(
  env: Env,
  dataFolder: string,
  folder: string,
): Promise<string> {
  const aside = `${dataFolder}/data/${removedPrefix}${env.random.bytes(8).toHex()}`;
  await env.disk.rename(folder, aside);
  return aside;
}

/** Removes what is left of folders that were taken out of use. */
export async function removeTakenFolders(disk: Disk, dataFolder: string): Promise<void> {
  for (const name of await disk.list(`${dataFolder}/data`)) {
    if (name.startsWith(removedPrefix)) await disk.removeTree(`${dataFolder}/data/${name}`);
  }
}
