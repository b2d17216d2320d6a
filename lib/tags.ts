/**
 * Tags and their canonical layout, the one identity of a series on its way through the system
 * (docs/formats/batch.md): for each pair, sorted by the bytes of the name,
 *
 *     u16 name length | name | u16 value length | value        (little-endian, UTF-8)
 */
import { badRequest } from './errors.ts';

export interface Tag {
  readonly name: string;
  readonly value: string;
}

/** Sorted by the UTF-8 bytes of the name, names unique. */
export type Tags = readonly Tag[];

/** The reserved tag that carries the metric name. */
export const metricNameTag = '__name__';

/** Names and values longer than this are refused. */
export const tagBytesMax = 65_535;

/** Longest canonical layout of one series; more is refused. */
export const tagsBytesMax = 65_535;

const tagNamePattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Why a tag name is refused for writes, or null. Form and reserved names are of SPEC.txt. */
export function tagNameProblem(name: string): string | null {
  if (name === '') return 'tag name is empty';
  if (!tagNamePattern.test(name)) {
    return `tag name does not match [a-zA-Z_][a-zA-Z0-9_]*: ${JSON.stringify(name)}`;
  }
  if (name.startsWith('__') && name !== metricNameTag) {
    return `tag names that begin with "__" are reserved: ${JSON.stringify(name)}`;
  }
  return null;
}

/**
 * Why these tags are refused for writes, or null. A mistake names the tag and the value.
 * @param tags in any order
 */
export function tagsProblem(tags: readonly Tag[]): string | null {
  if (tags.length === 0) return 'a series needs at least one tag';
  const seen = new Set<string>();
  for (const { name, value } of tags) {
    const problem = tagNameProblem(name);
    if (problem !== null) return problem;
    if (value === '') return `tag value is empty: ${name}`;
    if (seen.has(name)) return `tag name appears twice: ${name}`;
    seen.add(name);
    if (name.length > tagBytesMax || Buffer.byteLength(value) > tagBytesMax) {
      return `tag is longer than ${tagBytesMax} bytes: ${name.slice(0, 100)}`;
    }
  }
  return null;
}

const textEncoder = new TextEncoder();
/** Keeps a byte order mark at the start of a text, so that texts with and without one stay apart. */
const textDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Order of names in the canonical layout: by UTF-8 bytes (which is by code point). */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}

/** Sorted copy; names must be unique. */
export function sortTags(tags: readonly Tag[]): Tags {
  return [...tags].sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
}

/**
 * Canonical layout of the tags, which need not be sorted.
 * @throws {TsdbError} BAD_REQUEST when one is too long
 */
export function encodeTags(tags: readonly Tag[]): Uint8Array {
  const parts = sortTags(tags).map(({ name, value }) => ({
    name: textEncoder.encode(name),
    value: textEncoder.encode(value),
  }));
  let size = 0;
  for (const { name, value } of parts) {
    if (name.length > tagBytesMax || value.length > tagBytesMax) {
      throw badRequest(`cannot encode tags: tag is longer than ${tagBytesMax} bytes`);
    }
    size += 4 + name.length + value.length;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    for (const text of [part.name, part.value]) {
      bytes[at] = text.length & 255;
      bytes[at + 1] = text.length >> 8;
      bytes.set(text, at + 2);
      at += 2 + text.length;
    }
  }
  return bytes;
}

/**
 * Tags of a canonical layout.
 * @throws {TsdbError} BAD_REQUEST when the bytes are cut off or not UTF-8
 */
export function decodeTags(bytes: Uint8Array): Tags {
  const tags: Tag[] = [];
  let at = 0;
  const text = (): string => {
    if (bytes.length - at < 2) throw badRequest('cannot decode tags: layout is cut off');
    const length = bytes[at]! | (bytes[at + 1]! << 8);
    at += 2;
    if (length > bytes.length - at) throw badRequest('cannot decode tags: layout is cut off');
    at += length;
    try {
      return textDecoder.decode(bytes.subarray(at - length, at));
    } catch (error) {
      throw badRequest('cannot decode tags: text is not UTF-8', { cause: error });
    }
  };
  while (at < bytes.length) {
    const name = text();
    tags.push({ name, value: text() });
  }
  return tags;
}

/** Value of one tag, or undefined. */
export function tagValue(tags: Tags, name: string): string | undefined {
  for (const tag of tags) if (tag.name === name) return tag.value;
  return undefined;
}
