/**
 * Lines of packets, read where they stand: a line of the usual form with a name, a type and tags that were seen before costs a
 * walk over its bytes and a look into a table. Any other line is read as a text (line.ts).
 */
import { isUtf8 } from 'node:buffer';
import { KeyTable } from './key_table.ts';
import {
  type EventType,
  type LineProblem,
  numberOf,
  parseLine,
  type PartProblem,
  rateMin,
  type StatsdEvent,
} from './line.ts';
import type { TagDialects } from './names.ts';

/** A longer line is none. */
export const lineBytesMax = 8192;
/** So many digits make a number that is exact; one of more is read as a text. */
const digitsMax = 15;
const sectionsMax = 4;
const tens: Float64Array = Float64Array.from({ length: digitsMax + 1 }, (_, i) => 10 ** i);
/** Multiplier of FNV-1a. */
const fnvPrime = 0x01000193;

const lineFeed = 0x0a;
const hash = 0x23;
const plus = 0x2b;
const minus = 0x2d;
const dot = 0x2e;
const zero = 0x30;
const colon = 0x3a;
const at = 0x40;
const letterC = 0x63;
const letterD = 0x64;
const letterE = 0x65;
const letterG = 0x67;
const letterH = 0x68;
const letterM = 0x6d;
const letterS = 0x73;
const letterT = 0x54;
const pipe = 0x7c;

/** Targets up to it are not of here: what goes to them is forwarded. */
export const forwardedTarget = -1000;

/** Takes what lines say. */
export interface EventSink {
  /** What values of timers are divided by: lines have milliseconds. */
  readonly timerUnitMillis: number;
  /**
   * What its events go to.
   * @returns a number that `take` knows; it is asked once for as long as the key is remembered
   */
  targetOf(event: Pick<StatsdEvent, 'type' | 'name' | 'labels'>): number;
  /** @param target of `targetOf` */
  take(target: number, value: number, times: number, isRelative: boolean): void;
  takeMember(target: number, member: string): void;
  /** A line of one event, or of several values of one metric, whose target is of others, from `forwardedTarget` on. */
  forward(target: number, bytes: Uint8Array, from: number, end: number): void;
  noteLine(): void;
  noteProblem(problem: LineProblem): void;
  notePartProblem(problem: PartProblem): void;
}

export class LineReader {
  readonly #sink: EventSink;
  readonly #dialects: TagDialects;
  readonly #keys = new KeyTable();
  readonly #key = new Uint8Array(lineBytesMax);
  /** Of a line of several. */
  readonly #values = new Float64Array(lineBytesMax);
  readonly #hashSeed: number;

  /** @param hashSeed of hashes of keys: senders do not know it */
  constructor(sink: EventSink, dialects: TagDialects, hashSeed: number) {
    this.#sink = sink;
    this.#dialects = dialects;
    this.#hashSeed = hashSeed | 0;
  }

  /** Targets have changed: each is asked for again. */
  forget(): void {
    this.#keys.clear();
  }

  /** All lines of a packet; the last one ends with it. */
  read(bytes: Uint8Array): void {
    for (let from = 0; from < bytes.length; ) from = this.#readLine(bytes, from);
  }

  /** @returns where the next line begins */
  #readLine(bytes: Uint8Array, from: number): number {
    const key = this.#key;
    const end = Math.min(bytes.length, from + lineBytesMax);
    let p = from;
    let h = this.#hashSeed;
    let byte = lineFeed;
    for (; p < end && (byte = bytes[p]!) !== colon && byte !== lineFeed; p++) {
      key[p - from] = byte;
      h = Math.imul(h ^ byte, fnvPrime);
    }
    if (p === from && byte === lineFeed) return p + 1;
    let length = p - from;
    if (length === 0 || p === end || byte !== colon) return this.#readSlowly(bytes, from);
    p++;

