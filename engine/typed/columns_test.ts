/** Columns of typed chunks beside the values that they are made of, taken apart one by one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { type AskedFields, TypedColumnsReader, type TypedColumns } from './columns.ts';
import { encodeTypedRows } from './codec.ts';
import { inColumns } from './codec_fuzz.ts';
import { typedSample, varied } from './samples_testing.ts';
import { fieldType, TypedValueReader } from './typed_value.ts';

/** By path and type, as `row:value` each. */
type Found = Map<string, string[]>;

function take(
  found: Found,
  path: readonly number[],
  type: number,
  row: number,
  text: string,
): void {
  const key = `${path.join('.')} ${type}`;
  const rows = found.get(key);
  if (rows === undefined) found.set(key, [`${row}:${text}`]);
  else rows.push(`${row}:${text}`);
}

function textOf(reader: TypedValueReader, bytes: Uint8Array): string {
  switch (reader.type) {
    case fieldType.int:
    case fieldType.uint:
      return String(Number(reader.integer));
    case fieldType.double:
      return reader.bits.toString(16);
    case fieldType.float:
      return String(new Float32Array(Uint32Array.of(Number(reader.bits)).buffer)[0]);
    case fieldType.bytes:
      return Buffer.from(bytes.subarray(reader.start, reader.end)).toString('hex');
    default:
      return '';
  }
}

/** What a walk over each value finds of what is asked for. */
function byValues(values: readonly Uint8Array[], asked: AskedFields | null): Found {
  const found: Found = new Map();
  for (const [row, value] of values.entries()) {
    const walk = (
      reader: TypedValueReader,
      path: readonly number[],
      wanted: AskedFields | null,
    ): void => {
      while (reader.next()) {
        const what = wanted === null ? 'all' : wanted.get(reader.number);
        if (what === undefined) continue;
        const here = [...path, reader.number];
        take(found, here, reader.type, row, textOf(reader, value));
        if (reader.type !== fieldType.message) continue;
        const inner = new TypedValueReader().openFields(value, reader.start, reader.end);
        walk(inner, here, what === 'all' ? null : what);
      }
    };
    walk(new TypedValueReader().open(value), [], asked);
  }
  return found;
}

function byColumns({ columns, bytes }: TypedColumns): Found {
  const found: Found = new Map();
  for (const { path, type, rows, values, places } of columns) {
    const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
    for (const [i, row] of rows.entries()) {
      let text = '';
      if (type === fieldType.double) text = bits[i]!.toString(16);
      else if (type < fieldType.bytes) text = String(values[i]);
      else if (type === fieldType.bytes) {
        const at = places[2 * i]!;
        text = Buffer.from(bytes.subarray(at, at + places[2 * i + 1]!)).toString('hex');
      }
      take(found, path, type, row, text);
    }
  }
  // A field of several kinds of rows has a column for each.
  for (const rows of found.values()) rows.sort((a, b) => Number.parseInt(a) - Number.parseInt(b));
  return found;
}

const sorted = (found: Found): [string, string[]][] =>
  [...found].sort(([a], [b]) => (a < b ? -1 : 1));

/** Some of the fields that there are, and one that is not. */
function someOf(found: Found, numbers: SeededNumbers): AskedFields {
  const asked = new Map<number, 'all' | Map<number, 'all'>>([[9999, 'all']]);
  for (const key of found.keys()) {
    const [first, second] = key.split(' ')[0]!.split('.').map(Number) as [
      number,
      number | undefined,
    ];
    if (numbers.below(3) > 0) continue;
    const before = asked.get(first);
    if (second === undefined) asked.set(first, 'all');
    else if (before === undefined) asked.set(first, new Map([[second, 'all']]));
    else if (before !== 'all') before.set(second, 'all');
  }
  return asked;
}

test('columns are the fields of the values, all of them or those that are asked for', () => {
  const numbers = new SeededNumbers(4);
  const reader = new TypedColumnsReader();
  let passedOver = 0;
  for (let round = 0; round < 120; round++) {
    const { name, rows: sample } = typedSample(numbers.u32(), 1 + numbers.below(60));
    const rows = varied(sample, numbers);
    const chunk = encodeTypedRows(inColumns(rows));
    const label = `round ${round}, ${name}`;
    const all = byValues(rows.values, null);
    const read = reader.read(chunk, null);
    assert.deepEqual(sorted(byColumns(read)), sorted(all), label);
    assert.deepEqual(read.timestampNanos, rows.timestampNanos, label);
    assert.deepEqual(read.startNanos, rows.startNanos, label);
    const kinds = new Map<number, string>();
    for (const { kind, layout, rows: places } of read.groups) {
      for (const row of places) kinds.set(row, `${kind} ${layout}`);
    }
    for (const [row, value] of rows.values.entries()) {
      const { kind, layout } = new TypedValueReader().open(value);
      assert.equal(kinds.get(row), `${kind} ${layout}`, label);
    }
    const asked = someOf(all, numbers);
    const some = byColumns(reader.read(chunk, asked));
    assert.deepEqual(sorted(some), sorted(byValues(rows.values, asked)), `asked of ${label}`);
    if (some.size < all.size) passedOver += 1;
  }
  assert.ok(passedOver > 50);
});

test('of a damaged chunk columns are read, or it is refused', () => {
  const numbers = new SeededNumbers(5);
  const reader = new TypedColumnsReader();
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  let refused = 0;
  for (let round = 0; round < 2000; round++) {
    const { rows } = typedSample(numbers.u32(), 1 + numbers.below(20));
    const chunk = encodeTypedRows(inColumns(varied(rows, numbers)));
    for (let flips = 1 + numbers.below(3); flips > 0; flips--) {
      chunk[numbers.below(chunk.length)]! ^= 1 << numbers.below(8);
    }
    try {
      reader.read(chunk, numbers.below(2) === 0 ? null : new Map([[3, 'all']]));
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
      refused += 1;
    }
  }
  Error.stackTraceLimit = stackTraceLimit;
  assert.ok(refused > 500, `${refused}`);
});
