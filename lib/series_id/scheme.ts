/**
 * The schemes by which a series has its ID (SPEC.txt, "Series ID generation scheme"): given by the
 * writer, or made from the tags (from_tags.ts), from which to_tags.ts reads them back.
 */

/** Names as in `tagOptions.idScheme`, but for `path`, which is of Graphite's series alone; the number is the scheme's byte in batches and filesets. */
export const idSchemeCode = {
  explicit: 0,
  quoted: 1,
  prepend_meta: 2,
  legacy: 3,
  path: 4,
} as const;

/** Of an ID that is made from the tags. */
export type IdScheme = Exclude<keyof typeof idSchemeCode, 'explicit'>;

/** One that the configuration may name. */
export type SelectableIdScheme = Exclude<IdScheme, 'path'>;

/** The scheme that makes an ID from tags, or undefined: an explicit ID, or an unknown byte. */
export function schemeOfCode(code: number): IdScheme | undefined {
  return schemes.get(code);
}

const schemes: ReadonlyMap<number, IdScheme> = new Map([
  [idSchemeCode.quoted, 'quoted'],
  [idSchemeCode.prepend_meta, 'prepend_meta'],
  [idSchemeCode.legacy, 'legacy'],
  [idSchemeCode.path, 'path'],
]);
