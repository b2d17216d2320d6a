/**
 * Bodies of requests that are JSON. What JSON.parse would take in silence, or take very long for, is
 * found by a scan of the bytes: how deep the text is nested, before it is parsed, and keys that stand
 * twice in one object, of which it would keep the last one.
 */
import { badRequest, messageOf } from '../errors.ts';

/**
 * Lists and objects inside each other; deeper texts are refused. A query of 64 levels, the deepest
 * that a node takes, has three of them at each of its own.
 */
export const jsonDepthMax = 256;

/** Elements of lists and members of objects of a body, where no more are expected. */
export const jsonValuesMax = 100_000;

/** `context.source` is the text of a number, as it was written. */
export type JsonReviver = (key: string, value: unknown, context: { source?: string }) => unknown;

export interface JsonBody {
  readonly value: unknown;
  /**
   * Keys that stand twice in one object: the first one of each element of the outermost list, by the
   * element's index; of a text that is no list under 0.
   */
  readonly twice: ReadonlyMap<number, string>;
}

export interface JsonOptions {
  readonly reviver?: JsonReviver;
  /** Elements and members in the whole body; `jsonValuesMax` when it is not given. */
  readonly valuesMax?: number;
}

/** @throws {TsdbError} BAD_REQUEST when it is not JSON in UTF-8, nested too deep, or has too many values */
export function readJson(
  body: Uint8Array,
  { reviver, valuesMax = jsonValuesMax }: JsonOptions = {},
): JsonBody {
  const memberCount = countMembers(body, valuesMax);
  let value: unknown;
  try {
    const text = decoder.decode(body);
    value = reviver === undefined ? JSON.parse(text) : JSON.parse(text, reviver as Reviver);
  } catch (error) {
    throw badRequest(`the request body is not JSON: ${messageOf(error)}`, { cause: error });
  }
  const twice = membersOf(value) === memberCount ? noKeys : keysTwice(body);
  return { value, twice };
}

/**
 * The value of a body of which every key has to stand once.
 * @throws {TsdbError} BAD_REQUEST
 */
export function parseJson(body: Uint8Array, options: JsonOptions = {}): unknown {
  const { value, twice } = readJson(body, options);
  for (const key of twice.values()) throw badRequest(keyTwiceText(key));
  return value;
}

export function keyTwiceText(key: string): string {
  const shown = key.length > shownKeyMax ? `${key.slice(0, shownKeyMax)}…` : key;
  return `key is given twice: ${JSON.stringify(shown)}`;
}

const shownKeyMax = 100;

type Reviver = (key: string, value: unknown) => unknown;

const decoder = new TextDecoder('utf-8', { fatal: true });

const noKeys: ReadonlyMap<number, string> = new Map();

export const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
export const comma = 0x2c;
export const openList = 0x5b;
export const closeList = 0x5d;
export const openObject = 0x7b;
export const closeObject = 0x7d;

/**
 * How many members the objects of the text have, if it is JSON.
 * @throws {TsdbError} BAD_REQUEST when it is nested too deep, or has too many values
 */
function countMembers(body: Uint8Array, valuesMax: number): number {
  let depth = 0;
  let members = 0;
  let values = 0;
  for (let at = 0; at < body.length; at += 1) {
    switch (body[at]) {
      case quote:
        at = stringEnd(body, at);
        break;
      case colon:
        members += 1;
        break;
      case comma:
        if (++values > valuesMax) throw tooManyValues(valuesMax, at);
        break;
      case openList:
      case openObject:
        if (++values > valuesMax) throw tooManyValues(valuesMax, at);
        depth += 1;
        if (depth > jsonDepthMax) {
          throw badRequest(
            `the request body is nested more than ${jsonDepthMax} deep: at byte ${at}`,
          );
        }
        break;
      case closeList:
      case closeObject:
        depth -= 1;
        break;
      default:
    }
  }
  return members;
}

function tooManyValues(valuesMax: number, at: number): Error {
  return badRequest(`the request body has more than ${valuesMax} values: at byte ${at}`);
}

/** Where the string ends that begins at `at`: at its closing quote, or behind the text. */
export function stringEnd(body: Uint8Array, at: number): number {
  let end = at + 1;
  while (end < body.length && body[end] !== quote) end += body[end] === backslash ? 2 : 1;
  return end;
}

/** Members that are left once it is parsed. Nested as deep as the text. */
function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  let members = 0;
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) members += membersOf(item);
    return members;
  }
  // Of JSON: all keys are its own, `__proto__` too.
  for (const key in value) members += 1 + membersOf((value as Record<string, unknown>)[key]);
  return members;
}

/** @param body which is JSON */
function keysTwice(body: Uint8Array): ReadonlyMap<number, string> {
  const twice = new Map<number, string>();
  /** Keys of the objects around a place; null for a list. */
  const around: (Set<string> | null)[] = [];
  let element = 0;
  let stringStart = 0;
  let stringLast = 0;
  for (let at = 0; at < body.length; at += 1) {
    switch (body[at]) {
      case quote:
        stringStart = at;
        at = stringEnd(body, at);
        stringLast = at;
        break;
      case colon: {
        const key = JSON.parse(
          decoder.decode(body.subarray(stringStart, stringLast + 1)),
        ) as string;
        const keys = around.at(-1)!;
        if (keys?.has(key) === true && !twice.has(element)) twice.set(element, key);
        keys?.add(key);
        break;
      }
      case comma:
        if (around.length === 1 && around[0] === null) element += 1;
        break;
      case openList:
        around.push(null);
        break;
      case openObject:
        around.push(new Set());
        break;
      case closeList:
      case closeObject:
        around.pop();
        break;
      default:
    }
  }
  return twice;
}
