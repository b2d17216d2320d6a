/**
 * A disk that a seed decides, for crash tests: what was not synced may be lost, in whole or sector
 * by sector; a sync may fail and lose what it should have kept; space may run out in the middle of
 * a write.
 */
import type { Disk, DiskFile, DiskOpenMode } from '#lib/env/env.ts';

/** Smaller than those of real disks, so that small files are torn too. */
const sectorBytes = 64;

export interface DiskDice {
  /** Whole number in [0, end). */
  below(end: number): number;
}

export interface DiskTroubles {
  /** Of a thousand syncs, how many fail. */
  syncFailures: number;
  /** Of a thousand writes, how many find no space. */
  writeFailures: number;
}

/** What befell a file; a campaign counts it. */
export type DiskEvent =
  | 'write'
  | 'write without space'
  /** Part of the bytes was taken before space ran out. */
  | 'short write'
  | 'failed sync'
  | 'failed sync of folder'
  | 'removal'
  | 'rename'
  /** The power went off when bytes of the file were not synced. */
  | 'unsynced at power loss'
  | 'lost write at power loss'
  /** Some sectors of what was written reached the disk, and some did not. */
  | 'torn write at power loss'
  | 'new file lost at power loss'
  | 'removed file back after power loss'
  | 'flipped bit'
  | 'zeroed bytes';

/**
 * A file's content, apart from the names that lead to it. Both arrays are its own, and lie at the
 * beginning of buffers that may be longer, for what is appended; there are zeros behind them.
 */
interface Inode {
  durable: Uint8Array;
  content: Uint8Array;
  /** Sectors that were written since the last sync. */
  readonly dirty: Set<number>;
  /** Bytes of other sectors may differ too: it was cut, or a sync failed. */
  differsElsewhere: boolean;
}

/** A disk at a moment. */
export interface DiskCopy {
  readonly names: ReadonlyMap<string, Uint8Array>;
}

export class SimulatedDisk implements Disk {
  readonly #dice: DiskDice;
  #names = new Map<string, Inode>();
  /** Names as the folders on disk have them. */
  #durableNames = new Map<string, Inode>();
  readonly troubles: DiskTroubles = { syncFailures: 0, writeFailures: 0 };
  /** Throws from everything once the power is off. */
  #generation = 0;
  onEvent: (event: DiskEvent, path: string) => void = () => {};

  constructor(dice: DiskDice) {
    this.#dice = dice;
  }

