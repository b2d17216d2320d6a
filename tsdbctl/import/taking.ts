/**
 * All parts of a source that may be running. It deletes files after it wrote what they have into newer ones, as flushes and
 * compactions do, so that what is gone when it is its turn is found under other names. What it deletes since their retention
 * is over is nowhere: these parts are told apart by their contents.
 */
import { realEnv } from '#lib/env/real.ts';
import { badRequest } from '#lib/errors.ts';
import {
  type ImportPart,
  type ImportSeries,
  type ImportSource,
  isGone,
} from '../sources/source.ts';
import { upToDamage } from '../sources/up_to_damage.ts';

/** After so many lists whatever is missing is an error: it is damage, or the source is faster than its reader. */
const listsMax = 20;
/** A source that is deleting the files of a part has ended by then, so that what is still listed is damaged. */
const pauseMillis = 500;

/** @throws {TsdbError} NOT_FOUND when files were missing each time */
export async function listedParts(source: ImportSource): Promise<readonly ImportPart[]> {
  for (let lists = 1; ; lists += 1) {
    try {
      return await source.parts();
    } catch (error) {
      if (!isGone(error) || lists === listsMax) throw error;
    }
  }
}

export interface PartsToTake {
  /** Is asked of parts that are not to be taken. */
  readonly isDone: (name: string) => boolean;
  /**
   * May be called again with a part: when it was gone half way, and is listed again.
   * @returns whether all of it was taken, so that it may be deleted
   */
  readonly take: (part: ImportPart, listed: readonly ImportPart[]) => Promise<boolean>;
  /**
   * A part that was taken is to be taken once more: one that was to come before it comes after it. Not where it is not given, as
   * the order is all the same.
   */
  readonly undo?: (name: string) => void;
  /** Parts that are damaged are taken up to their damage, of which it is told in a line; not where it is not given. */
  readonly onDamage?: ((line: string) => void) | undefined;
  /** Names of parts that were listed and of which not all was taken, with their contents; it is kept up to date. */
  readonly waiting?: Map<string, readonly string[]>;
  readonly signal: AbortSignal;
}

export interface TakenParts {
  /** As they were listed last. */
  readonly listed: readonly ImportPart[];
  /** Names of those that were gone, and whose rows were in others. */
  readonly replaced: readonly string[];
  /** Of those that were gone before all of them was taken, while nothing that is listed has their contents. They keep waiting. */
  readonly lost: readonly string[];
}

/**
 * Takes each part once, and lists them again when some were gone. Of rows of one time those of later parts win, so that the
 * order stays that of the list: behind a part that comes late, as one of which rows were refused before, those with other
 * rows of its series are taken once more. A part that is listed, and has files that are missing, is damaged.
 */
export async function takeParts(
  source: ImportSource,
  { isDone, take, undo, onDamage, waiting = new Map(), signal }: PartsToTake,
): Promise<TakenParts> {
  const taken = new Set<string>();
  const gone = new Set<string>();
  for (const name of waiting.keys()) if (isDone(name)) waiting.delete(name);
  const isTaken = ({ name }: ImportPart): boolean => taken.has(name) || isDone(name);
  const wait = ({ name, contents, changes }: ImportPart): void => {
    if (changes === undefined) waiting.set(name, contents);
  };
  for (let lists = 1; ; lists += 1) {
    const listed = await listedParts(source);
    const before = new PlacesByShard();
    for (const [place, part] of listed.entries()) {
      if (isTaken(part)) before.add(place, part);
      else wait(part);
    }
    let isWhole = true;
    for (const [place, part] of listed.entries()) {
      const { name } = part;
      if (isTaken(part)) continue;
      const undoOthers = (): void => {
        for (const at of undo === undefined ? [] : before.behind(place, part)) {
          const other = listed[at]!;
          if (!isTaken(other) || !mayMeet(part, other)) continue;
          taken.delete(other.name);
          undo?.(other.name);
          wait(other);
        }
      };
      const whole = gone.has(name) ? damagedWhereGone(part) : part;
      const read = onDamage === undefined ? whole : upToDamage(whole, onDamage);
      try {
        if (await take(withFirst(read, undoOthers), listed)) waiting.delete(name);
        taken.add(name);
      } catch (error) {
        if (!isGone(error) || lists === listsMax) throw error;
        gone.add(name);
        isWhole = false;
      }
    }
    if (isWhole) return { listed, ...withoutReplaced(waiting, listed) };
    await realEnv.clock.sleep(pauseMillis, signal);
  }
}

/** Whether they may have rows of one series and time. */
function mayMeet(a: ImportPart, b: ImportPart): boolean {
  if (a.shard !== undefined && b.shard !== undefined && a.shard !== b.shard) return false;
  return a.startNanos < b.endNanos && b.startNanos < a.endNanos;
}

/** Places in a list, by the shards of their parts. */
class PlacesByShard {
  readonly #all: number[] = [];
  readonly #byShard = new Map<string | undefined, number[]>();

  /** In the order of the places. */
  add(place: number, { shard }: ImportPart): void {
    this.#all.push(place);
    const places = this.#byShard.get(shard);
    if (places === undefined) this.#byShard.set(shard, [place]);
    else places.push(place);
  }

  /** Those behind a place whose parts may have series of this one. */
  *behind(place: number, { shard }: ImportPart): Iterable<number> {
    const lists =
      shard === undefined
        ? [this.#all]
        : [this.#byShard.get(shard) ?? [], this.#byShard.get(undefined) ?? []];
    for (const places of lists) {
      // Most of what was taken before is at the begin of the list, as when a call goes on.
      for (let at = firstAbove(places, place); at < places.length; at += 1) yield places[at]!;
    }
  }
}

function firstAbove(ascending: readonly number[], place: number): number {
  let low = 0;
  for (let high = ascending.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! <= place) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** With something to do before its first series: of one that cannot be read nothing is written, so nothing is behind it. */
const withFirst = (part: ImportPart, act: () => void): ImportPart => ({
  ...part,
  async *series(skip): AsyncGenerator<ImportSeries> {
    let isFirst = true;
    for await (const series of part.series(skip)) {
      if (isFirst) act();
      isFirst = false;
      yield series;
    }
  },
});

/** What it lacks is not on its way to other parts. */
const damagedWhereGone = (part: ImportPart): ImportPart => ({
  ...part,
  async *series(skip): AsyncGenerator<ImportSeries> {
    try {
      yield* part.series(skip);
    } catch (error) {
      if (!isGone(error)) throw error;
      throw badRequest(error.message, { cause: error });
    }
  },
});

function withoutReplaced(
  waiting: Map<string, readonly string[]>,
  listed: readonly ImportPart[],
): Omit<TakenParts, 'listed'> {
  const names = new Set(listed.map(({ name }) => name));
  const there = new Set(listed.flatMap(({ contents, madeOf = [] }) => [...contents, ...madeOf]));
  const replaced: string[] = [];
  const lost: string[] = [];
  for (const [name, contents] of waiting) {
    if (names.has(name)) continue;
    if (there.has(name) || contents.every((each) => there.has(each))) replaced.push(name);
    else lost.push(name);
  }
  for (const name of replaced) waiting.delete(name);
  return { replaced, lost };
}
