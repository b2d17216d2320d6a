/**
 * Reads a store from another thread while its own thread goes on changing it (docs/STORAGE.md,
 * Threads). The reader copies series out of the store's memory, keeps what was at rest while it was
 * copied, and makes chunks of the copies in a memory of its own. It changes nothing in the store,
 * so its thread may end at any moment.
 */
import { ByteCollector } from './byte_collector.ts';
import {
  attachStoreKernel,
  clampInt64,
  loadStoreKernel,
  type LoadedStoreKernel,
} from './kernel.ts';
import type { StoreExports } from './store_exports.ts';
import type { StoredChunks } from './rows.ts';

/** What `Store.openReader` gives; it can be posted to another thread. */
export interface StoreWindow {
  readonly memory: WebAssembly.Memory;
  /** Of the reader's region in it: `readerRegionBytes`. */
  readonly regionAddress: number;
}

/** Chunks as `Store.read` gives them; those of some series may be missing. */
export interface ReaderAnswer extends StoredChunks {
  /**
   * Numbers of the series that could not be read: larger than the region, or the store was changed
   * all the time. The store's own thread reads these.
   */
  readonly left: Uint32Array;
}

export const readerRegionBytes: number = 1 << 20;
/** Series that are copied in one go: so much of the region is for their numbers. */
const seriesAtOnce = 1024;
const listBytes = 4 * (3 * seriesAtOnce + 16);
const whyRoom = 1;
/** Address of the store's count of changes, as in engine/store/kernel/changes.ts. */
const changesAt = 65_536 + 512;
/**
 * Waits for the end of a change, and how many of them until a series is left to the store's thread.
 */
const waitMillis = 0.05;
const waitsMax = 400;

const workMemoryBytesMax = 2 ** 30;
/** A work memory that has grown beyond this is let go of. */
const workBytesKept = 64 << 20;
const roomBytesMax = workMemoryBytesMax >> 2;
const roomBytesMin = 256 << 10;
const slackBytes = 64;

interface Request {
  readonly start: bigint;
  readonly end: bigint;
  readonly isMerged: boolean;
}

export class StoreReader {
  readonly #memory: WebAssembly.Memory;
  readonly #region: number;
  readonly #kernel: StoreExports;
  #changes: Int32Array;
  #work: LoadedStoreKernel | null;
  /** Times that a change was waited for: for benchmarks and tests. */
  waits: number;

  constructor({ memory, regionAddress }: StoreWindow) {
    this.#memory = memory;
    this.#region = regionAddress;
    this.#kernel = attachStoreKernel(memory);
    this.#changes = new Int32Array(memory.buffer, changesAt, 1);
    this.#work = null;
    this.waits = 0;
  }

  /**
   * `Store.read`. A series that was released meanwhile, so that its slot has another generation, is
   * without chunks. What was appended before this is called is read; later rows may be.
   */
  read(
    slots: Uint32Array,
    generations: Uint32Array,
    startNanos: bigint,
    endNanos: bigint,
  ): ReaderAnswer {
    const [start, end] = [clampInt64(startNanos), clampInt64(endNanos)];
    return this.#readAll(slots, generations, { start, end, isMerged: false });
  }

