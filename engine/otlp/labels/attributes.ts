/** Attributes of OTLP: lists of keys and values of any form, as texts. */
import { isUtf8 } from 'node:buffer';
import { Malformed, malformed, Wire, wireType } from '../wire/wire.ts';

/** Of one resource, scope or point; and bytes of them. */
export const attributesMax = 1024;
export const attributeBytesMax = 65_535;
/** Lists and maps inside each other in a value. */
export const valueDepthMax = 16;

export interface Attribute {
  readonly key: string;
  readonly value: string;
}

/** What a sender may not send, although its message is whole. */
export class Refused extends Error {}

/** Why attributes are refused. @throws the error when it is another one */
export function refusalOf(error: unknown): string {
  if (error instanceof Refused) return error.message;
  if (error instanceof Malformed) return 'attributes: malformed';
  throw error;
}

export function attributesTooLong(bytes: number): string {
  return `attributes: longer than ${attributeBytesMax} bytes: ${bytes}`;
}

const keyOfPair = 1;
const valueOfPair = 2;

/**
 * Attributes among the fields of a message, in their order.
 * @param number of the field that holds them
 * @throws {Refused} when they are too many, too long or no UTF-8
 * @throws {Malformed} when they are malformed
 */
export function attributesIn(wire: Wire, at: number, end: number, number: number): Attribute[] {
  if (end - at > attributeBytesMax) {
    throw new Refused(attributesTooLong(end - at));
  }
  const found: Attribute[] = [];
  eachField(wire, at, end, (field, type, from, past) => {
    if (field !== number) return;
    expectBytes(type);
    if (found.length === attributesMax) throw new Refused(`attributes: more than ${attributesMax}`);
    found.push(pairOf(wire, from, past));
  });
  return found;
}

function pairOf(wire: Wire, at: number, end: number): Attribute {
  let key = '';
  let value = '';
  eachField(wire, at, end, (field, type, from, past) => {
    if (field !== keyOfPair && field !== valueOfPair) return;
    expectBytes(type);
    if (field === keyOfPair) key = textAt(wire, from, past, 'attributes: a key');
    else value = shown(valueAt(wire, from, past, 0));
  });
  return { key, value };
}

type Value = string | boolean | number | bigint | null | Uint8Array | readonly Value[] | ValueMap;
interface ValueMap {
  readonly pairs: readonly (readonly [key: string, value: Value])[];
}

function valueAt(wire: Wire, at: number, end: number, depth: number): Value {
  if (depth > valueDepthMax) {
    throw new Refused(`attributes: a value is nested deeper than ${valueDepthMax}`);
  }
  let value: Value = null;
  eachField(wire, at, end, (field, type, from, past) => {
    switch (field) {
      case 1:
        expectBytes(type);
        value = textAt(wire, from, past, 'attributes: a value');
        break;
      case 2:
      case 3: {
        if (type !== wireType.varint) throw malformed();
        const number = bigVarint(wire.bytes, from, past);
        value = field === 2 ? number !== 0n : BigInt.asIntN(64, number);
        break;
      }
      case 4:
        if (type !== wireType.fixed64) throw malformed();
        value = wire.view.getFloat64(from, true);
        break;
      case 5: {
        expectBytes(type);
        const list: Value[] = [];
        eachField(wire, from, past, (item, itemType, itemAt, itemEnd) => {
          if (item !== 1) return;
          expectBytes(itemType);
          list.push(valueAt(wire, itemAt, itemEnd, depth + 1));
        });
        value = list;
        break;
      }
      case 6:
        expectBytes(type);
        value = mapAt(wire, from, past, depth);
        break;
      case 7:
        expectBytes(type);
        value = wire.bytes.slice(from, past);
        break;
      default:
    }
  });
  return value;
}

function mapAt(wire: Wire, at: number, end: number, depth: number): ValueMap {
  const pairs = new Map<string, Value>();
  eachField(wire, at, end, (item, itemType, itemAt, itemEnd) => {
    if (item !== 1) return;
    expectBytes(itemType);
    let key = '';
    let value: Value = null;
    eachField(wire, itemAt, itemEnd, (field, type, from, past) => {
      if (field !== keyOfPair && field !== valueOfPair) return;
      expectBytes(type);
      if (field === keyOfPair) key = textAt(wire, from, past, 'attributes: a key');
      else value = valueAt(wire, from, past, depth + 1);
    });
    pairs.set(key, value);
  });
  return { pairs: [...pairs].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b))) };
}

/** A value alone is shown as it is, a list or a map as JSON. */
function shown(value: Value): string {
  if (typeof value === 'string') return value;
  if (value === null) return '';
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  return jsonOf(value);
}

function jsonOf(value: Value): string {
  if (value === null) return 'null';
  if (typeof value === 'string') return jsonText(value);
  if (typeof value === 'number') return numberText(value);
  if (typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (value instanceof Uint8Array) return `"${Buffer.from(value).toString('base64')}"`;
  if ('pairs' in value) {
    return `{${value.pairs.map(([key, each]) => `${jsonText(key)}:${jsonOf(each)}`).join(',')}}`;
  }
  return `[${value.map(jsonOf).join(',')}]`;
}

/** As Go's encoding/json, which also escapes what HTML has a meaning for. */
function jsonText(text: string): string {
  return JSON.stringify(text).replace(
    /[<>&\u2028\u2029]/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return Object.is(value, -0) ? '-0' : String(value);
  if (Number.isNaN(value)) return 'NaN';
  return value > 0 ? '+Inf' : '-Inf';
}

/** @throws {Refused} when it is no UTF-8 */
export function textAt(wire: Wire, at: number, end: number, what: string): string {
  const text = wire.buffer.toString('utf8', at, end);
  // What is no character comes as this one.
  if (text.includes('\ufffd') && !isUtf8(wire.bytes.subarray(at, end))) {
    throw new Refused(`${what}: not UTF-8`);
  }
  return text;
}

function expectBytes(type: number): void {
  if (type !== wireType.bytes) throw malformed();
}

/** @throws {Malformed} when the fields of the message in [at, end) are malformed */
export function eachField(
  wire: Wire,
  at: number,
  end: number,
  take: (number: number, type: number, from: number, past: number) => void,
): void {
  while (at < end) {
    const key = wire.varint(at, end);
    const number = Math.floor(key / 8);
    const type = key % 8;
    if (number === 0) throw malformed();
    let from = wire.at;
    if (type === wireType.bytes) {
      const length = wire.length(from, end);
      from = wire.at;
      at = from + length;
    } else at = wire.skip(from, end, type);
    take(number, type, from, at);
  }
}

function bigVarint(bytes: Uint8Array, at: number, end: number): bigint {
  let value = 0n;
  for (let shift = 0n; at < end; shift += 7n) value |= BigInt(bytes[at++]! & 127) << shift;
  return BigInt.asUintN(64, value);
}
