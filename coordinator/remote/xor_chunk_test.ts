import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import { encodeXorChunk } from './xor_chunk.ts';

/** A plain reader of the format, after its description; timestamps and value bits. */
function decodeXorChunk(chunk: Uint8Array): { time: bigint; bits: bigint }[] {
  let at = 0;
  const bit = (): bigint => {
    const value = (chunk[at >> 3]! >> (7 - (at & 7))) & 1;
    assert.ok(at >> 3 < chunk.length, 'the chunk is not cut off');
    at += 1;
    return BigInt(value);
  };
  const read = (count: number): bigint => {
    let value = 0n;
    for (let i = 0; i < count; i += 1) value = (value << 1n) | bit();
    return value;
  };
  const uvarint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = read(8);
      value |= (byte & 127n) << shift;
      if (byte < 128n) return value;
    }
  };
  const signed = (count: number): bigint => {
    const value = read(count);
    // The largest positive number of a range is one more than in two's complement.
    return value > 1n << BigInt(count - 1) ? value - (1n << BigInt(count)) : value;
  };
  const count = Number(read(16));
  const rows: { time: bigint; bits: bigint }[] = [];
  let time = 0n;
  let delta = 0n;
  let bits = 0n;
  let leading = 0;
  let trailing = 0;
  for (let row = 0; row < count; row += 1) {
    if (row === 0) {
      const zigzag = uvarint();
      time = zigzag & 1n ? -(zigzag >> 1n) - 1n : zigzag >> 1n;
      bits = read(64);
    } else {
      if (row === 1) {
        delta = uvarint();
      } else {
        // Ones in front tell the size of the change: none, 14, 17, 20 or 64 bits.
        let ones = 0;
        while (ones < 4 && bit() === 1n) ones += 1;
        if (ones === 4) delta += BigInt.asIntN(64, read(64));
        else if (ones > 0) delta += signed([0, 14, 17, 20][ones]!);
      }
      time += delta;
      if (bit() === 1n) {
        if (bit() === 1n) {
          leading = Number(read(5));
          const length = Number(read(6)) || 64;
          trailing = 64 - leading - length;
        }
        bits ^= read(64 - leading - trailing) << BigInt(trailing);
      }
    }
    rows.push({ time, bits });
  }
  assert.ok(chunk.length * 8 - at < 8, 'nothing is left over');
  return rows;
}

function encode(rows: readonly { time: bigint; bits: bigint }[]): Uint8Array {
  const times = Float64Array.from(rows, ({ time }) => Number(time));
  const words = new Uint32Array(BigUint64Array.from(rows, ({ bits }) => bits).buffer);
  return encodeXorChunk(times, words, 0, rows.length);
}

const specialBits = [0n, 1n << 63n, 0x7ff0_0000_0000_0002n, 0x7ff8_0000_0000_0001n, 2n ** 64n - 1n];

test('encodeXorChunk() is read back bit for bit', () => {
  const floatBits = fc.double().map((value) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value);
    return view.getBigUint64(0);
  });
  const anyBits = fc.oneof(
    fc.constantFrom(...specialBits),
    floatBits,
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    fc.nat(100).map((small) => BigInt(small) << 52n),
  );
  const step = fc.oneof(
    fc.constant(15_000),
    fc.constantFrom(0, 1, 8_191, 8_192, 8_193, 65_536, 65_537, 524_288, 524_289, 2 ** 33),
    fc.nat(3_000_000),
  );
  fc.assert(
    fc.property(
      fc.integer({ min: -1e12, max: 2e12 }),
      fc.array(fc.tuple(step, anyBits), { minLength: 1, maxLength: 120 }),
      (start, steps) => {
        let time = BigInt(start);
        const rows = steps.map(([delta, bits]) => {
          time += BigInt(delta);
          return { time, bits };
        });
        assert.deepEqual(decodeXorChunk(encode(rows)), rows);
      },
    ),
    { numRuns: 1500 },
  );
});

test('encodeXorChunk() spends two bits on a row that repeats at a steady interval', () => {
  const rows = Array.from({ length: 120 }, (_, i) => ({
    time: 1_700_000_000_000n + BigInt(i) * 15_000n,
    bits: 0x4045_0000_0000_0000n,
  }));
  assert.equal(encode(rows).length, Math.ceil((16 + 6 * 8 + 64 + 16 + 1 + 118 * 2) / 8));
});
