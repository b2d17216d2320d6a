/**
 * Reads JSON as the admin API takes it and the key-value store keeps it: keys in snake_case or
 * lowerCamel, integers as numbers or decimal strings, durations as `…Nanos` integers or `…Duration`
 * text. Each error names the path of the field, the reason and the value.
 *
 * What to do with keys that nothing reads is the one difference: those of a request are refused,
 * since they are mistakes of its author; those of a stored value are noted, since a later version
 * may have put them there, and who writes the value again keeps them (`unread_keys.ts`).
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { fieldPath, fieldsBySpelling, shownJson } from '#lib/json_fields.ts';
import { parseDurationNanos } from '#lib/time.ts';
import type { UnreadKeys } from './unread_keys.ts';

const uint32Max = 2 ** 32 - 1;
const int64Max = 2n ** 63n - 1n;

/** Of a list that is read in steps: rules of some ten microseconds each. */
const itemsOfStep = 100;

export class Fields {
  readonly path: string;
  /** By lowerCamel key; what was read is taken out, so that the rest is unknown. */
  readonly #rest: Map<string, unknown>;
  /** Where the object lies in a stored value. */
  readonly #steps: readonly (string | number)[];
  /** Takes what nothing has read of a stored value; null for a request. */
  readonly #unread: UnreadKeys[] | null;

  private constructor(
    path: string,
    rest: Map<string, unknown>,
    steps: readonly (string | number)[],
    unread: UnreadKeys[] | null,
  ) {
    this.path = path;
    this.#rest = rest;
    this.#steps = steps;
    this.#unread = unread;
  }

  /**
   * @param path of the value in the request, '' for the body
   * @throws {TsdbError} BAD_REQUEST when it is not an object, or has a key in two spellings
   */
  static of(value: unknown, path: string): Fields {
    return Fields.#read(value, path, [], null);
  }

  /**
   * The fields of a stored value.
   * @param unread gets the keys that nothing has read, of objects inside too
   * @throws {TsdbError} BAD_REQUEST as `of` does
   */
  static ofStored(value: unknown, path: string, unread: UnreadKeys[]): Fields {
    return Fields.#read(value, path, [], unread);
  }

