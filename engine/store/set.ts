/**
 * Several stores that look like one, for more samples than one WebAssembly memory takes. A series
 * is in one of them; its slot here is another number than its slot there. Slots are mapped by pages
 * of 1024, which are given out in turn, so slots stay dense. There is one store until half of it is
 * used, and while there is one, slots are the same numbers and calls go straight to it.
 */
import { assert } from '#lib/assert.ts';
import { TsdbError } from '#lib/errors.ts';
import { ByteCollector } from './byte_collector.ts';
import { joinSlots } from './rows.ts';
import type { Store, StoredBlock, StoredChunks, StoreNamespace, StoreRows } from './store.ts';
import { RowPart } from './set_rows.ts';

const pageBits = 10;
const pageSlots: number = 1 << pageBits;
const pagesOfStoreMax = 16_384;
const storesMax = 255;
/** Rows that are sorted by store at once. */
const partRowsMax = 65_536;
const noSlot = 2 ** 32 - 1;

/** A further store is opened when all are used to this share. */
const openShare = 0.5;

export interface StoreSetOptions {
  readonly storeBytes: number;
  /** At most 255. */
  readonly storeCountMax: number;
  /** Gives an empty store of `storeBytes`. */
  readonly open: () => Store;
}

export class StoreSet {
  readonly #options: StoreSetOptions;
  readonly #stores: Store[];
  readonly #namespaces: Map<number, StoreNamespace>;
  /** By page of slots here: which store has it, and as which of its pages. */
  readonly #storeOfPage: Uint8Array;
  readonly #pageInStore: Uint16Array;
  /** By store: the page here of each of its pages, + 1; 0 while it has none. */
  readonly #pageOfStorePage: Uint32Array[];
  #pageCount: number;
  #generation: Uint32Array;
  #created: number;
  /** The store that gives the next slots. */
  #current: number;
  readonly #part: RowPart;

  constructor(options: StoreSetOptions) {
    const { storeCountMax } = options;
    assert(storeCountMax > 0 && storeCountMax <= storesMax, 'a set has 1 to 255 stores');
    this.#options = options;
    this.#stores = [];
    this.#namespaces = new Map();
    this.#storeOfPage = new Uint8Array(storeCountMax * pagesOfStoreMax);
    this.#pageInStore = new Uint16Array(storeCountMax * pagesOfStoreMax);
    this.#pageOfStorePage = [];
    this.#pageCount = 0;
    this.#generation = new Uint32Array(pageSlots);
    this.#created = 0;
    this.#current = 0;
    this.#part = new RowPart();
    this.#open();
  }

  #open(): number {
    const store = this.#options.open();
    for (const [ordinal, options] of this.#namespaces) store.setNamespace(ordinal, options);
    this.#pageOfStorePage.push(new Uint32Array(pagesOfStoreMax));
    return this.#stores.push(store) - 1;
  }

