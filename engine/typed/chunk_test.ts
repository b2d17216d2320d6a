import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunkKind, kindsAll, parseChunkHeader } from '../codec/chunk.ts';
import { randomRows, SeededNumbers } from '../codec/samples_testing.ts';
import { decodeFloatStartsChunk, encodeFloatStartsChunk } from '../codec/codec_twin.ts';
import { decodeTypedChunk, encodeTypedChunk, type TypedRows } from './chunk_twin.ts';
import { encodeTypedRows, decodeTypedRows } from './codec.ts';
import { fuzz, inColumns } from './codec_fuzz.ts';
import { typedSample, typedSampleNames, varied } from './samples_testing.ts';
import { checkTypedValue, TypedValueWriter, valueKind } from './typed_value.ts';

function decoded(chunk: Uint8Array): TypedRows {
  const header = parseChunkHeader(chunk, 0, chunk.length, kindsAll);
  assert.equal(header.kind, chunkKind.typed);
  assert.equal(header.end, chunk.length);
  const rows = decodeTypedChunk(chunk, header);
  assert.deepEqual(decodeTypedRows(chunk), inColumns(rows));
  return rows;
}

/** By the kernel and by its twin. */
function encoded(rows: TypedRows): Uint8Array {
  const chunk = encodeTypedChunk(rows);
  assert.deepEqual(encodeTypedRows(inColumns(rows)), chunk);
  return chunk;
}

function rowsOfValues(values: readonly Uint8Array[]): TypedRows {
  return {
    timestampNanos: BigInt64Array.from(values, (_, row) => 1_000_000_000n * BigInt(row)),
    values,
    rowVersions: new Float64Array(values.length).fill(64_000),
    startNanos: null,
  };
}

const message = (): TypedValueWriter => new TypedValueWriter().begin(valueKind.message, 1);

for (const name of typedSampleNames) {
  test(`rows of a typed chunk come back as they were: ${name}`, () => {
    for (const rowCount of [1, 2, 3, 17, 150]) {
      for (let seed = 0; seed < 6; seed++) {
        const { rows } = typedSample(seed, rowCount, name);
        const all = [rows, varied(rows, new SeededNumbers(seed))];
        for (const each of all) assert.deepEqual(decoded(encoded(each)), each);
      }
    }
  });
}

test('floats come back with their start times', () => {
  for (let seed = 0; seed < 40; seed++) {
    const numbers = new SeededNumbers(seed);
    const { timestampNanos, values } = randomRows(seed, 1 + numbers.below(50));
    const times = timestampNanos.map((nanos) => (nanos < 0n ? ~nanos : nanos) >> 2n);
    const rows = {
      timestampNanos: times.sort(),
      values,
      version: 2 ** 52,
      rowVersions: Float64Array.from(values, () => 2 ** 52 - numbers.below(2)),
      startNanos: times.map((nanos) => (numbers.below(2) === 0 ? 0n : nanos - 1n)),
    };
    const chunk = encodeFloatStartsChunk(rows);
    const header = parseChunkHeader(chunk, 0, chunk.length, kindsAll);
    const { version: _, ...back } = decodeFloatStartsChunk(chunk, header);
    const { version: __, ...wanted } = rows;
    assert.deepEqual(back, wanted);
  }
});

test('a reader that does not know the kinds refuses them by name', () => {
  const chunk = encodeTypedChunk(rowsOfValues([message().uint(1, 1n).finish()]));
  assert.throws(() => parseChunkHeader(chunk, 0, chunk.length), /unknown kind/);
});

test('a field that is there now and then takes little where it is not', () => {
  const values = Array.from({ length: 1000 }, (_, row) => {
    const writer = message().uint(1, 1n);
    if (row % 500 === 3) writer.bytes(2, Buffer.from('restarted'));
    return writer.finish();
  });
  const chunk = encoded(rowsOfValues(values));
  assert.ok(chunk.length < 60, `${chunk.length}`);
  assert.deepEqual(decoded(chunk).values, values);
});

test('a chunk has as much as a typed value may have, and is refused with more', () => {
  const good = (values: readonly Uint8Array[]): void => {
    assert.deepEqual(decoded(encoded(rowsOfValues(values))).values, values);
  };
  const bad = (values: readonly Uint8Array[], reason: RegExp): void => {
    const chunk = encodeTypedChunk(rowsOfValues(values));
    const header = parseChunkHeader(chunk, 0, chunk.length, kindsAll);
    assert.throws(() => decodeTypedChunk(chunk, header), reason);
    assert.throws(() => decodeTypedRows(chunk), { code: 'BAD_REQUEST' });
  };
  const many = (count: number) => {
    const writer = message();
    for (let number = 1; number <= count; number++) writer.uint(number, 1n);
    return writer.finish();
  };
  good([many(4096)]);
  bad([many(4097)], /too many fields/);
  good(Array.from({ length: 8 }, () => many(4096)));
  bad(
    Array.from({ length: 9 }, () => many(4096)),
    /too many values/,
  );

  const long = message().bytes(1, new Uint8Array(600_000)).finish();
  good([long]);
  // One entry of a dictionary: the chunk itself is not longer than one of them.
  bad([long, long], /too long values/);

  const nested = (depth: number): Uint8Array =>
    depth === 0
      ? new Uint8Array(0)
      : new TypedValueWriter()
          .beginFields()
          .message(1, nested(depth - 1))
          .finish();
  const deep = (depth: number) =>
    message()
      .message(1, nested(depth - 1))
      .finish();
  good([deep(32)]);
  bad([deep(33)], /too deep/);
});

test('rows of which each has fields of its own are columns with one value each', () => {
  const values = Array.from({ length: 4096 }, (_, row) =>
    message()
      .uint(1 + ((row * 7919) % 5000), BigInt(row))
      .finish(),
  );
  assert.deepEqual(decoded(encoded(rowsOfValues(values))).values, values);
});

test('the kernel and its twin write the same, and read or refuse the same', () => {
  for (let seed = 1; seed <= 8; seed++) fuzz(seed, 20);
});

test('a damaged chunk is refused, or gives typed values that are canonical', () => {
  const numbers = new SeededNumbers(7);
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  let taken = 0;
  for (let round = 0; round < 4000; round++) {
    const { rows } = typedSample(round >> 4, 1 + numbers.below(20));
    const chunk = encodeTypedChunk(varied(rows, numbers));
    chunk[1 + numbers.below(chunk.length - 1)]! ^= 1 << numbers.below(8);
    try {
      const header = parseChunkHeader(chunk, 0, chunk.length, kindsAll);
      if (header.kind !== chunkKind.typed) continue;
      const { values } = decodeTypedChunk(chunk, header);
      for (const value of values) checkTypedValue(value);
      taken += 1;
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    }
  }
  Error.stackTraceLimit = stackTraceLimit;
  assert.ok(taken > 100, `${taken}`);
});
