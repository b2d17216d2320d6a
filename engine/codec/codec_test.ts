import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseChunkHeader, type ChunkRows } from './chunk.ts';
import { books, codecTables, symbolAt } from './books.ts';
import { fuzz } from './codec_fuzz.ts';
import { gorillaBytes } from './gorilla_testing.ts';
import { codecSamples, randomRows } from './samples_testing.ts';
import { decodeFloatChunk, encodeFloatChunk } from './codec_twin.ts';

function assertRoundTrip(rows: ChunkRows, name: string): number {
  const chunk = encodeFloatChunk(rows);
  const header = parseChunkHeader(chunk, 0, chunk.length);
  assert.equal(header.end, chunk.length);
  assert.equal(header.version, rows.version);
  const back = decodeFloatChunk(chunk, header);
  assert.deepEqual(back.timestampNanos, rows.timestampNanos, name);
  const words = (values: Float64Array) => new BigUint64Array(values.slice().buffer);
  assert.deepEqual(words(back.values), words(rows.values), name);
  return chunk.length;
}

test('the symbol of some bits is the one whose code they begin with', () => {
  for (const book of books) {
    for (let bits = 0; bits < 2048; bits++) {
      const found = Array.from(book.codes.keys()).filter((symbol) => {
        const length = book.lengths[symbol]!;
        return (bits & ((1 << length) - 1)) === book.codes[symbol];
      });
      assert.equal(found.length, 1);
      const length = book.lengths[found[0]!]!;
      assert.equal(symbolAt(book, bits, length), found[0]);
      assert.equal(symbolAt(book, bits & ((1 << (length - 1)) - 1), length - 1), -1);
    }
  }
});

test('every kind of sample data comes back bit for bit', () => {
  for (const { name, rows } of codecSamples(1, 130)) assertRoundTrip(rows, name);
});

test('chunks of every length from one row on come back', () => {
  for (let rowCount = 1; rowCount < 40; rowCount++) {
    for (const { name, rows } of codecSamples(rowCount, rowCount)) {
      assertRoundTrip(rows, `${name}, ${rowCount} rows`);
    }
  }
});

test('rows of random bits at random times come back bit for bit', () => {
  for (let seed = 0; seed < 200; seed++)
    assertRoundTrip(randomRows(seed, 1 + (seed % 50)), `${seed}`);
});

test('what users store most costs what the design says', () => {
  const bytesPerRow = (name: string, rowCount: number) => {
    const sample = codecSamples(5, rowCount).find((one) => one.name === name)!;
    return assertRoundTrip(sample.rows, name) / rowCount;
  };
  assert.ok(bytesPerRow('integer walk', 128) <= 0.45);
  assert.ok(bytesPerRow('integer walk', 480) <= 0.33);
  assert.ok(bytesPerRow('constant', 480) <= 0.06);
  assert.ok(bytesPerRow('two-decimal walk', 480) <= 1.15);
  assert.ok(bytesPerRow('counter with a reset', 480) <= 0.9);
  assert.ok(bytesPerRow('mostly constant', 480) <= 0.12);
  assert.ok(bytesPerRow('float walk', 480) <= 6.6);
  assert.ok(bytesPerRow('float32 walk', 480) <= 3.2);
});

test('every kind of sample data takes less than by Gorilla', () => {
  for (const { name, rows } of codecSamples(3, 480)) {
    const [ours, gorilla] = [encodeFloatChunk(rows).length, gorillaBytes(rows)];
    assert.ok(ours < gorilla, `${name}: ${ours} bytes, by Gorilla ${gorilla}`);
  }
});

test('the table of a book says what reading symbol by symbol says', () => {
  const tables = codecTables();
  for (const [number, book] of books.entries()) {
    for (let pattern = 0; pattern < 2048; pattern += 7) {
      const entry = tables.subarray(
        (number * 2048 + pattern) * 16,
        (number * 2048 + pattern + 1) * 16,
      );
      let bits = 0;
      let sum = 0;
      for (let i = 0; i < entry[8]!; i++) {
        const symbol = symbolAt(book, pattern >> bits, 11 - bits);
        assert.ok(symbol >= 0 && symbol < 15);
        bits += book.lengths[symbol]!;
        sum += symbol % 2 === 0 ? symbol / 2 : -(symbol + 1) / 2;
        assert.equal((entry[i]! << 24) >> 24, sum);
      }
      assert.ok(entry[8]! > 0 || entry[10] === 1, 'every pattern moves the reader on');
    }
  }
});

test('kernel and twin agree about good and damaged chunks', () => {
  fuzz(7, 40);
});
