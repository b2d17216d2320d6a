/**
 * Several stores that look like one, for more samples than one WebAssembly memory takes. A series
 * is in one of them; its slot here is another number than its slot there. Slots are mapped by pages
 * of 1024, which are given out in turn, so slots stay dense. There is one store until half of it is
 * used, and while there is one, slots are the same numbers and calls go straight to it.
 */
import { assert } from '#lib/assert.ts';
import { TsdbError } from '#lib/errors.ts';
import { ByteCollector } from './byte_collector.ts';
import { BlockSums, joinSlots, resultOf } from './rows.ts';
import type { SampleStore, WriteGroup } from './sample_store.ts';
import type {
  HeldBlock,
  Store,
  StoredBlock,
  StoredChunks,
  StoreNamespace,
  StoreRows,
  StoreTypedRows,
} from './store.ts';
import { RowPart, typedRowsAt } from './set_rows.ts';

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

export class StoreSet implements SampleStore {
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
  keepsRowVersions: boolean;
  #versionOfFiles: number;
  #writeGroup: WriteGroup | null = null;

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
    this.keepsRowVersions = false;
    this.#versionOfFiles = 0;
    this.#open();
  }

  #open(): number {
    const store = this.#options.open();
    for (const [ordinal, options] of this.#namespaces) store.setNamespace(ordinal, options);
    store.keepRowVersions(this.keepsRowVersions);
    store.noteFiles(this.#versionOfFiles, null);
    if (this.#writeGroup !== null) store.beginGroup(this.#writeGroup);
    this.#pageOfStorePage.push(new Uint32Array(pagesOfStoreMax));
    return this.#stores.push(store) - 1;
  }

  setNamespace(ordinal: number, options: StoreNamespace): void {
    for (const store of this.#stores) store.setNamespace(ordinal, options);
    this.#namespaces.set(ordinal, options);
  }

  forgetNamespace(ordinal: number): void {
    for (const store of this.#stores) store.forgetNamespace(ordinal);
    this.#namespaces.delete(ordinal);
  }

  /** 1024 series in a row go to the store that has most room. */
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

  /** The same, and any of a slot that was never given. */
  #storeOrFirst(slot: number): number {
    const page = slot >>> pageBits;
    return page < this.#pageCount ? this.#storeOfPage[page]! : 0;
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

  get generation(): Uint32Array {
    return this.#generation;
  }

  check(rows: StoreRows, namespaceOrdinal: number, nowNanos: bigint, outcomes: Uint8Array): number {
    return resultOf(
      // oxlint-disable-next-line require-yield
      this.#byRows(rows, outcomes, 'check', function* (store, some, theirs) {
        return store.check(some, namespaceOrdinal, nowNanos, theirs);
      }),
    );
  }

  keepRowVersions(keeps: boolean): void {
    this.keepsRowVersions = keeps;
    for (const store of this.#stores) store.keepRowVersions(keeps);
  }

  noteFiles(version: number, blockEndNanos: bigint | null): void {
    this.#versionOfFiles = Math.max(this.#versionOfFiles, version);
    for (const store of this.#stores) store.noteFiles(version, blockEndNanos);
  }

  append(rows: StoreRows, version: number, outcomes: Uint8Array, isDerived = false): number {
    return resultOf(this.appendInSteps(rows, version, outcomes, isDerived));
  }

  appendInSteps(
    rows: StoreRows,
    version: number,
    outcomes: Uint8Array,
    isDerived: boolean,
  ): Generator<void, number> {
    return this.#byRows(rows, outcomes, 'append', (store, some, theirs) =>
      store.appendInSteps(some, version, theirs, isDerived),
    );
  }

  checkTyped(
    rows: StoreTypedRows,
    namespaceOrdinal: number,
    nowNanos: bigint,
    outcomes: Uint8Array,
  ): number {
    return resultOf(
      // oxlint-disable-next-line require-yield
      this.#byTypedRows(rows, outcomes, function* (store, some, theirs) {
        return store.checkTyped(some, namespaceOrdinal, nowNanos, theirs);
      }),
    );
  }

  beginGroup(group: WriteGroup): void {
    this.#writeGroup = group;
    for (const store of this.#stores) store.beginGroup(group);
  }

  endGroup(group: WriteGroup): void {
    for (const store of this.#stores) store.endGroup(group);
  }

  appendTyped(
    rows: StoreTypedRows,
    version: number,
    outcomes: Uint8Array,
    isDerived = false,
  ): number {
    return resultOf(this.appendTypedInSteps(rows, version, outcomes, isDerived));
  }

  appendTypedInSteps(
    rows: StoreTypedRows,
    version: number,
    outcomes: Uint8Array,
    isDerived: boolean,
  ): Generator<void, number> {
    return this.#byTypedRows(rows, outcomes, (store, some, theirs) =>
      store.appendTypedInSteps(some, version, theirs, isDerived),
    );
  }

  *#byTypedRows(
    rows: StoreTypedRows,
    outcomes: Uint8Array,
    call: (store: Store, rows: StoreTypedRows, outcomes: Uint8Array) => Generator<void, number>,
  ): Generator<void, number> {
    if (this.#stores.length === 1) return yield* call(this.#stores[0]!, rows, outcomes);
    let count = 0;
    const placesOf = this.#stores.map((): number[] => []);
    for (let place = 0; place < rows.rowCount; place++) {
      placesOf[this.#storeOrFirst(rows.slots[place]!)]!.push(place);
    }
    for (const [index, store] of this.#stores.entries()) {
      const places = placesOf[index]!;
      if (places.length === 0) continue;
      const theirs = Uint8Array.from(places, (place) => outcomes[place]!);
      count += yield* call(
        store,
        typedRowsAt(rows, places, (slot) => this.#inner(slot)),
        theirs,
      );
      for (const [i, place] of places.entries()) outcomes[place] = theirs[i]!;
    }
    return count;
  }

  read(slots: Uint32Array, startNanos: bigint, endNanos: bigint): StoredChunks {
    return this.#gather(slots, (store, inner) => store.read(inner, startNanos, endNanos));
  }

  readInto(
    target: ByteCollector,
    slots: Uint32Array,
    startNanos: bigint,
    endNanos: bigint,
  ): Uint32Array {
    const shares = this.#shares(slots);
    const [first] = shares;
    if (shares.length === 1)
      return first!.store.readInto(target, first!.slots, startNanos, endNanos);
    const answers = shares.map((share) => share.store.read(share.slots, startNanos, endNanos));
    return joinAnswers(target, slots.length, shares, answers);
  }

  readBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    return this.#gather(slots, (store, inner) => store.readBlock(inner, blockStartNanos));
  }

  flushBlock(slots: Uint32Array, blockStartNanos: bigint): StoredChunks {
    return this.#gather(slots, (store, inner) => store.flushBlock(inner, blockStartNanos));
  }

  dropFlushed(slots: Uint32Array, blockStartNanos: bigint): number {
    return sumOf(this.#shares(slots), (share) =>
      share.store.dropFlushed(share.slots, blockStartNanos),
    );
  }

  dropBlock(slots: Uint32Array, blockStartNanos: bigint): void {
    for (const share of this.#shares(slots)) share.store.dropBlock(share.slots, blockStartNanos);
  }

  insertChunks(slot: number, chunks: Uint8Array): void {
    this.#stores[this.#storeOf(slot)]!.insertChunks(this.#inner(slot), chunks);
  }

  blockStarts(slot: number): bigint[] {
    return this.#stores[this.#storeOf(slot)]!.blockStarts(this.#inner(slot));
  }

  blocks(namespaceOrdinal: number): HeldBlock[] {
    const counts = new Map<bigint, number>();
    for (const store of this.#stores) {
      for (const { blockStartNanos, seriesCount } of store.blocks(namespaceOrdinal)) {
        counts.set(blockStartNanos, (counts.get(blockStartNanos) ?? 0) + seriesCount);
      }
    }
    return [...counts]
      .map(([blockStartNanos, seriesCount]) => ({ blockStartNanos, seriesCount }))
      .sort((a, b) => (a.blockStartNanos < b.blockStartNanos ? -1 : 1));
  }

  *sumsInSteps(namespaceOrdinal: number, slotsAStep: number): Generator<void, StoredBlock[]> {
    const sums = new BlockSums();
    for (const [index, store] of this.#stores.entries()) {
      if (index > 0) yield;
      for (const block of yield* store.sumsInSteps(namespaceOrdinal, slotsAStep)) sums.add(block);
    }
    return sums.ascending();
  }

  slotsOfBlock(namespaceOrdinal: number, blockStartNanos: bigint): Uint32Array {
    return this.#outerSlots(
      this.#stores.map((store) => store.slotsOfBlock(namespaceOrdinal, blockStartNanos)),
    );
  }

  *slotsInSteps(
    namespaceOrdinal: number,
    blockStartNanos: bigint | null,
    slotsAStep: number,
  ): Generator<Uint32Array, void> {
    for (const [index, store] of this.#stores.entries()) {
      for (const inner of store.slotsInSteps(namespaceOrdinal, blockStartNanos, slotsAStep)) {
        yield this.#stores.length === 1 ? inner : inner.map((slot) => this.#outer(index, slot));
      }
    }
  }

  expire(namespaceOrdinal: number, nowNanos: bigint): Uint32Array {
    return this.#outerSlots(this.#stores.map((store) => store.expire(namespaceOrdinal, nowNanos)));
  }

  *expireInSteps(
    namespaceOrdinal: number,
    nowNanos: bigint,
    slotsAStep: number,
  ): Generator<void, Uint32Array> {
    const found: Uint32Array[] = [];
    for (const store of this.#stores) {
      if (found.length > 0) yield;
      found.push(yield* store.expireInSteps(namespaceOrdinal, nowNanos, slotsAStep));
    }
    return this.#outerSlots(found);
  }

  get seriesCount(): number {
    return sumOf(this.#stores, (store) => store.seriesCount);
  }

  get memoryBytes(): number {
    return sumOf(this.#stores, (store) => store.memoryBytes);
  }

  get sampleCount(): number {
    return sumOf(this.#stores, (store) => store.sampleCount);
  }

  /** @param found slots of each store, ascending @returns their slots here, ascending */
  #outerSlots(found: readonly Uint32Array[]): Uint32Array {
    if (found.length === 1) return found[0]!;
    return joinSlots(
      found.map((inner, index) => inner.map((slot) => this.#outer(index, slot))),
    ).sort();
  }

  /**
   * Calls each store with its rows and their outcomes, which it may set; comes to the sum of what the calls come to. Rows of slots
   * that were never given go to the first, which refuses them.
   */
  *#byRows(
    rows: StoreRows,
    outcomes: Uint8Array,
    purpose: 'check' | 'append',
    call: (store: Store, rows: StoreRows, outcomes: Uint8Array) => Generator<void, number>,
  ): Generator<void, number> {
    if (this.#stores.length === 1) return yield* call(this.#stores[0]!, rows, outcomes);
    let count = 0;
    const part = this.#part;
    const storeOf = (slot: number): number => this.#storeOrFirst(slot);
    for (let row = 0; row < rows.rowCount; row += partRowsMax) {
      const rowEnd = Math.min(rows.rowCount, row + partRowsMax);
      part.sort(rows, row, rowEnd, this.#stores.length, storeOf);
      for (const [index, store] of this.#stores.entries()) {
        const some = part.take(index, (slot) => this.#inner(slot), outcomes, purpose === 'append');
        if (some === null) continue;
        count += yield* call(store, some.rows, some.outcomes);
        part.putOutcomes(index, some.outcomes, outcomes);
      }
    }
    return count;
  }

  /** The stores that have some of the slots; all slots as they are while there is one store. */
  #shares(slots: Uint32Array): Share[] {
    const only = this.#stores.length === 1 ? this.#stores[0]! : null;
    if (only !== null) return [{ store: only, slots, places: slots }];
    const counts = new Uint32Array(this.#stores.length);
    for (const slot of slots) counts[this.#storeOf(slot)]!++;
    const shares: Share[] = [];
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
      shares.push({ store, slots: inner, places });
    }
    return shares;
  }

  /** Chunks of the slots in their order, from each store's answer. */
  #gather(
    slots: Uint32Array,
    read: (store: Store, slots: Uint32Array) => StoredChunks,
  ): StoredChunks {
    const shares = this.#shares(slots);
    const answers = shares.map((share) => read(share.store, share.slots));
    if (answers.length === 1) return answers[0]!;
    const target = new ByteCollector();
    const chunkOffset = joinAnswers(target, slots.length, shares, answers);
    return { chunkData: target.view(), chunkOffset };
  }
}

/** What one store has of the slots that are asked for. */
interface Share {
  readonly store: Store;
  /** As this store numbers them. */
  readonly slots: Uint32Array;
  /** Where each stands among those that are asked for; not looked at in the only share. */
  readonly places: Uint32Array;
}

function sumOf<Item>(items: readonly Item[], of: (item: Item) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}

/** @returns offsets in the target, one more than places */
function joinAnswers(
  target: ByteCollector,
  count: number,
  shares: readonly Share[],
  answers: readonly StoredChunks[],
): Uint32Array {
  const chunkOffset = new Uint32Array(count + 1);
  const sourceOf = new Uint8Array(count);
  answers.forEach((chunks, source) => {
    shares[source]!.places.forEach((place, i) => {
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
    const { chunkData, chunkOffset: offsets } = answers[source]!;
    const i = next[source]!++;
    if (offsets[i] === offsets[i + 1]) continue;
    target.append(chunkData.subarray(offsets[i], offsets[i + 1]));
  }
  return chunkOffset;
}
