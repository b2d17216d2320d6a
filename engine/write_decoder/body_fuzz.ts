/**
 * Remote write bodies that are damaged where it matters: the elements of snappy, the tags, lengths
 * and numbers of protobuf. The kernel must answer as its twin does: the same rows of the same
 * series, or the same refusal. So must the decoder of remote read's requests.
 */
import assert from 'node:assert/strict';
import { count, countInputs } from '#test/sim/counts.ts';
import {
  bytesOf,
  changedNumber,
  damaged,
  type Pick,
  pickOf,
  randomOf,
  replaced,
  varintAt,
  varintOf,
  withVarintChanged,
} from '#test/sim/mutate.ts';
import { rawBytesMax, type WriteDecoderCore, type RemoteWriteVersion } from './core.ts';
import { WriteDecoderKernel, writeDecoderMemoryBytesMin } from './kernel.ts';
import { decodeSnappy, snappyProblemText } from './snappy.ts';
import { decodeSnappyTwin } from './snappy_twin.ts';
import { histogramLines, noteLines } from './write_decoder_fuzz.ts';
import { WriteDecoderTwin } from './write_decoder_twin.ts';

/**
 * A literal, or a copy from `offset` bytes back; `form` is the encoding: bytes of its length or
 * offset.
 */
interface Element {
  length: number;
  offset: number;
  form: number;
  literal: Uint8Array;
}

/** Splits bytes into elements that give them again, with copies wherever bytes repeat. */
function elementsOf(pick: Pick, raw: Uint8Array): Element[] {
  const elements: Element[] = [];
  const seen = new Map<number, number>();
  let from = 0;
  const literal = (end: number): void => {
    while (from < end) {
      const length = Math.min(end - from, pick(8) === 0 ? 1 + pick(20) : 300);
      elements.push({ length, offset: 0, form: 0, literal: raw.slice(from, from + length) });
      from += length;
    }
  };
  for (let at = 0; at + 4 <= raw.length; ) {
    const key = raw[at]! | (raw[at + 1]! << 8) | (raw[at + 2]! << 16) | (raw[at + 3]! << 24);
    const before = seen.get(key);
    seen.set(key, at);
    if (before === undefined) {
      at += 1;
      continue;
    }
    let length = 4;
    while (length < 64 && at + length < raw.length && raw[before + length] === raw[at + length]) {
      length += 1;
    }
    literal(at);
    elements.push({ length, offset: at - before, form: 0, literal: raw.subarray(0, 0) });
    at += length;
    from = at;
  }
  literal(raw.length);
  return elements;
}

function encoded(total: bigint, elements: readonly Element[]): Uint8Array {
  const out = varintOf(total);
  for (const { length, offset, form, literal } of elements) {
    if (offset === 0) {
      const size = Math.max(length - 1, 0);
      const least = size < 60 ? 0 : size < 256 ? 1 : 2;
      const bytes = Math.min(4, Math.max(least, form));
      out.push(bytes === 0 ? (size % 60) << 2 : (59 + bytes) << 2);
      for (let i = 0; i < bytes; i += 1) out.push((size >>> (8 * i)) & 255);
      for (const byte of literal) out.push(byte);
    } else if (form <= 1 && length >= 4 && length < 12 && offset < 2048) {
      out.push(((offset >> 8) << 5) | ((length - 4) << 2) | 1, offset & 255);
    } else {
      const bytes = form === 4 || offset > 65_535 ? 4 : 2;
      out.push((((length - 1) & 63) << 2) | (bytes === 4 ? 3 : 2));
      for (let i = 0; i < bytes; i += 1) out.push((offset >>> (8 * i)) & 255);
    }
  }
  return Uint8Array.from(out);
}

/**
 * Other forms of the same bytes, or other lengths and offsets; the length in front is often made to
 * fit again.
 */
function changedElements(pick: Pick, elements: readonly Element[], rawBytes: number): Uint8Array {
  const changed = elements.map((element) => ({ ...element }));
  for (const element of changed) if (pick(6) === 0) element.form = pick(5);
  const damages = pick(4);
  for (let count = damages; count > 0; count -= 1) {
    const index = pick(changed.length);
    const element = changed[index]!;
    switch (pick(6)) {
      case 0:
        element.offset = Number(changedNumber(pick, BigInt(element.offset), 16));
        break;
      case 1:
        element.offset = pick(12);
        break;
      case 2:
        element.length = Math.max(1, Number(changedNumber(pick, BigInt(element.length), 8)));
        break;
      case 3:
        changed.splice(index, 1);
        break;
      case 4:
        changed.splice(index, 0, { ...changed[pick(changed.length)]! });
        break;
      default:
        // What one has too much the next has too little: all is as long as before.
        if (element.offset > 0 && element.length < 60 && changed[index + 1]?.offset) {
          element.length += 1;
          changed[index + 1]!.length -= 1;
        }
    }
    if (changed.length === 0) break;
  }
  const sum = changed.reduce((all, { length }) => all + length, 0);
  const fits = pick(8) > 0;
  const total = fits ? BigInt(sum) : changedNumber(pick, BigInt(rawBytes), 32);
  return encoded(total, changed);
}

