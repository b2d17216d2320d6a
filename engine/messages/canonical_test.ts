/** Messages to typed values and back, beside another implementation of protobuf. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { checkTypedValue, TypedValueWriter, valueKind } from '../typed/typed_value.ts';
import { MessageEncoder, UnknownField } from './canonical.ts';
import { isMessageOf } from './conformity.ts';
import { readSchema } from './schema.ts';
import { messageToWire } from './wire_writer.ts';

const text = `syntax = "proto3";
package telemetry;
message Reading {
  double a_double = 1;
  float a_float = 2;
  int32 an_int32 = 3;
  int64 an_int64 = 4;
  uint32 a_uint32 = 5;
  uint64 a_uint64 = 6;
  sint32 a_sint32 = 7;
  sint64 a_sint64 = 8;
  fixed32 a_fixed32 = 9;
  fixed64 a_fixed64 = 10;
  sfixed32 a_sfixed32 = 11;
  sfixed64 a_sfixed64 = 12;
  bool a_bool = 13;
  string a_string = 14;
  bytes some_bytes = 15;
  State state = 16;
  Reading inner = 17;
  optional int32 maybe = 70;
  optional string maybe_text = 71;
  optional double maybe_double = 72;
  repeated double doubles = 100;
  repeated sint32 sints = 101;
  repeated int32 ints = 102;
  repeated bool bools = 103;
  repeated string strings = 104;
  repeated Reading readings = 105;
  repeated State states = 106;
  repeated fixed32 fixeds = 107;
  map<string, int32> by_name = 200;
  map<sint64, Reading> by_number = 201;
  map<bool, bytes> by_bool = 202;
  enum State { UNKNOWN = 0; ON = 1; OFF = -1; }
}
`;
const type = readSchema({ 'reading.proto': text }, 'telemetry.Reading');
const other = protobuf.parse(text, { keepCase: true }).root.lookupType('telemetry.Reading');
const encoder = new MessageEncoder();

// oxlint-disable-next-line typescript/no-explicit-any
type Json = Record<string, any>;

const toObject = (wire: Uint8Array): Json =>
  other.toObject(other.decode(wire), { longs: BigInt, bytes: Buffer });
const encodeOther = (message: Json): Uint8Array => other.encode(other.fromObject(message)).finish();

const ints = [0, 1, -1, 127, 128, -129, 2 ** 31 - 1, -(2 ** 31)];
const longs = [0n, 1n, -1n, 2n ** 31n, -(2n ** 31n) - 1n, 2n ** 63n - 1n, -(2n ** 63n), 1n << 40n];
const doubles = [0, -0, 1.5, -1e300, NaN, Infinity, 5e-324];

/** Some of the fields, in protobufjs' form. */
function messageOf(numbers: SeededNumbers, depth: number): Json {
  const message: Json = {};
  const maybe = (name: string, value: () => unknown): void => {
    if (numbers.below(3) > 0) message[name] = value();
  };
  const int = () => ints[numbers.below(ints.length)]!;
  const long = () => String(longs[numbers.below(longs.length)]!);
  const double = () => doubles[numbers.below(doubles.length)]!;
  const word = () => ['', 'a', 'ünïcode', 'x'.repeat(numbers.below(300))][numbers.below(4)]!;
  const some = <T>(value: () => T): T[] => Array.from({ length: numbers.below(4) }, () => value());
  maybe('a_double', double);
  maybe('a_float', () => Math.fround(double()));
  maybe('an_int32', int);
  maybe('an_int64', long);
  maybe('a_uint32', () => int() >>> 0);
  maybe('a_uint64', () => String(BigInt.asUintN(64, BigInt(long()))));
  maybe('a_sint32', int);
  maybe('a_sint64', long);
  maybe('a_fixed32', () => int() >>> 0);
  maybe('a_fixed64', () => String(BigInt.asUintN(64, BigInt(long()))));
  maybe('a_sfixed32', int);
  maybe('a_sfixed64', long);
  maybe('a_bool', () => numbers.below(2) === 1);
  maybe('a_string', word);
  maybe('some_bytes', () => Buffer.from(word()));
  maybe('state', () => [0, 1, -1, 77][numbers.below(4)]);
  maybe('maybe', int);
  maybe('maybe_text', word);
  maybe('maybe_double', double);
  maybe('doubles', () => some(double));
  maybe('sints', () => some(int));
  maybe('ints', () => some(int));
  maybe('bools', () => some(() => numbers.below(2) === 1));
  maybe('strings', () => some(word));
  maybe('states', () => some(() => [0, 1, -1, 77][numbers.below(4)]));
  maybe('fixeds', () => some(() => int() >>> 0));
  maybe('by_name', () => Object.fromEntries(some(() => [word(), int()])));
  maybe('by_bool', () => Object.fromEntries(some(() => ['true', Buffer.from(word())])));
  if (depth < 3) {
    maybe('inner', () => messageOf(numbers, depth + 1));
    maybe('readings', () => some(() => messageOf(numbers, depth + 2)));
  }
  return message;
}

