/**
 * What the windows of a slice are made of, in digests that tell it from anything else. Several namespaces may have all of its
 * rows, each in filesets of its own, and which of them a read asks changes with the time.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import { digest128 } from '#lib/hashing/digest128.ts';
import type { BlockFile } from '../filesets/namespace_files.ts';
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
  return Object.fromEntries(sources.map((source) => [keyOf(source), digestOf(source, ownName)]));
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
  const partsOf = namesOfParts(range);
  const now: Record<string, string> = { ...before };
  const isSame = (source: Source): boolean => {
    const key = keyOf(source);
    const own = digestOf(source, ownName);
    if (before[key] !== own && before[key] !== digestOf(source, partsOf)) return false;
    now[key] = own;
    return true;
  };
  const known = [chosen, ...others].filter((source) => before[keyOf(source)] !== undefined);
  const same = known.filter(isSame);
  // Late rows may be in those that were chosen before they are in others.
  if (known.includes(chosen) ? !same.includes(chosen) : same.length === 0) return null;
  for (const source of [chosen, ...others]) now[keyOf(source)] ??= digestOf(source, ownName);
  return Object.entries(now).every(([key, digest]) => before[key] === digest) ? before : now;
}

const keyOf = ({ of }: Source): string =>
  of.map(({ definition }) => namespaceNumber(definition)).join('+');

type NamesOf = (namespace: NamespaceState, file: BlockFile) => readonly string[];

function digestOf({ raw }: Source, namesOf: NamesOf): string {
  const names = raw.flatMap(({ namespace, file }) => namesOf(namespace, file));
  return digest128(names.sort().join(' '));
}

const ownName: NamesOf = ({ definition }, { blockStartNanos, info, volume }) => [
  // Numbers of volumes begin again where a folder was emptied.
  `${namespaceNumber(definition)}:${blockStartNanos}+${info.blockSizeNanos}.${volume}@${info.createdNanos}`,
];

/** Those that a fileset has brought together, as far as they have rows of the range. */
function namesOfParts(range: Slice): NamesOf {
  const namesOf: NamesOf = (namespace, file) => {
    const parts = file.standsFor;
    if (parts === null) return ownName(namespace, file);
    return parts
      .filter((part) => part.blockStartNanos < range.endNanos && part.endNanos > range.startNanos)
      .flatMap((part) => namesOf(namespace, part));
  };
  return namesOf;
}
