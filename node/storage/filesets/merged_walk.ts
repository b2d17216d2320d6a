/** Walks over several filesets of a shard at once: each series of them once, in the order of their IDs. */
import type { Disk } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import type { BlockFile } from './block_file.ts';
import type { NamespaceFiles } from './namespace_files.ts';
import { VolumeWalk } from './volume_walk.ts';

/** A fileset, and whose it is: pinned by the caller as long as the walk goes on. */
export interface WalkedFile {
  readonly files: NamespaceFiles;
  readonly file: BlockFile;
  /** What is damaged of it is left out, in the place of an end. */
  readonly passesDamage?: boolean;
}

/** A series, until the next one. */
export interface WalkedSeries {
  readonly id: Uint8Array;
  readonly name: SeriesName;
  /** What each fileset that has it has of it that is not deleted, in the order of the filesets. */
  readonly parts: readonly Uint8Array[];
  /** Places of these filesets. */
  readonly places: readonly number[];
}

export class MergedWalk implements AsyncDisposable {
  readonly #walks: readonly VolumeWalk[];
  readonly #files: readonly WalkedFile[];

  private constructor(walks: readonly VolumeWalk[], files: readonly WalkedFile[]) {
    this.#walks = walks;
    this.#files = files;
  }

  /** @throws {FilesetCorrupt} when one cannot be read at all, as `next()` */
  static async open(disk: Disk, files: readonly WalkedFile[]): Promise<MergedWalk> {
    const walks: VolumeWalk[] = [];
    try {
      for (const { files: of, file } of files) {
        walks.push(await VolumeWalk.open(disk, of, file, null));
      }
      return new MergedWalk(walks, files);
    } catch (error) {
      for (const walk of walks) await walk[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** @throws {TsdbError} UNAVAILABLE when chunks of the series are damaged */
  async next(): Promise<WalkedSeries | null> {
    const least = leastOf(this.#walks);
    if (least === null) return null;
    const id = least.id!;
    const name = copyOfName(least.name);
    const parts: Uint8Array[] = [];
    const places: number[] = [];
    for (const [place, walk] of this.#walks.entries()) {
      if (walk.id === null || (walk !== least && compareBytes(walk.id, id) !== 0)) continue;
      const chunks = await walk.chunks();
      if (chunks !== null) {
        parts.push(chunks);
        places.push(place);
      } else if (this.#files[place]!.passesDamage !== true) {
        throw new TsdbError('UNAVAILABLE', 'chunks of a series are damaged');
      }
      walk.step();
    }
    return { id, name, parts, places };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const walk of this.#walks) await walk[Symbol.asyncDispose]();
  }
}

function leastOf(walks: readonly VolumeWalk[]): VolumeWalk | null {
  let least: VolumeWalk | null = null;
  for (const walk of walks) {
    if (walk.id === null) continue;
    if (least === null || compareBytes(walk.id, least.id!) < 0) least = walk;
  }
  return least;
}
