/** The directories of open filesets: made once for however many ask, and kept in memory. */
import { withRests } from '#lib/turns/steps.ts';
import type { Disk } from '#lib/env/env.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import { type LoopClock, Turns } from '#lib/turns/turns.ts';
import { readFilesetIndex } from '../../persist/fileset/reader.ts';
import type { BlockFile } from './block_file.ts';
import { Directory } from './directory.ts';
import type { FileCache } from './file_cache.ts';

/** About what one step of a directory takes, in units of work (lib/turns/turns.ts). */
const stepUnits = 200_000;
const never = new AbortController().signal;

export interface DirectoriesParts {
  readonly clock: LoopClock;
  readonly disk: Disk;
  readonly cache: FileCache;
  /** Slot of a series of this namespace, or a negative number. */
  readonly slotOf: (series: SeriesName) => number;
}

/** Keeps a fileset from leaving while it is read. */
interface Pins {
  pin(file: BlockFile): void;
  unpin(file: BlockFile): void;
}

export class Directories {
  readonly #parts: DirectoriesParts;
  readonly #pins: Pins;
  readonly #making = new Map<BlockFile, Promise<Directory>>();

  constructor(parts: DirectoriesParts, pins: Pins) {
    this.#parts = parts;
    this.#pins = pins;
  }

  /**
   * Where the chunks of series are in a pinned fileset.
   * @throws {FilesetCorrupt} when the index file is damaged
   */
  async of(file: BlockFile): Promise<Directory> {
    const known = this.#parts.cache.directory(file);
    if (known !== null) return known;
    let making = this.#making.get(file);
    if (making === undefined) {
      making = this.#make(file).finally(() => this.#making.delete(file));
      this.#making.set(file, making);
    }
    return making;
  }

  /** Keeps one that was made elsewhere. */
  keep(file: BlockFile, directory: Directory): void {
    this.#parts.cache.addDirectory(file, directory);
  }

  /** Leaves out what was found to be damaged. */
  noteDamage(file: BlockFile): void {
    this.#parts.cache.directory(file)?.leaveOutAt(file.damaged);
  }

  /** For all who wait, so it does not end with one of them. */
  async #make(file: BlockFile): Promise<Directory> {
    const { cache, clock, disk, slotOf } = this.#parts;
    this.#pins.pin(file);
    try {
      const index = await readFilesetIndex(disk, file.folder, file, {
        bytes: file.indexBytes,
        crc32c: file.indexCrc32c,
      });
      const work = Turns.of(clock).begin(never);
      const directory = await withRests(Directory.inSteps(index, slotOf), async () => {
        if (work.spend(stepUnits)) await work.pause();
      });
      // It may have been found meanwhile.
      directory.leaveOutAt(file.damaged);
      cache.addDirectory(file, directory);
      return directory;
    } finally {
      this.#pins.unpin(file);
    }
  }
}
