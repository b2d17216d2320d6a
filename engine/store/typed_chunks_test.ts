/** Typed chunks merged, cut and digested, beside a map of their rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunkHeaders, chunkKind, kindsAll } from '../codec/chunk.ts';
import { encodeFloatLagsChunk } from '../codec/codec_twin.ts';
import { codecSample, SeededNumbers } from '../codec/samples_testing.ts';
import { decodeTypedChunk, encodeTypedChunk } from '../typed/chunk_twin.ts';
import {
  deviceValues,
  histogramValues,
  mixedValues,
  windowValues,
} from '../typed/samples_testing.ts';
import { orderOfTypedRows, TypedValueWriter, valueKind } from '../typed/typed_value.ts';
import { cutRows, keepRows, mergeChunks } from './chunk_merge.ts';
import { digestSeries } from './row_digest.ts';
import { typedInOrder } from './typed_chunks.ts';
import { digestTypedByRows, type TypedRow } from './row_digest_twin.ts';

const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const second = 1_000_000_000n;
const id = Uint8Array.of(7, 8, 9);

interface Row extends TypedRow {
  readonly version: number;
}

function rowsIn(chunks: Uint8Array): Row[] {
  return [...chunkHeaders(chunks, 0, chunks.length, kindsAll)].flatMap((header) => {
    if (header.kind !== chunkKind.typed) return [];
    const rows = decodeTypedChunk(chunks, header);
    return Array.from(rows.timestampNanos, (nanos, i) => ({
      nanos,
      version: rows.rowVersions[i]!,
      value: rows.values[i]!,
      startNanos: rows.startNanos?.[i] ?? 0n,
    }));
  });
}

/** Of each time the row that stays, ascending. */
function merged(rows: readonly Row[]): Row[] {
  const byTime = new Map<bigint, Row>();
  for (const row of rows) {
    const held = byTime.get(row.nanos);
    if (held === undefined || orderOfTypedRows(row, held) > 0) byTime.set(row.nanos, row);
  }
  return [...byTime.values()].sort((a, b) => (a.nanos < b.nanos ? -1 : 1));
}

function someChunk(numbers: SeededNumbers): Uint8Array {
  const times = new Set<bigint>();
  const count = 1 + numbers.below(numbers.below(5) === 0 ? 400 : 20);
  for (let i = 0; i < count; i++)
    times.add(1_700_000_000n * second + BigInt(numbers.below(600)) * second);
  const timestampNanos = BigInt64Array.from(times).sort();
  const size = timestampNanos.length;
  const kind = numbers.below(4);
  const values =
    kind === 3
      ? windowValues(numbers, size)
      : kind === 0
        ? histogramValues(numbers, size, { perRow: 9, schema: 2 })
        : kind === 1
          ? deviceValues(numbers, size)
          : mixedValues(numbers, size);
  const startNanos = timestampNanos.map((nanos) => [0n, nanos - second][numbers.below(2)]!);
  return encodeTypedChunk({
    timestampNanos,
    values,
    rowVersions: Float64Array.from(timestampNanos, () => 1000 + numbers.below(3)),
    startNanos: numbers.below(2) === 0 ? startNanos : null,
  });
}

test('typed chunks are merged, cut, deleted from and digested as a map of their rows is', () => {
  const numbers = new SeededNumbers(1);
  for (let round = 0; round < 60; round++) {
    const parts = Array.from({ length: 1 + numbers.below(5) }, () => someChunk(numbers));
    const rows = parts.flatMap(rowsIn);
    const wanted = merged(rows);
    const whole = mergeChunks(parts);
    assert.deepEqual(rowsIn(whole), wanted, `round ${round}`);
    const digest = digestSeries(id, parts, ...allTimes);
    assert.deepEqual(digest, digestTypedByRows(id, wanted), `digest of round ${round}`);
    assert.deepEqual(digestSeries(id, [whole], ...allTimes), digest, 'cut otherwise');
    const from = 1_700_000_000n * second + BigInt(numbers.below(600)) * second;
    const end = from + BigInt(numbers.below(300)) * second;
    const inRange = ({ nanos }: Row): boolean => nanos >= from && nanos < end;
    const first = parts[0]!;
    assert.deepEqual(rowsIn(keepRows(first, from, end)), rowsIn(first).filter(inRange));
    const cut = { startNanos: from, endNanos: end, version: 1000 + numbers.below(3) };
    const left = rowsIn(first).filter((row) => !inRange(row) || row.version > cut.version);
    const none = { startNanos: 0n, endNanos: 1n, version: 9000 };
    const kept = cutRows(first, [cut, none]);
    assert.deepEqual(rowsIn(kept), left);
    if (left.length === rowsIn(first).length) assert.equal(kept, first);
    assert.deepEqual(
      digestSeries(id, parts, from, end),
      digestTypedByRows(id, wanted.filter(inRange)),
    );
  }
});

