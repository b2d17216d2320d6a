/** One fileset of one shard, in use or not any more. */
import {
  type FilesetDigest,
  type FilesetInfo,
  type FilesetKey,
  filesetPath,
} from '../../persist/fileset/format.ts';
import type { CachedFile } from './file_cache.ts';

/** What becomes of a fileset that is not in use any more. */
export type Retirement = 'delete' | 'keep' | 'set aside' | 'folder removed';

/** One complete fileset in use. */
export class BlockFile implements CachedFile, FilesetKey {
  readonly folder: string;
  readonly info: FilesetInfo;
  readonly seriesCount: number;
  readonly dataBytes: number;
  readonly indexBytes: number;
  readonly indexCrc32c: number;
  readonly dataPath: string;
  /** Readers that are under way. */
  pins = 0;
  retired: Retirement | null = null;
  /** Offsets of the entries that were found to be damaged, and are not served. */
  readonly damaged: Set<number> = new Set();
  /**
   * Its series are asked of its columns (node/persist/series_columns): the index need not have them. What replaces it is closed,
   * too.
   */
  isClosed = false;
  /** Those whose very rows it has, as one that brings them together; null for none. Not known after a start. */
  standsFor: readonly BlockFile[] | null = null;

  constructor(folder: string, info: FilesetInfo, seriesCount: number, digest: FilesetDigest) {
    this.folder = folder;
    this.info = info;
    this.seriesCount = seriesCount;
    this.dataBytes = digest.data.bytes;
    this.indexBytes = digest.index.bytes;
    this.indexCrc32c = digest.index.crc32c;
    this.dataPath = filesetPath(folder, info, 'data');
  }

  /** Start of its first block. */
  get blockStartNanos(): bigint {
    return this.info.blockStartNanos;
  }

  /** End of its last block. */
  get endNanos(): bigint {
    return this.info.blockStartNanos + this.info.blockSizeNanos;
  }

  /** Whether one of its files has this path. */
  isOf(path: string): boolean {
    return path.startsWith(
      `${this.folder}/fileset-${this.info.blockStartNanos}-${this.info.volume}-`,
    );
  }

  get volume(): number {
    return this.info.volume;
  }

  get shard(): number {
    return this.info.shard;
  }
}
