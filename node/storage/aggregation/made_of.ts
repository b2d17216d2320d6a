/** Names for what the windows of a slice are made of. */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import { digest128 } from '#lib/hashing/digest128.ts';
import type { BlockFile } from '../filesets/namespace_files.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Slice } from './slices.ts';

type NamesOf = (namespace: NamespaceState, file: BlockFile) => readonly string[];

/** What a slice is made of, in some digits that tell it from anything else. */
export function nameOf(
  raw: readonly { readonly namespace: NamespaceState; readonly file: BlockFile }[],
  namesOf: NamesOf,
): string {
  const names = raw.flatMap(({ namespace, file }) => namesOf(namespace, file));
  return digest128(names.sort().join(' '));
}

export const ownName: NamesOf = ({ definition }, { blockStartNanos, info, volume }) => [
  // Numbers of volumes begin again where a folder was emptied.
  `${namespaceNumber(definition)}:${blockStartNanos}+${info.blockSizeNanos}.${volume}@${info.createdNanos}`,
];

/** Those that a fileset has brought together, as far as they have rows of the range. */
export function namesOfParts(range: Slice): NamesOf {
  const namesOf: NamesOf = (namespace, file) => {
    const parts = file.standsFor;
    if (parts === null) return ownName(namespace, file);
    return parts
      .filter((part) => part.blockStartNanos < range.endNanos && part.endNanos > range.startNanos)
      .flatMap((part) => namesOf(namespace, part));
  };
  return namesOf;
}
