/**
 * Keys with their history: what every key was at every revision since the last compaction.
 *
 *   names      sorted:  a        b              c
 *   histories           2 5 9    3 (deleted 7)  4        changes of the key, oldest first
 *   log                 2 3 4 5 7 9                      all changes since compaction, by revision
 *
 * Compacting at revision C keeps of each key the last change up to C, since reads at C need it, and
 * everything after; the log keeps revision C itself, so that a watch may start there. A deletion
 * before C is dropped with its key. From C's compaction on nobody reads before C. What only such reads
 * would see is dropped a part at a time, with reads and changes in between; what these see is the same
 * whether it is there yet or not.
 */
import { assert } from '#lib/assert.ts';
import { ChangeTable } from './change_table.ts';
import type { Change, ChangeName, KeyRange, LiveChange } from './requests.ts';
import { SortedNames } from './sorted_names.ts';

/** Slots of a key's changes; most keys have one. */
type History = number | number[];

export class Keyspace {
  compactRevision = 0;
  /** Bytes of all changes kept, and of those that are the newest of a key that lives. */
  storedBytes = 0;
  liveBytes = 0;
  #names = new SortedNames();
  readonly #table = new ChangeTable();
  readonly #histories = new Map<string, History>();
  /** Slots of changes. */
  readonly #log: number[] = [];
  /** So many changes at the log's begin are of the compact revision, and nothing older of their keys is left. */
  #dropped = 0;

