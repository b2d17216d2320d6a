import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import { floatChunk } from './block_testing.ts';
import { damageOf } from './damage.ts';
import { floatRows } from './float_chunk.ts';

const damage = damageOf('chunks/000001');

/** Values that stay, that grow, and any bits; distances of times of all sizes. */
const rowsOfChunk = fc
  .tuple(
    fc.integer({ min: -9_000_000_000_000, max: 9_000_000_000_000 }),
    fc.array(
      fc.tuple(
        fc.oneof(
          fc.constant(15_000),
          fc.integer({ min: 14_990, max: 15_010 }),
          fc.integer({ min: 1, max: 2 ** 21 }),
          fc.integer({ min: 1, max: 2 ** 33 }),
        ),
        fc.oneof(
          fc.constantFrom(0n, 1n << 63n, 0x7ff0_0000_0000_0002n, 0x7ff8_0000_0000_0001n),
          fc.double().map((value) => new BigUint64Array(Float64Array.of(value).buffer)[0]!),
          fc.integer({ min: 0, max: 20 }).map((value) => {
            return new BigUint64Array(Float64Array.of(value).buffer)[0]!;
          }),
          fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        ),
      ),
      { minLength: 1, maxLength: 130 },
    ),
  )
  .map(([start, rows]) => {
    let millis = start;
    return rows.map(([distance, bits], i) => {
      if (i > 0) millis += distance;
      return { millis, bits };
    });
  })
  .filter((rows) => rows.at(-1)!.millis < 9_200_000_000_000);

test('floats of our own encoder are read back bit for bit', () => {
  fc.assert(
    fc.property(rowsOfChunk, (rows) => {
      const { millis, values } = floatRows(floatChunk(rows).data, damage);
      const bits = new BigUint64Array(values.buffer);
      assert.deepEqual(
        Array.from(millis, (each, row) => ({ millis: each, bits: bits[row]! })),
        rows,
      );
    }),
    { numRuns: 400 },
  );
});

test('a chunk that is cut, or has too many rows for its length, is refused', () => {
  fc.assert(
    fc.property(rowsOfChunk, fc.nat(), (rows, end) => {
      const { data } = floatChunk(rows);
      assert.throws(() => floatRows(data.subarray(0, end % data.length), damage), {
        code: 'BAD_REQUEST',
        message: /^cannot read chunks\/000001: .* at byte \d+$/,
      });
    }),
    { numRuns: 200 },
  );
});

test('any bytes are rows that ascend, or refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (data) => {
      data[0] = 0;
      try {
        const { millis } = floatRows(data, damage);
        assert.ok(millis.every((each, i) => i === 0 || each > millis[i - 1]!));
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'BAD_REQUEST');
      }
    }),
    { numRuns: 3000 },
  );
});

test('times that do not ascend, or are out of range, are refused', () => {
  const row = (millis: number) => ({ millis, bits: 0n });
  const refuse = (chunk: { data: Uint8Array }, message: RegExp) => {
    assert.throws(() => floatRows(chunk.data, damage), { code: 'BAD_REQUEST', message });
  };
  refuse(floatChunk([row(5), row(5)]), /times do not ascend/);
  refuse(floatChunk([row(5), row(6), row(6)]), /times do not ascend/);
  refuse(floatChunk([row(9_300_000_000_000)]), /time is out of range: 9300000000000 ms/);
  refuse({ data: Uint8Array.of(0, 0) }, /chunk has no rows/);
  refuse({ data: Uint8Array.of(255, 255, 0, 0) }, /too short for its 65535 rows/);
});
