import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageReader, objectTypes } from './msgpack.ts';

const reader = (...bytes: number[]) => new MessageReader(Uint8Array.from(bytes));

test('whole numbers are read in each of their forms', () => {
  const forms: readonly [number[], bigint][] = [
    [[0x00], 0n],
    [[0x7f], 127n],
    [[0xe0], -32n],
    [[0xff], -1n],
    [[0xc0], 0n],
    [[0xcc, 0xff], 255n],
    [[0xcd, 0xff, 0xfe], 65_534n],
    [[0xce, 0xff, 0xff, 0xff, 0xfe], 4_294_967_294n],
    [[0xcf, 0x17, 0, 0, 0, 0, 0, 0, 1], 0x1700_0000_0000_0001n],
    [[0xd0, 0x80], -128n],
    [[0xd1, 0x80, 0], -32_768n],
    [[0xd2, 0x80, 0, 0, 0], -2_147_483_648n],
    [[0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], -2n],
  ];
  for (const [bytes, value] of forms) {
    assert.equal(reader(...bytes).bigint(), value);
    const cut = reader(...bytes.slice(0, -1));
    cut.bigint();
    assert.equal(cut.isCutOff, true);
  }
  assert.equal(reader(0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe).number(), -2);
  assert.throws(() => reader(0xcf, 0x17, 0, 0, 0, 0, 0, 0, 0).number(), /number is too large/);
  assert.throws(() => reader(0xa0).whole(), /something else than a whole number: 0xa0/);
});

test('floats keep their bits, and those of 32 bits are made wider', () => {
  const wide = reader(0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0x12, 0x34);
  wide.float();
  assert.deepEqual([wide.high >>> 0, wide.low >>> 0], [0x7ff0_0000, 0x1234]);
  const narrow = reader(0xca, 0x3f, 0xc0, 0, 0);
  narrow.float();
  assert.deepEqual([narrow.high, narrow.low], [0x3ff8_0000, 0]);
  assert.throws(() => reader(0x01).float(), /something else than a float: 0x1/);
});

test('bytes are read in each of their forms', () => {
  for (const header of [[0xa2], [0xc4, 2], [0xc5, 0, 2], [0xc6, 0, 0, 0, 2], [0xd9, 2]]) {
    assert.deepEqual([...reader(...header, 7, 8).bytes()], [7, 8]);
    const cut = reader(...header, 7);
    assert.deepEqual([...cut.bytes()], []);
    assert.equal(cut.isCutOff, true);
  }
  assert.deepEqual([...reader(0xc0).bytes()], []);
  assert.throws(() => reader(0x90).bytes(), /something else than bytes: 0x90/);
});

test('values are passed over, whatever they are', () => {
  const values = [0x92, 1, 0x91, 0xa1, 65, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xc3, 0xdc, 0, 1, 5];
  const from = reader(...values, 42);
  from.skip(4);
  assert.equal(from.number(), 42);
  const endless = reader(0xdd, 0xff, 0xff, 0xff, 0xff, 1);
  endless.skip(1);
  assert.equal(endless.isCutOff, true);
  assert.throws(() => reader(0x81).skip(1), /something else/);
});

test('objects are of their type and have their fields', () => {
  const { logInfo } = objectTypes;
  assert.equal(reader(1, 0x92, 7, 0x93).object(logInfo, 3), 3);
  assert.equal(reader(1, 0x92, 7, 0x9b).object(logInfo, 3), 11);
  assert.throws(() => reader(2, 0x92, 7, 0x93).object(logInfo, 3), /version is above 1: 2/);
  assert.throws(() => reader(1, 0x93, 7, 0x93).object(logInfo, 3), /not of two parts: 3/);
  assert.throws(() => reader(1, 0x92, 8, 0x93).object(logInfo, 3), /type of object is not 7: 8/);
  assert.throws(() => reader(1, 0x92, 7, 0x92).object(logInfo, 3), /fewer than 3 fields: 2/);
  const cut = reader(1, 0x92, 7);
  assert.equal(cut.object(logInfo, 3), 0);
  assert.equal(cut.isCutOff, true);
});
