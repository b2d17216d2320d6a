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
  /** @param name with its package: 'etcdserverpb.PutRequest' */
  codec(name: string): ProtoCodec;
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
    codec(name) {
      let found: ProtoCodec | null = null;
      const codec = () => (found ??= schema().codec(name));
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
  const codec = (name: string): ProtoCodec => {
    const known = codecs.get(name);
    if (known !== undefined) return known;
    const made = codecOf(root.lookupType(name));
    codecs.set(name, made);
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

function codecOf(type: protobuf.Type): ProtoCodec {
  return {
    encode: (message) => type.encode(withLongs(message) as object).finish(),
    decode(bytes) {
      let decoded: protobuf.Message;
      try {
        decoded = type.decode(bytes);
      } catch (error) {
        const reason = `cannot decode ${type.fullName.slice(1)}: ${messageOf(error)}`;
        throw new TsdbError('BAD_REQUEST', reason, { cause: error });
      }
      return type.toObject(decoded, { longs: BigInt, defaults: true, oneofs: true });
    },
  };
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