  /** The only store, or null. */
  get #only(): Store | null {
    return this.#stores.length === 1 ? this.#stores[0]! : null;
  }

  /** @throws as `Store` */
  setNamespace(ordinal: number, options: StoreNamespace): void {
    for (const store of this.#stores) store.setNamespace(ordinal, options);
    this.#namespaces.set(ordinal, options);
  }

  forgetNamespace(ordinal: number): void {
    for (const store of this.#stores) store.forgetNamespace(ordinal);
    this.#namespaces.delete(ordinal);
  }

  /**
   * As `Store.createSeries`: 1024 series in a row go to the store that has most room.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when memory of all stores is over the budget
   */
  createSeries(namespaceOrdinal: number): number {
    if (this.#created++ % pageSlots === 0) this.#current = this.#roomiest();
    try {
      return this.#createIn(this.#current, namespaceOrdinal);
    } catch (error) {
      return this.#createInAnother(namespaceOrdinal, error);
    }
  }

  /** @throws the failure when all stores are full */
  #createInAnother(namespaceOrdinal: number, failure: unknown): number {
    if (!(failure instanceof TsdbError) || failure.code !== 'RESOURCE_EXHAUSTED') throw failure;
    const full = this.#current;
    for (const index of this.#byUse()) {
      if (index === full) continue;
      try {
        const slot = this.#createIn(index, namespaceOrdinal);
        this.#current = index;
        return slot;
      } catch (error) {
        if (!(error instanceof TsdbError) || error.code !== 'RESOURCE_EXHAUSTED') throw error;
      }
    }
    throw failure;
  }

  #roomiest(): number {
    const best = this.#byUse()[0]!;
    const { storeBytes, storeCountMax } = this.#options;
    const isUsed = this.#stores[best]!.memoryBytes > storeBytes * openShare;
    return isUsed && this.#stores.length < storeCountMax ? this.#open() : best;
  }

  /** Stores, the least used first. */
  #byUse(): number[] {
    const bytes = this.#stores.map((store) => store.memoryBytes);
    return [...bytes.keys()].sort((a, b) => bytes[a]! - bytes[b]!);
  }

  #createIn(index: number, namespaceOrdinal: number): number {
    const store = this.#stores[index]!;
    const inner = store.createSeries(namespaceOrdinal);
    const innerPage = inner >>> pageBits;
    const pages = this.#pageOfStorePage[index]!;
    if (pages[innerPage] === 0) {
      const page = this.#pageCount++;
      pages[innerPage] = page + 1;
      this.#storeOfPage[page] = index;
      this.#pageInStore[page] = innerPage;
    }
    const slot = this.#outer(index, inner);
    if (slot >= this.#generation.length) {
      const larger = new Uint32Array(this.#generation.length * 2);
      larger.set(this.#generation);
      this.#generation = larger;
    }
    this.#generation[slot] = store.generation[inner]!;
    return slot;
  }

  #outer(index: number, inner: number): number {
    const page = this.#pageOfStorePage[index]![inner >>> pageBits]! - 1;
    return page * pageSlots + (inner & (pageSlots - 1));
  }

  /** Index of the store of a slot that was given. */
  #storeOf(slot: number): number {
    assert(slot >>> pageBits < this.#pageCount, 'the slot is of a series that was created');
    return this.#storeOfPage[slot >>> pageBits]!;
  }

  /** Slot in its store; one that no store has for a slot that was never given. */
  #inner(slot: number): number {
    const page = slot >>> pageBits;
    if (page >= this.#pageCount) return noSlot;
    return this.#pageInStore[page]! * pageSlots + (slot & (pageSlots - 1));
  }

  releaseSeries(slot: number): void {
    const store = this.#stores[this.#storeOf(slot)]!;
    const inner = this.#inner(slot);
    store.releaseSeries(inner);
    this.#generation[slot] = store.generation[inner]!;
  }

  /** Generation by slot, from 1. A view: fetch it again after each call. */
  get generation(): Uint32Array {
    return this.#generation;
  }

  /** As `Store.check`. */
  check(rows: StoreRows, namespaceOrdinal: number, nowNanos: bigint, outcomes: Uint8Array): number {
    const only = this.#only;
    if (only !== null) return only.check(rows, namespaceOrdinal, nowNanos, outcomes);
    let refused = 0;
    for (let row = 0; row < rows.rowCount; row += partRowsMax) {
      const part = this.#partFrom(rows, row);
      for (const [index, store] of this.#stores.entries()) {
        const some = part.take(index, (slot) => this.#inner(slot), outcomes, false);
        if (some === null) continue;
        refused += store.check(some.rows, namespaceOrdinal, nowNanos, some.outcomes);
        part.putOutcomes(index, some.outcomes, outcomes);
      }
    }
    return refused;
  }

  /** As `Store.append`. */
  append(rows: StoreRows, version: number, outcomes: Uint8Array): void {
    const only = this.#only;
    if (only !== null) return only.append(rows, version, outcomes);
    for (let row = 0; row < rows.rowCount; row += partRowsMax) {
      const part = this.#partFrom(rows, row);
      for (const [index, store] of this.#stores.entries()) {
        const some = part.take(index, (slot) => this.#inner(slot), outcomes, true);
        if (some !== null) store.append(some.rows, version, some.outcomes);
      }
    }
  }

  /**
   * Rows [row, …) by store; those of slots that were never given go to the first, which refuses
   * them.
   */
  #partFrom(rows: StoreRows, row: number): RowPart {
    const rowEnd = Math.min(rows.rowCount, row + partRowsMax);
    this.#part.sort(rows, row, rowEnd, this.#stores.length, (slot) => {
      const page = slot >>> pageBits;
      return page < this.#pageCount ? this.#storeOfPage[page]! : 0;
    });
    return this.#part;
  }

  /** As `Store.read`. */
  read(slots: Uint32Array, startNanos: bigint, endNanos: bigint): StoredChunks {
    const target = new ByteCollector();
    const chunkOffset = this.readInto(target, slots, startNanos, endNanos);
    return { chunkData: target.view(), chunkOffset };
  }

  /** As `Store.readInto`. */
  readInto(
    target: ByteCollector,
    slots: Uint32Array,
    startNanos: bigint,
    endNanos: bigint,
  ): Uint32Array {
    const only = this.#only;
    if (only !== null) return only.readInto(target, slots, startNanos, endNanos);
    return this.#gather(target, slots, (store, inner) => store.read(inner, startNanos, endNanos));
  }

  readBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    const only = this.#only;
    if (only !== null) return only.readBlock(slots, blockStartNanos);
    const target = new ByteCollector();
    const chunkOffset = this.#gather(target, slots, (store, inner) =>
      store.readBlock(inner, blockStartNanos),
    );
    return { chunkData: target.view(), chunkOffset };
  }

  flushBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    const only = this.#only;
    if (only !== null) return only.flushBlock(slots, blockStartNanos);
    const target = new ByteCollector();
    const chunkOffset = this.#gather(target, slots, (store, inner) =>
      store.flushBlock(inner, blockStartNanos),
    );
    return { chunkData: target.view(), chunkOffset };
  }

  /**
   * `flushBlock` by something that works beside the stores' thread.
   * @param flush called at once for each store with its slots
   */
  async flushBlockBy(
    flush: (store: Store, slots: Uint32Array) => Promise<StoredChunks>,
    slots: Uint32Array,
  ): Promise<StoredChunks> {
    const only = this.#only;
    if (only !== null) return flush(only, slots);
    const asked: Promise<StoreAnswer>[] = [];
    this.#byStore(slots, (store, inner, places) => {
      asked.push(flush(store, inner).then((chunks) => ({ chunks, places })));
    });
    const target = new ByteCollector();
    const chunkOffset = joinAnswers(target, slots.length, await Promise.all(asked));
    return { chunkData: target.view(), chunkOffset };
  }

  dropFlushed(slots: Uint32Array, blockStartNanos: bigint): number {
    const only = this.#only;
    if (only !== null) return only.dropFlushed(slots, blockStartNanos);
    let dropped = 0;
    this.#byStore(slots, (store, inner) => (dropped += store.dropFlushed(inner, blockStartNanos)));
    return dropped;
  }

  dropBlock(slots: Uint32Array, blockStartNanos: bigint): void {
    this.#byStore(slots, (store, inner) => store.dropBlock(inner, blockStartNanos));
  }

  /** @throws as `Store` */
  insertChunks(slot: number, chunks: Uint8Array): void {
    this.#stores[this.#storeOf(slot)]!.insertChunks(this.#inner(slot), chunks);
  }

  blockStarts(slot: number): bigint[] {
    return this.#stores[this.#storeOf(slot)]!.blockStarts(this.#inner(slot));
  }

  blocks(namespaceOrdinal: number): StoredBlock[] {
    const sums = new Map<bigint, StoredBlock>();
    for (const store of this.#stores) {
      for (const block of store.blocks(namespaceOrdinal)) {
        const sum = sums.get(block.blockStartNanos);
        sums.set(block.blockStartNanos, {
          blockStartNanos: block.blockStartNanos,
          seriesCount: block.seriesCount + (sum?.seriesCount ?? 0),
          rowCount: block.rowCount + (sum?.rowCount ?? 0),
          bytes: block.bytes + (sum?.bytes ?? 0),
        });
      }
    }
    return [...sums.values()].sort((a, b) => (a.blockStartNanos < b.blockStartNanos ? -1 : 1));
  }

  slotsOfBlock(namespaceOrdinal: number, blockStartNanos: bigint): Uint32Array {
    return this.#outerSlots((store) => store.slotsOfBlock(namespaceOrdinal, blockStartNanos));
  }

  expire(namespaceOrdinal: number, nowNanos: bigint): Uint32Array {
    return this.#outerSlots((store) => store.expire(namespaceOrdinal, nowNanos));
  }

  *expireInSteps(
    namespaceOrdinal: number,
    nowNanos: bigint,
    slotsAStep: number,
  ): Generator<void, Uint32Array> {
    const found: Uint32Array[] = [];
    for (const [index, store] of this.#stores.entries()) {
      if (index > 0) yield;
      const inner = yield* store.expireInSteps(namespaceOrdinal, nowNanos, slotsAStep);
      found.push(inner.map((slot) => this.#outer(index, slot)));
    }
    return joinSlots(found).sort();
  }

  get seriesCount(): number {
    return this.#stores.reduce((sum, store) => sum + store.seriesCount, 0);
  }

  get memoryBytes(): number {
    return this.#stores.reduce((sum, store) => sum + store.memoryBytes, 0);
  }

  get sampleCount(): number {
    return this.#stores.reduce((sum, store) => sum + store.sampleCount, 0);
  }

  /** Slots of all stores, ascending. */
  #outerSlots(find: (store: Store) => Uint32Array): Uint32Array {
    const only = this.#only;
    if (only !== null) return find(only);
    const found = this.#stores.map(find);
    const slots = new Uint32Array(found.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const [index, inner] of found.entries()) {
      for (const slot of inner) slots[at++] = this.#outer(index, slot);
    }
    return slots.sort();
  }

  /** Calls with the slots of each store, and where each of them stands in `slots`. */
  #byStore(
    slots: Uint32Array,
    call: (store: Store, inner: Uint32Array, places: Uint32Array) => void,
  ): void {
    const counts = new Uint32Array(this.#stores.length);
    for (const slot of slots) counts[this.#storeOf(slot)]!++;
    for (const [index, store] of this.#stores.entries()) {
      if (counts[index] === 0) continue;
      const inner = new Uint32Array(counts[index]!);
      const places = new Uint32Array(counts[index]!);
      let length = 0;
      for (let place = 0; place < slots.length; place++) {
        const slot = slots[place]!;
        if (this.#storeOf(slot) !== index) continue;
        inner[length] = this.#inner(slot);
        places[length++] = place;
      }
      call(store, inner, places);
    }
  }

  /** Chunks of the slots in their order, from each store's answer. */
  #gather(
    target: ByteCollector,
    slots: Uint32Array,
    read: (store: Store, inner: Uint32Array) => StoredChunks,
  ): Uint32Array {
    const answers: StoreAnswer[] = [];
    this.#byStore(slots, (store, inner, places) => {
      answers.push({ chunks: read(store, inner), places });
    });
    return joinAnswers(target, slots.length, answers);
  }
}