/** As a reader of proto3 sees it: what is not there is the default. */
const seen = (message: protobuf.Message): Json =>
  other.toObject(message, { longs: String, bytes: String, defaults: true });

test('a message comes back as it was, whatever is in it', () => {
  const numbers = new SeededNumbers(1);
  for (let round = 0; round < 700; round++) {
    const wire = encodeOther(messageOf(numbers, 0));
    const value = encoder.encode(wire, type, 3);
    checkTypedValue(value);
    assert.ok(isMessageOf(type, value, 0, value.length), `round ${round}`);
    const back = messageToWire(value, type);
    assert.deepEqual(seen(other.decode(back)), seen(other.decode(wire)), `round ${round}`);
    assert.deepEqual(encoder.encode(back, type, 3), value, `round ${round}`);
    assert.deepEqual(
      Object.keys(toObject(back)).filter((name) => name.startsWith('maybe')),
      Object.keys(toObject(wire)).filter((name) => name.startsWith('maybe')),
      'what was set to zero is set',
    );
  }
});

test('in pieces, in another order and said twice it is the same value', () => {
  const numbers = new SeededNumbers(2);
  for (let round = 0; round < 500; round++) {
    const message = messageOf(numbers, 1);
    const whole = encoder.encode(encodeOther(message), type, 1);
    const pieces = Object.entries(message).map(([name, value]) => encodeOther({ [name]: value }));
    pieces.sort(() => numbers.below(3) - 1);
    assert.deepEqual(encoder.encode(Buffer.concat(pieces), type, 1), whole);
    // Scalars of before are overwritten, elements of lists are more.
    const before = encodeOther({ a_double: 9, a_string: 'before', by_name: { '': 3 } });
    const after = { ...message, a_double: 1, a_string: 'after', by_name: { '': 4 } };
    const both = Buffer.concat([before, encodeOther(after)]);
    assert.deepEqual(encoder.encode(both, type, 1), encoder.encode(encodeOther(after), type, 1));
  }
});

const hex = (text: string): Uint8Array => Buffer.from(text.replaceAll(' ', ''), 'hex');

test('each rule of the canonical form has its vector', () => {
  const told = (wire: string): string => {
    const value = encoder.encode(hex(wire), type, 1);
    return Buffer.from(value).toString('hex').replace(/^0201/, '');
  };
  // A scalar without `optional` is absent when it is zero; -0 is not.
  assert.equal(told('18 00'), '');
  assert.equal(told('09 0000000000000000'), '');
  assert.equal(told('09 0000000000000080'), '0a0000000000000080');
  assert.equal(told('72 00'), '');
  // With `optional` it is there.
  assert.equal(told('b0 04 00'), 'b00400');
  // int32 is sign-extended, also when somebody sent five bytes; uint32 is cut.
  assert.equal(told('18 ff ff ff ff 0f'), '1801');
  assert.equal(told('18 ff ff ff ff ff ff ff ff ff 01'), '1801');
  assert.equal(told('28 ff ff ff ff ff ff ff ff ff 01'), '29ffffffff0f');
  // Booleans are 0 or 1; numbers are as short as they may be.
  assert.equal(told('68 ff 01'), '6901');
  assert.equal(told('20 81 80 80 00'), '2002');
  // sint32 becomes the same number as an int32 of that value.
  assert.equal(told('38 01'), '3801');
  // The last one stays; messages are joined.
  assert.equal(told('18 05 18 07'), '180e');
  assert.equal(told('8a 01 02 18 05 8a 01 02 28 09'), '8d010418 0a 29 09'.replaceAll(' ', ''));
  // An empty message is there.
  assert.equal(told('8a 01 00'), '8d0100');
  // Lists are packed, or have lengths; an empty one is absent.
  assert.equal(told('b0 06 01 b2 06 02 02 03'), 'b40603010203');
  assert.equal(told('b2 06 00'), '');
  assert.equal(told('c2 06 01 61 c2 06 00'), 'c406030161 00'.replaceAll(' ', ''));
  // A map by key, the last of one key.
  assert.equal(
    told('c2 0c 05 0a 01 62 10 01 c2 0c 05 0a 01 61 10 02 c2 0c 05 0a 01 62 10 03'),
    'c40c0c 050c01611004 050c01621006'.replaceAll(' ', ''),
  );
});