  /** Rebuilds the keys from what the disk holds, sorted by revision and sub. */
  static restore(changes: readonly Change[], compactRevision: number): Keyspace {
    const space = new Keyspace();
    space.compactRevision = compactRevision;
    for (const change of changes) {
      const history = space.#histories.get(change.key);
      const slot = space.#addTo(history, change);
      // Before the compact revision: it or what was before it should be gone, and the process ended too early.
      const hasToDrop = history !== undefined || change.value === null;
      if (change.modRevision >= compactRevision || hasToDrop) space.#log.push(slot);
      else space.#table.release(slot, 'log');
    }
    space.#names = SortedNames.of([...space.#histories.keys()].sort(compareText));
    for (const history of space.#histories.values()) {
      const last = lastOf(history);
      if (space.#table.isLive(last)) space.liveBytes += space.#table.bytesOf(last);
    }
    return space;
  }

  get keyCount(): number {
    return this.#names.count;
  }

  /** Whether the key is there now. */
  has(key: string): boolean {
    const history = this.#histories.get(key);
    return history !== undefined && this.#table.isLive(lastOf(history));
  }

  /** The key as it is now, or null. */
  get(key: string): LiveChange | null {
    const history = this.#histories.get(key);
    return history === undefined ? null : this.#table.liveAt(lastOf(history));
  }

  /** The key as it was at the revision, or null. */
  getAt(key: string, revision: number): LiveChange | null {
    const slot = this.#slotAt(key, revision);
    return slot === undefined ? null : this.#table.liveAt(slot);
  }

  /** Bytes of the key and its value as they were at the revision; 0 when it was not there. */
  sizeAt(key: string, revision: number): number {
    const slot = this.#slotAt(key, revision);
    return slot === undefined || !this.#table.isLive(slot) ? 0 : this.#table.sizeOf(slot);
  }

  /** Of the value of a living key: below 0 when it comes before another one. */
  compareValue(key: string, other: Uint8Array): number {
    return this.#table.compareValue(lastOf(this.#histories.get(key)!), other);
  }

  #slotAt(key: string, revision: number): number | undefined {
    const history = this.#histories.get(key);
    if (history === undefined) return undefined;
    const slot = typeof history === 'number' ? history : history[this.#upTo(history, revision) - 1];
    if (slot === undefined || this.#table.modRevisionOf(slot) > revision) return undefined;
    return slot;
  }

  /** Living keys of the range at the revision, sorted by key. */
  range(range: KeyRange, revision: number): LiveChange[] {
    const found: LiveChange[] = [];
    for (const key of this.#namesIn(range)) {
      const change = this.getAt(key, revision);
      if (change !== null) found.push(change);
    }
    return found;
  }

  /** Of each of these the bytes of key and value: they are not made, as transactions may ask for one of a megabyte ten thousand times. */
  sizesIn(range: KeyRange, revision: number): number[] {
    const sizes: number[] = [];
    for (const key of this.#namesIn(range)) {
      const size = this.sizeAt(key, revision);
      if (size > 0) sizes.push(size);
    }
    return sizes;
  }

  /** As `range` of the first so many keys, and the key after them, null at the end of the range. */
  rangePart(
    range: KeyRange,
    revision: number,
    keysMax: number,
  ): { items: LiveChange[]; next: string | null } {
    const items: LiveChange[] = [];
    let count = 0;
    for (const key of this.#namesIn(range)) {
      if (count === keysMax) return { items, next: key };
      count += 1;
      const change = this.getAt(key, revision);
      if (change !== null) items.push(change);
    }
    return { items, next: null };
  }

  /** Takes a change that is newer than all others. */
  append(change: Change): void {
    const table = this.#table;
    const history = this.#histories.get(change.key);
    if (history === undefined) {
      this.#names.add(change.key);
    } else {
      const last = lastOf(history);
      assert(table.modRevisionOf(last) < change.modRevision, 'a revision changes a key once');
      if (table.isLive(last)) this.liveBytes -= table.bytesOf(last);
    }
    const slot = this.#addTo(history, change);
    this.#log.push(slot);
    if (change.value !== null) this.liveBytes += table.bytesOf(slot);
  }

  /** @param history of its key, undefined when there is none @returns the change's slot */
  #addTo(history: History | undefined, change: Change): number {
    // All changes of a key share its text.
    const key = history === undefined ? change.key : this.#table.keyOf(lastOf(history));
    const slot = this.#table.add(change, key);
    this.storedBytes += this.#table.bytesOf(slot);
    if (typeof history === 'object') history.push(slot);
    else this.#histories.set(change.key, history === undefined ? slot : [history, slot]);
    return slot;
  }

  /** From now on nobody reads before the revision. */
  compact(revision: number): void {
    this.compactRevision = revision;
    // A deletion at the compact revision before this one was kept, and goes now.
    this.#dropped = 0;
  }

  /** Whether something may be kept that nobody can see since a compaction. */
  get isDropping(): boolean {
    const next = this.#log[this.#dropped];
    return next !== undefined && this.#table.modRevisionOf(next) <= this.compactRevision;
  }

  /**
   * Drops some of what nobody can see: of so many changes, and to the end of what is dropped of one key.
   * @returns the changes dropped
   */
  dropPart(changesMax: number): ChangeName[] {
    const dropped: ChangeName[] = [];
    const past = Math.min(this.#upTo(this.#log, this.compactRevision), this.#dropped + changesMax);
    let index = this.#dropped;
    for (; index < past && dropped.length < changesMax; index += 1) {
      this.#dropOf(this.#table.keyOf(this.#log[index]!), dropped);
    }
    const gone = Math.min(index, this.logIndexOf(this.compactRevision));
    for (const slot of this.#log.splice(0, gone)) this.#table.release(slot, 'log');
    this.#dropped = index - gone;
    return dropped;
  }

  #dropOf(key: string, dropped: ChangeName[]): void {
    const known = this.#histories.get(key);
    if (known === undefined) return;
    const table = this.#table;
    const history = typeof known === 'number' ? [known] : known;
    let count = this.#upTo(history, this.compactRevision);
    // The last change up to the revision stays, unless it is a deletion that no watch can ask for.
    const base = history[count - 1];
    if (base === undefined) return;
    if (table.isLive(base) || table.modRevisionOf(base) === this.compactRevision) count -= 1;
    if (count === 0) return;
    for (const slot of history.splice(0, count)) {
      this.storedBytes -= table.bytesOf(slot);
      dropped.push(table.nameOf(slot));
      table.release(slot, 'history');
    }
    if (history.length === 1) this.#histories.set(key, history[0]!);
    if (history.length > 0) return;
    this.#histories.delete(key);
    this.#names.remove(key);
  }

  /** The index in the log of the first change at or after the revision. */
  logIndexOf(revision: number): number {
    return this.#upTo(this.#log, revision - 1);
  }

  /**
   * The change at that index of the log, or undefined after its end. Indexes move when changes are dropped.
   */
  logAt(index: number): Change | undefined {
    const slot = this.#log[index];
    return slot === undefined ? undefined : this.#table.changeAt(slot);
  }

  /** Bytes of key and value of the change there. */
  logSizeAt(index: number): number {
    return this.#table.sizeOf(this.#log[index]!);
  }

  /** How many of the changes, which are sorted by revision, are of the revision or before. */
  #upTo(slots: readonly number[], revision: number): number {
    const table = this.#table;
    const last = slots.at(-1);
    // Most reads are of what is newest.
    if (last === undefined || table.modRevisionOf(last) <= revision) return slots.length;
    let low = 0;
    let high = slots.length - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (table.modRevisionOf(slots[middle]!) <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  *#namesIn(range: KeyRange): Generator<string> {
    if (range.rangeEnd === '') {
      yield range.key;
      return;
    }
    const unbounded = range.rangeEnd === '\0';
    for (const key of this.#names.from(range.key)) {
      if (!unbounded && key >= range.rangeEnd) return;
      yield key;
    }
  }

  /** Keys of the range that live or have a history: a range looks at all of them. */
  keysIn({ key, rangeEnd }: KeyRange): number {
    if (rangeEnd === '') return 1;
    const end = rangeEnd === '\0' ? this.#names.count : this.#names.rank(rangeEnd);
    return Math.max(0, end - this.#names.rank(key));
  }
}

export function isInRange(key: string, range: KeyRange): boolean {
  if (range.rangeEnd === '') return key === range.key;
  return key >= range.key && (range.rangeEnd === '\0' || key < range.rangeEnd);
}

const lastOf = (history: History): number =>
  typeof history === 'number' ? history : history.at(-1)!;

/** The order of the bytes, since every character is one. */
export function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
