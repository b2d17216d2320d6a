/**
 * All parts of a source that may be running. It deletes files after it wrote what they have into newer ones, as flushes and
 * compactions do, so that what is gone when it is its turn is found under other names. What it deletes since their retention
 * is over is nowhere: these parts are told apart by their contents.
 */
import { TsdbError } from '#lib/errors.ts';
import type { ImportPart, ImportSource } from '../sources/source.ts';

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
 * Takes each part once, and lists them again when some were gone.
 * @throws {TsdbError} NOT_FOUND for a part that is listed, and has files that are missing
 */
export async function takeParts(
  source: ImportSource,
  { isDone, take, waiting = new Map() }: PartsToTake,
): Promise<TakenParts> {
  const taken = new Set<string>();
  const gone = new Set<string>();
  for (const name of waiting.keys()) if (isDone(name)) waiting.delete(name);
  for (let lists = 1; ; lists += 1) {
    const listed = await listedParts(source);
    const left = listed.filter(({ name }) => !taken.has(name) && !isDone(name));
    for (const { name, contents } of left) waiting.set(name, contents);
    let isWhole = true;
    for (const part of left) {
      const { name } = part;
      try {
        if (await take(part, listed)) waiting.delete(name);
        taken.add(name);
      } catch (error) {
        if (!isGone(error) || gone.has(name) || lists === listsMax) throw error;
        gone.add(name);
        isWhole = false;
      }
    }
    if (isWhole) return { listed, ...withoutReplaced(waiting, listed) };
  }
}

function withoutReplaced(
  waiting: Map<string, readonly string[]>,
  listed: readonly ImportPart[],
): Omit<TakenParts, 'listed'> {
  const names = new Set(listed.map(({ name }) => name));
  const there = new Set(listed.flatMap(({ contents }) => contents));
  const replaced: string[] = [];
  const lost: string[] = [];
  for (const [name, contents] of waiting) {
    if (names.has(name)) continue;
    if (contents.every((each) => there.has(each))) replaced.push(name);
    else lost.push(name);
  }
  for (const name of replaced) waiting.delete(name);
  return { replaced, lost };
}

const isGone = (error: unknown): boolean =>
  error instanceof TsdbError && error.code === 'NOT_FOUND';
