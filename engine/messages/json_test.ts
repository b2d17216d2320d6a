/** Messages as JSON, there and back, beside another implementation of protobuf. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageEncoder } from './canonical.ts';
import { messageToJson, wireFromJson, type JsonValue } from './json.ts';
import { readSchema } from './schema.ts';

const type = readSchema(
  {
    'a.proto': `syntax = "proto3";
      message A {
        double a_double = 1; float a_float = 2; int32 an_int = 3; int64 a_long = 4; uint32 a_uint = 5;
        uint64 a_ulong = 6; sint32 a_sint = 7; sint64 a_slong = 8; fixed32 a_fixed = 9;
        sfixed64 an_sfixed = 10; bool a_bool = 11; string a_text = 12; bytes some_bytes = 13;
        State state = 14; A inner = 15; optional int32 maybe = 16;
        repeated sint64 longs = 20; repeated string texts = 21; repeated A items = 22;
        repeated State states = 23; repeated float floats = 24;
        map<int64, State> by_number = 30; map<bool, A> by_bool = 31; map<string, bytes> by_text = 32;
        enum State { OFF = 0; ON = 1; BROKEN = -1; }
      }`,
  },
  'A',
);
const encoder = new MessageEncoder();
const there = (json: JsonValue): Uint8Array => encoder.encode(wireFromJson(json, type), type, 1);
const andBack = (json: JsonValue): JsonValue => messageToJson(there(json), type);

test('every kind comes back in its one form', () => {
  const whole: JsonValue = {
    aDouble: 0.1,
    aFloat: 1.5,
    anInt: -5,
    aLong: '-9223372036854775808',
    aUint: 4294967295,
    aUlong: '18446744073709551615',
    aSint: -2147483648,
    aSlong: '9007199254740993',
    aFixed: 7,
    anSfixed: '-1',
    aBool: true,
    aText: 'ünïcode "quoted"',
    someBytes: '/+8=',
    state: 'BROKEN',
    inner: { inner: {}, maybe: 0 },
    longs: ['1', '-9223372036854775808', '0'],
    texts: ['', 'b'],
    items: [{}, { anInt: 1 }],
    states: ['ON', 'OFF', 77],
    floats: ['NaN', 'Infinity', '-Infinity', 0.5, 0],
    byNumber: { '-1': 'OFF', '7': 'ON' },
    byBool: { false: {}, true: { anInt: 2 } },
    byText: { '': '', key: 'AA==' },
  };
  assert.deepEqual(andBack(whole), whole);
});

test('what protobuf lets a writer say otherwise is the same value', () => {
  const same = (a: JsonValue, b: JsonValue): void => assert.deepEqual(there(a), there(b));
  same({ a_double: 1 }, { aDouble: '1' });
  same({ aLong: 12 }, { a_long: '12' });
  same({ anInt: 1e3 }, { an_int: '1000' });
  same({ anInt: '1.0' }, { anInt: 1 });
  same({ state: 'ON' }, { state: 1 });
  same({ someBytes: '_-8' }, { someBytes: '/+8=' });
  same({ anInt: 0, aText: '', aBool: false, texts: [], byText: {}, inner: null }, {});
  same({ byText: { b: 'AA==', a: '' } }, { byText: { a: '', b: 'AA==' } });
  assert.notDeepEqual(there({ maybe: 0 }), there({}), 'optional is there when it is set');
  assert.notDeepEqual(there({ inner: {} }), there({}));
});

test('the sign of a zero is kept', () => {
  const text = '{"aDouble":-0,"aFloat":-0,"floats":[0,-0]}';
  assert.equal(JSON.stringify(andBack(JSON.parse(text) as JsonValue)), text);
});

test('what is too long for a value is refused before it is made', () => {
  const refused = (json: JsonValue, message: RegExp): void => {
    const before = process.cpuUsage();
    assert.throws(() => there(json), { code: 'BAD_REQUEST', message });
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 1_000_000, `${(user + system) / 1000} ms`);
  };
  const tooLong = /^cannot take message: it is longer than 1048576 bytes$/;
  refused({ floats: new Array(5_000_000).fill(1) }, tooLong);
  refused({ longs: new Array(5_000_000).fill(1) }, tooLong);
  refused({ aText: 'x'.repeat(15_000_000) }, tooLong);
  refused({ someBytes: 'x'.repeat(15_000_000) }, tooLong);
  const keys = Array.from({ length: 100_000 }, (_, i) => [`k${i}`, '']);
  refused(
    { byText: Object.fromEntries(keys) },
    /byText: more than 4096 fields: 100000 keys: \{"k0":"","k1":"","k2":""\}$/,
  );
  const some = { texts: new Array(200_000).fill('12345') };
  refused({ items: new Array(40).fill(some) }, tooLong);
  refused({ aLong: '1'.repeat(5_000_000) }, /aLong: it must be a whole number \(int64\): "1+…$/);
});

test('what does not fit is refused with the path, the reason and the value', () => {
  const refused = (json: JsonValue, message: string): void =>
    assert.throws(() => there(json), {
      code: 'BAD_REQUEST',
      message: `cannot take message: ${message}`,
    });
  refused([], 'value: it must be an object (A): []');
  refused(5, 'value: it must be an object (A): 5');
  refused({ nope: 1 }, 'nope: A has no such field: 1');
  refused({ inner: { nope: 1 } }, 'inner.nope: A has no such field: 1');
  refused({ aDouble: 1, a_double: 2 }, 'a_double: the field is given twice: 2');
  refused({ aDouble: 'one' }, 'aDouble: it must be a number: "one"');
  refused({ aFloat: 1e39 }, 'aFloat: it is beyond a float: 1e+39');
  refused({ anInt: 1.5 }, 'anInt: it must be a whole number (int32): 1.5');
  refused({ anInt: 2 ** 31 }, 'anInt: it is beyond int32: 2147483648');
  refused({ aUint: -1 }, 'aUint: it is beyond uint32: -1');
  refused({ aDouble: JSON.parse('1e400') }, 'aDouble: it is beyond a double: Infinity');
  for (const text of ['9007199254740993.0', '9.007199254740993e15']) {
    refused(
      { aLong: text },
      `aLong: from 2^53 on it must be a string of digits, others are not exact: "${text}"`,
    );
  }
  refused({ aLong: '9223372036854775808' }, 'aLong: it is beyond int64: "9223372036854775808"');
  refused({ aBool: 1 }, 'aBool: it must be true or false: 1');
  refused({ aText: 5 }, 'aText: it must be a string: 5');
  refused({ aText: '\ud800' }, 'aText: it is no Unicode text: "\\ud800"');
  for (const text of ['%', 'A', 'AAAAA', 'AA=', 'AAAA=', 'AAAA==', '=', 'AAA==']) {
    refused(
      { someBytes: text },
      `someBytes: it must be a string of base64: ${JSON.stringify(text)}`,
    );
  }
  refused({ state: 'GONE' }, 'state: A.State has no such name: "GONE"');
  refused({ texts: 'a' }, 'texts: it must be an array: "a"');
  refused(
    { items: [{}, { anInt: true }] },
    'items[1].anInt: it must be a whole number (int32): true',
  );
  refused({ texts: [null] }, 'texts[0]: it must be a string: null');
  refused({ byNumber: { x: 'ON' } }, 'byNumber["x"]: it must be a whole number (int64): "x"');
  refused({ byBool: { yes: {} } }, 'byBool["yes"]: it must be true or false: "yes"');
  let deep: JsonValue = {};
  for (let i = 0; i < 40; i++) deep = { inner: deep };
  assert.throws(() => there(deep), /deeper than 32 messages/);
});
