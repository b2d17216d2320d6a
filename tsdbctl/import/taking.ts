/**
 * All parts of a source that may be running. It deletes files after it wrote what they have into newer ones, as flushes and
 * compactions do, so that what is gone when it is its turn is found under other names. What it deletes since their retention
 * is over is nowhere: these parts are told apart by their contents.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import { failing, type ImportPart, type ImportSource } from '../sources/source.ts';

/** After so many lists whatever is missing is an error: it is damage, or the source is faster than its reader. */
const listsMax = 20;

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
  /** Names of parts that were listed and of which not all was taken, with their contents; it is kept up to date. */
  readonly waiting?: Map<string, readonly string[]>;
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
  { isDone, take, undo, waiting = new Map() }: PartsToTake,
): Promise<TakenParts> {
  const taken = new Set<string>();
  const gone = new Map<string, Error>();
  for (const name of waiting.keys()) if (isDone(name)) waiting.delete(name);
  const isTaken = ({ name }: ImportPart): boolean => taken.has(name) || isDone(name);
  const wait = ({ name, contents, changes }: ImportPart): void => {
    if (changes === undefined) waiting.set(name, contents);
  };
  for (let lists = 1; ; lists += 1) {
    const listed = await listedParts(source);
    const before: number[] = [];
    for (const [place, part] of listed.entries()) {
      if (isTaken(part)) before.push(place);
      else wait(part);
    }
    let isWhole = true;
    // Of what was taken before: most of it is at the begin of the list, as when a call goes on.
    let next = 0;
    for (const [place, part] of listed.entries()) {
      const { name } = part;
      while (next < before.length && before[next]! <= place) next += 1;
      if (isTaken(part)) continue;
      for (let at = next; undo !== undefined && at < before.length; at += 1) {
        const other = listed[before[at]!]!;
        if (!mayMeet(part, other)) continue;
        taken.delete(other.name);
        undo(other.name);
        wait(other);
      }
      const missing = gone.get(name);
      try {
        if (await take(missing === undefined ? part : damagedBy(part, missing), listed)) {
          waiting.delete(name);
        }
        taken.add(name);
      } catch (error) {
        if (!isGone(error) || lists === listsMax) throw error;
        gone.set(name, error);
        isWhole = false;
      }
    }
    if (isWhole) return { listed, ...withoutReplaced(waiting, listed) };
  }
}

/** Whether they may have rows of one series and time. */
function mayMeet(a: ImportPart, b: ImportPart): boolean {
  if (a.shard !== undefined && b.shard !== undefined && a.shard !== b.shard) return false;
  return a.startNanos < b.endNanos && b.startNanos < a.endNanos;
}

const damagedBy = (part: ImportPart, { message }: Error): ImportPart => ({
  ...part,
  series: () => failing(badRequest(message)),
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

const isGone = (error: unknown): error is TsdbError =>
  error instanceof TsdbError && error.code === 'NOT_FOUND';