const literalOnly = (raw: Uint8Array): Uint8Array =>
  encoded(BigInt(raw.length), [{ length: raw.length, offset: 0, form: 2, literal: raw }]);

/** A field of a message: where its tag, its length (or number) and its content are. */
interface Place {
  readonly tag: number;
  readonly value: number;
  readonly start: number;
  readonly end: number;
}

/** Every field of a request, those of its messages too. */
function placesOf(raw: Uint8Array, start: number, end: number, places: Place[]): Place[] {
  for (let at = start; at < end; ) {
    const tag = varintAt(raw, at);
    if (tag === null) break;
    const type = Number(tag.value & 7n);
    if (type === 1 || type === 5) {
      const next = tag.end + (type === 1 ? 8 : 4);
      places.push({ tag: at, value: tag.end, start: tag.end, end: next });
      at = next;
      continue;
    }
    const value = varintAt(raw, tag.end);
    if (value === null) break;
    const next = type === 2 ? value.end + Number(value.value) : value.end;
    if (next > end) break;
    places.push({ tag: at, value: tag.end, start: value.end, end: next });
    const field = tag.value >> 3n;
    if (type === 2 && (field <= 2n || field === 5n) && places.length < 400) {
      placesOf(raw, value.end, next, places);
    }
    at = next;
  }
  return places;
}

/**
 * Tags, lengths and numbers changed; fields doubled, left out, swapped. Lengths around them are
 * left as they were.
 */
function changedFields(pick: Pick, raw: Uint8Array, places: readonly Place[]): Uint8Array {
  let bytes = raw;
  for (let count = 1 + pick(2); count > 0; count -= 1) {
    const place = places[pick(places.length)]!;
    if (place.end > bytes.length) continue;
    switch (pick(6)) {
      case 0:
        bytes = withVarintChanged(pick, bytes, place.tag);
        break;
      case 1:
      case 2:
        bytes = withVarintChanged(pick, bytes, place.value);
        break;
      case 3: {
        const other = places[pick(places.length)]!;
        bytes = replaced(bytes, place.tag, place.end, raw.subarray(other.tag, other.end));
        break;
      }
      case 4: {
        // Of one length, so that everything around it stays right.
        const content = bytesOf(pick, place.end - place.start);
        bytes = replaced(bytes, place.start, place.end, content);
        break;
      }
      default:
        bytes = replaced(bytes, place.tag, place.tag, raw.subarray(place.tag, place.end));
    }
  }
  return bytes;
}

function lengthField(number: number, bytes: ArrayLike<number>): number[] {
  return [
    ...varintOf(BigInt(number * 8 + 2)),
    ...varintOf(BigInt(bytes.length)),
    ...Array.from(bytes),
  ];
}

/** A text that repeats itself: most elements of snappy fall into such, which are compared. */
function textOf(pick: Pick): number[] {
  const part = bytesOf(pick, 1 + pick(9));
  const text: number[] = [];
  for (let times = pick(12); times >= 0; times -= 1) text.push(...part, pick(256));
  return text;
}

function sampleOf(pick: Pick): number[] {
  const time = [1n, 1_700_000_000_000n, -1n, 2n ** 62n][pick(4)]!;
  return lengthField(2, [9, ...bytesOf(pick, 8), 16, ...varintOf(time)]);
}

function requestOf(pick: Pick): Uint8Array {
  const request: number[] = [];
  for (let series = 1 + pick(3); series > 0; series -= 1) {
    const one: number[] = [];
    for (let label = pick(4); label >= 0; label -= 1) {
      const name = [97 + label, ...Array.from({ length: pick(4) }, () => 97 + pick(3))];
      one.push(...lengthField(1, [...lengthField(1, name), ...lengthField(2, textOf(pick))]));
    }
    for (let samples = pick(3); samples > 0; samples -= 1) one.push(...sampleOf(pick));
    if (pick(3) === 0) {
      const label = [...lengthField(1, [97]), ...lengthField(2, textOf(pick).slice(0, 60))];
      const content = [...lengthField(1, label), 17, ...bytesOf(pick, 8), 24, 9];
      one.push(...lengthField(3, content));
    }
    request.push(...lengthField(1, one));
    if (pick(4) === 0) {
      const texts = [2, 4, 5].flatMap((number) => lengthField(number, textOf(pick)));
      request.push(...lengthField(3, [8, pick(9), ...texts]));
    }
  }
  return Uint8Array.from(request);
}

