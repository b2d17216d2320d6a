/**
 * Messages of OTLP in JSON, as they may be written there, must come to the bytes of protobuf that they are; one wrong value to an
 * error that names it; damaged texts to bytes or an error that names a value of theirs.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { countInputs } from '#test/sim/counts.ts';
import { bytesOf, damaged, type Pick, pickOf, varintOf } from '#test/sim/mutate.ts';
import { wireFromOtlpJson } from './json.ts';

const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

/** OpenTelemetry's definitions, as far as they are read: `name number type`, types of lists in brackets. */
const definitions: Readonly<Record<string, string>> = {
  Request: 'resourceMetrics 1 [ResourceMetrics]',
  ResourceMetrics: 'resource 1 Resource, scopeMetrics 2 [ScopeMetrics]',
  Resource: 'attributes 1 [KeyValue]',
  ScopeMetrics: 'scope 1 Scope, metrics 2 [Metric], schemaUrl 3 string',
  Scope: 'name 1 string, version 2 string, attributes 3 [KeyValue]',
  KeyValue: 'key 1 string, value 2 AnyValue',
  AnyValue:
    'stringValue 1 string, boolValue 2 bool, intValue 3 int64, doubleValue 4 double, arrayValue 5 Values, kvlistValue 6 Pairs, bytesValue 7 bytes',
  Values: 'values 1 [AnyValue]',
  Pairs: 'values 1 [KeyValue]',
  Metric:
    'name 1 string, description 2 string, unit 3 string, gauge 5 Gauge, sum 7 Sum, histogram 9 Histogram, exponentialHistogram 10 Exponential, summary 11 Summary',
  Gauge: 'dataPoints 1 [Number]',
  Sum: 'dataPoints 1 [Number], aggregationTemporality 2 enum, isMonotonic 3 bool',
  Histogram: 'dataPoints 1 [HistogramPoint], aggregationTemporality 2 enum',
  Exponential: 'dataPoints 1 [ExponentialPoint], aggregationTemporality 2 enum',
  Summary: 'dataPoints 1 [SummaryPoint]',
  Number:
    'attributes 7 [KeyValue], startTimeUnixNano 2 fixed64, timeUnixNano 3 fixed64, asDouble 4 double, asInt 6 sfixed64, exemplars 5 [Exemplar], flags 8 uint32',
  HistogramPoint:
    'attributes 9 [KeyValue], startTimeUnixNano 2 fixed64, timeUnixNano 3 fixed64, count 4 fixed64, sum 5 double, bucketCounts 6 [fixed64], explicitBounds 7 [double], exemplars 8 [Exemplar], flags 10 uint32',
  ExponentialPoint:
    'attributes 1 [KeyValue], startTimeUnixNano 2 fixed64, timeUnixNano 3 fixed64, count 4 fixed64, sum 5 double, scale 6 sint32, zeroCount 7 fixed64, positive 8 Buckets, negative 9 Buckets, flags 10 uint32, exemplars 11 [Exemplar], zeroThreshold 14 double',
  Buckets: 'offset 1 sint32, bucketCounts 2 [uint64]',
  SummaryPoint:
    'attributes 7 [KeyValue], startTimeUnixNano 2 fixed64, timeUnixNano 3 fixed64, count 4 fixed64, sum 5 double, quantileValues 6 [Quantile], flags 8 uint32',
  Quantile: 'quantile 1 double, value 2 double',
  Exemplar:
    'filteredAttributes 7 [KeyValue], timeUnixNano 2 fixed64, asDouble 3 double, asInt 6 sfixed64, spanId 4 id, traceId 5 id',
};

interface Field {
  readonly name: string;
  readonly number: number;
  readonly type: string;
  readonly isList: boolean;
}

const fieldsOf = new Map(
  Object.entries(definitions).map(([message, text]) => [
    message,
    text.split(', ').map((each): Field => {
      const [name, number, type] = each.split(' ') as [string, string, string];
      const isList = type.startsWith('[');
      return { name, number: Number(number), type: isList ? type.slice(1, -1) : type, isList };
    }),
  ]),
);

type Bytes = readonly number[];
interface Made {
  readonly json: unknown;
  readonly wire: Bytes;
}

