/**
 * IDs of series from their tags, which are sorted by name:
 *
 *     quoted        {__name__="up",job="node"}          names and values escaped
 *     prepend_meta  8,2,3,4!__name__upjobnode           lengths of name, value, name, value, …
 *     legacy        __name__=up,job=node,               may collide; kept for old deployments
 *     path          servers.web1.cpu                    of __g0__="servers",__g1__="web1",__g2__="cpu"
 *
 * What the quoted scheme escapes is in escape.ts.
 *
 * Batches and filesets hold canonical tags, so the usual IDs are made from these bytes without a
 * text in between. The write decoder's kernel does that too
 * (engine/write_decoder/kernel/identity/verdict.ts); its fuzz holds it equal to `idOfTags`.
 */
import { badRequest } from '../errors.ts';
import { decodeTags, type Tags, tagsBytesMax } from '../tags.ts';
import { escaped } from './escape.ts';
import { type IdScheme, idSchemeCode, schemeOfCode } from './scheme.ts';

/** ID of a series whose tags are sorted. */
export function idOfTags(tags: Tags, scheme: IdScheme): string {
  switch (scheme) {
    case 'quoted':
      return `{${tags.map(({ name, value }) => `${escaped(name)}="${escaped(value)}"`).join(',')}}`;
    case 'prepend_meta': {
      const lengths = tags.flatMap((tag) => [
        Buffer.byteLength(tag.name),
        Buffer.byteLength(tag.value),
      ]);
      return `${lengths.join(',')}!${tags.map((tag) => tag.name + tag.value).join('')}`;
    }
    case 'legacy':
      return tags.map((tag) => `${tag.name}=${tag.value},`).join('');
    case 'path':
      return pathOfTags(tags) ?? '';
    default:
      return scheme satisfies never;
  }
}

/** Of a node of a path, from 0 on. */
export function nodeTag(node: number): string {
  return `__g${node}__`;
}

const nodeName = /^__g(0|[1-9]\d{0,3})__$/;

/** The node that a tag is of; -1 for other tags. */
export function nodeNumber(name: string): number {
  return Number(nodeName.exec(name)?.[1] ?? -1);
}

/** Whether it is the name of a node of a path: series with a path have no other tags. */
export function isNodeTag(name: string): boolean {
  return nodeName.test(name);
}

/** The path whose nodes the tags are; null when they are none of a path: others, with gaps, or nodes with dots in them. */
export function pathOfTags(tags: Tags): string | null {
  const nodes: string[] = [];
  for (const { name, value } of tags) {
    const number = nodeName.exec(name)?.[1];
    if (number === undefined || value === '' || value.includes('.')) return null;
    nodes[Number(number)] = value;
  }
  return nodes.length === tags.length && tags.length > 0 ? nodes.join('.') : null;
}

/**
 * ID of a series.
 * @param tags canonical layout
 * @param explicitId for scheme 0
 * @returns null when the scheme is unknown
 * @throws {TsdbError} BAD_REQUEST when the tags are not canonical
 */
export function seriesIdOf(
  idScheme: number,
  tags: Uint8Array,
  explicitId: Uint8Array,
): Uint8Array | null {
  if (idScheme === idSchemeCode.explicit) return explicitId;
  return schemeOfCode(idScheme) === undefined ? null : derivedIdOf(tags, idScheme);
}

/**
 * ID that the scheme makes from the tags.
 * @param tags canonical layout
 * @throws {TsdbError} BAD_REQUEST when the tags are not UTF-8 or the scheme makes none
 */
export function derivedIdOf(tags: Uint8Array, idScheme: number): Uint8Array {
  const plain = plainId(tags, idScheme);
  if (plain !== null) return plain;
  const scheme = schemeOfCode(idScheme);
  if (scheme === undefined) {
    throw badRequest(`cannot derive ID: ID scheme is not one that derives IDs: ${idScheme}`);
  }
  return new TextEncoder().encode(idOfTags(decodeTags(tags), scheme));
}

/**
 * The ID of the legacy scheme, straight from bytes to bytes. @param tags canonical layout, checked
 */
export function legacyIdBytes(tags: Uint8Array): Uint8Array {
  // Each name and each value loses the two bytes of its length and gains '=' or ','.
  const id = new Uint8Array(tags.length);
  let used = 0;
  let isName = true;
  for (let at = 0; at < tags.length; ) {
    const end = at + 2 + (tags[at]! | (tags[at + 1]! << 8));
    for (let i = at + 2; i < end; i++) id[used++] = tags[i]!;
    id[used++] = isName ? 0x3d : 0x2c;
    isName = !isName;
    at = end;
  }
  return id.subarray(0, used);
}

/** Reused: an ID is at most this long before it is copied out. */
const scratch = new Uint8Array(2 * tagsBytesMax + 16);

const quoteByte = 0x22;
const backslashByte = 0x5c;

/** The ID of usual tags, bytes to bytes; null where the scheme has to look closer. */
export function plainId(tags: Uint8Array, idScheme: number): Uint8Array | null {
  if (idScheme === idSchemeCode.quoted) return plainQuotedId(tags);
  return idScheme === idSchemeCode.path ? plainPathId(tags) : null;
}