    const valueFrom = p;
    const sign = p < end ? bytes[p]! : 0;
    const isSigned = sign === plus || sign === minus;
    if (isSigned) p++;
    let digits = 0;
    let decimals = 0;
    let value = 0;
    for (let digit = 0; p < end && (digit = bytes[p]! - zero) >= 0 && digit <= 9; p++) {
      value = 10 * value + digit;
      digits++;
    }
    if (p < end && bytes[p] === dot) {
      p++;
      for (let digit = 0; p < end && (digit = bytes[p]! - zero) >= 0 && digit <= 9; p++) {
        value = 10 * value + digit;
        digits++;
        decimals++;
      }
    }
    const isExact = digits > 0 && digits <= digitsMax && p < end && bytes[p] === pipe;
    if (isExact) {
      // Both are exact, so that the quotient is the nearest number.
      if (decimals > 0) value /= tens[decimals]!;
      if (sign === minus) value = -value;
    } else {
      while (p < end && (byte = bytes[p]!) !== pipe && byte !== lineFeed) p++;
    }
    const valueEnd = p;

    if (p + 1 >= end || bytes[p] !== pipe) return this.#readSlowly(bytes, from);
    const type = bytes[p + 1]!;
    p += 2;
    const isObserved = type === letterM || type === letterH || type === letterD;
    if (type === letterM) {
      if (p >= end || bytes[p] !== letterS) return this.#readSlowly(bytes, from);
      p++;
    } else if (!isObserved && type !== letterC && type !== letterG && type !== letterS) {
      return this.#readSlowly(bytes, from);
    }
    let count = 1;
    if (type === letterS) {
      if (!isMember(bytes, valueFrom, valueEnd)) return this.#readSlowly(bytes, from);
    } else if (!isExact) {
      count = this.#readValues(bytes, valueFrom, valueEnd);
      if (count === 0 || (count > 1 && !isObserved)) return this.#readSlowly(bytes, from);
      value = this.#values[0]!;
    }
    key[length++] = pipe;
    key[length++] = type;
    h = Math.imul(h ^ type, fnvPrime);

    let rate = 1;
    let hasTags = false;
    let hasColon = false;
    for (let sections = 0; p < end && (byte = bytes[p]!) !== lineFeed; sections++) {
      if (byte !== pipe || sections === sectionsMax || p + 1 >= end) {
        return this.#readSlowly(bytes, from);
      }
      const first = bytes[p + 1]!;
      if (first === at) {
        const rateFrom = p + 2;
        for (p = rateFrom; p < end && (byte = bytes[p]!) !== pipe && byte !== lineFeed; p++);
        const known = rateOf(bytes, rateFrom, p);
        if (known === 0) return this.#readSlowly(bytes, from);
        rate = known;
      } else if (first === letterT) {
        for (p += 2; p < end && (byte = bytes[p]!) !== pipe && byte !== lineFeed; p++) {
          if (byte >= 0x80 || byte === colon) return this.#readSlowly(bytes, from);
        }
      } else if (first === hash || first === letterC || first === letterE) {
        hasTags ||= first === hash;
        key[length++] = pipe;
        for (p++; p < end && (byte = bytes[p]!) !== pipe && byte !== lineFeed; p++) {
          hasColon ||= byte === colon;
          key[length++] = byte;
          h = Math.imul(h ^ byte, fnvPrime);
        }
      } else {
        return this.#readSlowly(bytes, from);
      }
    }
    // Behind a single value, without tags, it begins another sample.
    if (hasColon && !hasTags && count === 1) return this.#readSlowly(bytes, from);
    if (p === end && end < bytes.length && bytes[end] !== lineFeed) {
      return this.#readSlowly(bytes, from);
    }

    const known = this.#keys.find(key, length, h);
    if (known < 0) return this.#readSlowly(bytes, from, length, h);
    const sink = this.#sink;
    sink.noteLine();
    const target = this.#keys.valueOf(known);
    if (target <= forwardedTarget) sink.forward(target, bytes, from, p);
    else if (type === letterC) sink.take(target, value / rate, 1, false);
    else if (type === letterG) sink.take(target, value, 1, isSigned);
    else if (type === letterS) sink.takeMember(target, textOf(bytes, valueFrom, valueEnd));
    else {
      const times = Math.max(1, 1 / rate);
      const unit = type === letterM ? sink.timerUnitMillis : 1;
      sink.take(target, value / unit, times, false);
      for (let i = 1; i < count; i++) sink.take(target, this.#values[i]! / unit, times, false);
    }
    return p + 1;
  }