const key = (number: number, type: number): Bytes => varintOf(BigInt(number * 8 + type));
const withLength = (bytes: Bytes): Bytes => [...varintOf(BigInt(bytes.length)), ...bytes];
const eight = (value: bigint): Bytes => [
  ...new Uint8Array(BigUint64Array.of(BigInt.asUintN(64, value)).buffer),
];
const ranges: Readonly<Record<string, readonly [bigint, bigint]>> = {
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  sfixed64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  fixed64: [0n, 2n ** 64n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  sint32: [-(2n ** 31n), 2n ** 31n - 1n],
  enum: [-(2n ** 31n), 2n ** 31n - 1n],
};
const wireTypes: Readonly<Record<string, number>> = {
  double: 1,
  fixed64: 1,
  sfixed64: 1,
  bool: 0,
  int64: 0,
  uint64: 0,
  uint32: 0,
  sint32: 0,
  enum: 0,
};

/** Makes messages; of one of their values another one may be made, which is none of its type. */
class Maker {
  readonly #pick: Pick;
  /** So many values further one is wrong. */
  #untilWrong: number;
  readonly #path: (string | number)[] = [];
  /** Of the wrong value; null while there is none. */
  wrong: string | null = null;

  constructor(pick: Pick, hasWrong: boolean) {
    this.#pick = pick;
    this.#untilWrong = hasWrong ? pick(60) : -1;
  }

  message(type: string, depth: number): Made {
    const pick = this.#pick;
    const json: Record<string, unknown> = {};
    const wire: number[] = [];
    const fields = fieldsOf.get(type)!;
    // Of values one field is given, of other messages most.
    const most = type === 'AnyValue' ? 1 : fields.length;
    for (let count = pick(20) === 0 ? 0 : 1 + pick(most); count > 0; count -= 1) {
      const field = some(pick, fields);
      if (field.name in json || (depth > 9 && fieldsOf.has(field.type))) continue;
      if (pick(40) === 0) json[some(pick, ['x', 'schema_url', 'min', 'constructor'])] = { a: [1] };
      this.#path.push(field.name);
      const made = this.#field(field, depth);
      this.#path.pop();
      json[field.name] = made.json;
      wire.push(...made.wire);
    }
    return { json, wire };
  }

  #field(field: Field, depth: number): Made {
    const { number, type, isList } = field;
    if (this.#pick(60) === 0) return { json: null, wire: [] };
    if (!isList) {
      const made = this.#value(type, depth);
      return { json: made.json, wire: [...key(number, wireTypes[type] ?? 2), ...made.wire] };
    }
    const wrong = this.#isWrong();
    if (wrong) return { json: some(this.#pick, [1, 'x', {}, true]), wire: [] };
    const items = Array.from({ length: this.#pick(4) }, (_, index) => {
      this.#path.push(index);
      const item = this.#value(type, depth);
      this.#path.pop();
      return item;
    });
    const json = items.map((item) => item.json);
    if (!(type in wireTypes)) {
      return { json, wire: items.flatMap(({ wire }) => [...key(number, 2), ...wire]) };
    }
    if (items.length === 0) return { json, wire: [] };
    return { json, wire: [...key(number, 2), ...withLength(items.flatMap(({ wire }) => wire))] };
  }

  /** Notes where it is. */
  #isWrong(): boolean {
    if (this.#untilWrong < 0) return false;
    this.#untilWrong -= 1;
    if (this.#untilWrong >= 0) return false;
    this.wrong = pathText(this.#path);
    return true;
  }

  #value(type: string, depth: number): Made {
    const pick = this.#pick;
    if (this.#isWrong()) return { json: some(pick, wrongOf(type)), wire: [] };
    if (fieldsOf.has(type)) {
      const { json, wire } = this.message(type, depth + 1);
      return { json, wire: withLength(wire) };
    }
    switch (type) {
      case 'string': {
        const text = some(pick, [
          '',
          'a',
          'http.requests',
          'ü',
          '\u{1f600}',
          '"\\',
          'x'.repeat(pick(200)),
        ]);
        return { json: text, wire: withLength([...Buffer.from(text)]) };
      }
      case 'id': {
        const text = Buffer.from(bytesOf(pick, pick(17))).toString('hex');
        const json = pick(4) === 0 ? text.toUpperCase() : text;
        return { json, wire: withLength([...Buffer.from(json)]) };
      }
      case 'bytes': {
        const bytes = Buffer.from(bytesOf(pick, pick(9)));
        const json = bytes.toString(pick(4) === 0 ? 'base64url' : 'base64');
        return { json, wire: withLength([...bytes]) };
      }
      case 'bool': {
        const value = pick(2) === 0;
        return { json: value, wire: [value ? 1 : 0] };
      }
      case 'double':
        return doubleOf(pick);
      default:
        return integerOf(pick, type);
    }
  }
}

function doubleOf(pick: Pick): Made {
  const value = some(pick, [
    0,
    -0,
    1.5,
    -2.25,
    1e21,
    1e-7,
    5e-324,
    0.1,
    Number.NaN,
    Infinity,
    -Infinity,
  ]);
  const isText = !Number.isFinite(value) || pick(8) === 0;
  const text = Object.is(value, -0) ? '-0' : String(value);
  // JSON.stringify has no negative zero.
  const json = isText || Object.is(value, -0) ? text : value;
  return { json, wire: [...new Uint8Array(Float64Array.of(value).buffer)] };
}

function integerOf(pick: Pick, type: string): Made {
  const [least, most] = ranges[type]!;
  const value = some(pick, [
    0n,
    1n,
    300n,
    most,
    most - 1n,
    least,
    least + 1n,
    BigInt(pick(2 ** 31)),
  ]);
  const isSafe = BigInt.asIntN(53, value) === value;
  const isNumber = type === 'enum' || (isSafe && pick(2) === 0);
  const json = isNumber ? Number(value) : String(value);
  if (wireTypes[type] === 1) return { json, wire: eight(value) };
  return { json, wire: varintOf(type === 'sint32' ? (value << 1n) ^ (value >> 31n) : value) };
}

function wrongOf(type: string): readonly unknown[] {
  if (fieldsOf.has(type)) return [1, 'x', [], true];
  if (type === 'bool') return [0, 'true', [], {}];
  if (type === 'string') return [1, true, {}, [], '\ud800'];
  if (type === 'id') return [1, 'a', 'xy', {}, 'a b '];
  if (type === 'bytes') return [1, '?', 'a b=', 'AAAAA', []];
  if (type === 'double') return ['', 'x', 'nan', '1e400', true, {}, '0x10', '1_0'];
  const [least, most] = ranges[type]!;
  const wrong = [1.5, true, '', '1.0', 'x', '+1', ' 1', {}, []];
  const beyond = [least - 1n, most + 1n, 2n ** 70n].map((value) =>
    type === 'enum' ? Number(value) : String(value),
  );
  return [...wrong, ...beyond];
}

function pathText(path: readonly (string | number)[]): string {
  const text = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
  return text.slice(1) || 'body';
}

const errorForm = /^cannot read OTLP body: ([\w.[\]]+): ([^:]+): ([^]*)$/;

/** Of the error that a value comes to; null when it comes to bytes. */
function errorOf(value: unknown, where: string): readonly string[] | null {
  try {
    wireFromOtlpJson(value);
    return null;
  } catch (error) {
    assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST', `${where}: ${error}`);
    const found = errorForm.exec(error.message);
    assert.ok(found !== null, `${where}: ${error.message}`);
    return found.slice(1);
  }
}

function valueAt(value: unknown, path: string): unknown {
  const parts = path === 'body' ? [] : path.split(/[.[\]]+/).filter((part) => part !== '');
  return parts.reduce<unknown>((of, part) => (of as Record<string, unknown>)[part], value);
}

export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  for (let round = 0; round < size; round += 1) {
    const maker = new Maker(pick, pick(3) === 0);
    const { json, wire } = maker.message('Request', 0);
    const text = JSON.stringify(json);
    const where = `seed ${seed}, message ${round}: ${text.slice(0, 1000)}`;
    const value: unknown = JSON.parse(text);
    countInputs('OTLP in JSON');
    if (maker.wrong !== null) assert.equal(errorOf(value, where)?.[0], maker.wrong, where);
    else assert.ok(Buffer.from(wireFromOtlpJson(value)).equals(Buffer.from(wire)), where);
    for (let times = 0; times < 3; times += 1) {
      let other: unknown;
      try {
        other = JSON.parse(Buffer.from(damaged(pick, Buffer.from(text))).toString());
      } catch {
        continue;
      }
      countInputs('OTLP in JSON');
      const error = errorOf(other, `${where}, damaged`);
      if (error === null) continue;
      const shown = JSON.stringify(valueAt(other, error[0]!)).slice(0, 200);
      assert.equal(error[2]!.replace(/…$/, ''), shown, `${where}, damaged`);
    }
  }
}