/**
 * Version 2: texts in a table, which may stand before the series, after them or in between; labels
 * as pairs of numbers.
 */
function requestV2Of(pick: Pick): Uint8Array {
  const texts = [
    [],
    [...Buffer.from('__name__')],
    ...['__type__', '__unit__'].map((name) => [...Buffer.from(name)]),
    ...Array.from({ length: 2 }, (_, i) => [97 + i]),
    ...Array.from({ length: 3 }, () => textOf(pick)),
  ];
  const symbols = texts.map((text) => lengthField(4, text));
  const series: number[][] = [];
  for (let count = 1 + pick(3); count > 0; count -= 1) {
    const references: number[] = [];
    for (let label = 0; label < 1 + pick(4); label += 1) references.push(1 + label, pick(8));
    const one = [...lengthField(1, references)];
    for (let samples = pick(3); samples > 0; samples -= 1) one.push(...sampleOf(pick));
    if (pick(4) === 0) one.push(...lengthField(3 + pick(3), bytesOf(pick, pick(6))));
    if (pick(3) === 0) {
      const labels = lengthField(1, [pick(8), pick(8), pick(8), pick(9)]);
      one.push(...lengthField(4, [...labels, 17, ...bytesOf(pick, 8), 24, 9]));
    }
    if (pick(3) === 0) one.push(...lengthField(5, [8, pick(9), 24, pick(10), 32, pick(10)]));
    series.push(lengthField(5, one));
  }
  const split = [0, symbols.length, pick(symbols.length)][pick(3)]!;
  return Uint8Array.from([symbols.slice(0, split), series, symbols.slice(split)].flat(2));
}

/** What a body came to, so that two can be compared as a whole. */
function outcomeOf(core: WriteDecoderCore, body: Uint8Array, version: RemoteWriteVersion): string {
  const outcome = core.remoteWrite(body, version);
  if (outcome < 0) return `problem ${outcome}`;
  let text = [...histogramLines(core), ...noteLines(core)].join('\n');
  const slots = core.rowSlots;
  const times = core.rowTimestamps;
  const values = core.rowValues;
  const words = new Uint32Array(values.slice().buffer);
  for (let row = 0; row < outcome; row += 1) {
    const slot = slots[row]!;
    const tags = Buffer.from(core.tags(slot)).toString('latin1');
    text += `\n${core.refused[slot]} ${tags} ${times[row]} ${words[2 * row]} ${words[2 * row + 1]}`;
  }
  return text;
}

/** The decoder of snappy.ts gives the twin's text, or refuses for its reason. */
function checkSnappy(body: Uint8Array, label: string): void {
  const expected = decodeSnappyTwin(body, rawBytesMax);
  if (typeof expected !== 'number') {
    assert.deepEqual(decodeSnappy(body, rawBytesMax), expected, label);
    return;
  }
  const message = `cannot decode snappy: ${snappyProblemText(expected, rawBytesMax)}`;
  assert.throws(() => decodeSnappy(body, rawBytesMax), { code: 'BAD_REQUEST', message }, label);
}

const inputsOfRequest = 40;

/** @param size number of requests, of which each is damaged in 40 ways */
export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  const random = randomOf(pick);
  const hasTypeAndUnit = pick(2) === 0;
  const twin = new WriteDecoderTwin(hasTypeAndUnit);
  const kernel = new WriteDecoderKernel(random, writeDecoderMemoryBytesMin, hasTypeAndUnit);
  for (let request = 0; request < size; request += 1) {
    const version = pick(3) === 0 ? 2 : 1;
    const raw = version === 2 ? requestV2Of(pick) : requestOf(pick);
    const elements = elementsOf(pick, raw);
    const places = placesOf(raw, 0, raw.length, []);
    const whole = encoded(BigInt(raw.length), elements);
    for (let input = 0; input < inputsOfRequest; input += 1) {
      const isSnappy = input % 2 === 0;
      const isBlind = pick(8) === 0;
      const body = isSnappy
        ? isBlind
          ? damaged(pick, whole)
          : changedElements(pick, elements, raw.length)
        : literalOnly(isBlind ? damaged(pick, raw) : changedFields(pick, raw, places));
      const label = `seed ${seed}, request ${request}, input ${input}`;
      const outcome = outcomeOf(kernel, body, version);
      assert.equal(outcome, outcomeOf(twin, body, version), label);
      checkSnappy(body, label);
      if (outcome.startsWith('problem'))
        count(`refused: ${isSnappy ? 'snappy' : `remote write ${version}.0`}`);
    }
    countInputs('snappy', inputsOfRequest / 2);
    countInputs(`remote write ${version}.0`, inputsOfRequest / 2);
  }
}
