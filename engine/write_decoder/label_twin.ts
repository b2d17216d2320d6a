/** Labels of remote write, and the canonical tags that they come to: for the plain twins. */
import { tagsBytesMax, tagsCountMax } from '#lib/tags.ts';
import { Fields, type Range, wireBytes } from './wire_fields.ts';

export interface Label {
  name: Uint8Array;
  value: Uint8Array;
}

export function parseLabel(bytes: Uint8Array, [start, end]: Range): Label {
  const label: Label = { name: new Uint8Array(0), value: new Uint8Array(0) };
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number > 2) {
      fields.skip();
      continue;
    }
    fields.expect(wireBytes);
    const text = bytes.subarray(...fields.range());
    if (fields.number === 1) label.name = text;
    else label.value = text;
  }
  return label;
}

/**
 * Sorted by name, then by value, so that a name that appears twice is the same series in any order.
 */
export function canonicalTags(labels: Label[]): Uint8Array | null {
  if (labels.length > tagsCountMax) return null;
  let size = 0;
  for (const { name, value } of labels) size += 4 + name.length + value.length;
  if (size > tagsBytesMax) return null;
  labels.sort((a, b) => Buffer.compare(a.name, b.name) || Buffer.compare(a.value, b.value));
  const tags = new Uint8Array(size);
  let at = 0;
  for (const { name, value } of labels) {
    for (const text of [name, value]) {
      tags[at] = text.length & 255;
      tags[at + 1] = text.length >> 8;
      tags.set(text, at + 2);
      at += 2 + text.length;
    }
  }
  return tags;
}
