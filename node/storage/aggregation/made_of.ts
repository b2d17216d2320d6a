/**
 * What the windows of a slice are made of, in digests that tell it from anything else. Several namespaces may have all of its
 * rows, each in filesets of its own, and which of them a read asks changes with the time.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import { digest128 } from '#lib/hashing/digest128.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Slice } from './slices.ts';

/** Rows of a slice, all of them: of one namespace, or of several between them. */
export interface Source {
  readonly of: readonly NamespaceState[];
  /** Filesets that have some. */
  readonly raw: readonly { readonly namespace: NamespaceState; readonly file: BlockFile }[];
}

/** A digest for each source of the same rows, by the numbers of its namespaces. */
export type MadeOf = Readonly<Record<string, string>>;

/** @param sources of the same rows */
export function madeOf(sources: readonly Source[]): MadeOf {
  return Object.fromEntries(sources.map((source) => [keyOf(source), digestOf(source)]));
}

/** Whether rows of a namespace are in it. */
export function isMadeOf(made: MadeOf, { definition }: NamespaceState): boolean {
  const number = String(namespaceNumber(definition));
  return Object.keys(made).some((key) => key.split('+').includes(number));
}

/**
 * Whether what was made of some filesets would be made of those that are there now. A choice of other namespaces alone is no
 * reason against it, nor that filesets were brought together.
 * @param chosen what would be made of
 * @param others each has all of these rows too, and none of them on its way
 * @returns the same by the filesets of now, with sources that it did not have; null when rows may have changed
 */
export function stillMadeOf(
  before: MadeOf,
  chosen: Source,
  others: readonly Source[],
  range: Slice,
): MadeOf | null {
  const now: Record<string, string> = { ...before };
  const isSame = (source: Source): boolean => {
    const key = keyOf(source);
    const own = digestOf(source);
    if (before[key] !== own && !wasMadeOf(before[key], source, range)) return false;
    now[key] = own;
    return true;
  };
  const known = [chosen, ...others].filter((source) => before[keyOf(source)] !== undefined);
  const same = known.filter(isSame);
  // Late rows may be in those that were chosen before they are in others.
  if (known.includes(chosen) ? !same.includes(chosen) : same.length === 0) return null;
  for (const source of [chosen, ...others]) now[keyOf(source)] ??= digestOf(source);
  return Object.entries(now).every(([key, digest]) => before[key] === digest) ? before : now;
}

const keyOf = ({ of }: Source): string =>
  of.map(({ definition }) => namespaceNumber(definition)).join('+');

/** Filesets that may have been brought together since, in so many ways at most; one that was in more is made of again. */
const waysMax = 64;

const digestOf = ({ raw }: Source): string =>
  digestOfNames(raw.map(({ namespace, file }) => nameOf(namespace, file)));

const digestOfNames = (names: string[]): string => digest128(names.sort().join(' '));

/** Numbers of volumes begin again where a folder was emptied. */
function nameOf(
  { definition }: NamespaceState,
  { blockStartNanos, info, volume }: BlockFile,
): string {
  return `${namespaceNumber(definition)}:${blockStartNanos}+${info.blockSizeNanos}.${volume}@${info.createdNanos}`;
}

/** Whether it is what filesets of now stand for: some of them were brought together before, others since. */
function wasMadeOf(digest: string | undefined, { raw }: Source, range: Slice): boolean {
  if (raw.every(({ file }) => file.standsFor === null)) return false;
  const ways = waysOf(raw.map(({ namespace, file }) => waysOfFile(namespace, file, range)));
  return ways.some((names) => digestOfNames([...names]) === digest);
}

/** Names of a fileset, or of those that it has brought together, as far as they have rows of the range. */
function waysOfFile(namespace: NamespaceState, file: BlockFile, range: Slice): string[][] {
  const own = [[nameOf(namespace, file)]];
  if (file.standsFor === null) return own;
  const parts = file.standsFor.filter(
    (part) => part.blockStartNanos < range.endNanos && part.endNanos > range.startNanos,
  );
  return [...own, ...waysOf(parts.map((part) => waysOfFile(namespace, part, range)))];
}

/** A way of each, in all combinations. */
function waysOf(each: readonly string[][][]): string[][] {
  let ways: string[][] = [[]];
  for (const some of each) {
    if (ways.length * some.length > waysMax) return [];
    ways = ways.flatMap((names) => some.map((more) => [...names, ...more]));
  }
  return ways;
}