test('what is not of the schema is refused by the path of the field', () => {
  const refused = (wire: Uint8Array | string, pattern: RegExp): void => {
    const bytes = typeof wire === 'string' ? hex(wire) : wire;
    assert.throws(
      () => encoder.encode(bytes, type, 1),
      (error: Error) => pattern.test(error.message) || assert.fail(error.message),
    );
  };
  refused('18', /^cannot take message: telemetry.Reading: it ends in the middle of a field$/);
  refused('0d 00000000', /^cannot take message: a_double: it is sent with wire type 5/);
  refused('8a 01 05 72 03 ff fe fd', /^cannot take message: inner.a_string: a string is not UTF-8/);
  refused('8a 01 02 98 7f', /^cannot take message: inner: /);
  refused('1b 1c', /a_?n_int32: it is sent with wire type 3/);
  refused('ff ff ff ff ff ff ff ff ff ff 01', /ten bytes/);
  assert.throws(() => encoder.encode(hex('f8 06 01'), type, 1), UnknownField);
  assert.throws(() => encoder.encode(hex('8a 01 03 f8 06 01'), type, 1), {
    name: 'TsdbError',
    message: 'cannot take message: inner: the schema has no field 111',
  });
  let deep = Buffer.from(hex('18 01'));
  for (let i = 0; i < 40; i++) {
    deep = Buffer.from(other.encode({ inner: other.decode(deep) }).finish());
  }
  refused(deep, /messages nest more than 32 deep/);
  refused(Buffer.alloc(1 << 21), /./);
});

test('damaged messages are refused or taken, and never anything else', () => {
  const numbers = new SeededNumbers(3);
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  let taken = 0;
  for (let round = 0; round < 5000; round++) {
    const wire = Buffer.from(encodeOther(messageOf(numbers, 2)));
    if (wire.length === 0) continue;
    for (let flips = 1 + numbers.below(3); flips > 0; flips--) {
      wire[numbers.below(wire.length)]! ^= 1 << numbers.below(8);
    }
    try {
      const value = encoder.encode(wire, type, 1);
      checkTypedValue(value);
      assert.deepEqual(encoder.encode(messageToWire(value, type), type, 1), value);
      assert.ok(isMessageOf(type, value, 0, value.length));
      taken++;
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    }
  }
  Error.stackTraceLimit = stackTraceLimit;
  assert.ok(taken > 300, `${taken}`);
});

