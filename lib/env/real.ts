/** The real clock, randomness and disk. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { TsdbError } from '../errors.ts';
import { deriveAccount } from '../turns/accounts.ts';
import type { Clock, Disk, DiskFile, Env, Random } from './env.ts';

const originNanos = BigInt(Math.round(performance.timeOrigin * 1000)) * 1000n;

const timerMillisMax = 2 ** 31 - 1;

/** A time that is over already is now: Node warns of it, and of a longer one, which it takes for 1 ms. */
const timerMillis = (millis: number): number => Math.min(Math.max(millis, 0), timerMillisMax);

const clock: Clock = {
  nowMillis: () => Date.now(),
  // The wall clock may be set while we run, so nanoseconds are its milliseconds with a finer rest.
  nowNanos: () => {
    const fine = originNanos + BigInt(Math.round(performance.now() * 1e6));
    const coarse = BigInt(Date.now()) * 1_000_000n;
    const apart = fine - coarse;
    return apart >= 0n && apart < 1_000_000n ? fine : coarse;
  },
  monotonicMillis: () => performance.now(),
  sleep: (millis, signal) => delay(timerMillis(millis), undefined, { signal }),
  every(millis, task, onError, signal) {
    const run = async () => {
      for (;;) {
        try {
          await delay(timerMillis(millis), undefined, { signal, ref: false });
        } catch {
          return;
        }
        try {
          await task();
        } catch (error) {
          if (!signal.aborted) onError(error);
        }
      }
    };
    void run();
  },
  deadline(millis, parent) {
    // One controller and two listeners: AbortSignal.any() costs a write several times as much.
    const ends = new AbortController();
    deriveAccount(ends.signal, parent);
    const onParent = () => {
      clearTimeout(timer);
      ends.abort(parent.reason);
    };
    const timer = setTimeout(() => {
      parent.removeEventListener('abort', onParent);
      ends.abort(new TsdbError('DEADLINE_EXCEEDED', `deadline of ${millis} ms exceeded`));
    }, timerMillis(millis));
    timer.unref();
    if (parent.aborted) onParent();
    else parent.addEventListener('abort', onParent, { once: true });
    return ends.signal;
  },
};

const random: Random = {
  u32: () => randomBytes(4).readUInt32LE(),
  bytes: (length) => new Uint8Array(randomBytes(length)),
  fraction: () => Math.random(),
};

class RealFile implements DiskFile {
  readonly #handle: fs.FileHandle;
  /** Every write is on disk when it resolves. */
  readonly #isSynced: boolean;

  constructor(handle: fs.FileHandle, isSynced = false) {
    this.#handle = handle;
    this.#isSynced = isSynced;
  }

  async read(position: number, length: number): Promise<Uint8Array> {
    const buffer = new Uint8Array(length);
    let filled = 0;
    while (filled < length) {
      const { bytesRead } = await this.#handle.read(
        buffer,
        filled,
        length - filled,
        position + filled,
      );
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return buffer.subarray(0, filled);
  }

  async write(position: number, parts: readonly Uint8Array[]): Promise<void> {
    let at = position;
    for (const part of parts) {
      let done = 0;
      while (done < part.length) {
        const { bytesWritten } = await this.#handle.write(part, done, part.length - done, at);
        done += bytesWritten;
        at += bytesWritten;
      }
    }
  }

  sync(): Promise<void> {
    return this.#isSynced ? Promise.resolve() : this.#handle.datasync();
  }

  truncate(length: number): Promise<void> {
    return this.#handle.truncate(length);
  }

  async size(): Promise<number> {
    return (await this.#handle.stat()).size;
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

const { O_CREAT, O_DSYNC, O_EXCL, O_RDWR } = fs.constants;

const openFlags = {
  read: 'r',
  create: 'wx+',
  // Write and fdatasync in one visit to the thread pool.
  createSynced: O_CREAT | O_EXCL | O_RDWR | O_DSYNC,
  write: 'r+',
} as const;

const disk: Disk = {
  async open(path, mode) {
    // 'a' would ignore positions, so an appended file is opened for writing and created when
    // missing.
    if (mode !== 'append') {
      return new RealFile(await fs.open(path, openFlags[mode]), mode === 'createSynced');
    }
    try {
      return new RealFile(await fs.open(path, 'r+'));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return new RealFile(await fs.open(path, 'wx+'));
    }
  },
  async readFile(path) {
    const buffer = await fs.readFile(path);
    return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
  },
  async writeFileAtomic(path, bytes) {
    const temporary = `${path}.tmp`;
    const handle = await fs.open(temporary, 'w');
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await fs.rename(temporary, path);
    await disk.syncFolder(dirname(path));
  },
  rename: (from, to) => fs.rename(from, to),
  remove: (path) => fs.rm(path, { force: true }),
  removeTree: (path) => fs.rm(path, { force: true, recursive: true }),
  async makeFolder(path) {
    await fs.mkdir(path, { recursive: true });
  },
  async list(path) {
    try {
      return (await fs.readdir(path)).sort();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
  },
  async size(path) {
    try {
      return (await fs.stat(path)).size;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
  },
  async syncFolder(path) {
    const handle = await fs.open(path, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
};

export const realEnv: Env = { clock, random, disk };
