/**
 * A process of a simulated cluster: what it sees of the world, and its end. Whatever a process
 * waits for when it is killed never comes: nothing of it runs on.
 */
import type { Clock, Disk, DiskFile, Env, Random } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import type { SimulatedTime, SimulatedTimer } from './time.ts';
import type { WrongClock } from './wrong_clock.ts';

/** A call of a disk, as faults see it. */
export interface DiskCall {
  readonly name: string;
  readonly path: string;
}

/** What a disk does to its calls. */
export interface DiskWeather {
  /** Milliseconds that a call takes; Infinity while it hangs. */
  delayMillis(call: DiskCall): number;
  /** The error of a call, or null; it does nothing then. */
  errorOf(call: DiskCall): Error | null;
}

/** A call that hangs is looked at again after so long. */
const hangMillis = 500;

export interface ProcessWorld {
  readonly time: SimulatedTime;
  readonly random: SeededRandom;
  /** Unix milliseconds when the simulation began. */
  readonly startMillis: number;
}

export class SimulatedProcess {
  readonly name: string;
  readonly env: Env;
  readonly clockError: WrongClock;
  /** Called when it ends, however that comes. */
  readonly onEnd: Set<() => void> = new Set();
  readonly #world: ProcessWorld;
  #isAlive = true;

  /** @param disk null for a process that has none */
  constructor(
    name: string,
    world: ProcessWorld,
    clockError: WrongClock,
    disk: { readonly disk: Disk; readonly weather: DiskWeather } | null,
  ) {
    this.name = name;
    this.#world = world;
    this.clockError = clockError;
    this.env = {
      clock: this.#clock(),
      random: randomOf(world.random),
      disk: disk === null ? noDisk : this.#disk(disk.disk, disk.weather),
    };
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Ends it at once, in the middle of whatever it does. */
  kill(): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    for (const tell of this.onEnd) tell();
  }

  /** Carries out the task after the time, unless the process has ended. */
  after(millis: number, task: () => void): SimulatedTimer {
    return this.#world.time.after(millis, task, this);
  }

  #clock(): Clock {
    const { startMillis } = this.#world;
    const clock = this.clockError;
    const bornMillis = clock.passedMillis;
    const wallMillis = (): number => startMillis + clock.wallMillis;
    const sleep = (millis: number, signal: AbortSignal): Promise<void> =>
      new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(signal.reason as Error);
          return;
        }
        const onAbort = (): void => {
          timer.cancel();
          reject(signal.reason as Error);
        };
        const timer = this.after(Math.max(1, millis) / clock.rate, () => {
          signal.removeEventListener('abort', onAbort);
          resolve();
        });
        signal.addEventListener('abort', onAbort, { once: true });
      });
    return {
      nowMillis: () => Math.floor(wallMillis()),
      nowNanos: () => BigInt(Math.floor(wallMillis() * 1000)) * 1000n,
      monotonicMillis: () => clock.passedMillis - bornMillis,
      sleep,
      every(millis, task, onError, signal) {
        const run = async (): Promise<void> => {
          for (;;) {
            try {
              await sleep(millis, signal);
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
      deadline: (millis, parent) => {
        const ends = new AbortController();
        const onParent = (): void => {
          timer.cancel();
          ends.abort(parent.reason);
        };
        const timer = this.after(Math.max(1, millis) / clock.rate, () => {
          parent.removeEventListener('abort', onParent);
          ends.abort(new TsdbError('DEADLINE_EXCEEDED', `deadline of ${millis} ms exceeded`));
        });
        if (parent.aborted) onParent();
        else parent.addEventListener('abort', onParent, { once: true });
        return ends.signal;
      },
    };
  }

  /** The disk as this process sees it: each call takes its time, and may fail or hang. */
  #disk(disk: Disk, weather: DiskWeather): Disk {
    const run = <T>(name: string, path: string, act: () => Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        const call = { name, path };
        const begin = (): void => {
          const delayMillis = weather.delayMillis(call);
          if (delayMillis === Number.POSITIVE_INFINITY) {
            this.after(hangMillis, begin);
            return;
          }
          this.after(delayMillis, () => {
            const error = weather.errorOf(call);
            if (error !== null) reject(error);
            else act().then(resolve, reject);
          });
        };
        begin();
      });
    const fileOf = (path: string, file: DiskFile): DiskFile => ({
      read: (position, length) => run('read', path, () => file.read(position, length)),
      write: (position, parts) => {
        // What the caller changes before the disk has it would be lost.
        const copies = parts.map((part) => new Uint8Array(part));
        return run('write', path, () => file.write(position, copies));
      },
      sync: () => run('sync', path, () => file.sync()),
      truncate: (length) => run('truncate', path, () => file.truncate(length)),
      size: () => run('size', path, () => file.size()),
      close: () => run('close', path, () => file.close()),
      [Symbol.asyncDispose]: () => run('close', path, () => file.close()),
    });
    return {
      open: (path, mode) =>
        run(`open ${mode}`, path, async () => fileOf(path, await disk.open(path, mode))),
      readFile: (path) => run('readFile', path, () => disk.readFile(path)),
      writeFileAtomic: (path, bytes) => {
        const copy = new Uint8Array(bytes);
        return run('writeFileAtomic', path, () => disk.writeFileAtomic(path, copy));
      },
      rename: (from, to) => run('rename', from, () => disk.rename(from, to)),
      remove: (path) => run('remove', path, () => disk.remove(path)),
      removeTree: (path) => run('removeTree', path, () => disk.removeTree(path)),
      makeFolder: (path) => run('makeFolder', path, () => disk.makeFolder(path)),
      list: (path) => run('list', path, () => disk.list(path)),
      size: (path) => run('size', path, () => disk.size(path)),
      syncFolder: (path) => run('syncFolder', path, () => disk.syncFolder(path)),
    };
  }
}

function randomOf(random: SeededRandom): Random {
  return {
    u32: () => random.u32(),
    bytes: (length) => random.bytes(length),
    fraction: () => random.fraction(),
  };
}

const noDisk = new Proxy({} as Disk, {
  get: (_, name) => {
    throw new Error(`this process has no disk, and calls ${String(name)}`);
  },
});