test('floats and typed rows of a series are merged each by themselves', () => {
  const numbers = new SeededNumbers(2);
  const { rows } = codecSample(5, 40);
  const rowVersions = new Float64Array(40).fill(rows.version);
  const floats = encodeFloatLagsChunk({ ...rows, rowVersions });
  const typed = someChunk(numbers);
  const both = mergeChunks([new Uint8Array(Buffer.concat([typed, floats])), typed]);
  assert.deepEqual(
    both,
    new Uint8Array(Buffer.concat([mergeChunks([floats]), mergeChunks([typed])])),
  );
  const [a, b] = [floats, typed].map((part) => digestSeries(id, [part], ...allTimes));
  const sum = digestSeries(id, [typed, floats], ...allTimes);
  assert.equal(sum.low, BigInt.asUintN(64, a!.low + b!.low));
  assert.equal(sum.high, BigInt.asUintN(64, a!.high + b!.high));
});

test('another field, start or ID is another digest', () => {
  const value = (number: bigint): Uint8Array =>
    new TypedValueWriter().begin(valueKind.message, 1).uint(1, number).finish();
  const digestOf = (row: bigint, start: bigint, of: Uint8Array = id): bigint => {
    const columns = {
      timestampNanos: BigInt64Array.of(second),
      rowVersions: Float64Array.of(1),
      values: [value(row)],
      startNanos: BigInt64Array.of(start),
    };
    return digestSeries(of, [encodeTypedChunk(columns)], ...allTimes).low;
  };
  const digests = [
    digestOf(1n, 0n),
    digestOf(2n, 0n),
    digestOf(1n, 5n),
    digestOf(1n, 0n, Uint8Array.of(1)),
  ];
  assert.equal(new Set(digests).size, digests.length);
});

test('what is damaged, or stands for too much, is refused', () => {
  const numbers = new SeededNumbers(3);
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  let taken = 0;
  for (let round = 0; round < 500; round++) {
    const bad = someChunk(numbers);
    for (let flips = 1 + numbers.below(3); flips > 0; flips--) {
      bad[numbers.below(bad.length)]! ^= 1 << numbers.below(8);
    }
    try {
      digestSeries(id, [mergeChunks([bad])], ...allTimes);
      taken++;
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    }
  }
  Error.stackTraceLimit = stackTraceLimit;
  assert.ok(taken > 20, `${taken}`);
  // Some hundred bytes stand for a megabyte each.
  const long = new TypedValueWriter()
    .begin(valueKind.message, 1)
    .bytes(1, new Uint8Array(10_000))
    .finish();
  const chunk = (from: number): Uint8Array =>
    encodeTypedChunk({
      timestampNanos: BigInt64Array.from({ length: 100 }, (_, i) => BigInt(from + i) * second),
      values: Array.from({ length: 100 }, () => long),
      rowVersions: new Float64Array(100).fill(5e12),
      startNanos: null,
    });
  const many = Array.from({ length: 80 }, (_, i) => chunk(100 * i));
  assert.throws(() => mergeChunks(many), { code: 'RESOURCE_EXHAUSTED' });
  assert.equal(rowsIn(mergeChunks(many.slice(0, 3))).length, 300);
});

test('typed chunks come in order, and are what they were where they do not overlap', () => {
  const numbers = new SeededNumbers(91);
  let untouched = 0;
  for (let round = 0; round < 60; round++) {
    const chunks = Array.from({ length: 1 + numbers.below(4) }, () => someChunk(numbers)).filter(
      (chunk) => rowsIn(chunk).length > 0,
    );
    const from = 1_700_000_000n * second + BigInt(numbers.below(500)) * second;
    const range =
      numbers.below(2) === 0
        ? allTimes
        : ([from, from + BigInt(numbers.below(300)) * second] as const);
    const ordered = typedInOrder(chunks, range);
    untouched += ordered.filter((chunk) => chunks.includes(chunk)).length;
    const isWithin = ({ nanos }: Row): boolean => nanos >= range[0] && nanos < range[1];
    const found = ordered.flatMap(rowsIn);
    for (const [i, { nanos }] of found.entries()) {
      if (i > 0) assert.ok(nanos > found[i - 1]!.nanos, 'in ascending time');
    }
    assert.deepEqual(found.filter(isWithin), merged(chunks.flatMap(rowsIn)).filter(isWithin));
  }
  assert.ok(untouched > 10);
});
