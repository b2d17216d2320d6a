/** A disk that may have bad sectors, or files that nobody but their owner may read: these are damage of a source, and named. */
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { badRequest, messageOf } from '#lib/errors.ts';

/** What is about one file, and may be passed over with it. */
const unreadableCodes: ReadonlySet<unknown> = new Set(['EACCES', 'EPERM', 'EIO', 'ELOOP']);

/** @returns the disk, whose errors are BAD_REQUEST where something cannot be read */
export function readableDisk(disk: Disk): Disk {
  return {
    ...disk,
    open: async (path, mode) => {
      const file = await reading(path, () => disk.open(path, mode));
      return mode === 'read' ? readableFile(file, path) : file;
    },
    readFile: (path) => reading(path, () => disk.readFile(path)),
    list: (path) => reading(path, () => disk.list(path)),
    size: (path) => reading(path, () => disk.size(path)),
  };
}

function readableFile(file: DiskFile, path: string): DiskFile {
  return {
    read: (position, length) => reading(path, () => file.read(position, length)),
    size: () => file.size(),
    write: (position, parts) => file.write(position, parts),
    sync: () => file.sync(),
    truncate: (length) => file.truncate(length),
    close: () => file.close(),
    [Symbol.asyncDispose]: () => file.close(),
  };
}

async function reading<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!unreadableCodes.has((error as NodeJS.ErrnoException).code)) throw error;
    throw badRequest(`cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
}