  /**
   * The disk as a process sees it that loses it with the power: everything rejects from the next
   * crash on.
   */
  session(): Disk {
    const generation = this.#generation;
    const guarded: Disk = {
      open: this.open.bind(this),
      readFile: this.readFile.bind(this),
      writeFileAtomic: this.writeFileAtomic.bind(this),
      rename: this.rename.bind(this),
      remove: this.remove.bind(this),
      removeTree: this.removeTree.bind(this),
      makeFolder: this.makeFolder.bind(this),
      list: this.list.bind(this),
      size: this.size.bind(this),
      syncFolder: this.syncFolder.bind(this),
    };
    return new Proxy(guarded, {
      get: (target, name: keyof Disk) => {
        if (generation === this.#generation) return target[name];
        return () => Promise.reject(systemError('EIO', `${name} after the end`));
      },
    });
  }

  /** Flips one bit of a file whose path matches. @returns its path, or null when there is none */
  flip(matches: (path: string) => boolean): string | null {
    const paths = [...this.#names].filter(
      ([path, { content }]) => content.length > 0 && matches(path),
    );
    if (paths.length === 0) return null;
    const [path, inode] = paths[this.#dice.below(paths.length)]!;
    const at = this.#dice.below(inode.content.length);
    const bit = 1 << this.#dice.below(8);
    inode.content = inode.content.slice();
    inode.content[at]! ^= bit;
    inode.durable = inode.content.slice();
    inode.dirty.clear();
    inode.differsElsewhere = false;
    this.onEvent('flipped bit', path);
    return path;
  }

  /** Bytes [start, end) of the files whose paths match are zeros. @returns the paths */
  zero(matches: (path: string) => boolean, start: number, end: number): string[] {
    const paths = [...this.#names.keys()].filter(matches).sort();
    for (const path of paths) {
      const inode = this.#names.get(path)!;
      inode.content = inode.content.slice().fill(0, start, end);
      inode.durable = inode.content.slice();
      inode.dirty.clear();
      inode.differsElsewhere = false;
      this.onEvent('zeroed bytes', path);
    }
    return paths;
  }

  /** Everything that is durable, for `restore`. */
  copy(): DiskCopy {
    const inodes = new Map<Inode, Uint8Array>();
    return {
      names: new Map(
        [...this.#durableNames].map(([path, inode]) => {
          let bytes = inodes.get(inode);
          if (bytes === undefined) inodes.set(inode, (bytes = inode.durable.slice()));
          return [path, bytes];
        }),
      ),
    };
  }

  /** The disk is what it was when the copy was made; no process may have it open. */
  restore({ names }: DiskCopy): void {
    this.#generation += 1;
    this.#names = new Map();
    for (const [path, bytes] of names) {
      this.#names.set(path, inodeOf(bytes));
    }
    this.#durableNames = new Map(this.#names);
  }

  /** Power loss: open files are gone, and only what was durable is sure to be there. */
  crash(): void {
    this.#generation += 1;
    const kept = new Map<string, Inode>();
    for (const [path, inode] of this.#durableNames) kept.set(path, inode);
    // Folder entries that were not synced may or may not have reached the disk.
    for (const [path, inode] of this.#names) {
      if (kept.has(path)) continue;
      if (this.#dice.below(2) === 0) kept.set(path, inode);
      else this.onEvent('new file lost at power loss', path);
    }
    for (const path of [...kept.keys()]) {
      if (this.#names.has(path)) continue;
      if (this.#dice.below(2) === 0) kept.delete(path);
      else this.onEvent('removed file back after power loss', path);
    }
    const lost = new Set<Inode>();
    for (const [path, inode] of kept) {
      if (lost.has(inode)) continue;
      lost.add(inode);
      this.#loseUnsynced(inode, path);
    }
    this.#names = kept;
    this.#durableNames = new Map(kept);
  }

  #loseUnsynced(inode: Inode, path: string): void {
    const { durable, content, dirty } = inode;
    if (dirty.size > 0) this.onEvent('unsynced at power loss', path);
    let lost = 0;
    // The length may have reached the disk before or after the data.
    const length = this.#dice.below(2) === 0 ? durable.length : content.length;
    const after = new Uint8Array(length);
    after.set(durable.subarray(0, length));
    for (const sector of dirty) {
      const start = sector * sectorBytes;
      const part = content.subarray(start, Math.min(start + sectorBytes, length));
      if (this.#dice.below(2) === 0 || part.length === 0) lost += 1;
      else after.set(part, start);
    }
    if (lost > 0) {
      this.onEvent(
        lost < dirty.size ? 'torn write at power loss' : 'lost write at power loss',
        path,
      );
    }
    inode.durable = after;
    inode.content = after.slice();
    dirty.clear();
    inode.differsElsewhere = false;
  }

  #failing(perThousand: number): boolean {
    return perThousand > 0 && this.#dice.below(1000) < perThousand;
  }

  async open(path: string, mode: DiskOpenMode): Promise<DiskFile> {
    let inode = this.#names.get(path);
    if (mode.startsWith('create') && inode !== undefined) throw systemError('EEXIST', path);
    if (inode === undefined) {
      if (mode === 'read' || mode === 'write') throw systemError('ENOENT', path);
      if (this.#failing(this.troubles.writeFailures)) {
        this.onEvent('write without space', path);
        throw systemError('ENOSPC', path);
      }
      inode = inodeOf(empty);
      this.#names.set(path, inode);
    }
    return this.#file(path, inode);
  }

  #file(path: string, inode: Inode): DiskFile {
    const generation = this.#generation;
    const check = () => {
      if (generation !== this.#generation) throw systemError('EBADF', path);
    };
    return {
      read: async (position, length) => {
        check();
        return inode.content.slice(position, position + length);
      },
      write: async (position, parts) => {
        check();
        const bytes = Buffer.concat(parts);
        const fails = this.#failing(this.troubles.writeFailures);
        const taken = fails ? this.#dice.below(bytes.length + 1) : bytes.length;
        this.#put(inode, position, bytes.subarray(0, taken));
        if (!fails) {
          this.onEvent('write', path);
          return;
        }
        this.onEvent(taken > 0 ? 'short write' : 'write without space', path);
        throw systemError('ENOSPC', path);
      },
      sync: async () => {
        check();
        if (this.#failing(this.troubles.syncFailures)) {
          this.#failSync(inode);
          this.onEvent('failed sync', path);
          throw systemError('EIO', path);
        }
        this.#keep(inode);
      },
      truncate: async (length) => {
        check();
        inode.content = inode.content.slice(0, length);
        inode.differsElsewhere = true;
      },
      size: async () => inode.content.length,
      close: async () => {},
      [Symbol.asyncDispose]: async () => {},
    };
  }

  #put(inode: Inode, position: number, bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    inode.content = lengthened(inode.content, position + bytes.length);
    inode.content.set(bytes, position);
    const last = Math.floor((position + bytes.length - 1) / sectorBytes);
    for (let sector = Math.floor(position / sectorBytes); sector <= last; sector += 1) {
      inode.dirty.add(sector);
    }
  }

  /** All that was written is durable. */
  #keep(inode: Inode): void {
    const { content, dirty } = inode;
    if (inode.differsElsewhere) inode.durable = content.slice();
    else {
      inode.durable = lengthened(inode.durable, content.length);
      for (const sector of dirty) {
        const start = sector * sectorBytes;
        inode.durable.set(content.subarray(start, start + sectorBytes), start);
      }
    }
    inode.differsElsewhere = false;
    dirty.clear();
  }

  /** As Linux does it: the pages count as clean afterwards, written or not. */
  #failSync(inode: Inode): void {
    for (const sector of inode.dirty) {
      if (this.#dice.below(2) === 0) continue;
      const start = sector * sectorBytes;
      const end = Math.min(start + sectorBytes, inode.content.length);
      inode.durable = lengthened(inode.durable, end);
      inode.durable.set(inode.content.subarray(start, end), start);
    }
    inode.dirty.clear();
    inode.differsElsewhere = true;
  }

  async readFile(path: string): Promise<Uint8Array> {
    const inode = this.#names.get(path);
    if (inode === undefined) throw systemError('ENOENT', path);
    return inode.content.slice();
  }

  async writeFileAtomic(path: string, bytes: Uint8Array): Promise<void> {
    const inode = inodeOf(bytes);
    this.#names.set(path, inode);
    this.#durableNames.set(path, inode);
  }

  async rename(from: string, to: string): Promise<void> {
    const inode = this.#names.get(from);
    if (inode === undefined) {
      this.#renameFolder(from, to);
      return;
    }
    this.#names.delete(from);
    this.#names.set(to, inode);
    this.onEvent('rename', to);
  }

  /** All of a folder or nothing moves, and it is durable at once. */
  #renameFolder(from: string, to: string): void {
    if (!this.#hasFolder(from)) throw systemError('ENOENT', from);
    for (const names of [this.#names, this.#durableNames]) {
      for (const [path, inode] of [...names]) {
        if (!path.startsWith(`${from}/`)) continue;
        names.delete(path);
        names.set(`${to}${path.slice(from.length)}`, inode);
      }
    }
  }

  async remove(path: string): Promise<void> {
    if (this.#names.delete(path)) this.onEvent('removal', path);
  }

  async removeTree(path: string): Promise<void> {
    for (const name of [...this.#names.keys()]) {
      if (name !== path && !name.startsWith(`${path}/`)) continue;
      this.#names.delete(name);
      this.onEvent('removal', name);
    }
  }

  async makeFolder(): Promise<void> {}

  async list(path: string): Promise<string[]> {
    const found = new Set<string>();
    for (const name of this.#names.keys()) {
      if (!name.startsWith(`${path}/`)) continue;
      found.add(name.slice(path.length + 1).split('/')[0]!);
    }
    return [...found].sort();
  }

  async size(path: string): Promise<number | null> {
    return this.#names.get(path)?.content.length ?? null;
  }

  async syncFolder(path: string): Promise<void> {
    if (this.#failing(this.troubles.syncFailures)) {
      this.onEvent('failed sync of folder', path);
      throw systemError('EIO', path);
    }
    for (const [name, inode] of this.#names) {
      const isIn = name.startsWith(path) && name.lastIndexOf('/') === path.length;
      if (isIn) this.#durableNames.set(name, inode);
    }
    for (const name of [...this.#durableNames.keys()]) {
      if (!name.startsWith(`${path}/`) || this.#names.has(name)) continue;
      const rest = name.slice(path.length + 1).split('/');
      // A folder below that is gone took its files with it.
      const isGone = rest.length === 1 || !this.#hasFolder(`${path}/${rest[0]}`);
      if (isGone) this.#durableNames.delete(name);
    }
  }

  #hasFolder(path: string): boolean {
    for (const name of this.#names.keys()) if (name.startsWith(`${path}/`)) return true;
    return false;
  }
}

const empty = new Uint8Array(0);

function inodeOf(bytes: Uint8Array): Inode {
  return {
    durable: bytes.slice(),
    content: bytes.slice(),
    dirty: new Set(),
    differsElsewhere: false,
  };
}

/** The same bytes with zeros behind them, if there are fewer; in the same buffer while it has room. */
function lengthened(bytes: Uint8Array, length: number): Uint8Array {
  if (length <= bytes.length) return bytes;
  const { buffer } = bytes;
  if (length <= buffer.byteLength) return new Uint8Array(buffer, 0, length);
  const longer = new Uint8Array(new ArrayBuffer(2 * length), 0, length);
  longer.set(bytes);
  return longer;
}

function systemError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}
