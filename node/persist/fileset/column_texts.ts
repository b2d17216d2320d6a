/** Values of a tag name, or explicit IDs, as they come while a fileset is written: each once, by a number. */
import { compareBytes } from '#lib/tags.ts';
import { hashBytes } from '../../index/tables/term_dictionary.ts';

/** Texts of a column are sorted, so that they share more, unless they are more than this: then it is not worth its time. */
export const sortedTextsMax = 65_536;
/** Texts that are sorted, or merged, in one step. */
export const textsAtOnce = 2_048;

/** As many as are an exact number. */
const keyBytes = 6;

const placesFirst = 16;
/** Of a look-up on average: more are no chance, but texts that were made to have one place, and go by a map. */
const probesMean = 16;
const probesFree = 4_096;

export class ColumnTexts {
  readonly name: Uint8Array;
  /** In the order in which they came. */
  readonly texts: Uint8Array[] = [];
  /** Hash and number of a text, and one; 0 where there is none. A text is at the first free place from its hash on. */
  #places = new Uint32Array(2 * placesFirst);
  #probesLeft = probesFree;
  #byText: Map<string, number> | null = null;
  #last = 0;

  constructor(name: Uint8Array) {
    this.name = name;
  }

  numberOf(bytes: Buffer, start: number, end: number): number {
    // Neighbours have most values in common.
    if (this.texts.length > 0 && isEqualText(this.texts[this.#last]!, bytes, start, end)) {
      return this.#last;
    }
    this.#last =
      this.#byText === null
        ? this.#numberByHash(bytes, start, end)
        : this.#numberByText(this.#byText, bytes, start, end);
    return this.#last;
  }

  /** A hash of the bytes where they are costs a third of making a text of them. */
  #numberByHash(bytes: Buffer, start: number, end: number): number {
    const hash = hashBytes(bytes, start, end, 0) >>> 0;
    const places = this.#places;
    const mask = places.length / 2 - 1;
    let place = hash & mask;
    let probes = 0;
    for (; places[2 * place + 1] !== 0; place = (place + 1) & mask, probes += 1) {
      const number = places[2 * place + 1]! - 1;
      if (places[2 * place] === hash && isEqualText(this.texts[number]!, bytes, start, end)) {
        this.#noteProbes(probes);
        return number;
      }
    }
    this.#noteProbes(probes);
    const number = this.texts.push(Uint8Array.from(bytes.subarray(start, end))) - 1;
    this.#byText?.set(bytes.toString('latin1', start, end), number);
    places[2 * place] = hash;
    places[2 * place + 1] = number + 1;
    if (4 * this.texts.length > places.length) this.#grow();
    return number;
  }

  #noteProbes(probes: number): void {
    this.#probesLeft = Math.min(this.#probesLeft + probesMean - probes, probesFree);
    if (this.#probesLeft < 0) this.#byText = this.#mapOfTexts();
  }

  #grow(): void {
    const before = this.#places;
    const places = new Uint32Array(2 * before.length);
    const mask = places.length / 2 - 1;
    for (let i = 0; i < before.length; i += 2) {
      if (before[i + 1] === 0) continue;
      let place = before[i]! & mask;
      while (places[2 * place + 1] !== 0) place = (place + 1) & mask;
      places[2 * place] = before[i]!;
      places[2 * place + 1] = before[i + 1]!;
    }
    this.#places = places;
  }

  #numberByText(byText: Map<string, number>, bytes: Buffer, start: number, end: number): number {
    const text = bytes.toString('latin1', start, end);
    let number = byText.get(text);
    if (number === undefined) {
      number = this.texts.push(Uint8Array.from(bytes.subarray(start, end))) - 1;
      byText.set(text, number);
    }
    return number;
  }

  /** One character a byte, so that different bytes never are one text. */
  #mapOfTexts(): Map<string, number> {
    return new Map(this.texts.map((text, i) => [Buffer.from(text).toString('latin1'), i]));
  }

  /** Numbers of the texts in the order in which a fileset's index has them, in steps. */
  *order(): Generator<void, Uint32Array> {
    const { length } = this.texts;
    return length <= sortedTextsMax ? yield* this.sorted() : ascending(length);
  }

  /** Numbers of the texts, ascending by their bytes, in steps: runs are sorted, and merged by twos. */
  *sorted(): Generator<void, Uint32Array> {
    const { texts } = this;
    const keys = yield* sortKeys(texts);
    const compare = (a: number, b: number): number =>
      keys[a]! - keys[b]! || compareBytes(texts[a]!, texts[b]!);
    let from = ascending(texts.length);
    for (let first = 0; first < from.length; first += textsAtOnce) {
      from.subarray(first, first + textsAtOnce).sort(compare);
      if (from.length > textsAtOnce) yield;
    }
    let into = new Uint32Array(from.length);
    for (let length = textsAtOnce; length < from.length; length *= 2) {
      for (let first = 0; first < from.length; first += 2 * length) {
        const middle = Math.min(first + length, from.length);
        const end = Math.min(middle + length, from.length);
        let [left, right] = [first, middle];
        for (let at = first; at < end; at++) {
          const isLeft = left < middle && (right >= end || compare(from[left]!, from[right]!) <= 0);
          into[at] = isLeft ? from[left++]! : from[right++]!;
          if (at % textsAtOnce === 0) yield;
        }
      }
      [from, into] = [into, from];
    }
    return from;
  }
}

/** By text: what tells most of them apart, the bytes after those that all begin with, as a number. */
function* sortKeys(texts: readonly Uint8Array[]): Generator<void, Float64Array> {
  const keys = new Float64Array(texts.length);
  const [first] = texts;
  if (first === undefined) return keys;
  let shared = first.length;
  for (let i = 1; i < texts.length; i++) {
    const text = texts[i]!;
    let at = 0;
    while (at < shared && at < text.length && text[at] === first[at]) at++;
    shared = at;
    if (i % textsAtOnce === 0) yield;
  }
  for (let i = 0; i < texts.length; i++) {
    const text = texts[i]!;
    let key = 0;
    for (let at = shared; at < shared + keyBytes; at++) {
      key = key * 256 + (at < text.length ? text[at]! : 0);
    }
    keys[i] = key;
    if (i % textsAtOnce === textsAtOnce - 1) yield;
  }
  return keys;
}

function ascending(count: number): Uint32Array<ArrayBuffer> {
  const numbers = new Uint32Array(count);
  for (let i = 0; i < count; i++) numbers[i] = i;
  return numbers;
}

export function isEqualText(
  text: Uint8Array,
  bytes: Uint8Array,
  start: number,
  end: number,
): boolean {
  if (text.length !== end - start) return false;
  for (let i = text.length - 1; i >= 0; i -= 1) if (text[i] !== bytes[start + i]) return false;
  return true;
}
