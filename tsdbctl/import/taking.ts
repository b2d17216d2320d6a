/**
 * All parts of a source that may be running. It deletes files after it wrote what they have into newer ones, as flushes and
 * compactions do, so that what is gone when it is its turn is found under other names.
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

/**
 * Takes each part once, and lists them again when some were gone.
 * @param isDone is asked of parts that are not to be taken
 * @param take may be called again with a part: when it was gone half way, and is listed again
 * @returns names of those that were gone and are not listed any more
 * @throws {TsdbError} NOT_FOUND for a part that is listed, and has files that are missing
 */
export async function takeParts(
  source: ImportSource,
  isDone: (part: ImportPart) => boolean,
  take: (part: ImportPart, parts: readonly ImportPart[]) => Promise<void>,
): Promise<readonly string[]> {
  const taken = new Set<string>();
  const gone = new Set<string>();
  let isWhole = false;
  for (let lists = 1; !isWhole; lists += 1) {
    isWhole = true;
    const parts = await listedParts(source);
    for (const part of parts) {
      if (taken.has(part.name) || isDone(part)) continue;
      try {
        await take(part, parts);
        taken.add(part.name);
      } catch (error) {
        if (!isGone(error) || gone.has(part.name) || lists === listsMax) throw error;
        gone.add(part.name);
        isWhole = false;
      }
    }
  }
  return [...gone].filter((name) => !taken.has(name));
}

const isGone = (error: unknown): boolean =>
  error instanceof TsdbError && error.code === 'NOT_FOUND';
