/** The data folder is one process's, and says how the one before has ended. */
import { join } from 'node:path';
import { ConfigError } from '#lib/config/config.ts';
import type { Disk } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { lockFolder, lockPrefix } from '#lib/process/folder_lock.ts';
import { identityFile } from '../identity/node_identity.ts';
import { m3FileIn } from './foreign_data.ts';

/**
 * A pod that is deleted may have its process started once more while the next pod has the volume: whoever
 * comes second waits so long.
 */
const lockMillisMax = 60_000;
const setting = 'db.filesystem.filePathPrefix, or TSDB_DATA_DIR';

/**
 * How the process before this one ended: a clean stop takes its pid file with it, and only the very
 * first start finds no identity in the folder.
 */
type LastStop = 'clean' | 'unclean' | 'none';

/**
 * One process a data folder: two would tear each other's files. Waits for one in another container.
 * @throws {ConfigError} when it cannot be used, or another process goes on using it
 */
export async function claimDataFolder(
  disk: Disk,
  folder: string,
  log: Log,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  await makeFolder(disk, folder);
  await using claim = new AsyncDisposableStack();
  const file = join(folder, 'tsdb.pid');
  const other = await processIn(disk, file);
  if (other !== null && other !== process.pid && (await isStorageNode(disk, other))) {
    throw new ConfigError([`${folder} is in use by the process ${other} (${file})`]);
  }
  const onWait = (): void => log.warn({ folder }, 'another process has the data folder: waiting');
  const lock = await lockFolder(folder, lockMillisMax, onWait, signal);
  if (lock === null) {
    throw new ConfigError([
      `${folder} is in use by another process, perhaps in another container, whose socket is ${folder}/${lockPrefix}… (${setting})`,
    ]);
  }
  if (lock !== 'unsupported') claim.use(lock);
  else
    log.warn(
      { folder },
      'no sockets in the data folder: processes of other containers are not seen',
    );
  // The process that was waited for takes its file with it when it ends as it should.
  const isNew = (await disk.size(join(folder, identityFile))) === null;
  const foreign = isNew ? await m3FileIn(disk, folder) : null;
  if (foreign !== null) {
    throw new ConfigError([
      `${folder} has data of M3, such as ${foreign}: name an empty folder (${setting}); \`tsdbctl data import m3\` takes the data over`,
    ]);
  }
  const isLeft = (await disk.size(file)) !== null;
  explainLastStop(isNew ? 'none' : isLeft ? 'unclean' : 'clean', log);
  await disk.writeFileAtomic(file, Buffer.from(`${process.pid}\n`));
  claim.defer(() => disk.remove(file));
  return claim.move();
}

async function makeFolder(disk: Disk, folder: string): Promise<void> {
  try {
    await disk.makeFolder(folder);
  } catch (error) {
    const { code } = error as { readonly code?: unknown };
    const isFile = code === 'EEXIST' || code === 'ENOTDIR';
    const reason = isFile ? 'it is a file, or lies in one' : messageOf(error);
    throw new ConfigError([`cannot use ${folder} as the data folder: ${reason} (${setting})`]);
  }
}

/** Null without a file. */
async function processIn(disk: Disk, file: string): Promise<number | null> {
  if ((await disk.size(file)) === null) return null;
  return Number(Buffer.from(await disk.readFile(file)).toString());
}

function explainLastStop(lastStop: LastStop, log: Log): void {
  if (lastStop === 'none') log.info({ lastStop }, 'the data folder is new');
  else if (lastStop === 'clean') log.info({ lastStop }, 'the last stop was clean');
  else {
    log.warn(
      { lastStop },
      'the last stop was not clean: its pid file is left, so its commit log is replayed',
    );
  }
}

/** The number may have been given to another program since; in a container it is often the same. */
async function isStorageNode(disk: Disk, pid: number): Promise<boolean> {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    const stat = Buffer.from(await disk.readFile(`/proc/${pid}/stat`)).toString();
    // The name stands in brackets and may hold some itself; the state follows.
    const [, name, state] = /\((.*)\) (\w)/s.exec(stat) ?? [];
    // One that has ended is there until its parent asks for its end.
    return name?.startsWith('tsdb-node') === true && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}
