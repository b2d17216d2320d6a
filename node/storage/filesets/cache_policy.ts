/**
 * What is kept in memory of the filesets' data, by the configured policy: nothing, what was read
 * within a time, what was read last, or all of it as far as the memory goes. Other uses of memory
 * come first.
 */
import type { Namespace } from '#cluster/namespaces/namespaces.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { MemoryBudget } from '../admission/memory_budget.ts';
import type { CachedFile, FileCache } from './file_cache.ts';
import { BlockFile } from './block_file.ts';
import type { NamespaceFiles } from './namespace_files.ts';

export type CachePolicy = 'none' | 'recently_read' | 'lru' | 'all';

/** A namespace whose filesets are kept. */
export interface CachedNamespace {
  readonly files: NamespaceFiles;
  readonly options: Namespace['options'];
}

/** What it takes to keep a policy. */
export interface CacheKeeperParts {
  readonly env: Env;
  readonly log: Log;
  readonly policy: CachePolicy;
  /** Most bytes of pages that were asked for. */
  readonly pageBytesMax: number;
  readonly memory: MemoryBudget;
  readonly fileCache: FileCache;
  readonly namespaces: ReadonlyMap<string, CachedNamespace>;
}

/** Part of the memory budget that `all` leaves to the rest, as soon as that needs it. */
const restPartOfAll = 0.35;
/** Of the budget at most, when nothing else needs it. */
const pagesPartOfAll = 0.5;

/** @param wanted most bytes of pages that were asked for */
export function pageBytesMaxOf(policy: CachePolicy, memory: MemoryBudget, wanted: number): number {
  if (policy === 'none') return 0;
  const least = memory.pageBytesMax(wanted);
  if (policy !== 'all') return least;
  const { storeBytes, indexBytes } = memory.use;
  const free = (1 - restPartOfAll) * memory.totalBytes - storeBytes - indexBytes;
  return Math.floor(Math.max(least, Math.min(pagesPartOfAll * memory.totalBytes, free)));
}

/** Keeps the policy, a round with each tick. */
export class CacheKeeper {
  readonly #parts: CacheKeeperParts;
  /** Filesets that were brought to memory once. */
  readonly #loaded = new WeakSet<CachedFile>();

  constructor(parts: CacheKeeperParts) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { fileCache, memory, policy, env } = this.#parts;
    const pageBytesMax = pageBytesMaxOf(policy, memory, this.#parts.pageBytesMax);
    fileCache.limitPages(pageBytesMax);
    const nowMillis = env.clock.monotonicMillis();
    fileCache.noteTime(nowMillis);
    if (policy === 'recently_read') {
      fileCache.forgetUnread((file) => this.#keptMillisOf(file));
    }
    if (policy === 'all') await this.#loadNewest(fileCache, pageBytesMax, signal);
  }

  /** How long what was read of a file stays; null: as long as there is room. */
  #keptMillisOf(file: CachedFile): number | null {
    if (!(file instanceof BlockFile)) return null;
    const namespace = this.#parts.namespaces.get(file.info.namespace);
    if (namespace === undefined) return null;
    const { blockDataExpiry, blockDataExpiryAfterNotAccessPeriodNanos } =
      namespace.options.retentionOptions;
    return blockDataExpiry ? Number(blockDataExpiryAfterNotAccessPeriodNanos / 1_000_000n) : null;
  }

  /** The newest blocks first, until the pages are full. */
  async #loadNewest(
    fileCache: FileCache,
    pageBytesMax: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { namespaces, log } = this.#parts;
    const waiting = [...namespaces.values()]
      .flatMap(({ files }) => files.all(null).map((file) => ({ files, file })))
      .filter(({ file }) => !this.#loaded.has(file))
      .sort((a, b) => Number(b.file.blockStartNanos - a.file.blockStartNanos));
    for (const { files, file } of waiting) {
      signal.throwIfAborted();
      if (file.retired !== null) continue;
      if (fileCache.pageBytes + file.dataBytes > pageBytesMax) return;
      files.pin(file);
      try {
        await fileCache.load(file);
        this.#loaded.add(file);
      } catch (error) {
        // Whoever reads it finds what is wrong with it.
        log.debug({ path: file.dataPath, error: messageOf(error) }, 'fileset is not loaded');
        this.#loaded.add(file);
      } finally {
        files.unpin(file);
      }
    }
  }
}
