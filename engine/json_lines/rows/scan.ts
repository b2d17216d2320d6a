/**
 * A row `{"tags":{…},"timestamp":…,"value":…}` as it mostly comes, in one walk over its bytes: a number as value, seconds or a
 * text as time, nothing else. What is anything else, bad or not, is left to a reader of JSON, which says what it is; so there are
 * no reasons here. The twin is scan_twin.ts.
 */
import { blanksEnd, closingQuote } from '../bytes.ts';
import { NumberReader } from '../number.ts';

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const point = 0x2e;
const zero = 0x30;
const openList = 0x5b;
const openObject = 0x7b;
const closeObject = 0x7d;

const tagsBit = 1;
const timestampBit = 2;
const valueBit = 4;
const allBits = 7;

/** In quotes. */
const keys: readonly (readonly [bytes: Uint8Array, bit: number])[] = (
  [
    ['tags', tagsBit],
    ['timestamp', timestampBit],
    ['value', valueBit],
  ] as const
).map(([name, bit]) => [Buffer.from(`"${name}"`), bit]);

/** As far as nanoseconds of 64 bits reach, about. */
const secondsMax = 9_223_372_035;
/** Digits that a float64 tells from all others: the number is what is written. */
const exactDigits = 15;
const fractionDigitsMax = 9;
const powers = Float64Array.from({ length: fractionDigitsMax + 1 }, (_, i) => 10 ** i);
/** Longest text of a time that is looked at here. */
const timeTextMax = 64;

export class RowScan {
  /** Of the object of tags. */
  tagsStart = 0;
  tagsEnd = 0;
  value = 0;
  /** The time, when it is a number: whole seconds, and what comes on top. */
  seconds = 0;
  nanos = 0;
  /** The time, when it is a text without escapes; else ''. */
  timeText = '';

  readonly #numbers = new NumberReader();
  #bytes: Uint8Array = new Uint8Array(0);
  #at = 0;
  #end = 0;

  /** @returns false when the line in [start, end) has to be read as JSON */
  read(bytes: Uint8Array, start: number, end: number): boolean {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
    if (!this.#take(openObject)) return false;
    let seen = 0;
    do {
      const bit = this.#key();
      if (bit === 0 || (seen & bit) !== 0 || !this.#take(colon)) return false;
      seen |= bit;
      this.#at = blanksEnd(bytes, this.#at, end);
      if (bit === tagsBit ? !this.#tags() : bit === valueBit ? !this.#value() : !this.#time()) {
        return false;
      }
    } while (this.#take(comma));
    if (seen !== allBits || !this.#take(closeObject)) return false;
    return blanksEnd(bytes, this.#at, end) === end;
  }

  #key(): number {
    const start = blanksEnd(this.#bytes, this.#at, this.#end);
    for (const [bytes, bit] of keys) {
      let i = 0;
      while (i < bytes.length && this.#bytes[start + i] === bytes[i]) i += 1;
      if (i < bytes.length || start + i > this.#end) continue;
      this.#at = start + i;
      return bit;
    }
    return 0;
  }

  /** An object without lists and objects in it; its members are looked at when the series is new. */
  #tags(): boolean {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = this.#at;
    if (at >= end || bytes[at] !== openObject) return false;
    this.tagsStart = at;
    for (at += 1; at < end && bytes[at] !== closeObject; at++) {
      if (bytes[at] === quote) at = closingQuote(bytes, at, end);
      else if (bytes[at] === openObject || bytes[at] === openList) return false;
    }
    if (at >= end) return false;
    this.tagsEnd = at + 1;
    this.#at = at + 1;
    return true;
  }

  #value(): boolean {
    this.value = this.#numbers.read(this.#bytes, this.#at, this.#end);
    this.#at = this.#numbers.end;
    return Number.isFinite(this.value);
  }

  #time(): boolean {
    return this.#bytes[this.#at] === quote ? this.#timeText() : this.#timeNumber();
  }

  #timeText(): boolean {
    const bytes = this.#bytes;
    const start = this.#at + 1;
    const end = closingQuote(bytes, this.#at, this.#end);
    if (end >= this.#end || end === start || end - start > timeTextMax) return false;
    for (let at = start; at < end; at++) if (bytes[at] === backslash) return false;
    const { buffer, byteOffset } = bytes;
    this.timeText = Buffer.from(buffer, byteOffset + start, end - start).toString('latin1');
    this.#at = end + 1;
    return true;
  }

  /** Digits, and a fraction or not, whose number is exactly what is written. */
  #timeNumber(): boolean {
    const bytes = this.#bytes;
    const first = this.#at;
    let seconds = 0;
    let digit = 0;
    let at = first;
    for (; at < this.#end && (digit = bytes[at]! - zero) >= 0 && digit <= 9; at++) {
      seconds = seconds * 10 + digit;
    }
    const wholeDigits = at - first;
    if (wholeDigits === 0 || (wholeDigits > 1 && bytes[first] === zero)) return false;
    if (wholeDigits > exactDigits || seconds > secondsMax) return false;
    let fraction = 0;
    let fractionDigits = 0;
    if (at < this.#end && bytes[at] === point) {
      const begin = ++at;
      for (; at < this.#end && (digit = bytes[at]! - zero) >= 0 && digit <= 9; at++) {
        fraction = fraction * 10 + digit;
      }
      fractionDigits = at - begin;
      if (fractionDigits === 0 || fractionDigits > fractionDigitsMax) return false;
      if (wholeDigits + fractionDigits > exactDigits) return false;
    }
    this.timeText = '';
    this.seconds = seconds;
    this.nanos = fraction * powers[fractionDigitsMax - fractionDigits]!;
    this.#at = at;
    return true;
  }

  /** @returns whether the next byte that is no blank is this one, which is passed then */
  #take(byte: number): boolean {
    const at = blanksEnd(this.#bytes, this.#at, this.#end);
    if (at >= this.#end || this.#bytes[at] !== byte) return false;
    this.#at = at + 1;
    return true;
  }
}
