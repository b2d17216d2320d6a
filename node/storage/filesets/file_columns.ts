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
  readonly #opening = new Map<
    BlockFile,
    { readonly columns: Promise<SeriesColumns>; readonly isMade: boolean }
  >();
  /** Those in memory that were made of the index of their fileset. */
  readonly #made = new WeakSet<SeriesColumns>();

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
    for (let isDamaged = false; ; isDamaged = true) {
      const columns = await this.#of(file, isDamaged);
      try {
        await visit(columns);
        this.#note(file, columns);
        return;
      } catch (error) {
        if (!(error instanceof SeriesColumnsCorrupt) || this.#made.has(columns)) throw error;
      }
    }
  }

  /** @param mustBeMade those beside the fileset were found to be damaged, so they are made of its index, and are in memory */
  async #of(file: BlockFile, mustBeMade: boolean): Promise<SeriesColumns> {
    for (;;) {
      const known = this.#parts.cache.columns(file);
      if (known !== null && (!mustBeMade || this.#made.has(known))) return known;
      const opening = this.#opening.get(file);
      if (opening === undefined) return this.#begin(file, mustBeMade);
      if (opening.isMade || !mustBeMade) return opening.columns;
      // Of those that are damaged.
      await opening.columns.catch(() => {});
    }
  }

  #begin(file: BlockFile, isMade: boolean): Promise<SeriesColumns> {
    const columns = this.#open(file, isMade).finally(() => this.#opening.delete(file));
    this.#opening.set(file, { columns, isMade });
    return columns;
  }

  async #open(file: BlockFile, mustBeMade: boolean): Promise<SeriesColumns> {
    const { cache, clock, disk } = this.#parts;
    const { folder, indexCrc32c } = file;
    let columns = mustBeMade ? null : await openSeriesColumns(disk, folder, file, indexCrc32c);
    if (columns === null) {
      // Of all who wait, so it does not end with one of them.
      const work = Turns.of(clock).begin(never);
      const bytes = await this.#encode(file, async () => {
        if (work.spend(stepUnits)) await work.pause();
      });
      await this.#tryToWrite(file, bytes);
      // What could not be read may be unreadable again.
      if (!mustBeMade) columns = await openSeriesColumns(disk, folder, file, indexCrc32c);
      if (columns === null) {
        columns = await seriesColumnsOf(bytes);
        this.#made.add(columns);
      }
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
