/**
 * Where the chunks of series are in one fileset: by slot, as flat columns. Built by one walk of the
 * index file; a slot keeps its series as long as the fileset is in use, since a series with a live
 * block stays.
 */
import { inOneGo } from '#lib/turns/steps.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import type { IndexView } from '../../persist/fileset/index.ts';

/** Series that are looked up in one step. */
const namesAtOnce = 2_048;
/** Entries that are counted, or moved, in one step. */
const movesAtOnce = 65_536;
const digitBits = 11;
const digits = 2 ** digitBits;

export class Directory {
  /** Ascending. */
  readonly slots: Uint32Array;
  /** Ranges in the data file, by entry. */
  readonly offsets: Float64Array;
  readonly lengths: Uint32Array;
  readonly checksums: Uint32Array;
  /** Entries of series that this node did not have when the directory was made. */
  readonly unknown: number;

  /** @param order entries by ascending slot */
  private constructor(unsorted: EntryColumns, order: Uint32Array, unknown: number) {
    const count = order.length;
    this.unknown = unknown;
    this.slots = new Uint32Array(count);
    this.offsets = new Float64Array(count);
    this.lengths = new Uint32Array(count);
    this.checksums = new Uint32Array(count);
    for (let to = 0; to < count; to += 1) {
      const from = order[to]!;
      this.slots[to] = unsorted.slots[from]!;
      this.offsets[to] = unsorted.offsets[from]!;
      this.lengths[to] = unsorted.lengths[from]!;
      this.checksums[to] = unsorted.checksums[from]!;
    }
  }

  /**
   * In steps, between which series may come and go: those of a fileset that is in use stay, with their slots.
   * @param slotOf slot of a series, or a negative number when this node does not have it
   * @throws {FilesetCorrupt} when an entry is damaged
   */
  static *inSteps(
    index: IndexView,
    slotOf: (series: SeriesName) => number,
  ): Generator<void, Directory> {
    const columns: EntryColumns = {
      slots: new Uint32Array(index.seriesCount),
      offsets: new Float64Array(index.seriesCount),
      lengths: new Uint32Array(index.seriesCount),
      checksums: new Uint32Array(index.seriesCount),
    };
    let count = 0;
    let unknown = 0;
    let looked = 0;
    for (const cursor = index.cursor(); cursor.next(); looked += 1) {
      if (looked % namesAtOnce === namesAtOnce - 1) yield;
      const slot = slotOf(cursor);
      if (slot < 0) unknown += 1;
      if (slot < 0 || cursor.dataLength === 0) continue;
      columns.slots[count] = slot;
      columns.offsets[count] = cursor.dataOffset;
      columns.lengths[count] = cursor.dataLength;
      columns.checksums[count] = cursor.dataCrc32c;
      count += 1;
    }
    const order = yield* orderOf(columns.slots.subarray(0, count));
    yield;
    return new Directory(columns, order, unknown);
  }

  /** In one go. */
  static of(index: IndexView, slotOf: (series: SeriesName) => number): Directory {
    return inOneGo(Directory.inSteps(index, slotOf));
  }

  get memoryBytes(): number {
    return 20 * this.slots.length + 200;
  }

  /**
   * The entries of slots that the fileset has.
   * @param slots ascending
   * @param found takes the position in `slots` and the entry, in this order
   */
  match(slots: Uint32Array, found: (position: number, entry: number) => void): void {
    const own = this.slots;
    let entry = 0;
    for (let position = 0; position < slots.length; position += 1) {
      const slot = slots[position]!;
      entry = firstNotBelow(own, slot, entry);
      if (entry === own.length) return;
      if (own[entry] === slot && this.lengths[entry]! > 0) found(position, entry);
    }
  }

  /** Leaves the chunks at these offsets out of all reads: they are damaged. */
  leaveOutAt(offsets: ReadonlySet<number>): void {
    if (offsets.size === 0) return;
    this.offsets.forEach((offset, entry) => {
      if (offsets.has(offset)) this.lengths[entry] = 0;
    });
  }
}

interface EntryColumns {
  readonly slots: Uint32Array;
  readonly offsets: Float64Array;
  readonly lengths: Uint32Array;
  readonly checksums: Uint32Array;
}

/** Numbers of entries by ascending slot, in steps: sorted by each part of the slot's bits, the lowest first. */
function* orderOf(slots: Uint32Array): Generator<void, Uint32Array> {
  const count = slots.length;
  let order = new Uint32Array(count);
  for (let i = 0; i < count; i += 1) order[i] = i;
  let next = new Uint32Array(count);
  for (let shift = 0; shift < 32; shift += digitBits) {
    /** By digit: where the next entry that has it goes. */
    const places = new Uint32Array(digits + 1);
    for (let i = 0; i < count; i += 1) {
      places[((slots[i]! >>> shift) & (digits - 1)) + 1]! += 1;
      if (i % movesAtOnce === movesAtOnce - 1) yield;
    }
    for (let digit = 1; digit < digits; digit += 1) places[digit]! += places[digit - 1]!;
    for (let i = 0; i < count; i += 1) {
      const entry = order[i]!;
      next[places[(slots[entry]! >>> shift) & (digits - 1)]!++] = entry;
      if (i % movesAtOnce === movesAtOnce - 1) yield;
    }
    [order, next] = [next, order];
  }
  return order;
}

/**
 * First entry at or after `from` that is not below the slot: doubling steps, then halving ones.
 */
function firstNotBelow(slots: Uint32Array, slot: number, from: number): number {
  let step = 1;
  let low = from;
  let high = from;
  while (high < slots.length && slots[high]! < slot) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  high = Math.min(high, slots.length);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (slots[middle]! < slot) low = middle + 1;
    else high = middle;
  }
  return low;
}
