/** Folders of a source, which may be links: to a disk that is not mounted, or to what a container does not see. */
import type { Disk } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';

/**
 * Names in a folder; none when it is not there.
 * @throws {TsdbError} BAD_REQUEST when it is a link to what is not there: that is no folder without files
 */
export async function namesIn(disk: Disk, path: string): Promise<string[]> {
  const names = await disk.list(path);
  if (names.length === 0 && (await isLinkToNothing(disk, path))) {
    throw badRequest(`cannot read ${path}: ${linkToNothing}`);
  }
  return names;
}

export const linkToNothing = 'it is a link to what is not there';

/** Whether its folder has the name, with nothing behind it. What is deleted meanwhile loses its name, too. */
export async function isLinkToNothing(disk: Disk, path: string): Promise<boolean> {
  if ((await disk.size(path)) !== null) return false;
  const slash = path.lastIndexOf('/');
  return (await disk.list(path.slice(0, Math.max(slash, 0)))).includes(path.slice(slash + 1));
}
