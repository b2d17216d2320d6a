/** Messages and methods of .proto files: the one place that knows protobufjs. */
import { readFileSync } from 'node:fs';
import protobuf from 'protobufjs';
import { messageOf, TsdbError } from '../errors.ts';

/**
 * A plain message: fields in camelCase, 64-bit integers as bigint, bytes as Uint8Array, enums as
 * numbers.
 */
// oxlint-disable-next-line typescript/no-explicit-any
export type ProtoMessage = Record<string, any>;

export interface ProtoCodec {
  /** Fields left out or null are not written. 64-bit integers may be numbers or bigints. */
  encode(message: ProtoMessage): Uint8Array;
  /** Every field is there, with its default when it was not sent; a message field that was not is null.
   *  `oneof` groups have a field of their name that holds the name of the one sent.
   *  @throws {TsdbError} BAD_REQUEST */
  decode(bytes: Uint8Array): ProtoMessage;
}

export interface ProtoSchema {
  /**
   * @param name with its package: 'etcdserverpb.PutRequest'
   * @param valuesMax messages of more fields and items than this, those of messages in them included,
   *   are refused before they are decoded: of two bytes each, a megabyte of them makes garbage for a tenth of a second
   */
  codec(name: string, valuesMax?: number): ProtoCodec;
  /** All methods of all services. */
  methods(): readonly ProtoMethod[];
  /** @param path '/package.Service/Method' @throws {TypeError} when there is none */
  method(path: string): ProtoMethod;
}

export interface ProtoMethod {
  /** '/package.Service/Method' */
  readonly path: string;
  readonly request: ProtoCodec;
  readonly answer: ProtoCodec;
  readonly requestStreams: boolean;
  readonly answerStreams: boolean;
}

/**
 * One .proto file (one that imports no others), which is parsed when the first message comes: a
 * start needs none.
 */
export function loadProto(file: string | URL): ProtoSchema {
  const text = readFileSync(file, 'utf8');
  let parsed: ProtoSchema | null = null;
  const schema = () => (parsed ??= parseProto(text));
  return {
    codec(name, valuesMax) {
      let found: ProtoCodec | null = null;
      const codec = () => (found ??= schema().codec(name, valuesMax));
      return {
        encode: (message) => codec().encode(message),
        decode: (bytes) => codec().decode(bytes),
      };
    },
    methods: () => schema().methods(),
    method: (path) => schema().method(path),
  };
}

function parseProto(text: string): ProtoSchema {
  const { root } = protobuf.parse(text);
  root.resolveAll();
  const codecs = new Map<string, ProtoCodec>();
  const codec = (name: string, valuesMax: number = Number.POSITIVE_INFINITY): ProtoCodec => {
    const key = `${name} ${valuesMax}`;
    const known = codecs.get(key);
    if (known !== undefined) return known;
    const made = codecOf(root.lookupType(name), valuesMax);
    codecs.set(key, made);
    return made;
  };
  const methods: ProtoMethod[] = [];
  const collect = (space: protobuf.NamespaceBase) => {
    for (const nested of space.nestedArray) {
      if (nested instanceof protobuf.Service) {
        for (const method of nested.methodsArray) {
          methods.push({
            path: `/${nested.fullName.slice(1)}/${method.name}`,
            request: codec(method.resolvedRequestType!.fullName),
            answer: codec(method.resolvedResponseType!.fullName),
            requestStreams: method.requestStream === true,
            answerStreams: method.responseStream === true,
          });
        }
      } else if (nested instanceof protobuf.Namespace) collect(nested);
    }
  };
  collect(root);
  const byPath = new Map(methods.map((method) => [method.path, method]));
  return {
    codec,
    methods: () => methods,
    method(path) {
      const method = byPath.get(path);
      if (method === undefined) throw new TypeError(`no such method: ${path}`);
      return method;
    },
  };
}

function codecOf(type: protobuf.Type, valuesMax: number): ProtoCodec {
  return {
    encode: (message) => type.encode(withLongs(message) as object).finish(),
    decode(bytes) {
      let decoded: protobuf.Message;
      try {
        if (Number.isFinite(valuesMax)) refuseMany(type, bytes, valuesMax);
        decoded = type.decode(bytes);
      } catch (error) {
        const reason = `cannot decode ${type.fullName.slice(1)}: ${messageOf(error)}`;
        throw new TsdbError('BAD_REQUEST', reason, { cause: error });
      }
      return type.toObject(decoded, { longs: BigInt, defaults: true, oneofs: true });
    },
  };
}

/**
 * How many times a message has a field, those of messages in it not counted, without decoding it.
 * @throws {TsdbError} BAD_REQUEST when it is none
 */
export function countField(bytes: Uint8Array, number: number): number {
  const reader = protobuf.Reader.create(bytes);
  let count = 0;
  try {
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag >>> 3 === number) count += 1;
      reader.skipType(tag & 7);
    }
  } catch (error) {
    throw new TsdbError('BAD_REQUEST', `cannot read a message: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return count;
}

/** @throws {RangeError} when there are too many, or what is there is no message */
function refuseMany(type: protobuf.Type, bytes: Uint8Array, valuesMax: number): void {
  const reader = protobuf.Reader.create(bytes);
  let left = valuesMax;
  const count = (values: number): void => {
    left -= values;
    if (left < 0) throw new RangeError(`it has more than ${valuesMax} values`);
  };
  // As deep as protobufjs decodes: it refuses what is deeper.
  const countIn = (message: protobuf.Type | null, end: number, depth: number): void => {
    while (reader.pos < end) {
      const tag = reader.uint32();
      const field = message?.fieldsById[tag >>> 3];
      count(1);
      if ((tag & 7) !== 2) {
        reader.skipType(tag & 7);
        continue;
      }
      const length = reader.uint32();
      const inner = field?.resolve().resolvedType;
      if (inner instanceof protobuf.Type && depth < depthMax) {
        countIn(inner, Math.min(reader.pos + length, end), depth + 1);
        continue;
      }
      const isPacked = field?.repeated === true && field.type in protobuf.types.packed;
      if (isPacked) count(packedCount(bytes, reader.pos, length));
      reader.skip(length);
    }
  };
  countIn(type, reader.len, 0);
}

const depthMax = 100;

/** Of varints, the only ones that our messages pack. */
function packedCount(bytes: Uint8Array, from: number, length: number): number {
  let count = 0;
  const end = Math.min(from + length, bytes.length);
  for (let at = from; at < end; at++) if (bytes[at]! < 0x80) count++;
  return count;
}

/** protobufjs encodes numbers and Longs but no bigints. */
function withLongs(value: unknown): unknown {
  if (typeof value === 'bigint') {
    if (value >= numberMin && value <= numberMax) return Number(value);
    const low = Number(BigInt.asIntN(32, value));
    return { low, high: Number(BigInt.asIntN(32, value >> 32n)), unsigned: false };
  }
  if (Array.isArray(value)) return value.map(withLongs);
  if (value === null || typeof value !== 'object' || value instanceof Uint8Array) return value;
  const copy: ProtoMessage = {};
  for (const name of Object.keys(value)) {
    const field: unknown = (value as ProtoMessage)[name];
    if (field !== null && field !== undefined) copy[name] = withLongs(field);
  }
  return copy;
}

/** What is between these is exact as a number. */
const numberMin = BigInt(Number.MIN_SAFE_INTEGER);
const numberMax = BigInt(Number.MAX_SAFE_INTEGER);
