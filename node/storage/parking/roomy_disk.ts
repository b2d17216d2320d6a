/** A disk that makes room when it is full, and tries again, as long as there is something to remove. */
import type { Disk, DiskFile, DiskOpenMode } from '#lib/env/env.ts';

/** @param makeRoom removes something; resolves to whether it did */
export function withRoom(disk: Disk, makeRoom: () => Promise<boolean>): Disk {
  const roomy = async <T>(call: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!isFull(error) || !(await makeRoom())) throw error;
      }
    }
  };
  return {
    open: async (path: string, mode: DiskOpenMode) => {
      const file = await roomy(() => disk.open(path, mode));
      return mode === 'read' ? file : fileWithRoom(file, roomy);
    },
    readFile: (path) => disk.readFile(path),
    writeFileAtomic: (path, bytes) => roomy(() => disk.writeFileAtomic(path, bytes)),
    // What makes room does these two itself.
    rename: (from, to) => disk.rename(from, to),
    remove: (path) => disk.remove(path),
    removeTree: (path) => disk.removeTree(path),
    makeFolder: (path) => disk.makeFolder(path),
    list: (path) => disk.list(path),
    size: (path) => disk.size(path),
    syncFolder: (path) => disk.syncFolder(path),
  };
}

/** What was written in part is written again from the beginning, at the same place. */
function fileWithRoom(file: DiskFile, roomy: <T>(call: () => Promise<T>) => Promise<T>): DiskFile {
  return {
    read: (position, length) => file.read(position, length),
    write: (position, parts) => roomy(() => file.write(position, parts)),
    sync: () => file.sync(),
    truncate: (length) => file.truncate(length),
    size: () => file.size(),
    close: () => file.close(),
    [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
  };
}

function isFull(error: unknown): boolean {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return code === 'ENOSPC' || code === 'EDQUOT';
}
