/** Which schemas are taken, and which may come after which. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkChange } from './history.ts';
import { readSchema, type MessageType } from './schema.ts';

const head = 'syntax = "proto3";\n';
const schemaOf = (body: string, others: string = ''): MessageType =>
  readSchema({ 'a.proto': `${head}message A {\n${body}\n}\n${others}` }, 'A');

test('scalars, nested messages, enums, lists and maps are taken, over files that import each other', () => {
  const type = readSchema(
    {
      'main.proto': `${head}package fleet.v1; import "common/units.proto";
        message Reading {
          reserved 4, 10 to 12; reserved "old";
          double battery_level = 1; optional sint64 offset = 2;
          repeated units.Unit units = 3 [packed = false];
          map<string, Place> places = 5 [json_name = "where"];
          Place place = 6; Reading before = 7;
          message Place { float x = 1; float y = 2; }
        }
        service Ignored { rpc Get(Reading) returns (Reading); }`,
      'common/units.proto': `${head}package units;
        enum Unit { option allow_alias = true; NONE = 0; VOLT = 1; V = 1; }`,
    },
    'fleet.v1.Reading',
  );
  assert.deepEqual(
    type.fields.map(({ name, number, kind, rule }) => `${number} ${name} ${rule} ${kind}`),
    [
      '1 battery_level single double',
      '2 offset optional sint64',
      '3 units repeated enum',
      '5 places map message',
      '6 place single message',
      '7 before single message',
    ],
  );
  assert.equal(type.named('batteryLevel'), type.named('battery_level'));
  assert.equal(type.named('where')?.name, 'places');
  assert.equal(type.field(7)?.message, type, 'a message may have itself');
  assert.equal(type.field(3)?.enumType?.nameOf.get(1), 'VOLT');
  assert.deepEqual(
    type.field(5)?.message?.fields.map(({ name, kind }) => `${name} ${kind}`),
    ['key string', 'value message'],
  );
});

test('what is not supported is refused by the name of the field', () => {
  const refused = (body: string, pattern: RegExp, others: string = ''): void =>
    assert.throws(() => schemaOf(body, others), { code: 'BAD_REQUEST', message: pattern });
  refused(
    'oneof pick { int32 a = 1; string b = 2; }',
    /A\.a: oneof is not supported: it is in pick/,
  );
  refused('int32 a = 1 [deprecated = true];', /A\.a: options are not supported: deprecated/);
  refused('option deprecated = true; int32 a = 1;', /: A: options are not supported: deprecated/);
  refused('extensions 100 to 200; int32 a = 1;', /: A: extensions are not supported/);
  refused('int32 a = 19000;', /A\.a: a field cannot have this number: 19000/);
  refused('int32 a = 0;', /A\.a: a field cannot have this number: 0/);
  refused('E e = 1;', /: E: the first value of an enum is 0/, 'enum E { ONE = 1; }');
  refused(
    'E e = 1;',
    /options are not supported: deprecated/,
    'enum E { N = 0 [deprecated = true]; }',
  );
  refused('Inner b = 1;', /Inner\.c: oneof/, 'message Inner { oneof d { int32 c = 1; } }');
  refused('Missing a = 1;', /a\.proto: no such Type or Enum 'Missing' in Type \.A/);
  refused('int32 a = 1; int32 b = 1;', /a\.proto: duplicate id 1/);
  refused('int32 a = ', /a\.proto: .*line/);
  const read =
    (text: string, name: string = 'A') =>
    () =>
      readSchema({ 'a.proto': text }, name);
  assert.throws(
    read(`${head}import "google/protobuf/any.proto"; message A { google.protobuf.Any a = 1; }`),
    {
      message: /import "google\/protobuf\/any\.proto" is of types that a schema cannot have/,
    },
  );
  assert.throws(read(`${head}import "b.proto"; message A {}`), {
    message: /import "b\.proto" is not among the files/,
  });
  assert.throws(read('syntax = "proto2"; message A { optional int32 a = 1; }'), {
    message: /: A: only proto3 is supported/,
  });
  assert.throws(read(`${head}message A {}`, 'B'), {
    message: /: B: no such message: the files have A/,
  });
  let nested = 'message A { M1 m = 1; }';
  for (let i = 1; i < 40; i++) nested += `message M${i} { M${i + 1} m = 1; }`;
  assert.throws(read(`${head}${nested} message M40 {}`), { message: /deeper than 32 messages/ });
});

test('two fields that JSON calls by one name are refused, also one after the other', () => {
  const refused = (body: string, message: RegExp) =>
    assert.throws(() => schemaOf(body), { code: 'BAD_REQUEST', message });
  refused(
    'int32 foo_bar = 1; int32 fooBar = 2;',
    /A\.fooBar: JSON calls it as it calls foo_bar: fooBar/,
  );
  refused('int32 a = 1 [json_name = "b"]; int32 b = 2;', /A\.b: JSON calls it as it calls a: b/);
  refused(
    'int32 a = 1 [json_name = "x"]; int32 c = 2 [json_name = "x"];',
    /A\.c: JSON calls it as it calls a: x/,
  );
  assert.throws(
    () => checkChange([schemaOf('int32 foo_bar = 1;')], schemaOf('int32 fooBar = 2;')),
    {
      code: 'BAD_REQUEST',
      message: /fooBar: its name was that of number 1 and is now that of 2/,
    },
  );
});

test('a message of 4,096 fields takes no longer for each than a small one', () => {
  const fields = Array.from({ length: 4_096 }, (_, i) => `double f${i} = ${i + 1};`);
  schemaOf(fields.slice(0, 500).join(' '));
  const before = process.cpuUsage();
  assert.equal(schemaOf(fields.join(' ')).fields.length, 4_096);
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 3_000_000, `${(user + system) / 1000} ms`);
  assert.throws(() => schemaOf(`${fields.join(' ')} double again = 7;`), /duplicate id 7/);
  assert.throws(() => schemaOf(`${fields.join(' ')} double f6 = 7000;`), /duplicate name 'f6'/);
  assert.throws(() => schemaOf('oneof a { int32 b = 1; } int32 c = 1;'), /duplicate id 1/);
});

test('a number has one meaning for ever', () => {
  const before = schemaOf(
    'int32 a = 1; string b = 2; optional float c = 3; repeated int32 d = 4; In e = 5; map<string, int32> f = 6;',
    'message In { bool g = 1; }',
  );
  const inner = 'message In { bool g = 1; }';
  const goesOn = (body: string, others: string = inner): void =>
    checkChange([before], schemaOf(body, others));
  // Fields come, go, are renamed, and hold more than before.
  goesOn('int32 a = 1; double z = 20;');
  goesOn('int64 amount = 1; bytes b = 2; optional float c = 3; repeated int64 d = 4;');
  goesOn('In e = 5;', 'message In { uint32 g = 1; string more = 2; }');
  const refused = (body: string, pattern: RegExp, others: string = inner): void =>
    assert.throws(() => goesOn(body, others), { code: 'BAD_REQUEST', message: pattern });
  refused('string a = 1;', /a: number 1 was int32 and is string; give it another number/);
  refused('uint32 a = 1;', /a: number 1 was int32 and is uint32/);
  refused('repeated int32 a = 1;', /a: number 1 was without `optional` and is repeated/);
  refused('optional int32 a = 1;', /a: number 1 was without `optional` and is optional/);
  refused('float c = 3;', /c: number 3 was optional and is without `optional`/);
  refused('optional double c = 3;', /c: number 3 was float and is double/);
  refused('repeated sint32 d = 4;', /d: number 4 was int32 and is sint32/);
  refused('int32 a = 7;', /a: its name was that of number 1 and is now that of 7/);
  refused('In e = 5;', /e\.g: number 1 was bool and is string/, 'message In { string g = 1; }');
  refused('map<string, string> f = 6;', /f\.value: number 2 was int32 and is string/);
  // Also one that the last schema does not have any more.
  const later = schemaOf('string b = 2;');
  assert.throws(() => checkChange([before, later], schemaOf('double x = 1;')), {
    message: /x: number 1 was int32 and is double/,
  });
  // Messages that have themselves.
  const self = schemaOf('A next = 1; int32 v = 2;');
  checkChange([self], self);
});
