/**
 * Tags and their canonical layout, the one identity of a series on its way through the system
 * (docs/formats/batch.md): for each pair, sorted by the bytes of the name,
 *
 *     u16 name length | name | u16 value length | value        (little-endian, UTF-8)
 */
import { badRequest, shownText } from './errors.ts';

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

/** Series with more tags are refused. */
export const tagsCountMax = 1024;

const tagNamePattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Tags by which Prometheus says what a series is; with its feature for that they may be written. */
export const typeAndUnitTags: ReadonlySet<string> = new Set(['__type__', '__unit__']);

/** Which names tags may have. */
export interface TagRules {
  /** Of letters, digits and underscores alone, or any text, as Prometheus 3 has it. */
  readonly nameValidation: NameValidation;
  /** Reserved names that may be written beside the metric's. */
  readonly allowed: ReadonlySet<string>;
}

/** What Prometheus' replicas of one cluster have as a label of their own, unless it is configured otherwise. */
export const haReplicaTag = '__replica__';

export const nameValidations = ['legacy', 'utf8'] as const;
export type NameValidation = (typeof nameValidations)[number];

/** Those of SPEC.txt. */
export const legacyTagRules: TagRules = { nameValidation: 'legacy', allowed: new Set() };

/** Why a tag name is refused for writes, or null. */
export function tagNameProblem(
  name: string,
  { nameValidation, allowed }: TagRules = legacyTagRules,
): string | null {
  if (name === '') return 'tag name is empty';
  if (nameValidation === 'legacy' && !tagNamePattern.test(name)) {
    return `tag name does not match [a-zA-Z_][a-zA-Z0-9_]*: ${JSON.stringify(shownText(name))}`;
  }
  if (!name.isWellFormed()) return `tag name is not UTF-8: ${JSON.stringify(shownText(name))}`;
  if (name.startsWith('__') && name !== metricNameTag && !allowed.has(name)) {
    const hint =
      name === haReplicaTag
        ? '; coordinator.haPairs.enabled takes those of pairs of Prometheus'
        : '';
    return `tag names that begin with "__" are reserved: ${JSON.stringify(shownText(name))}${hint}`;
  }
  return null;
}

/**
 * Why these tags are refused for writes, or null. A mistake names the tag and the value.
 * @param tags in any order
 */
export function tagsProblem(tags: readonly Tag[], rules: TagRules = legacyTagRules): string | null {
  if (tags.length === 0) return 'a series needs at least one tag';
  const seen = new Set<string>();
  for (const { name, value } of tags) {
    const problem = tagNameProblem(name, rules);
    if (problem !== null) return problem;
    if (value === '') return `tag value is empty: ${shownText(name)}`;
    if (seen.has(name)) return `tag name appears twice: ${shownText(name)}`;
    seen.add(name);
    const bytes = Math.max(Buffer.byteLength(name), Buffer.byteLength(value));
    if (bytes > tagBytesMax) {
      return `tag is longer than ${tagBytesMax} bytes: ${name.slice(0, 100)}`;
    }
  }
  return null;
}

/**
 * Keeps a byte order mark at the start of a text, so that texts with and without one stay apart.
 */
const textDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Order of names in the canonical layout: by UTF-8 bytes (which is by code point). */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}

/** Sorted copy; names must be unique. */
export function sortTags(tags: readonly Tag[]): Tags {
  return [...tags].sort(compareNames);
}

/** Code units from here on are not in the order of code points. */
const firstSurrogate = /[\ud800-\uffff]/;

function compareNames({ name: a }: Tag, { name: b }: Tag): number {
  if (a === b) return 0;
  if (firstSurrogate.test(a) || firstSurrogate.test(b)) {
    return Buffer.compare(Buffer.from(a), Buffer.from(b));
  }
  return a < b ? -1 : 1;
}

function isSorted(tags: readonly Tag[]): boolean {
  for (let i = 1; i < tags.length; i += 1) {
    if (compareNames(tags[i - 1]!, tags[i]!) > 0) return false;
  }
  return true;
}

const scratchBytesFirst = 4096;
const scratchBytesKept = 1 << 20;

/**
 * Layouts are made here, one after the other, and copied: a buffer for each text would cost most of
 * the time.
 */
let layoutScratch = Buffer.alloc(scratchBytesFirst);
/** Most UTF-8 bytes of one UTF-16 code unit. */
const utf8BytesPerUnitMax = 3;

/**
 * Canonical layout of the tags, which need not be sorted.
 * @throws {TsdbError} BAD_REQUEST when one is too long
 */
export function encodeTags(tags: readonly Tag[]): Uint8Array {
  const sorted = isSorted(tags) ? tags : sortTags(tags);
  let at = 0;
  for (const { name, value } of sorted) {
    at = putText(name, at);
    at = putText(value, at);
  }
  const layout = new Uint8Array(layoutScratch.subarray(0, at));
  // One exceptional series must not hold its memory for good.
  if (layoutScratch.length > scratchBytesKept) layoutScratch = Buffer.alloc(scratchBytesFirst);
  return layout;
}

/** Writes length and text to the scratch; returns where the next one goes. */
function putText(text: string, at: number): number {
  const room = at + 2 + text.length * utf8BytesPerUnitMax;
  if (text.length <= tagBytesMax && room > layoutScratch.length) {
    const larger = Buffer.alloc(2 * room);
    layoutScratch.copy(larger, 0, 0, at);
    layoutScratch = larger;
  }
  const length = text.length > tagBytesMax ? text.length : layoutScratch.write(text, at + 2);
  if (length > tagBytesMax) {
    throw badRequest(`cannot encode tags: tag is longer than ${tagBytesMax} bytes`);
  }
  layoutScratch[at] = length & 255;
  layoutScratch[at + 1] = length >> 8;
  return at + 2 + length;
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

/** End of the (name, value) pair that begins at `at` in a checked layout. */
export function pairEnd(tags: Uint8Array, at: number): number {
  const value = at + 2 + (tags[at]! | (tags[at + 1]! << 8));
  return value + 2 + (tags[value]! | (tags[value + 1]! << 8));
}
