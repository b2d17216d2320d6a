/**
 * Reads fields of JSON requests: keys in any case, each once, and none that is not known. Whole
 * numbers keep all their digits, up to 20.
 */
import { badRequest } from '#lib/errors.ts';
import { fieldPath, fieldsBySpelling, shownJson } from '#lib/json_fields.ts';
import { type JsonReviver, parseJson } from '#lib/json/text.ts';

/** JSON as it was parsed: large whole numbers are bigints. */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };

/**
 * No field takes more digits; the time that BigInt() takes grows with the square of their number.
 */
const wholeNumber = /^-?\d{1,20}$/;

/**
 * @throws {TsdbError} BAD_REQUEST when the body is no JSON, nested too deep, or has a key twice
 */
export function parseFields(body: Uint8Array): Json {
  // The source of a number is what a double would have rounded.
  return parseJson(body, { reviver: withAllDigits, valuesMax }) as Json;
}

/** Elements and members of a request. */
const valuesMax = 10_000;

const withAllDigits: JsonReviver = (_key, value, { source }) => {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  return source !== undefined && wholeNumber.test(source) ? BigInt(source) : value;
};

const specialSamples: ReadonlyMap<string, number> = new Map([
  ['nan', Number.NaN],
  ['+inf', Infinity],
  ['inf', Infinity],
  ['-inf', -Infinity],
]);

export class JsonFields {
  /** By lower-case key. */
  readonly #fields: Map<string, Json>;
  readonly #known = new Set<string>();
  readonly #path: string;
  readonly #allowUnknown: boolean;

  constructor(value: Json, path: string, allowUnknown: boolean) {
    this.#path = path;
    this.#allowUnknown = allowUnknown;
    this.#fields = fieldsBySpelling<Json>(value, path, (key) => key.toLowerCase());
    // A null is a field that was left out.
    for (const [key, field] of this.#fields) if (field === null) this.#fields.delete(key);
  }

  /** The names that are there, in lower case. */
  names(): string[] {
    return [...this.#fields.keys()];
  }

  text(name: string): string {
    const value = this.#take(name);
    if (typeof value !== 'string') throw this.bad(name, 'is not a string', value);
    return this.#wellFormed(name, value);
  }

  /** As bytes, texts with halves of surrogate pairs would be the same as others. */
  #wellFormed(name: string, value: string): string {
    if (value.isWellFormed()) return value;
    throw this.bad(name, 'is not Unicode, it has a half of a surrogate pair alone', value);
  }

  /** Bytes of M3's calls. */
  base64(name: string): Buffer {
    return this.#bytesOf(name, this.text(name));
  }

  base64s(name: string): Buffer[] {
    return this.texts(name).map((text) => this.#bytesOf(name, text));
  }

  #bytesOf(name: string, text: string): Buffer {
    const bytes = Buffer.from(text, 'base64');
    // With its padding, or without it as some encoders leave it out.
    const whole = text.padEnd(Math.ceil(text.length / 4) * 4, '=');
    if (bytes.toString('base64') === whole) return bytes;
    throw this.bad(name, 'is not base64', text);
  }

  textOr(name: string, fallback: string): string {
    return this.has(name) ? this.text(name) : fallback;
  }

  /** One of these words, in any case. */
  wordOr<T extends string>(name: string, words: readonly T[], fallback: T): T {
    if (!this.has(name)) return fallback;
    const text = this.text(name);
    const word = words.find((each) => each.toLowerCase() === text.toLowerCase());
    if (word === undefined) throw this.bad(name, `is not one of ${words.join(', ')}`, text);
    return word;
  }

  /** A whole number, also one written as a string. */
  whole(name: string): bigint {
    const value = this.#take(name);
    if (typeof value === 'bigint') return value;
    if (typeof value === 'number' && Number.isInteger(value)) return BigInt(value);
    if (typeof value === 'string' && wholeNumber.test(value)) return BigInt(value);
    throw this.bad(name, 'is not a whole number', value);
  }

  /** A limit: a whole number from 0 to 2^31. */
  limitOr(name: string, fallback: number): number {
    if (!this.has(name)) return fallback;
    const value = this.whole(name);
    if (value < 0n || value > 2n ** 31n) throw this.bad(name, 'is out of range', value);
    return Number(value);
  }

  /** An object as it is, its keys in their case; null when the field is something else. */
  rawObject(name: string): { readonly [key: string]: Json } | null {
    const value = this.#fields.get(name.toLowerCase());
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (!isObject) return null;
    this.#known.add(name.toLowerCase());
    return value;
  }

  /** A sample value; NaN and the infinities are written as strings. */
  sample(name: string): number {
    const value = this.#take(name);
    if (typeof value === 'bigint') return Number(value);
    if (typeof value === 'number') {
      if (Number.isFinite(value)) return value;
      // JSON has no infinities: it was a number such as 1e400.
      throw this.bad(name, 'is out of range, beyond 1.8e308 either way', null);
    }
    if (typeof value === 'string') {
      const found = specialSamples.get(value.toLowerCase());
      if (found !== undefined) return found;
    }
    throw this.bad(name, 'is not a number', value);
  }

  booleanOr(name: string, fallback: boolean): boolean {
    if (!this.has(name)) return fallback;
    const value = this.#take(name);
    if (typeof value !== 'boolean') throw this.bad(name, 'is not a boolean', value);
    return value;
  }

  object(name: string): JsonFields {
    return new JsonFields(this.#take(name), this.#pathOf(name), this.#allowUnknown);
  }

  objectOr(name: string): JsonFields | null {
    return this.has(name) ? this.object(name) : null;
  }

  /** Empty when it is not there. */
  objects(name: string): JsonFields[] {
    return this.#listOr(name).map(
      (value, i) => new JsonFields(value, `${this.#pathOf(name)}[${i}]`, this.#allowUnknown),
    );
  }

  texts(name: string): string[] {
    return this.#listOr(name).map((value) => {
      if (typeof value !== 'string') throw this.bad(name, 'is not a list of strings', value);
      return this.#wellFormed(name, value);
    });
  }

  has(name: string): boolean {
    this.#known.add(name.toLowerCase());
    return this.#fields.has(name.toLowerCase());
  }

  /**
   * To be called when all fields were read. @throws {TsdbError} BAD_REQUEST for one that was not
   */
  end(): void {
    if (this.#allowUnknown) return;
    for (const name of this.#fields.keys()) {
      if (!this.#known.has(name))
        throw badRequest(`cannot read request: unknown field: ${this.#pathOf(name)}`);
    }
  }

  bad(name: string, reason: string, value: Json): Error {
    const shown = value === null ? '' : `: ${shownJson(value)}`;
    return badRequest(`cannot read request: ${this.#pathOf(name)} ${reason}${shown}`);
  }

  #listOr(name: string): Json[] {
    if (!this.has(name)) return [];
    const value = this.#take(name);
    if (!Array.isArray(value)) throw this.bad(name, 'is not a list', value);
    return value;
  }

  #take(name: string): Json {
    const lower = name.toLowerCase();
    this.#known.add(lower);
    const value = this.#fields.get(lower);
    if (value === undefined) throw this.bad(name, 'is missing', null);
    return value;
  }

  #pathOf(name: string): string {
    return fieldPath(this.#path, name);
  }
}
