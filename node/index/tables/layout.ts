/** Walks over canonical layouts of tags (lib/tags.ts) as they come from outside. */
import { badRequest } from '#lib/errors.ts';
import { tagsBytesMax } from '#lib/tags.ts';

/** A tag takes at least this many bytes of the canonical layout. */
export const tagBytesMin = 4;

/** Refuses a layout whose lengths do not add up, so that the walks after it need no checks. */
export function checkLayout(tags: Uint8Array): void {
  if (tags.length > tagsBytesMax) {
    throw badRequest(
      `cannot index series: tags are longer than ${tagsBytesMax} bytes: ${tags.length}`,
    );
  }
  let at = 0;
  while (at < tags.length) {
    for (let part = 0; part < 2; part++) {
      if (tags.length - at < 2) throw badRequest('cannot index series: tags are cut off');
      const length = tags[at]! | (tags[at + 1]! << 8);
      if (length > tags.length - at - 2) throw badRequest('cannot index series: tags are cut off');
      at += 2 + length;
    }
  }
}

/**
 * End of the (name, value) pair that begins at `at` in a layout that is not checked.
 * @throws {TsdbError} BAD_REQUEST when the pair is cut off
 */
export function pairEndWithin(tags: Uint8Array, at: number): number {
  const { length } = tags;
  if (length - at >= tagBytesMin) {
    const value = at + 2 + (tags[at]! | (tags[at + 1]! << 8));
    if (length - value >= 2) {
      const end = value + 2 + (tags[value]! | (tags[value + 1]! << 8));
      if (end <= length) return end;
    }
  }
  throw badRequest('cannot index series: tags are cut off');
}
