import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bitsFor, packedBitsMax, PackedReader, PackedTexts, PackedWriter } from './packed.ts';
import { SeededRandom } from '#test/seeded_random.ts';

const damage = (reason: string): Error => new Error(`damaged: ${reason}`);

function readerOf(bytes: Uint8Array, slack = 0): PackedReader {
  return new PackedReader(bytes, 0, bytes.length - slack, damage);
}

test('numbers of every width come back from their bits and varints', () => {
  const random = new SeededRandom(1);
  const writer = new PackedWriter();
  const values = Array.from({ length: 3000 }, () => {
    const width = random.below(packedBitsMax + 1);
    return { width, value: width === 0 ? 0 : random.below(2 ** width) };
  });
  for (const { width, value } of values) writer.bits(value, width);
  writer.endBits();
  writer.u32(0);
  const bytes = writer.view(0).slice();
  const reader = readerOf(bytes, 4);
  for (const { width, value } of values) assert.equal(reader.bits(width), value);
  reader.endBits();
  assert.equal(reader.position, bytes.length - 4);

  writer.clear();
  const numbers = [0, 1, 127, 128, 16_383, 2 ** 31, 2 ** 32 - 1, Number.MAX_SAFE_INTEGER];
  for (const number of numbers) writer.varint(number);
  const varints = readerOf(writer.view(0).slice());
  for (const number of numbers) assert.equal(varints.varint(), number);
  assert.throws(() => varints.varint(), /damaged: numbers are cut off/);
});

test('as many bits are taken as numbers below a count need', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 256, 257].map(bitsFor), [0, 0, 1, 2, 2, 3, 8, 9]);
});

test('texts come back though they leave out what the one before has', () => {
  const texts = ['', 'host_1', 'host_10', 'host_2', 'a'.repeat(300), `${'a'.repeat(299)}b`, 'ä'];
  const writer = new PackedWriter();
  let before: Uint8Array = new Uint8Array(0);
  for (const text of texts) {
    writer.text(Buffer.from(text), before);
    before = Buffer.from(text);
  }
  const reader = readerOf(writer.view(0).slice());
  const found = new PackedTexts(4);
  let start = 0;
  let length = 0;
  for (const text of texts) {
    const next = found.length;
    length = reader.text(found, start, length);
    start = next;
    assert.equal(Buffer.from(found.bytes.subarray(start, start + length)).toString(), text);
  }
});

test('a text that shares more than there is, or is longer than a text can be, is refused', () => {
  const writer = new PackedWriter();
  writer.text(Buffer.from('abc'), Buffer.from('abd'));
  const bytes = writer.view(0).slice();
  assert.throws(() => readerOf(bytes).text(new PackedTexts(0), 0, 1), /shares more than there is/);
  writer.clear();
  writer.u8(0x0f);
  writer.varint(65_536);
  const long = writer.view(0).slice();
  assert.throws(() => readerOf(long).text(new PackedTexts(0), 0, 0), /too long/);
});

test('a bitset is told by what differs from the one before, in few bytes when that is little', () => {
  const random = new SeededRandom(2);
  for (let round = 0; round < 200; round++) {
    const before = Uint32Array.from({ length: random.below(40) }, () => random.u32());
    const words = before.slice();
    for (let changes = random.below(20); changes > 0 && words.length > 0; changes--) {
      words[random.below(words.length)] = random.u32();
    }
    const writer = new PackedWriter();
    writer.bitset(words, before);
    const reader = readerOf(writer.view(0).slice());
    const found = before.slice();
    reader.bitset(found);
    assert.deepEqual(found, words);
    assert.equal(reader.position, reader.end);
  }
  const writer = new PackedWriter();
  writer.bitset(new Uint32Array(100_000), new Uint32Array(100_000));
  assert.ok(writer.length <= 4);
});
