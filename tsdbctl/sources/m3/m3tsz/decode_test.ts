import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { fixtures } from '../folder_testing.ts';
import { streamBytesMax } from './bits.ts';
import { decodeM3tsz } from './decode.ts';

interface Stream {
  readonly name: string;
  readonly intOptimized: boolean;
  readonly hex: string;
  readonly times: readonly string[];
  readonly bits: readonly string[];
}

const streams = JSON.parse(
  readFileSync(join(fixtures, 'm3tsz_streams.json'), 'utf8'),
) as readonly Stream[];

const bytesOf = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'));
const bitsOf = (values: Float64Array) =>
  Array.from(new BigUint64Array(values.buffer), (each) => each.toString(16).padStart(16, '0'));

/** Bits of a stream, as a text of digits that may be parted. */
function bits(text: string): Uint8Array {
  const digits = text.replace(/\s/g, '');
  const bytes = digits.padEnd(Math.ceil(digits.length / 8) * 8, '0').match(/.{8}/g) ?? [];
  return Uint8Array.from(bytes, (each) => Number.parseInt(each, 2));
}

const startNanos = 1_700_000_000_000_000_000n;
const start = startNanos.toString(2).padStart(64, '0');
const end = '100000000 00';
const unitMarker = '100000000 10';
const number = (value: bigint, width: number) =>
  BigInt.asUintN(width, value).toString(2).padStart(width, '0');
/** As a whole number of few bits. */
const five = '0 11 000010 0 1 101';

test('streams that M3 wrote are what M3 reads, bit for bit', () => {
  assert.ok(streams.length > 50);
  for (const { name, intOptimized, hex, times, bits: expected } of streams) {
    const rows = decodeM3tsz(bytesOf(hex), intOptimized);
    assert.deepEqual(Array.from(rows.timestampNanos, String), times, name);
    assert.deepEqual(bitsOf(rows.values), expected, name);
    assert.equal(rows.ascends, true);
  }
});

test('a row is read as the format says, and a time that is the epoch is one as all others', () => {
  const rows = decodeM3tsz(
    bits(`${number(-1_000_000_000n, 64)} 10 0000001 ${five} 0 01 0 01 ${end}`),
    true,
  );
  assert.deepEqual([...rows.timestampNanos], [0n, 1_000_000_000n, 2_000_000_000n]);
  assert.deepEqual([...rows.values], [5, 5, 5]);
});

test('times that do not ascend are told', () => {
  const stream = bits(`${start} 10 0000001 ${five} 10 1111110 01 ${end}`);
  const { timestampNanos, ascends } = decodeM3tsz(stream, true);
  assert.deepEqual(
    [...timestampNanos].map((nanos) => nanos - startNanos),
    [1_000_000_000n, 0n],
  );
  assert.equal(ascends, false);
});

test('changes of steps wrap as 64-bit numbers do', () => {
  const change = 2n ** 62n + 12_345n;
  const stream = bits(`${start} ${unitMarker} 00000011 ${number(7n, 64)} ${five}
    1111 ${number(change, 64)} 01 ${end}`);
  const { timestampNanos } = decodeM3tsz(stream, true);
  const first = startNanos + 7n;
  assert.deepEqual([...timestampNanos], [first, BigInt.asIntN(64, first + change * 1000n)]);
});

test('what no encoder writes is refused with its reason', () => {
  const refused = (text: string, reason: RegExp) =>
    assert.throws(() => decodeM3tsz(bits(text), true), reason);
  refused('', /stream ends within a row/);
  refused(`${start} 0 ${five}`, /stream ends within a row/);
  refused(`${number(startNanos + 1n, 64)} 0 ${five} ${end}`, /no whole second and has no unit/);
  refused(`${start} ${unitMarker} 00000101 ${number(0n, 64)}`, /unit of time has no encoding: 5/);
  refused(`${start} ${unitMarker} 00000000 ${number(0n, 64)}`, /unit of time has no encoding: 0/);
  refused(`${start} 100000000 01 00000001 0`, /length of an annotation is damaged/);
  refused(`${start} 100000000 01 ${'1'.repeat(48)}`, /length of an annotation is damaged/);
  refused(`${start} 100000000 01 11111110 00001111 0`, /length of an annotation is damaged/);
  refused(`${start} 0 0 0 1 111 0 01 ${end}`, /power of ten is above 6: 7/);
  refused(
    `${start} 0 1 ${'0'.repeat(64)} 0 1 11 111111 111111 ${'1'.repeat(64)} ${end}`,
    /value has more than 64 bits: 127/,
  );
  const tooLong = new Uint8Array(streamBytesMax + 1);
  assert.throws(() => decodeM3tsz(tooLong, true), /stream is longer than \d+ bytes: \d+/);
});

test('a stream of more rows than are held is refused', () => {
  const stream = new Uint8Array(2000);
  stream.set(bits(`${start} 0 ${'0'.repeat(64)}`));
  assert.throws(() => decodeM3tsz(stream, false, 2048), /stream has more than 2048 rows/);
});

test('a stream that is cut is refused, wherever that is', () => {
  for (const { name, intOptimized, hex, times } of streams) {
    const stream = bytesOf(hex);
    for (let length = 0; length < stream.length; length += 1) {
      assert.throws(
        () => decodeM3tsz(stream.subarray(0, length), intOptimized),
        TsdbError,
        `${name}, ${times.length} rows, ${length} bytes`,
      );
    }
  }
});

test('random bytes, and streams with other bits, are rows or refused', () => {
  const random = new SeededRandom(3);
  let refused = 0;
  const decode = (stream: Uint8Array) => {
    try {
      const rows = decodeM3tsz(stream, random.below(2) === 0);
      assert.equal(rows.values.length, rows.timestampNanos.length);
      assert.ok(rows.values.length <= stream.length * 4);
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      refused += 1;
    }
  };
  for (let run = 0; run < 20_000; run += 1) {
    decode(random.bytes(random.below(120)));
    const stream = bytesOf(random.pick(streams).hex);
    for (let flips = 1 + random.below(3); flips > 0; flips -= 1) {
      stream[random.below(stream.length)]! ^= 1 << random.below(8);
    }
    decode(stream);
  }
  assert.ok(refused > 10_000 && refused < 40_000, String(refused));
});
