/**
 * Python's pickles of samples, as Carbon's relays send them: a list of `(path, (time, value))`. Lists, tuples, texts and numbers
 * of all protocols are read; whatever would make Python call something is refused. One pass over the bytes, which is a stack
 * machine's program.
 */
import { isUtf8 } from 'node:buffer';
import { badRequest } from '#lib/errors.ts';

type Value = string | number | bigint | boolean | null | Value[];

const mark: unique symbol = Symbol('mark');

/**
 * Of all samples of a pickle. What is in it may be named again and again by two bytes, so a small one can stand for texts
 * without end.
 */
const textsLengthMax: number = 16 << 20;

/** Opcodes, and samples, of one step. */
const opcodesAtOnce = 4_096;
const samplesAtOnce = 1_024;

/** Samples as lines of plaintext, and how many are none. */
export interface UnpickledLines {
  readonly text: Uint8Array;
  readonly refused: number;
}

/**
 * In steps, since a message of a megabyte is a program of as many opcodes.
 * @throws {TsdbError} BAD_REQUEST when the bytes are no pickle of a list
 */
export function* linesOfPickle(bytes: Uint8Array): Generator<void, UnpickledLines> {
  const samples = yield* new Unpickler(bytes).read();
  if (!Array.isArray(samples)) throw badRequest('cannot read pickle: it is no list');
  const parts: Buffer[] = [];
  let lines = '';
  let textsLength = 0;
  let refused = 0;
  for (let i = 0; i < samples.length; i += 1) {
    const sample = samples[i]!;
    textsLength += textsLengthOf(sample);
    if (textsLength > textsLengthMax) {
      throw badRequest(
        `cannot read pickle: its samples are longer than ${textsLengthMax} characters`,
      );
    }
    const line = lineOf(sample);
    if (line === null) refused += 1;
    else lines += line;
    if (i % samplesAtOnce === samplesAtOnce - 1) {
      parts.push(Buffer.from(lines));
      lines = '';
      yield;
    }
  }
  parts.push(Buffer.from(lines));
  return { text: Buffer.concat(parts), refused };
}

/** Of its path, its time and its value: what is looked at. */
function textsLengthOf(sample: Value): number {
  if (!Array.isArray(sample) || sample.length !== 2) return 0;
  const [path, point] = sample;
  let length = typeof path === 'string' ? path.length : 0;
  if (!Array.isArray(point) || point.length !== 2) return length;
  for (const each of point) if (typeof each === 'string') length += each.length;
  return length;
}

/** Null for what is no sample: a path with spaces in it would be another line. */
function lineOf(sample: Value): string | null {
  if (!Array.isArray(sample) || sample.length !== 2) return null;
  const [path, point] = sample;
  if (typeof path !== 'string' || !Array.isArray(point) || point.length !== 2) return null;
  const [time, value] = point.map(numberText);
  // oxlint-disable-next-line no-control-regex -- they end lines and words
  if (time === null || value === null || !/^[^\u0000-\u0020\u007f]+$/.test(path)) return null;
  return `${path} ${value} ${time}\n`;
}

function numberText(value: Value): string | null {
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value);
  if (typeof value === 'bigint') return String(value);
  return typeof value === 'string' && /^[-+.\w]+$/.test(value) ? value : null;
}

class Unpickler {
  readonly #bytes: Buffer;
  readonly #stack: (Value | typeof mark)[] = [];
  readonly #memo = new Map<number, Value>();
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  *read(): Generator<void, Value> {
    for (let count = 1; ; count += 1) {
      const code = this.#byte();
      if (code === 0x2e) return this.#pop();
      this.#step(code);
      if (count % opcodesAtOnce === 0) yield;
    }
  }

