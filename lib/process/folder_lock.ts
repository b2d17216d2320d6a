/**
 * One process a folder, be they in different containers: process numbers of one say nothing in the
 * other, but a socket in a folder that both have mounted is the kernel's, and goes with its process
 * however that ends. Of one kernel: where machines share a file system, nobody sees the other. Each
 * process that wants the folder has a socket of a name that never comes again, and looks for others
 * after that: of two that come at once at least one sees the other.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, open, readdir, rename, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Sockets in the folder begin so. */
export const lockPrefix = 'tsdb.lock.';
/** One that does not listen yet. */
const unreadyPrefix = 'tsdb.unlocked.';

/** A socket's path has 107 bytes at most: a longer one is reached through the open folder. */
const pathBytesMax = 107;
/** A listening socket takes a connection at once, be its process stopped. */
const connectMillisMax = 2_000;
/** Of those that came at once and all gave way. */
const retryMillis = 250;
/** Everybody may ask whether it is taken, as whoever the next process runs as. */
const socketMode = 0o666;
/** With these nothing can be written there; any other says that this folder, or this process, has no sockets. */
const brokenCodes: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EROFS', 'EIO', 'EMFILE']);

/**
 * @param millisMax so long it is waited for others to end
 * @param onWait called once when it has to be waited
 * @returns null when another process has the folder; 'unsupported' where its file system has no sockets
 */
export async function lockFolder(
  folder: string,
  millisMax: number,
  onWait: () => void,
  signal: AbortSignal,
): Promise<AsyncDisposable | null | 'unsupported'> {
  const endMillis = performance.now() + millisMax;
  for (let isFirst = true; ; isFirst = false) {
    const lock = await tryLock(folder);
    if (lock !== null || performance.now() >= endMillis) return lock;
    if (isFirst) onWait();
    await sleep(retryMillis * (0.5 + Math.random()), undefined, { signal });
  }
}

async function tryLock(folder: string): Promise<AsyncDisposable | null | 'unsupported'> {
  const handle = await open(folder, 'r');
  const name = randomBytes(6).toString('hex');
  const unready = unreadyPrefix + name;
  const own = lockPrefix + name;
  const pathOf = (each: string): string => {
    const path = join(folder, each);
    return Buffer.byteLength(path) <= pathBytesMax ? path : `/proc/self/fd/${handle.fd}/${each}`;
  };
  await using stack = new AsyncDisposableStack();
  try {
    let server: Server | null = null;
    try {
      server = await listening(pathOf(unready));
      stack.defer(async () => {
        server?.close();
        for (const each of [unready, own]) await rm(join(folder, each), { force: true });
      });
      await chmod(join(folder, unready), socketMode);
      await rename(join(folder, unready), join(folder, own));
    } catch (error) {
      if (brokenCodes.has(codeOf(error))) throw error;
      // Another one has come just then, and taken it for left behind: once more.
      const isGone = server !== null && codeOf(error) === 'ENOENT';
      return isGone ? null : 'unsupported';
    }
    for (const each of await readdir(folder)) {
      const isUnready = each.startsWith(unreadyPrefix);
      if (each === own || !(isUnready || each.startsWith(lockPrefix))) continue;
      if (!(await isTaken(pathOf(each)))) await rm(join(folder, each), { force: true });
      else if (!isUnready) return null;
    }
  } finally {
    await handle.close();
  }
  return stack.move();
}

async function listening(path: string): Promise<Server> {
  // Who connects learns that it is there, and nothing else.
  const server = createServer((socket) => socket.destroy());
  server.unref();
  server.listen(path);
  await once(server, 'listening');
  return server;
}

async function isTaken(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(connectMillisMax) });
    return true;
  } catch (error) {
    // One that does not answer in time has a full queue of connections: it is there.
    return codeOf(error) !== 'ECONNREFUSED' && codeOf(error) !== 'ENOENT';
  } finally {
    socket.destroy();
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as { readonly code?: string }).code;
}