test('a typed value is a message of a schema just when it is what its message comes to', () => {
  const numbers = new SeededNumbers(4);
  const others = [
    text,
    text.replace('double a_double = 1;', ''),
    text.replace('float a_float = 2;', 'double a_float = 2;'),
    text.replace('int32 an_int32 = 3;', 'int64 an_int32 = 3;'),
    text.replace('int64 an_int64 = 4;', 'int32 an_int64 = 4;'),
    text.replace('bytes some_bytes = 15;', 'string some_bytes = 15;'),
    text.replace('bool a_bool = 13;', 'uint64 a_bool = 13;'),
    text.replace('optional int32 maybe = 70;', 'int32 maybe = 70;'),
    text.replace('repeated double doubles = 100;', 'repeated string doubles = 100;'),
    text.replace('Reading inner = 17;', 'string inner = 17;'),
  ].map((each) => readSchema({ 'reading.proto': each }, 'telemetry.Reading'));
  const counts = { same: 0, different: 0 };
  for (let round = 0; round < 3000; round++) {
    const value = encoder.encode(encodeOther(messageOf(numbers, 1)), type, 1);
    const as = others[round % others.length]!;
    let isSame = false;
    try {
      isSame = Buffer.compare(encoder.encode(messageToWire(value, as), as, 1), value) === 0;
    } catch {
      // It is none.
    }
    assert.equal(isMessageOf(as, value, 0, value.length), isSame, `round ${round}`);
    counts[isSame ? 'same' : 'different']++;
  }
  assert.ok(counts.same > 300 && counts.different > 300, JSON.stringify(counts));
});

test('a typed value is no message of a schema when a field that is zero is there, or one is wider than its kind', () => {
  const made = (make: (writer: TypedValueWriter) => TypedValueWriter): boolean => {
    const value = make(new TypedValueWriter().begin(valueKind.message, 1)).finish();
    checkTypedValue(value);
    return isMessageOf(type, value, 0, value.length);
  };
  assert.equal(
    made((writer) => writer),
    true,
  );
  assert.equal(
    made((writer) => writer.int(3, 5n)),
    true,
  );
  assert.equal(
    made((writer) => writer.int(3, 1n << 31n)),
    false,
  );
  assert.equal(
    made((writer) => writer.int(3, -(1n << 31n))),
    true,
  );
  assert.equal(
    made((writer) => writer.uint(5, 1n << 32n)),
    false,
  );
  assert.equal(
    made((writer) => writer.uint(13, 2n)),
    false,
  );
  assert.equal(
    made((writer) => writer.bytes(14, new Uint8Array(0))),
    false,
  );
  assert.equal(
    made((writer) => writer.bytes(14, Uint8Array.of(0xff))),
    false,
  );
  assert.equal(
    made((writer) => writer.bytes(71, new Uint8Array(0))),
    true,
  );
  assert.equal(
    made((writer) => writer.int(70, 0n)),
    true,
  );
  assert.equal(
    made((writer) => writer.bytes(100, Uint8Array.of(1, 2, 3))),
    false,
    'cut short',
  );
  assert.equal(
    made((writer) => writer.uint(19, 1n)),
    false,
    'no such field',
  );
  /** A list with a message with a list… */
  const listOf = (depth: number): Uint8Array => {
    if (depth === 0) return Uint8Array.of(0);
    const item = new TypedValueWriter()
      .beginFields()
      .bytes(105, listOf(depth - 1))
      .finish();
    return Uint8Array.of((item.length & 127) | 128, item.length >> 7, ...item);
  };
  const ofDepth = (depth: number): boolean => made((writer) => writer.bytes(105, listOf(depth)));
  assert.equal(ofDepth(20), true);
  assert.equal(ofDepth(60), false, 'too deep');
});

test('messages without anything are counted where a few bytes would stand for a million of them', () => {
  const many = (field: string, count: number): Uint8Array => {
    const { id } = other.fields[field]!;
    const tag = protobuf.Writer.create()
      .uint32((id << 3) | 2)
      .uint32(0)
      .finish();
    return new Uint8Array(Buffer.concat(Array.from({ length: count }, () => tag)));
  };
  const refused = (field: string): RegExp => new RegExp(`${field}: it has more than 4096 fields`);
  assert.ok(encoder.encode(many('readings', 4_095), type, 1).length > 4_095);
  for (const field of ['readings', 'by_name', 'by_number']) {
    assert.throws(() => encoder.encode(many(field, 200_000), type, 1), refused(field));
  }
  // One that comes in pieces is one.
  const [once] = [many('inner', 1)].map((wire) => encoder.encode(wire, type, 1));
  assert.deepEqual(encoder.encode(many('inner', 200_000), type, 1), once);
  assert.throws(() => encoder.encode(many('inner', 2_000_000), type, 1), /more than 4194304 bytes/);
});