const dotByte = 0x2e;
const plainNodesMax = 100;
/** Where the value of each node stands, reused. */
const nodeValues = new Uint32Array(plainNodesMax);

/** The path of at most a hundred nodes in ASCII. */
function plainPathId(tags: Uint8Array): Uint8Array | null {
  if (tags.length > tagsBytesMax) return null;
  let count = 0;
  let last = 0;
  let nameBefore = -1;
  for (let at = 0; at < tags.length; ) {
    const node = nodeAt(tags, at);
    if (node < 0 || (nameBefore >= 0 && !isBefore(tags, nameBefore, at))) return null;
    const value = at + 2 + tags[at]!;
    const end = textEnd(tags, value);
    if (end < 0 || end === value + 2) return null;
    nodeValues[node] = value;
    count += 1;
    last = Math.max(last, node);
    nameBefore = at;
    at = end;
  }
  // No name is there twice: where the last one fits their number all are there.
  if (last !== count - 1) return null;
  let out = 0;
  for (let node = 0; node < count; node += 1) {
    const value = nodeValues[node]!;
    const end = value + 2 + (tags[value]! | (tags[value + 1]! << 8));
    if (node > 0) scratch[out++] = dotByte;
    for (let i = value + 2; i < end; i += 1) {
      const byte = tags[i]!;
      if (byte === dotByte || byte >= 0x80) return null;
      scratch[out++] = byte;
    }
  }
  return scratch.slice(0, out);
}

/** Of `__g0__`, which has one digit. */
const nodeNameBytes = 6;
const [underscoreByte, gByte, digitZero] = [0x5f, 0x67, 0x30];

/** The node of up to two digits whose name stands at `at`; -1 for another name, or one that is cut off. */
function nodeAt(tags: Uint8Array, at: number): number {
  const length = tags[at]!;
  const isName =
    (length === nodeNameBytes || length === nodeNameBytes + 1) &&
    tags.length - at >= length + 2 &&
    tags[at + 1] === 0 &&
    tags[at + 2] === underscoreByte &&
    tags[at + 3] === underscoreByte &&
    tags[at + 4] === gByte &&
    tags[at + length] === underscoreByte &&
    tags[at + length + 1] === underscoreByte;
  if (!isName) return -1;
  const first = tags[at + 5]! - digitZero;
  if (first < 0 || first > 9) return -1;
  if (length === nodeNameBytes) return first;
  const second = tags[at + 6]! - digitZero;
  return first === 0 || second < 0 || second > 9 ? -1 : 10 * first + second;
}

/**
 * The quoted ID of tags that need no escapes, by far the usual ones: bytes to bytes. Null for all
 * others and for what is not canonical.
 */
export function plainQuotedId(tags: Uint8Array): Uint8Array | null {
  if (tags.length > tagsBytesMax) return null;
  let at = 0;
  let out = 0;
  let nameBefore = -1;
  scratch[out++] = 0x7b;
  while (at < tags.length) {
    const name = at;
    const nameEnd = textEnd(tags, at);
    if (nameEnd < 0 || nameEnd === at + 2) return null;
    if (nameBefore >= 0 && !isBefore(tags, nameBefore, name)) return null;
    if (nameBefore >= 0) scratch[out++] = 0x2c;
    for (let i = at + 2; i < nameEnd; i += 1) {
      const byte = tags[i]!;
      if (isEscaped(byte)) return null;
      scratch[out++] = byte;
    }
    const valueEnd = textEnd(tags, nameEnd);
    if (valueEnd < 0) return null;
    scratch[out++] = 0x3d;
    scratch[out++] = quoteByte;
    for (let i = nameEnd + 2; i < valueEnd; i += 1) {
      const byte = tags[i]!;
      if (isEscaped(byte)) return null;
      scratch[out++] = byte;
    }
    scratch[out++] = quoteByte;
    nameBefore = name;
    at = valueEnd;
  }
  scratch[out++] = 0x7d;
  return scratch.slice(0, out);
}

/** Whether a text with the byte is looked at more closely. */
function isEscaped(byte: number): boolean {
  return byte < 0x20 || byte >= 0x7f || byte === quoteByte || byte === backslashByte;
}

/** End of the text whose length stands at `at`, or -1 when it is cut off. */
function textEnd(tags: Uint8Array, at: number): number {
  if (tags.length - at < 2) return -1;
  const length = tags[at]! | (tags[at + 1]! << 8);
  return length > tags.length - at - 2 ? -1 : at + 2 + length;
}

/** Whether the text at `a` is less than the one at `b`, by bytes. */
function isBefore(tags: Uint8Array, a: number, b: number): boolean {
  const aLength = tags[a]! | (tags[a + 1]! << 8);
  const bLength = tags[b]! | (tags[b + 1]! << 8);
  const both = Math.min(aLength, bLength);
  for (let i = 2; i < both + 2; i += 1) {
    const difference = tags[a + i]! - tags[b + i]!;
    if (difference !== 0) return difference < 0;
  }
  return aLength < bLength;
}
