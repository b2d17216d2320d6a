/** Values of a tag name, or explicit IDs, as they come while a fileset is written: each once, by a number. */

/**
 * Texts of a column are sorted, so that they share more, unless they are more than this: sorting is
 * one step.
 */
export const sortedTextsMax = 65_536;

export class ColumnTexts {
  readonly name: Uint8Array;
  /** In the order in which they came. */
  readonly texts: Uint8Array[] = [];
  readonly #byText = new Map<string, number>();
  #last = 0;

  constructor(name: Uint8Array) {
    this.name = name;
  }

  numberOf(bytes: Buffer, start: number, end: number): number {
    // Neighbours have most values in common.
    if (this.texts.length > 0 && isEqualText(this.texts[this.#last]!, bytes, start, end)) {
      return this.#last;
    }
    // One character a byte, so that different bytes never are one text.
    const text = bytes.toString('latin1', start, end);
    let number = this.#byText.get(text);
    if (number === undefined) {
      number = this.texts.length;
      this.#byText.set(text, number);
      this.texts.push(Uint8Array.from(bytes.subarray(start, end)));
    }
    this.#last = number;
    return number;
  }

  get isSorted(): boolean {
    return this.texts.length <= sortedTextsMax;
  }

  /** Numbers of the texts in the order in which they are written. */
  order(): Uint32Array {
    const numbers = new Uint32Array(this.texts.length);
    if (!this.isSorted) return numbers.map((_, i) => i);
    const sorted = [...this.#byText.keys()].sort();
    for (let i = 0; i < sorted.length; i += 1) numbers[i] = this.#byText.get(sorted[i]!)!;
    return numbers;
  }
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
