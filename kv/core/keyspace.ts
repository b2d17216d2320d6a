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
import { kvLimits } from './limits.ts';
import type { Change, KeyRange, LiveChange } from './requests.ts';
import { SortedNames } from './sorted_names.ts';

export class Keyspace {
  compactRevision = 0;
  /** Bytes of all changes kept, and of those that are the newest of a key that lives. */
  storedBytes = 0;
  liveBytes = 0;
  #names = new SortedNames();
  #histories = new Map<string, Change[]>();
  #log: Change[] = [];
  /** So many changes at the log's begin are of the compact revision, and nothing older of their keys is left. */
  #dropped = 0;

  /** Rebuilds the keys from what the disk holds, sorted by revision and sub. */
  static restore(changes: readonly Change[], compactRevision: number): Keyspace {
    const space = new Keyspace();
    space.compactRevision = compactRevision;
    for (const change of changes) {
      const history = space.#histories.get(change.key);
      if (history === undefined) space.#histories.set(change.key, [change]);
      else history.push(change);
      space.storedBytes += bytesOf(change);
      // Before the compact revision: it or what was before it should be gone, and the process ended too early.
      const hasToDrop = history !== undefined || !isLive(change);
      if (change.modRevision >= compactRevision || hasToDrop) space.#log.push(change);
    }
    space.#names = SortedNames.of([...space.#histories.keys()].sort(compareText));
    for (const history of space.#histories.values()) {
      const last = history.at(-1)!;
      if (last.value !== null) space.liveBytes += bytesOf(last);
    }
    return space;
  }

  get keyCount(): number {
    return this.#names.count;
  }

  /** The key as it is now, or null. */
  get(key: string): LiveChange | null {
    const last = this.#histories.get(key)?.at(-1);
    return last === undefined || !isLive(last) ? null : last;
  }

  /** The key as it was at the revision, or null. */
  getAt(key: string, revision: number): LiveChange | null {
    const history = this.#histories.get(key);
    if (history === undefined) return null;
    const change = history[countUpTo(history, revision) - 1];
    return change === undefined || !isLive(change) ? null : change;
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

  /** The same of the first so many keys, and the key after them, null at the end of the range. */
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
    const history = this.#histories.get(change.key);
    if (history === undefined) {
      this.#histories.set(change.key, [change]);
      this.#names.add(change.key);
    } else {
      const last = history.at(-1)!;
      assert(last.modRevision < change.modRevision, 'a revision changes a key once');
      if (last.value !== null) this.liveBytes -= bytesOf(last);
      history.push(change);
    }
    this.#log.push(change);
    this.storedBytes += bytesOf(change);
    if (change.value !== null) this.liveBytes += bytesOf(change);
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
    return next !== undefined && next.modRevision <= this.compactRevision;
  }

  /**
   * Drops some of what nobody can see: of so many changes, and to the end of what is dropped of one key.
   * @returns the changes dropped
   */
  dropPart(changesMax: number): Change[] {
    const dropped: Change[] = [];
    const past = Math.min(countUpTo(this.#log, this.compactRevision), this.#dropped + changesMax);
    let index = this.#dropped;
    for (; index < past && dropped.length < changesMax; index += 1) {
      this.#dropOf(this.#log[index]!.key, dropped);
    }
    const gone = Math.min(index, this.logIndexOf(this.compactRevision));
    this.#log.splice(0, gone);
    this.#dropped = index - gone;
    return dropped;
  }

  #dropOf(key: string, dropped: Change[]): void {
    const history = this.#histories.get(key);
    if (history === undefined) return;
    let count = countUpTo(history, this.compactRevision);
    // The last change up to the revision stays, unless it is a deletion that no watch can ask for.
    const base = history[count - 1];
    if (base !== undefined && (isLive(base) || base.modRevision === this.compactRevision)) {
      count -= 1;
    }
    if (count === 0) return;
    for (const change of history.splice(0, count)) {
      this.storedBytes -= bytesOf(change);
      dropped.push(change);
    }
    if (history.length > 0) return;
    this.#histories.delete(key);
    this.#names.remove(key);
  }

  /** The index in the log of the first change at or after the revision. */
  logIndexOf(revision: number): number {
    return countUpTo(this.#log, revision - 1);
  }

  /**
   * The change at that index of the log, or undefined after its end. Indexes move when changes are dropped.
   */
  logAt(index: number): Change | undefined {
    return this.#log[index];
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

export function isLive(change: Change): change is LiveChange {
  return change.value !== null;
}

/** How many of the changes, which are sorted by revision, are of the revision or before. */
function countUpTo(changes: readonly Change[], revision: number): number {
  const last = changes.at(-1);
  // Most reads are of what is newest.
  if (last === undefined || last.modRevision <= revision) return changes.length;
  let low = 0;
  let high = changes.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (changes[middle]!.modRevision <= revision) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Memory and disk that a change is counted for. */
export function bytesOf(change: Change): number {
  return change.key.length + (change.value?.length ?? 0) + kvLimits.changeOverheadBytes;
}

/** The order of the bytes, since every character is one. */
export function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
