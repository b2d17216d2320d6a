/**
 * Keys with their history: what every key was at every revision since the last compaction.
 *
 *   names      sorted:  a        b              c
 *   histories           2 5 9    3 (deleted 7)  4        changes of the key, oldest first
 *   log                 2 3 4 5 7 9                      all changes since compaction, by revision
 *
 * Compacting at revision C keeps of each key the last change up to C, since reads at C need it, and
 * everything after; the log keeps revision C itself, so that a watch may start there. A deletion
 * before C is dropped with its key.
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

  /** Rebuilds the keys from what the disk holds, sorted by revision and sub. */
  static restore(changes: readonly Change[], compactRevision: number): Keyspace {
    const space = new Keyspace();
    space.compactRevision = compactRevision;
    for (const change of changes) {
      const history = space.#histories.get(change.key);
      if (history === undefined) space.#histories.set(change.key, [change]);
      else history.push(change);
      space.storedBytes += bytesOf(change);
      if (change.modRevision >= compactRevision) space.#log.push(change);
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
    for (let index = history.length - 1; index >= 0; index -= 1) {
      const change = history[index]!;
      if (change.modRevision <= revision) return isLive(change) ? change : null;
    }
    return null;
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

  /**
   * Forgets what no read at `revision` or later can see.
   * @returns the changes forgotten
   */
  compact(revision: number): Change[] {
    const dropped: Change[] = [];
    const touched = new Set<string>();
    for (const change of this.#log) {
      if (change.modRevision > revision) break;
      touched.add(change.key);
    }
    let gone = false;
    for (const key of touched) {
      const history = this.#histories.get(key)!;
      let keep = history.length;
      while (keep > 0 && history[keep - 1]!.modRevision > revision) keep -= 1;
      // The last change up to the revision stays, unless it is a deletion that no watch can ask
      // for.
      const base = history[keep - 1];
      if (base !== undefined && (isLive(base) || base.modRevision === revision)) keep -= 1;
      dropped.push(...history.splice(0, keep));
      if (history.length === 0) {
        this.#histories.delete(key);
        gone = true;
      }
    }
    if (gone) this.#names.filter((key) => this.#histories.has(key));
    this.#log.splice(0, this.logIndexOf(revision));
    for (const change of dropped) this.storedBytes -= bytesOf(change);
    this.compactRevision = revision;
    return dropped;
  }

  /** The index in the log of the first change at or after the revision. */
  logIndexOf(revision: number): number {
    let low = 0;
    let high = this.#log.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#log[middle]!.modRevision < revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * The change at that index of the log, or undefined after its end. Indexes move with compaction.
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

/** Memory and disk that a change is counted for. */
export function bytesOf(change: Change): number {
  return change.key.length + (change.value?.length ?? 0) + kvLimits.changeOverheadBytes;
}

/** The order of the bytes, since every character is one. */
export function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
