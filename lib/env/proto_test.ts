import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { TsdbError } from '../errors.ts';
import { loadProto, type ProtoSchema } from './proto.ts';

function schemaOf(text: string): ProtoSchema {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-proto-'));
  try {
    writeFileSync(join(folder, 'x.proto'), text);
    return loadProto(join(folder, 'x.proto'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const schema = schemaOf(`
  syntax = "proto3";
  package p;
  service S {
    rpc One(A) returns (B);
    rpc Many(stream A) returns (stream B);
  }
  message A {
    int64 signed_one = 1;
    uint64 unsigned_one = 2;
    bytes raw = 3;
    oneof choice { int64 number = 4; string word = 5; }
    B inner = 6;
    repeated B list = 7;
  }
  message B { string name = 1; }
`);

test('a codec carries 64-bit integers, bytes, lists and unset fields exactly', () => {
  const codec = schema.codec('p.A');
  const message = {
    signedOne: -(2n ** 63n),
    unsignedOne: 2n ** 64n - 1n,
    raw: Buffer.of(0, 255),
    word: '',
    list: [{ name: 'x' }, { name: 'é' }],
  };
  const decoded = codec.decode(codec.encode({ ...message, inner: null }));
  assert.deepEqual(decoded, { ...message, choice: 'word', inner: null });
  const empty = codec.decode(new Uint8Array(0));
  assert.deepEqual([empty['signedOne'], empty['list'], empty['choice']], [0n, [], undefined]);
  const small = codec.decode(codec.encode({ signedOne: 2 ** 53 - 1, number: 0 }));
  assert.deepEqual([small['signedOne'], small['choice']], [2n ** 53n - 1n, 'number']);
});

test('decode() passes over fields that a later version has added', () => {
  const codec = schema.codec('p.B');
  const later = [...codec.encode({ name: 'x' }), 15 << 3, 7, (14 << 3) | 2, 1, 65];
  assert.deepEqual(codec.decode(Uint8Array.from(later)), { name: 'x' });
});

test('decode() refuses bytes that are no message as BAD_REQUEST', () => {
  const isBad = (error: unknown) => error instanceof TsdbError && error.code === 'BAD_REQUEST';
  for (const bad of [[26, 200], [0xff], [26, 0xff, 0xff, 0xff, 0xff, 0x0f]]) {
    assert.throws(() => schema.codec('p.A').decode(Uint8Array.from(bad)), isBad);
  }
});

test('methods() lists path, messages and streaming of every method', () => {
  const [one, many] = schema.methods();
  assert.deepEqual(
    [one!.path, one!.requestStreams, one!.answerStreams],
    ['/p.S/One', false, false],
  );
  assert.deepEqual(
    [many!.path, many!.requestStreams, many!.answerStreams],
    ['/p.S/Many', true, true],
  );
  assert.deepEqual(many!.answer.decode(many!.answer.encode({ name: 'x' })), { name: 'x' });
});

test('messages of more values than a codec takes are refused, wherever these are', () => {
  const three = schema.codec('p.A', 3);
  assert.equal(three.decode(schema.codec('p.A').encode({ signedOne: 1, word: 'x' }))['word'], 'x');
  const many = { code: 'BAD_REQUEST', message: 'cannot decode p.A: it has more than 3 values' };
  const refused = (message: object): void => {
    const bytes = schema.codec('p.A').encode(message);
    assert.throws(() => three.decode(bytes), many);
    schema.codec('p.A').decode(bytes);
  };
  refused({ list: Array.from({ length: 4 }, () => ({})) });
  refused({ list: [{ name: 'a' }, { name: 'b' }] });
  refused({ inner: { name: 'a' }, list: [{ name: 'b' }] });
  refused({ signedOne: 1, unsignedOne: 2, raw: new Uint8Array(3), word: '' });
  // Fields that nobody knows, one after the other.
  assert.throws(() => three.decode(Uint8Array.from([120, 1, 120, 1, 120, 1, 120, 1])), many);
  const broken = { code: 'BAD_REQUEST', message: /^cannot decode p\.A: / };
  for (const bytes of [[0x3a, 5, 1], [0x0a, 0xff], [0xff, 0xff], [7]]) {
    assert.throws(() => three.decode(Uint8Array.from(bytes)), broken);
  }
});

test('items of packed lists count one each', () => {
  const packed = schemaOf('syntax = "proto3"; package p; message P { repeated int64 all = 1; }');
  const codec = (valuesMax?: number) => packed.codec('p.P', valuesMax);
  const bytes = codec().encode({ all: [1, 2n ** 40n, -1] });
  assert.deepEqual(codec(4).decode(bytes)['all'], [1n, 2n ** 40n, -1n]);
  assert.throws(() => codec(3).decode(bytes), /it has more than 3 values/);
});