/** Chunks of one store, and where each series of them stands among those that were asked for. */
interface StoreAnswer {
  readonly chunks: StoredChunks;
  readonly places: Uint32Array;
}

/** @returns offsets in the target, one more than places */
function joinAnswers(
  target: ByteCollector,
  count: number,
  answers: readonly StoreAnswer[],
): Uint32Array {
  const chunkOffset = new Uint32Array(count + 1);
  const sourceOf = new Uint8Array(count);
  answers.forEach(({ chunks, places }, source) => {
    places.forEach((place, i) => {
      chunkOffset[place + 1] = chunks.chunkOffset[i + 1]! - chunks.chunkOffset[i]!;
      sourceOf[place] = source;
    });
  });
  chunkOffset[0] = target.length;
  for (let place = 0; place < count; place++) {
    chunkOffset[place + 1] = chunkOffset[place + 1]! + chunkOffset[place]!;
  }
  target.expect(chunkOffset[count]!);
  const next = new Uint32Array(answers.length);
  for (let place = 0; place < count; place++) {
    const source = sourceOf[place]!;
    const { chunkData, chunkOffset: offsets } = answers[source]!.chunks;
    const i = next[source]!++;
    if (offsets[i] === offsets[i + 1]) continue;
    target.append(chunkData.subarray(offsets[i], offsets[i + 1]));
  }
  return chunkOffset;
}
