/**
 * A mark of the data folder that goes along with what is written: another random one every ten
 * seconds, first in the folder, then in the key-value store. A folder that is an older copy of
 * itself, or one that another process went on with, has another mark than the store.
 */
import type { Disk } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';

/** `current` is on its way to the store, or there; `confirmed` is the one that was there before. */
export interface FolderMark {
  readonly current: string;
  readonly confirmed: string;
  /** Of the store when this folder was told to it last; 0 when that is not known. */
  readonly revision: number;
  /** Lineage of the store (cluster/kv/lineage.ts) that the revision is of. */
  readonly lineageId: string;
  /** Of the announcements of this folder (announcement.ts), the newest at the end. */
  readonly nonces: readonly string[];
}

/** A store is not restored to before so many starts, or the next one asks anew. */
export const noncesMax = 16;

/** Of a folder that was never marked. */
export const noMark: FolderMark = {
  current: '',
  confirmed: '',
  revision: 0,
  lineageId: '',
  nonces: [],
};

export const markFile = 'folder_mark.json';

/** What the folder says; one that is damaged says nothing, as a folder that was never marked. */
export async function readFolderMark(disk: Disk, dataFolder: string): Promise<FolderMark> {
  const path = `${dataFolder}/${markFile}`;
  if ((await disk.size(path)) === null) return noMark;
  try {
    const plain = JSON.parse(
      new TextDecoder().decode(await disk.readFile(path)),
    ) as Partial<FolderMark>;
    const { current, confirmed, revision = 0, lineageId = '', nonces = [] } = plain;
    if (typeof current !== 'string' || typeof confirmed !== 'string') return noMark;
    if (!Number.isSafeInteger(revision) || typeof lineageId !== 'string') return noMark;
    const known = Array.isArray(nonces) ? nonces.filter((one) => typeof one === 'string') : [];
    return { current, confirmed, revision, lineageId, nonces: known };
  } catch (error) {
    if (!(error instanceof SyntaxError || isUnreadable(error))) throw error;
    return noMark;
  }
}

export async function writeFolderMark(
  disk: Disk,
  dataFolder: string,
  mark: FolderMark,
): Promise<void> {
  const text = `${JSON.stringify(mark)}\n`;
  await disk.writeFileAtomic(`${dataFolder}/${markFile}`, new TextEncoder().encode(text));
}