  /** `Store.readBlock`, and after `Store.markFlush` the same as `Store.flushBlock`. */
  readBlock(slots: Uint32Array, generations: Uint32Array, blockStartNanos: bigint): ReaderAnswer {
    const start = clampInt64(blockStartNanos);
    return this.#readAll(slots, generations, {
      start,
      end: clampInt64(start + 1n),
      isMerged: true,
    });
  }

  #readAll(slots: Uint32Array, generations: Uint32Array, request: Request): ReaderAnswer {
    const chunkOffset = new Uint32Array(slots.length + 1);
    const chunks = new ByteCollector();
    const left: number[] = [];
    for (let from = 0; from < slots.length; ) {
      const count = Math.min(slots.length - from, seriesAtOnce);
      const copied = this.#copy(
        slots.subarray(from, from + count),
        generations.subarray(from, from + count),
        request,
      );
      const made = this.#makeChunks(copied, request, from, chunkOffset, chunks);
      from += made;
      if (made === 0) {
        chunkOffset[from + 1] = chunkOffset[from]!;
        left.push(from++);
      }
    }
    return {
      chunkData: chunks.view(),
      chunkOffset,
      left: Uint32Array.from(left),
    };
  }

  /**
   * Fills the region with images; gives the lengths of as many as fit. None when the first one
   * cannot be had.
   */
  #copy(slots: Uint32Array, generations: Uint32Array, { start, end }: Request): Uint32Array {
    const { buffer } = this.#memory;
    const count = slots.length;
    const lists = new Uint32Array(buffer, this.#region, 3 * seriesAtOnce + 16);
    lists.set(slots, 0);
    lists.set(generations, seriesAtOnce);
    const lengths = lists.subarray(2 * seriesAtOnce);
    const images = this.#region + listBytes;
    const copy = () =>
      this.#kernel.copyImages(
        this.#region,
        this.#region + 4 * seriesAtOnce,
        0,
        count,
        start,
        end,
        images,
        readerRegionBytes - listBytes - slackBytes,
        lengths.byteOffset,
      );
    for (let waits = 0; ; ) {
      lengths[count] = 0;
      const copied = unlessTrapped(copy, 0);
      // What was had is used before the next ones are waited for.
      if (copied > 0 || lengths[count] === whyRoom || waits === waitsMax) {
        return lengths.slice(0, copied);
      }
      waits += 1;
      this.#wait();
    }
  }

  #wait(): void {
    this.waits += 1;
    const count = Atomics.load(this.#changes, 0);
    if ((count & 1) === 1) Atomics.wait(this.#changes, 0, count, waitMillis);
  }

  /**
   * Makes chunks of the images in the region; gives of how many. One series that is too large for
   * the work memory ends it.
   */
  #makeChunks(
    lengths: Uint32Array,
    request: Request,
    from: number,
    chunkOffset: Uint32Array,
    chunks: ByteCollector,
  ): number {
    const count = lengths.length;
    const bytes = lengths.reduce((sum, length) => sum + length, 0);
    const listAt = bytes + slackBytes;
    const outAt = listAt + 4 * count + slackBytes;
    for (let done = 0, room = Math.max(roomBytesMin, 2 * bytes); ; ) {
      if (done === count || room > roomBytesMax) return done;
      const { memory, kernel } = (this.#work ??= loadStoreKernel(workMemoryBytesMax));
      const at = kernel.stage(outAt + room + slackBytes) >>> 0;
      if (at === 0) return done;
      const images = new Uint8Array(this.#memory.buffer, this.#region + listBytes, bytes);
      new Uint8Array(memory.buffer, at, bytes).set(images);
      const read = (first: number) =>
        kernel.readImages(
          at,
          first,
          count,
          request.start,
          request.end,
          request.isMerged ? 1 : 0,
          at + outAt,
          room,
          at + listAt,
        );
      for (let before = -1; done < count && done !== before; ) {
        before = done;
        done = unlessTrapped(() => read(before), -1);
        if (done === -1) {
          this.#work = null;
          return before;
        }
        const chunkBytes = new Uint32Array(memory.buffer, at + listAt, count);
        let length = 0;
        for (let i = before; i < done; i++) {
          length += chunkBytes[i]!;
          chunkOffset[from + i + 1] = chunkOffset[from + i]! + chunkBytes[i]!;
        }
        chunks.append(new Uint8Array(memory.buffer, at + outAt, length));
      }
      // If anything is left, one series needs more than all of the room: once more in a larger
      // stage.
      room = Math.max(room * 2, kernel.answer());
      if (memory.buffer.byteLength > workBytesKept) this.#work = null;
    }
  }
}

/**
 * The kernel stops where memory is short, or where it does not see yet that the memory has grown.
 */
function unlessTrapped(call: () => number, otherwise: number): number {
  try {
    return call();
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) return otherwise;
    throw error;
  }
}
