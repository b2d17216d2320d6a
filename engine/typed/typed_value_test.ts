import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import {
  bitsOfDouble,
  checkTypedValue,
  orderOfTypedRows,
  fieldNumberMax,
  fieldType,
  typedBytesMax,
  typedDepthMax,
  typedFieldsMax,
  valueKind,
  TypedValueReader,
  TypedValueWriter,
} from './typed_value.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const writer = (): TypedValueWriter => new TypedValueWriter().begin(valueKind.message, 3);

test('a typed value is its kind, its layout and its fields', () => {
  const nested = new TypedValueWriter().beginFields().uint(1, 300n).finish();
  const value = writer()
    .int(1, -2n)
    .uint(2, 2n ** 64n - 1n)
    .double(3, 1)
    .floatBits(4, 0x3f800000)
    .bytes(5, Buffer.from('ab'))
    .message(300, nested)
    .finish();
  assert.equal(
    hex(value),
    [
      '02 03',
      '08 03',
      '11 ffffffffffffffffff01',
      '1a 000000000000f03f',
      '23 0000803f',
      '2c 02 6162',
      'e512 03 09ac02',
    ]
      .join('')
      .replaceAll(' ', ''),
  );
  checkTypedValue(value);
  const reader = new TypedValueReader().open(value);
  assert.deepEqual([reader.kind, reader.layout], [valueKind.message, 3]);
  const seen: unknown[] = [];
  while (reader.next()) {
    const { number, type, integer, bits, start, end } = reader;
    if (type <= fieldType.uint) seen.push([number, integer]);
    else if (type <= fieldType.float) seen.push([number, bits]);
    else seen.push([number, hex(value.subarray(start, end))]);
  }
  assert.deepEqual(seen, [
    [1, -2n],
    [2, 2n ** 64n - 1n],
    [3, bitsOfDouble(1)],
    [4, 0x3f800000n],
    [5, '6162'],
    [300, '09ac02'],
  ]);
});

test('bits of NaNs and zeros stay', () => {
  const stale = 0x7ff0000000000002n;
  const value = writer().doubleBits(1, stale).double(2, -0).finish();
  const reader = new TypedValueReader().open(value);
  reader.next();
  assert.equal(reader.bits, stale);
  reader.next();
  assert.equal(reader.bits, 1n << 63n);
  assert.ok(Object.is(reader.double, -0));
});

test('what is not canonical is refused', () => {
  const refused = (text: string, reason: RegExp): void =>
    assert.throws(() => checkTypedValue(Buffer.from(text.replaceAll(' ', ''), 'hex')), {
      code: 'BAD_REQUEST',
      message: reason,
    });
  refused('', /ends too early/);
  refused('00 00', /kind that is not known: 0/);
  refused('06 00', /kind that is not known: 6/);
  refused('02', /ends too early/);
  refused('02 8000', /longer than it need be/);
  refused('02 03 08 8100', /longer than it need be/);
  refused('02 03 0801 0802', /do not ascend/);
  refused('02 03 1001 0801', /do not ascend/);
  refused('02 03 00 01', /do not ascend/);
  refused('02 03 0e', /type that is not known: 6/);
  refused('02 03 09 ffffffffffffffffff02', /more than 64 bits/);
  refused('02 03 09 ffffffffffffffffffff01', /more than 64 bits/);
  refused('02 03 0a 0000', /ends too early/);
  refused('02 03 0c 03 6162', /ends too early/);
  refused('02 03 0d 02 0880', /ends too early/);
  const highest = writer().uint(fieldNumberMax, 1n).finish();
  checkTypedValue(highest);
});

test('a typed value has limits of bytes, fields and depth', () => {
  const bytes = new Uint8Array(typedBytesMax - 7);
  checkTypedValue(writer().bytes(1, bytes.subarray(1)).finish());
  assert.throws(
    () => checkTypedValue(writer().bytes(1, bytes).bytes(2, bytes.subarray(0, 1)).finish()),
    {
      message: /longer than 1048576 bytes/,
    },
  );
  const many = writer();
  for (let number = 1; number <= typedFieldsMax; number++) many.uint(number, 1n);
  checkTypedValue(many.finish());
  assert.throws(() => checkTypedValue(many.uint(typedFieldsMax + 1, 1n).finish()), {
    message: /more than 4096 fields/,
  });
  let fields = new TypedValueWriter().beginFields().uint(1, 1n).finish();
  for (let depth = 0; depth < typedDepthMax - 1; depth++) {
    fields = new TypedValueWriter().beginFields().message(1, fields).finish();
  }
  const deep = writer().message(1, fields).finish();
  checkTypedValue(deep);
  const deeper = new TypedValueWriter().beginFields().message(1, fields).finish();
  assert.throws(() => checkTypedValue(writer().message(1, deeper).finish()), {
    message: /nest more than 32 deep/,
  });
});

test('whatever is written is read, and order is that of the bytes', () => {
  const random = new SeededRandom(9);
  const values: Uint8Array[] = [];
  for (let round = 0; round < 300; round++) {
    const writer = new TypedValueWriter().begin(
      random.pick(Object.values(valueKind)),
      random.below(200),
    );
    const expected: [number, bigint][] = [];
    let number = 0;
    for (let field = random.below(12); field > 0; field--) {
      number += 1 + random.below(random.pick([2, 40, 1 << 30]));
      const value =
        BigInt.asUintN(64, (BigInt(random.u32()) << 32n) | BigInt(random.u32())) >>
        BigInt(random.below(64));
      if (random.below(2) === 0) {
        writer.uint(number, value);
        expected.push([number, value]);
      } else {
        const signed = BigInt.asIntN(64, value);
        writer.int(number, signed);
        expected.push([number, signed]);
      }
    }
    const bytes = writer.finish();
    checkTypedValue(bytes);
    const reader = new TypedValueReader().open(bytes);
    const seen: [number, bigint][] = [];
    while (reader.next()) seen.push([reader.number, reader.integer]);
    assert.deepEqual(seen, expected);
    values.push(bytes);
  }
  const plain = values.filter(([kind]) => kind !== valueKind.window);
  const rows = plain.map((value) => ({ value, version: 1, startNanos: 0n }));
  const sorted = rows.toSorted(orderOfTypedRows).map(({ value }) => hex(value));
  assert.deepEqual(sorted, plain.map(hex).sort());
});