  #step(code: number): void {
    const stack = this.#stack;
    switch (String.fromCharCode(code)) {
      case '\x80': // PROTO
        this.#byte();
        return;
      case '\x95': // FRAME
        this.#take(8);
        return;
      case '(':
        stack.push(mark);
        return;
      case ']':
      case ')':
        stack.push([]);
        return;
      case 'l':
      case 't':
        stack.push(this.#behindMark());
        return;
      case '\x85':
      case '\x86':
      case '\x87': // TUPLE1 to TUPLE3
        stack.push(this.#last(code - 0x84));
        return;
      case 'a': {
        const item = this.#pop();
        this.#list().push(item);
        return;
      }
      case 'e': {
        const items = this.#behindMark();
        const list = this.#list();
        for (const item of items) list.push(item);
        return;
      }
      case 'N':
        stack.push(null);
        return;
      case '\x88':
        stack.push(true);
        return;
      case '\x89':
        stack.push(false);
        return;
      case '0':
        this.#pop();
        return;
      case 'p':
        this.#memo.set(Number(this.#line()), this.#top());
        return;
      case 'q':
        this.#memo.set(this.#byte(), this.#top());
        return;
      case 'r':
        this.#memo.set(this.#take(4).readUInt32LE(), this.#top());
        return;
      case '\x94': // MEMOIZE
        this.#memo.set(this.#memo.size, this.#top());
        return;
      case 'g':
        this.#push(this.#memo.get(Number(this.#line())));
        return;
      case 'h':
        this.#push(this.#memo.get(this.#byte()));
        return;
      case 'j':
        this.#push(this.#memo.get(this.#take(4).readUInt32LE()));
        return;
      default:
        stack.push(this.#scalar(code));
    }
  }

  #scalar(code: number): Value {
    switch (String.fromCharCode(code)) {
      case 'J':
        return this.#take(4).readInt32LE();
      case 'K':
        return this.#byte();
      case 'M':
        return this.#take(2).readUInt16LE();
      case 'G':
        return this.#take(8).readDoubleBE();
      case '\x8a': // LONG1
        return longOf(this.#take(this.#byte()));
      case 'I': {
        const text = this.#line().toString('latin1');
        return text === '01' || text === '00' ? text === '01' : wholeOf(text);
      }
      case 'L':
        return wholeOf(this.#line().toString('latin1').replace(/L$/, ''));
      case 'F':
        return floatOf(this.#line().toString('latin1'));
      case 'X':
      case 'T':
      case 'B':
        return this.#text(this.#take(4).readUInt32LE());
      case '\x8c':
      case 'U':
      case 'C':
        return this.#text(this.#byte());
      case '\x8d': // BINUNICODE8
        return this.#text(Number(this.#take(8).readBigUInt64LE()));
      case 'V':
        return unescaped(this.#line().toString('latin1'));
      case 'S': {
        const bytes = this.#line();
        const text = bytes.toString();
        // Escapes of Python would be another path.
        return text.includes('\\') || !isUtf8(bytes) ? null : text.replace(/^(['"])(.*)\1$/, '$2');
      }
      default:
        throw badRequest(
          `cannot read pickle: only lists, tuples, texts and numbers are read, not opcode 0x${code.toString(16)}`,
        );
    }
  }

  #byte(): number {
    if (this.#at >= this.#bytes.length) throw badRequest('cannot read pickle: it is cut off');
    return this.#bytes[this.#at++]!;
  }

  #take(length: number): Buffer {
    if (length > this.#bytes.length - this.#at)
      throw badRequest('cannot read pickle: it is cut off');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** Null for what is no text: a sample with it is none. */
  #text(length: number): string | null {
    const bytes = this.#take(length);
    return isUtf8(bytes) ? bytes.toString() : null;
  }

  #line(): Buffer {
    const end = this.#bytes.indexOf(0x0a, this.#at);
    if (end < 0) throw badRequest('cannot read pickle: it is cut off');
    const line = this.#take(end - this.#at);
    this.#take(1);
    return line;
  }

  #push(value: Value | undefined): void {
    if (value === undefined) throw malformed();
    this.#stack.push(value);
  }

  #pop(): Value {
    const value = this.#stack.pop();
    if (value === undefined || value === mark) throw malformed();
    return value;
  }

  #top(): Value {
    const value = this.#stack.at(-1);
    if (value === undefined || value === mark) throw malformed();
    return value;
  }

  #list(): Value[] {
    const list = this.#top();
    if (!Array.isArray(list)) throw malformed();
    return list;
  }

  #last(count: number): Value[] {
    const items = this.#stack.splice(-count);
    if (items.length < count || items.includes(mark)) throw malformed();
    return items as Value[];
  }

  #behindMark(): Value[] {
    const at = this.#stack.lastIndexOf(mark);
    if (at < 0) throw malformed();
    return this.#stack.splice(at).slice(1) as Value[];
  }
}

function malformed(): Error {
  return badRequest('cannot read pickle: it is no program that ends with a value');
}

/** Python's raw form of a text: bytes as characters, others as `\\u20ac` or `\\U0001f600`. Null for halves of characters. */
function unescaped(raw: string): string | null {
  const text = raw.replace(
    /\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})/g,
    (whole, short: string, long: string) => {
      const code = Number.parseInt(short ?? long, 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
  return text.isWellFormed() ? text : null;
}

/** Null for what is no number. */
function wholeOf(text: string): bigint | number | null {
  if (!/^-?\d+$/.test(text)) return null;
  return text.length > 20 ? finite(Number(text)) : BigInt(text);
}

/** The nearest float of a number with many digits: with these lines would be many times as long as the pickle. */
function finite(float: number): number | null {
  return Number.isFinite(float) ? float : null;
}

/** As Python writes it. Null for what is none. */
function floatOf(text: string): number | null {
  if (text === 'nan') return Number.NaN;
  const decimal = text.replace('inf', 'Infinity');
  return /^-?(?:Infinity|\d+(?:\.\d*)?(?:e[-+]?\d+)?)$/.test(decimal) ? Number(decimal) : null;
}

/** Two's complement, little-endian. */
function longOf(bytes: Buffer): bigint | number | null {
  let value = 0n;
  for (const [place, byte] of bytes.entries()) value |= BigInt(byte) << BigInt(8 * place);
  const whole = BigInt.asIntN(8 * bytes.length, value);
  return bytes.length > 8 ? finite(Number(whole)) : whole;
}
