import assert from 'node:assert/strict';
import { test } from 'node:test';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { apart, typedInOrder } from '../store/typed_chunks.ts';
import { encodeTypedRows } from '../typed/codec.ts';
import { inColumns } from '../typed/codec_fuzz.ts';
import { MessageEncoder } from './canonical.ts';
import { FieldColumns } from './field_columns.ts';
import { numericFieldsOf } from './numeric_fields.ts';
import { type JsonValue, messageToJson, wireFromJson } from './json.ts';
import { mergedType } from './merged.ts';
import { type MessageType, readSchema } from './schema.ts';

const first = `syntax = "proto3"; message R {
  double load = 1; int64 count = 2; optional int32 maybe = 3; string name = 4; bool on = 5;
  N inner = 6; repeated double many = 7; State state = 8; R self = 9; map<string, int32> by_name = 10;
  message N { float mean = 1; optional uint32 best = 2; D deep = 3; message D { sint64 at = 1; } }
  enum State { OFF = 0; ON = 1; }
}`;
const second = first
  .replace('int64 count = 2;', 'int64 total = 2; double later = 11;')
  .replace('float mean = 1;', 'float mean = 1; int32 more = 4;')
  .replace('bool on = 5;', '');
const schemas = new Map(
  [first, second].map((text, i): [number, MessageType] => [
    i + 5,
    readSchema({ 'r.proto': text }, 'R'),
  ]),
);
const merged = mergedType([...schemas.values()]);
const encoder = new MessageEncoder();
const start = 1_800_000_000_000_000_000n;

function randomJson(numbers: SeededNumbers, later: boolean, depth = 0): Record<string, JsonValue> {
  const json: Record<string, JsonValue> = {};
  const maybe = (name: string, value: () => JsonValue): void => {
    if (numbers.below(4) > 0) json[name] = value();
  };
  const some = (): number => [0, 1, -3, 250, 70_000][numbers.below(5)]!;
  maybe('load', () => some() / 4);
  maybe(later ? 'total' : 'count', () => String(some()));
  maybe('maybe', some);
  maybe('name', () => `name ${some()}`);
  if (!later) maybe('on', () => numbers.below(2) === 1);
  maybe('many', () => [1, 2]);
  maybe('state', () => numbers.below(2));
  maybe('by_name', () => ({ a: 1 }));
  if (later) maybe('later', () => some() + 0.5);
  maybe('inner', () => {
    const inner: Record<string, JsonValue> = {};
    if (numbers.below(2) === 0) inner['mean'] = some() / 8;
    if (numbers.below(2) === 0) inner['best'] = Math.abs(some());
    if (numbers.below(2) === 0) inner['deep'] = numbers.below(2) === 0 ? {} : { at: '-9' };
    if (later && numbers.below(2) === 0) inner['more'] = some();
    return inner;
  });
  if (depth === 0) maybe('self', () => randomJson(numbers, later, 1));
  return json;
}

/** As a reader of the schema that the row has would see it; null when it has no such field. */
function valueAt(json: JsonValue, type: MessageType, numbers: readonly number[]): number | null {
  const [number, ...rest] = numbers;
  const field = type.field(number!);
  if (field === undefined) return null;
  const value = (json as Record<string, JsonValue>)[field.jsonName];
  if (rest.length > 0) return value === undefined ? null : valueAt(value, field.message!, rest);
  if (value === undefined) return field.rule === 'optional' ? null : 0;
  if (typeof value === 'boolean') return Number(value);
  if (field.kind === 'enum') return field.enumType!.numberOf.get(value as string) ?? Number(value);
  return Number(value);
}

test('numeric fields are those of one number, also within messages, each under its newest name', () => {
  assert.deepEqual(
    numericFieldsOf(merged).map(({ path, numbers }) => [path, numbers.join('.')]),
    [
      ['load', '1'],
      ['total', '2'],
      ['maybe', '3'],
      ['on', '5'],
      ['inner.mean', '6.1'],
      ['inner.best', '6.2'],
      ['inner.deep.at', '6.3.1'],
      ['inner.more', '6.4'],
      ['state', '8'],
      ['later', '11'],
    ],
  );
});

test('columns of fields are what messages have one by one, whatever schema a row is of', () => {
  const numbers = new SeededNumbers(11);
  const fields = numericFieldsOf(merged);
  const typeOf = (layout: number): MessageType | null => schemas.get(layout) ?? null;
  for (let round = 0; round < 60; round++) {
    const rows = Array.from({ length: 1 + numbers.below(80) }, (_, i) => {
      // Of layout 9 there is no schema any more.
      const layout = [5, 6, 6, 9][numbers.below(4)]!;
      const type = typeOf(layout) ?? schemas.get(5)!;
      const json = randomJson(numbers, layout === 6);
      const value = encoder.encode(wireFromJson(json, type), type, layout);
      return { nanos: start + BigInt(i) * 1_000_000_000n, layout, value };
    });
    const chunkOf = (some: typeof rows): Uint8Array => {
      const timestampNanos = BigInt64Array.from(some, ({ nanos }) => nanos);
      const rowVersions = Float64Array.from(timestampNanos, (nanos) =>
        Number(versionAtNanos(nanos)),
      );
      const values = some.map(({ value }) => value);
      const startNanos = new BigInt64Array(some.length);
      return encodeTypedRows(inColumns({ timestampNanos, values, rowVersions, startNanos }));
    };
    // Chunks that overlap are merged.
    const even = rows.filter((_, i) => i % 2 === 0);
    const odd = rows.filter((_, i) => i % 2 === 1);
    const parts =
      odd.length === 0 || round % 2 === 0 ? [chunkOf(rows)] : [chunkOf(odd), chunkOf(even)];
    const range = [start + 3_000_000_000n, start + 70_000_000_000n] as const;
    const asked = fields.filter(() => numbers.below(3) > 0);
    const found = asked.map((): [bigint, number][] => []);
    const chunks = new Uint8Array(Buffer.concat(parts));
    const columns = new FieldColumns(asked, typeOf);
    for (const chunk of typedInOrder(apart([chunks]).typed, range)) {
      const read = columns.read(chunk, range);
      for (const [i, rows] of found.entries()) {
        const count = read.read(i);
        for (let row = 0; row < count; row++) {
          rows.push([read.timestampNanos[row]!, read.values[row]!]);
        }
      }
    }
    for (const [i, { path, numbers: path_ }] of asked.entries()) {
      const expected = rows.flatMap(({ nanos, layout, value }): [bigint, number][] => {
        const type = typeOf(layout);
        if (type === null || nanos < range[0] || nanos >= range[1]) return [];
        const one = valueAt(messageToJson(value, type), type, path_);
        return one === null ? [] : [[nanos, one]];
      });
      assert.deepEqual(found[i], expected, `round ${round}: ${path}`);
    }
  }
});
