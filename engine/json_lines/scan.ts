/**
 * A line `{"metric":{…},"values":[…],"timestamps":[…]}` as columns, in one walk over its bytes: no object is made for a row. The
 * metric stays bytes, by which its series is found. The twin is scan_twin.ts.
 */
import { blanksEnd, closingQuote } from './bytes.ts';
import { NumberReader } from './number.ts';
import { bitsOfText, nanBits } from './values.ts';

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openList = 0x5b;
const closeList = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;

const rowsFirst = 1024;
const shownMax = 40;
const infinityHigh = 0x7ff0_0000;

const nanLow = Number(nanBits & 0xffff_ffffn);
const nanHigh = Number(nanBits >> 32n);

interface Key {
  readonly name: string;
  readonly bit: 1 | 2 | 4 | 8;
  /** In quotes. */
  readonly bytes: Uint8Array;
}

const keys: readonly Key[] = (
  [
    ['metric', 1],
    ['values', 2],
    ['timestamps', 4],
    ['end', 8],
  ] as const
).map(([name, bit]) => ({ name, bit, bytes: Buffer.from(`"${name}"`) }));
const keysOfSeries = 7;
const keyOfEnd = 8;

export class LineScan {
  /** Of the metric's object. */
  metricStart = 0;
  metricEnd = 0;
  /** The line is the last one of an export, and has no rows. */
  isEnd = false;
  rowCount = 0;
  /** Whole. */
  timestampMillis: Float64Array = new Float64Array(rowsFirst);
  /** Low and high word of each value. */
  valueWords: Uint32Array = new Uint32Array(2 * rowsFirst);

  readonly #numbers = new NumberReader();
  #values = new Float64Array(this.valueWords.buffer);
  #bytes: Uint8Array = new Uint8Array(0);
  #at = 0;
  #end = 0;
  #problem = '';
  #valueCount = 0;

