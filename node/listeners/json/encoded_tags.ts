/**
 * Tags as M3 has them beside an ID: 10101 and how many there are, 16 bits little-endian each, then length and text of
 * each name and value in turns, as in the canonical layout (lib/tags.ts).
 */
import { badRequest } from '#lib/errors.ts';
import { decodeTags, encodeTags, tagsProblem } from '#lib/tags.ts';

const magic = 10_101;
const headerBytes = 4;

/** @param canonical layout; what has no tags has no bytes either */
export function m3TagsOf(canonical: Uint8Array): Buffer {
  if (canonical.length === 0) return Buffer.alloc(0);
  const header = Buffer.alloc(headerBytes);
  header.writeUInt16LE(magic, 0);
  header.writeUInt16LE(decodeTags(canonical).length, 2);
  return Buffer.concat([header, canonical]);
}

/**
 * @returns the canonical layout
 * @throws {TsdbError} BAD_REQUEST when they are none, or break the rules for names
 */
export function tagsOfM3(bytes: Buffer): Uint8Array {
  if (bytes.length === 0) return new Uint8Array(0);
  if (bytes.length < headerBytes || bytes.readUInt16LE(0) !== magic) {
    throw badRequest(`encodedTags: does not begin with ${magic}`);
  }
  const tags = decodeTags(bytes.subarray(headerBytes));
  const count = bytes.readUInt16LE(2);
  if (tags.length !== count) {
    throw badRequest(`encodedTags: has ${tags.length} tags, and says ${count}`);
  }
  const problem = tagsProblem(tags);
  if (problem !== null) throw badRequest(`encodedTags: ${problem}`);
  return encodeTags(tags);
}
