/** The columns of closed filesets: opened, or made again, once for however many ask, and kept in memory. */
import type { Disk } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { type LoopClock, Turns } from '#lib/turns/turns.ts';
import { seriesColumnsPath } from '../../persist/fileset/format.ts';
import { readFilesetIndex } from '../../persist/fileset/reader.ts';
import {
  encodeSeriesColumns,
  openSeriesColumns,
  seriesColumnsOf,
  writeSeriesColumns,
} from '../../persist/series_columns/file.ts';
import { SeriesColumnsCorrupt } from '../../persist/series_columns/format.ts';
import type { SeriesColumns } from '../../persist/series_columns/series_columns.ts';
import type { FileCache } from './file_cache.ts';
import type { BlockFile } from './block_file.ts';

/** About what it takes to collect some entries of columns, in units of work (lib/turns/turns.ts). */
const stepUnits = 50_000;
const never = new AbortController().signal;

export interface FileColumnsParts {
  readonly clock: LoopClock;
  readonly disk: Disk;
  readonly log: Log;
  readonly cache: FileCache;
}

export class FileColumns {
  readonly #parts: FileColumnsParts;
  /** Those that are being opened or made. */
  readonly #opening = new Map<BlockFile, Promise<SeriesColumns>>();

  constructor(parts: FileColumnsParts) {
    this.#parts = parts;
  }

  /**
   * Asks something of the columns of a closed fileset, which are made again when they are missing or damaged.
   * @param file pinned
   * @param visit called once more, with others, when it finds damage
   * @throws {FilesetCorrupt} when the index of the fileset is damaged, too
   */
  async visit(file: BlockFile, visit: (columns: SeriesColumns) => Promise<void>): Promise<void> {
    let bad: SeriesColumns | null = null;
    for (;;) {
      const columns = await this.#of(file, bad);
      try {
        await visit(columns);
        this.#note(file, columns);
        return;
      } catch (error) {
        if (!(error instanceof SeriesColumnsCorrupt) || bad !== null) throw error;
        bad = columns;
      }
    }
  }

  /** @param bad those that were found to be damaged, in the place of which others are to be made */
  #of(file: BlockFile, bad: SeriesColumns | null): Promise<SeriesColumns> {
    const known = this.#parts.cache.columns(file);
    if (known !== null && known !== bad) return Promise.resolve(known);
    let opening = this.#opening.get(file);
    if (opening === undefined) {
      opening = this.#open(file, bad !== null).finally(() => this.#opening.delete(file));
      this.#opening.set(file, opening);
    }
    return opening;
  }

  async #open(file: BlockFile, isBad: boolean): Promise<SeriesColumns> {
    const { cache, clock, disk } = this.#parts;
    const { folder, indexCrc32c } = file;
    let columns = isBad ? null : await openSeriesColumns(disk, folder, file, indexCrc32c);
    if (columns === null) {
      // Of all who wait, so it does not end with one of them.
      const work = Turns.of(clock).begin(never);
      const bytes = await this.#encode(file, async () => {
        if (work.spend(stepUnits)) await work.pause();
      });
      await this.#tryToWrite(file, bytes);
      // What could not be read may be unreadable again.
      columns = isBad ? null : await openSeriesColumns(disk, folder, file, indexCrc32c);
      columns ??= await seriesColumnsOf(bytes);
    }
    cache.keepColumns(file, columns);
    return columns;
  }

  /** What the disk does not take is in memory alone. */
  async #tryToWrite(file: BlockFile, bytes: Uint8Array): Promise<void> {
    const { disk, log } = this.#parts;
    if (file.retired !== null) return;
    try {
      await writeSeriesColumns(disk, file.folder, file, bytes);
    } catch (error) {
      const path = seriesColumnsPath(file.folder, file);
      log.warn({ path, error: messageOf(error) }, 'columns of a fileset could not be written');
    }
  }

  /** More of them may be in memory than before. */
  #note(file: BlockFile, columns: SeriesColumns): void {
    const { cache } = this.#parts;
    const known = cache.columns(file);
    if (known === null || known === columns) cache.keepColumns(file, columns);
  }

  /**
   * Writes the columns of a fileset of which nobody asks them yet.
   * @param rest called now and then: others get their turn
   * @throws {FilesetCorrupt} when the index file is damaged; what the disk rejects with
   */
  async make(file: BlockFile, rest: () => Promise<void>): Promise<void> {
    const bytes = await this.#encode(file, rest);
    await writeSeriesColumns(this.#parts.disk, file.folder, file, bytes);
  }

  async #encode(file: BlockFile, rest: () => Promise<void>): Promise<Uint8Array> {
    const { folder, indexBytes, indexCrc32c } = file;
    const index = await readFilesetIndex(this.#parts.disk, folder, file, {
      bytes: indexBytes,
      crc32c: indexCrc32c,
    });
    return encodeSeriesColumns(index, indexCrc32c, rest);
  }
}