  /** @returns what is wrong with the line in [start, end); '' when it is one */
  read(bytes: Uint8Array, start: number, end: number): string {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
    this.#problem = '';
    this.#valueCount = 0;
    this.rowCount = 0;
    const seen = this.#members();
    if (this.#problem !== '') return this.#problem;
    this.isEnd = seen === keyOfEnd;
    if (this.isEnd) return '';
    for (const { name, bit } of keys) {
      if (bit !== keyOfEnd && (seen & bit) === 0) return `missing required field: ${name}`;
    }
    if (seen !== keysOfSeries) return 'end: it stands beside other fields';
    if (this.#valueCount === this.rowCount) return '';
    return `timestamps: ${this.rowCount} of them, of ${this.#valueCount} values`;
  }

  /** @returns the bits of the fields that are there */
  #members(): number {
    if (!this.#take(openObject)) return this.#not('an object with metric, values and timestamps');
    let seen = 0;
    if (this.#take(closeObject)) return this.#rest(seen);
    do {
      this.#skipBlanks();
      const key = this.#key();
      if (key === null) return 0;
      const { name, bit } = key;
      if ((seen & bit) !== 0) return this.#fail(`key is given twice: "${name}"`);
      seen |= bit;
      if (!this.#take(colon)) return this.#not('a colon');
      if (bit === 2) this.#valueList();
      else if (bit === 4) this.#timestampList();
      else this.#object(bit === 1, name);
      if (this.#problem !== '') return 0;
    } while (this.#take(comma));
    if (!this.#take(closeObject)) return this.#not('a comma or the end of the object');
    return this.#rest(seen);
  }

  #rest(seen: number): number {
    this.#skipBlanks();
    return this.#at === this.#end ? seen : this.#not('the end of the line');
  }

  #key(): Key | null {
    const [all, start] = [this.#bytes, this.#at];
    for (const key of keys) {
      const { bytes } = key;
      let i = 0;
      while (i < bytes.length && all[start + i] === bytes[i]) i += 1;
      if (i < bytes.length || start + i > this.#end) continue;
      this.#at = start + i;
      return key;
    }
    const name = this.#string();
    if (name !== null) this.#fail(`unknown field: ${shown(name)}`);
    return null;
  }

  /** An object without objects in it; its members are looked at when the series is new. */
  #object(isMetric: boolean, name: string): void {
    if (!this.#take(openObject)) {
      this.#not(`the object of ${name}`);
      return;
    }
    const bytes = this.#bytes;
    const start = this.#at - 1;
    let at = this.#at;
    for (; at < this.#end && bytes[at] !== closeObject; at++) {
      if (bytes[at] === quote) at = closingQuote(bytes, at, this.#end);
      else if (bytes[at] === openObject || bytes[at] === openList) {
        this.#fail(`${name}: a value is no text`);
        return;
      }
    }
    if (at >= this.#end) {
      this.#fail(`${name}: it does not end`);
      return;
    }
    this.#at = at + 1;
    if (!isMetric) return;
    this.metricStart = start;
    this.metricEnd = at + 1;
  }

  #valueList(): void {
    if (!this.#take(openList)) {
      this.#not('the list of values');
      return;
    }
    if (this.#take(closeList)) return;
    const bytes = this.#bytes;
    const numbers = this.#numbers;
    let count = 0;
    do {
      this.#skipBlanks();
      if (2 * count === this.valueWords.length) this.#growValues();
      const value = numbers.read(bytes, this.#at, this.#end);
      if (!Number.isNaN(value)) {
        this.#values[count] = value;
        if ((this.valueWords[2 * count + 1]! & infinityHigh) === infinityHigh) {
          this.#fail(`values[${count}]: out of range, beyond 1.8e308 either way`);
          return;
        }
        this.#at = numbers.end;
      } else if (!this.#special(count)) return;
      count += 1;
    } while (this.#take(comma));
    this.#valueCount = count;
    if (!this.#take(closeList))
      this.#not(`a comma or the end of the list behind values[${count - 1}]`);
  }

  /** What is no number. @returns whether it is a value */
  #special(index: number): boolean {
    const [low, high] = [2 * index, 2 * index + 1];
    if (this.#isNull()) {
      this.#at += 4;
      this.valueWords[low] = nanLow;
      this.valueWords[high] = nanHigh;
      return true;
    }
    if (this.#bytes[this.#at] !== quote || this.#at >= this.#end) {
      this.#not(`a number, null or a text as values[${index}]`);
      return false;
    }
    const text = this.#string();
    if (text === null) return false;
    const bits = bitsOfText(text);
    if (bits === null) {
      this.#fail(`values[${index}]: no number: ${shown(text)}`);
      return false;
    }
    this.valueWords[low] = Number(bits & 0xffff_ffffn);
    this.valueWords[high] = Number(bits >> 32n);
    return true;
  }

  #isNull(): boolean {
    const [bytes, at] = [this.#bytes, this.#at];
    if (this.#end - at < 4 || bytes[at] !== 0x6e || bytes[at + 1] !== 0x75) return false;
    return bytes[at + 2] === 0x6c && bytes[at + 3] === 0x6c;
  }

  #timestampList(): void {
    if (!this.#take(openList)) {
      this.#not('the list of timestamps');
      return;
    }
    if (this.#take(closeList)) return;
    const bytes = this.#bytes;
    const numbers = this.#numbers;
    let count = 0;
    do {
      this.#skipBlanks();
      if (count === this.timestampMillis.length) this.#growTimestamps();
      const millis = numbers.read(bytes, this.#at, this.#end);
      if (!Number.isSafeInteger(millis)) {
        this.#not(`whole milliseconds as timestamps[${count}]`);
        return;
      }
      this.#at = numbers.end;
      this.timestampMillis[count++] = millis;
    } while (this.#take(comma));
    this.rowCount = count;
    if (!this.#take(closeList))
      this.#not(`a comma or the end of the list behind timestamps[${count - 1}]`);
  }

  #growValues(): void {
    const larger = new Uint32Array(2 * this.valueWords.length);
    larger.set(this.valueWords);
    this.valueWords = larger;
    this.#values = new Float64Array(larger.buffer);
  }

  #growTimestamps(): void {
    const larger = new Float64Array(2 * this.timestampMillis.length);
    larger.set(this.timestampMillis);
    this.timestampMillis = larger;
  }

  /** A short text without escapes, as keys and values are. */
  #string(): string | null {
    if (this.#bytes[this.#at] !== quote || this.#at >= this.#end) {
      this.#not('a text in quotes');
      return null;
    }
    const start = this.#at + 1;
    const end = closingQuote(this.#bytes, this.#at, this.#end);
    if (end >= this.#end) {
      this.#fail('a text does not end');
      return null;
    }
    this.#at = end + 1;
    const { buffer, byteOffset } = this.#bytes;
    return Buffer.from(buffer, byteOffset + start, Math.min(end - start, 2 * shownMax)).toString();
  }

  /** @returns whether the next byte that is no blank is this one, which is passed then */
  #take(byte: number): boolean {
    if (this.#bytes[this.#at] !== byte) this.#skipBlanks();
    if (this.#at >= this.#end || this.#bytes[this.#at] !== byte) return false;
    this.#at += 1;
    return true;
  }

  #skipBlanks(): void {
    this.#at = blanksEnd(this.#bytes, this.#at, this.#end);
  }

  #not(expected: string): number {
    const { buffer, byteOffset } = this.#bytes;
    const length = Math.min(shownMax, this.#end - this.#at);
    if (length <= 0) return this.#fail(`the line ends where ${expected} is expected`);
    const found = Buffer.from(buffer, byteOffset + this.#at, length).toString();
    return this.#fail(`not ${expected}: ${JSON.stringify(found)}`);
  }

  #fail(problem: string): 0 {
    this.#problem = problem;
    return 0;
  }
}

function shown(text: string): string {
  return JSON.stringify(text.length > shownMax ? `${text.slice(0, shownMax)}…` : text);
}