  /** Numbers with colons between them. @returns how many; 0 when one of them is none */
  #readValues(bytes: Uint8Array, from: number, end: number): number {
    let count = 0;
    for (let first = from, p = from; p <= end; p++) {
      if (p < end && bytes[p] !== colon) continue;
      const value = numberOf(textOf(bytes, first, p));
      if (value === null) return 0;
      this.#values[count++] = value;
      first = p + 1;
    }
    return count;
  }

  /**
   * A line as a text. Its key is remembered when it has nothing that would have to be told each time.
   * @param keyLength of the key as it was made; 0 for a line that has none
   */
  #readSlowly(bytes: Uint8Array, from: number, keyLength = 0, keyHash = 0): number {
    const sink = this.#sink;
    const feed = bytes.indexOf(lineFeed, from);
    const end = feed < 0 ? bytes.length : feed;
    sink.noteLine();
    const line = bytes.subarray(from, end);
    if (line.length > lineBytesMax || !isUtf8(line)) {
      sink.noteProblem('malformed_line');
      return end + 1;
    }
    const text = Buffer.from(line.buffer, line.byteOffset, line.length).toString();
    const { head, events, problems, partProblems } = parseLine(text, this.#dialects);
    for (const problem of problems) sink.noteProblem(problem);
    for (const problem of partProblems) sink.notePartProblem(problem);
    const targets = new Map<EventType, number>();
    for (const event of events) {
      let target = targets.get(event.type);
      if (target === undefined) {
        target = sink.targetOf(event);
        targets.set(event.type, target);
      }
      if (target <= forwardedTarget) {
        const own = Buffer.from(`${head}:${event.text}|${event.rest}`);
        sink.forward(target, own, 0, own.length);
      } else if (event.type === 'set') sink.takeMember(target, event.member);
      else sink.take(target, valueOf(event, sink), event.times, event.isRelative);
    }
    const isPlain = targets.size === 1 && problems.length === 0 && partProblems.length === 0;
    if (keyLength > 0 && isPlain) {
      this.#keys.add(this.#key, keyLength, keyHash, targets.get(events[0]!.type)!);
    }
    return end + 1;
  }
}

function valueOf({ type, value }: StatsdEvent, { timerUnitMillis }: EventSink): number {
  return type === 'timer' ? value / timerUnitMillis : value;
}

/** Whether a set may have it: a text of which the line says nothing else. */
function isMember(bytes: Uint8Array, from: number, end: number): boolean {
  let all = 0;
  for (let p = from; p < end; p++) {
    const byte = bytes[p]!;
    if (byte === colon) return false;
    all |= byte;
  }
  return from < end && (all < 0x80 || isUtf8(bytes.subarray(from, end)));
}

/** @returns 0 for what is no rate */
function rateOf(bytes: Uint8Array, from: number, end: number): number {
  let p = from;
  let digits = 0;
  let decimals = 0;
  let rate = 0;
  for (let digit = 0; p < end && (digit = bytes[p]! - zero) >= 0 && digit <= 9; p++) {
    rate = 10 * rate + digit;
    digits++;
  }
  if (p < end && bytes[p] === dot) {
    p++;
    for (let digit = 0; p < end && (digit = bytes[p]! - zero) >= 0 && digit <= 9; p++) {
      rate = 10 * rate + digit;
      digits++;
      decimals++;
    }
  }
  if (digits > 0 && digits <= digitsMax && p === end) rate /= tens[decimals]!;
  else rate = numberOf(textOf(bytes, from, end)) ?? -1;
  if (rate === 0) return 1;
  return rate > 0 ? Math.max(rate, rateMin) : 0;
}

function textOf(bytes: Uint8Array, from: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, end - from).toString();
}
