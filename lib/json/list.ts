/**
 * A body that is one JSON value or a long list of them, read a part at a time: a body of megabytes, parsed in
 * one piece, would hold up others.
 */
import { badRequest } from '../errors.ts';
import {
  closeList,
  closeObject,
  comma,
  jsonDepthMax,
  openList,
  openObject,
  quote,
  readJson,
  stringEnd,
} from './text.ts';
import type { Work } from '../turns/turns.ts';

/** Text that is parsed at once, when no element is longer. */
const partBytes = 32 * 1024;
/** Elements and members that are parsed at once, when no element has more. */
const partValuesMax = 10_000;
/** Of one element, which is parsed in one go. A list of as many numbers as a message can hold has 131,072. */
export const elementValuesMax = 150_000;
const elementBytesMax = 4 << 20;
/** Elements and members between two looks at the clock. */
const lookValues = 16_384;
/** About what it takes to find, parse and check a byte, in units of work (lib/turns/turns.ts). */
const byteUnits = 4;

export interface JsonPart {
  /** Of a list: the index of the first one. */
  readonly firstIndex: number;
  readonly values: readonly unknown[];
  /** As of `JsonBody`, by the index in `values`. */
  readonly twice: ReadonlyMap<number, string>;
  /** Why the only one of `values` was not read: null is in its place. */
  readonly refusal: string | null;
}

export interface JsonList {
  /** False: the body is one value, which is no list. */
  readonly isList: boolean;
  readonly parts: AsyncIterable<JsonPart>;
}

/** @param elementsMax of a list; more are refused */
export function readJsonList(body: Uint8Array, elementsMax: number, work: Work): JsonList {
  const start = blanksEnd(body, 0);
  if (body[start] === openList)
    return { isList: true, parts: listParts(body, start, elementsMax, work) };
  return { isList: false, parts: onePart(body) };
}

async function* onePart(body: Uint8Array): AsyncGenerator<JsonPart> {
  const refusal = refusalOf(body.length, 0);
  if (refusal !== null) throw badRequest(`cannot read the request body: ${refusal}`);
  const { value, twice } = readJson(body, { valuesMax: elementValuesMax });
  yield { firstIndex: 0, values: [value], twice, refusal };
}

/** @throws {TsdbError} BAD_REQUEST where the list is no JSON, or too long */
async function* listParts(
  body: Uint8Array,
  start: number,
  elementsMax: number,
  work: Work,
): AsyncGenerator<JsonPart> {
  let depth = 0;
  let from = start + 1;
  let elementFrom = from;
  let firstIndex = 0;
  let elements = 1;
  let values = 0;
  let valuesOfElement = 0;
  let spentTo = start;
  const spend = (at: number): boolean => {
    const bytes = at - spentTo;
    spentTo = at;
    return work.spend(byteUnits * bytes);
  };
  /** Of the elements that end at `past`, of which the last one is refused, or not. */
  const partsTo = function* (past: number, refusal: string | null): Generator<JsonPart> {
    if (refusal === null) yield partOf(body, from, past, firstIndex);
    else {
      if (elementFrom > from) yield partOf(body, from, elementFrom - 1, firstIndex);
      yield { firstIndex: elements - 1, values: [null], twice: new Map(), refusal };
    }
  };
  for (let at = start; at < body.length; at += 1) {
    switch (body[at]) {
      case quote:
        at = stringEnd(body, at);
        break;
      case openList:
      case openObject:
        depth += 1;
        if (depth > jsonDepthMax) {
          throw badRequest(
            `the request body is nested more than ${jsonDepthMax} deep: at byte ${at}`,
          );
        }
        valuesOfElement += 1;
        break;
      case closeList:
      case closeObject:
        depth -= 1;
        if (depth === 0) {
          checkEnd(body, at);
          const refusal = refusalOf(at - elementFrom, valuesOfElement);
          for (const part of partsTo(at, refusal)) if (part.values.length > 0) yield part;
          return;
        }
        break;
      case comma: {
        if (depth > 1) {
          valuesOfElement += 1;
          if (valuesOfElement % lookValues === 0 && spend(at)) await work.pause();
          break;
        }
        if (elements === elementsMax) {
          throw badRequest(`the list has more than ${elementsMax} elements`);
        }
        const refusal = refusalOf(at - elementFrom, valuesOfElement);
        values += valuesOfElement;
        valuesOfElement = 0;
        if (refusal !== null || at - from >= partBytes || values >= partValuesMax) {
          if (spend(at)) await work.pause();
          yield* partsTo(at, refusal);
          from = at + 1;
          firstIndex = elements;
          values = 0;
        }
        elementFrom = at + 1;
        elements += 1;
        break;
      }
      default:
    }
  }
  throw notJson(body.length, 'it ends within a list');
}

/** Why an element is not read; null where it is. */
function refusalOf(bytes: number, values: number): string | null {
  if (bytes > elementBytesMax) return `it is longer than ${elementBytesMax} bytes: ${bytes}`;
  if (values > elementValuesMax) return `it has more than ${elementValuesMax} values: ${values}`;
  return null;
}

/** Elements of the list in [from, past). */
function partOf(body: Uint8Array, from: number, past: number, firstIndex: number): JsonPart {
  const text = new Uint8Array(past - from + 2);
  text[0] = openList;
  text.set(body.subarray(from, past), 1);
  text[text.length - 1] = closeList;
  const { value, twice } = readJson(text, { valuesMax: 2 * elementValuesMax });
  const values = value as unknown[];
  // A comma stands before it.
  if (values.length === 0 && firstIndex > 0) throw notJson(past, 'an element is missing');
  return { firstIndex, values, twice, refusal: null };
}

function checkEnd(body: Uint8Array, closedAt: number): void {
  if (body[closedAt] !== closeList || blanksEnd(body, closedAt + 1) < body.length) {
    throw notJson(closedAt + 1, 'there is more after the list, or it has another bracket');
  }
}

function blanksEnd(body: Uint8Array, from: number): number {
  let at = from;
  while (at < body.length && isBlank(body[at]!)) at += 1;
  return at;
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function notJson(at: number, reason: string): Error {
  return badRequest(`the request body is not JSON: at byte ${at}: ${reason}`);
}