  static #read(
    value: unknown,
    path: string,
    steps: readonly (string | number)[],
    unread: UnreadKeys[] | null,
  ): Fields {
    const rest = fieldsBySpelling(value, path, toCamel);
    return new Fields(path, rest, steps, unread);
  }

  has(key: string): boolean {
    return this.#rest.has(key) && this.#rest.get(key) !== null;
  }

  /** A key that nothing has read, or undefined. */
  firstKey(): string | undefined {
    return this.#rest.keys().next().value;
  }

  /** @throws {TsdbError} BAD_REQUEST naming the keys of a request that nothing has read */
  end(): void {
    if (this.#rest.size === 0) return;
    if (this.#unread !== null) {
      this.#unread.push({ steps: this.#steps, keys: Object.fromEntries(this.#rest) });
      return;
    }
    const names = [...this.#rest.keys()].map((key) => fieldPath(this.path, key));
    throw badRequest(`unknown field: ${shownText(names.join(', '))}`);
  }

  ignore(key: string): void {
    this.#rest.delete(key);
  }

  /**
   * A field that has one value only as far as this version knows. Another value of a request is
   * passed over when it has the right type; that of a stored value is kept like an unknown key.
   */
  constant(key: string, value: number | boolean | null): void {
    const given = this.#rest.get(key);
    if (this.#unread !== null && given !== null && given !== value) return;
    if (typeof value === 'boolean') this.boolean(key, value);
    else if (typeof value === 'number') this.uint(key, value);
    else this.ignore(key);
  }

  get isStored(): boolean {
    return this.#unread !== null;
  }

  /** Any JSON, undefined when absent. */
  any(key: string): unknown {
    return this.#take(key);
  }

  boolean(key: string, absent: boolean): boolean {
    const value = this.#take(key);
    if (value === undefined) return absent;
    if (typeof value !== 'boolean') throw this.bad(key, 'not a boolean', value);
    return value;
  }

  string(key: string, absent: string): string {
    const value = this.#take(key);
    if (value === undefined) return absent;
    if (typeof value !== 'string') throw this.bad(key, 'not a string', value);
    return value;
  }

  oneOf<T extends string>(key: string, choices: readonly T[], absent: T): T {
    const value = this.#take(key);
    if (value === undefined) return absent;
    const choice = choices.find((name) => name === value);
    if (choice === undefined) throw this.bad(key, `not one of ${choices.join(', ')}`, value);
    return choice;
  }

  /** A whole number in [0, 2^32). */
  uint(key: string, absent: number): number {
    const value = this.#take(key);
    if (value === undefined) return absent;
    const number = typeof value === 'string' && /^\d{1,10}$/.test(value) ? Number(value) : value;
    if (!Number.isInteger(number) || (number as number) < 0 || (number as number) > uint32Max) {
      throw this.bad(key, 'not a whole number from 0 to 4294967295', value);
    }
    return number as number;
  }

  int64(key: string, absent: bigint): bigint {
    const value = this.#take(key);
    return value === undefined ? absent : this.#toInt64(key, value);
  }

  /** A float, or null when absent. */
  float(key: string): number | null {
    const value = this.#take(key);
    if (value === undefined) return null;
    if (typeof value !== 'number') throw this.bad(key, 'not a number', value);
    return value;
  }

  /**
   * `<name>Nanos` as an integer, or `<name>Duration` as a duration ("48h") or an integer of
   * nanoseconds.
   * @returns null when absent
   */
  nanos(...names: readonly string[]): bigint | null {
    let found: bigint | null = null;
    for (const name of names) {
      for (const key of [`${name}Nanos`, `${name}Duration`]) {
        const value = this.#take(key);
        if (value === undefined) continue;
        if (found !== null) throw this.bad(key, 'the duration is given twice', value);
        const isText =
          key.endsWith('Duration') && typeof value === 'string' && !/^-?\d+$/.test(value);
        found = isText
          ? parseDurationNanos(value, fieldPath(this.path, key))
          : this.#toInt64(key, value);
      }
    }
    return found;
  }

  /** Duration text under the key itself ("retentionTime": "48h"), or null when absent. */
  duration(key: string): bigint | null {
    const value = this.#take(key);
    if (value === undefined || value === '') return null;
    if (typeof value !== 'string') throw this.bad(key, 'not a duration such as "48h"', value);
    return parseDurationNanos(value, fieldPath(this.path, key));
  }

  /** A nested object, or null when absent or null. */
  object(key: string): Fields | null {
    const value = this.#take(key);
    return value === undefined ? null : this.#inner(value, fieldPath(this.path, key), key);
  }

  list<T>(key: string, read: (fields: Fields, index: number) => T): T[] {
    return this.#array(key).map((item, index) =>
      read(this.#inner(item, `${fieldPath(this.path, key)}[${index}]`, key, index), index),
    );
  }

  /** As `list`, with a step after some items each: for lists whose items take long to read. */
  *listInSteps<T>(key: string, read: (fields: Fields, index: number) => T): Generator<void, T[]> {
    const items: T[] = [];
    for (const [index, item] of this.#array(key).entries()) {
      items.push(
        read(this.#inner(item, `${fieldPath(this.path, key)}[${index}]`, key, index), index),
      );
      if (items.length % itemsOfStep === 0) yield;
    }
    return items;
  }

  strings(key: string): string[] {
    return this.#array(key).map((item, index) => {
      if (typeof item !== 'string') throw this.bad(`${key}[${index}]`, 'not a string', item);
      return item;
    });
  }

  /** Values of an object by key. */
  record<T>(key: string, read: (fields: Fields, key: string) => T): T[] {
    const value = this.#take(key);
    if (value === undefined) return [];
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw this.bad(key, 'not a JSON object', value);
    }
    return Object.entries(value).map(([name, item]) =>
      read(this.#inner(item, fieldPath(fieldPath(this.path, key), name), key, name), name),
    );
  }

  bad(key: string, reason: string, value: unknown): Error {
    return badRequest(`${fieldPath(this.path, key)}: ${reason}: ${shownJson(value)}`);
  }

  #inner(value: unknown, path: string, ...steps: (string | number)[]): Fields {
    return Fields.#read(value, path, [...this.#steps, ...steps], this.#unread);
  }

  #array(key: string): unknown[] {
    const value = this.#take(key);
    if (value === undefined) return [];
    if (!Array.isArray(value)) throw this.bad(key, 'not a list', value);
    return value;
  }

  #toInt64(key: string, value: unknown): bigint {
    if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value);
    if (typeof value === 'string' && /^-?\d{1,19}$/.test(value)) {
      const number = BigInt(value);
      if (number <= int64Max && number >= -int64Max - 1n) return number;
    }
    throw this.bad(key, 'not a 64-bit integer', value);
  }

  /** Absent and null are the same. */
  #take(key: string): unknown {
    const value = this.#rest.get(key);
    this.#rest.delete(key);
    return value === null ? undefined : value;
  }
}

function toCamel(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
