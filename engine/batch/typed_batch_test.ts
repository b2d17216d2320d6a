import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { BatchBuilder, compactBatch, readBatch, readTypedBatch } from './batch.ts';

const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const start = 1_699_999_000_000_000_000n;

/** What test/fixtures/batch_v3.bin holds: two floats with a start time each, and two typed rows of one series. */
function exampleBatch(): Uint8Array {
  const builder = new BatchBuilder();
  builder.begin(112_742_891_520_001, true);
  const ordinal = builder.addSeries(text('\u0008\0__name__\u0002\0up'), 1, text(''));
  builder.setRows(
    2,
    new Uint32Array([7, 8]),
    new Uint32Array([2, 1]),
    new BigInt64Array([1_700_000_000_000n, 1_700_000_000_000n]),
    1_000_000,
    new Float64Array([1, 2]),
    new BigInt64Array([start, start]),
  );
  builder.setTypedRows({
    rowCount: 2,
    slots: new Uint32Array([ordinal, ordinal]),
    generations: new Uint32Array([0, 0]),
    timestamps: new BigInt64Array([1_700_000_000n, 1_700_000_015n]),
    timeUnitNanos: 1_000_000_000,
    startNanos: new BigInt64Array([0n, start]),
    valueEnds: new Uint32Array([4, 9]),
    valueBytes: Uint8Array.of(2, 1, 9, 7, 2, 1, 9, 0x80, 1),
  });
  return builder.finish();
}

test('a batch with typed rows and start times is what test/fixtures/batch_v3.bin holds', () => {
  const golden = readFileSync(new URL('../../test/fixtures/batch_v3.bin', import.meta.url));
  assert.equal(Buffer.from(exampleBatch()).toString('hex'), golden.toString('hex'));
  for (const bytes of [golden, compactBatch(golden)]) {
    const view = readTypedBatch(bytes);
    assert.deepEqual([...view.values], [1, 2]);
    assert.deepEqual([...view.startNanos!], [start, start]);
    const rows = view.typedRows!;
    assert.deepEqual([...rows.slots], [0, 0]);
    assert.deepEqual([...rows.timestamps], [1_700_000_000n, 1_700_000_015n]);
    assert.equal(rows.timeUnitNanos, 1_000_000_000);
    assert.deepEqual([...rows.startNanos!], [0n, start]);
    assert.deepEqual([...rows.valueEnds], [4, 9]);
    assert.deepEqual([...rows.valueBytes], [2, 1, 9, 7, 2, 1, 9, 0x80, 1]);
  }
});

test('who does not know typed rows or start times is told, and loses none', () => {
  assert.throws(() => readBatch(exampleBatch()), /section kind is not taken: 3/);
  const builder = new BatchBuilder();
  builder.begin(1);
  const one = [new Uint32Array(1), Uint32Array.of(1), new BigInt64Array(1), 1] as const;
  builder.setRows(1, ...one, new Float64Array(1), new BigInt64Array([start]));
  assert.throws(() => readBatch(builder.finish()), /column is not taken: 6/);
  builder.begin(1);
  builder.setRows(1, ...one, new Float64Array(1), new BigInt64Array(1));
  assert.equal(readBatch(builder.finish()).rowCount, 1);
});

test('typed rows of the batch before are not in the next one', () => {
  const builder = new BatchBuilder();
  builder.begin(1);
  builder.setTypedRows(readTypedBatch(exampleBatch()).typedRows!);
  builder.begin(2);
  assert.equal(readTypedBatch(builder.finish()).typedRows, null);
});

test('typed rows are refused whose slots, ends or columns are wrong', () => {
  const good = exampleBatch();
  const words = new DataView(good.buffer);
  const entry = [0, 1, 2].map((i) => 32 + 16 * i).find((at) => words.getUint8(at) === 3)!;
  const directory = words.getUint32(entry + 8, true);
  const column = (id: number): number =>
    [0, 1, 2, 3, 4, 5].map((i) => directory + 16 * i).find((at) => words.getUint8(at) === id)!;
  const change = (edit: (view: DataView) => void): Uint8Array => {
    const bytes = good.slice();
    edit(new DataView(bytes.buffer));
    return bytes;
  };
  const offset = (id: number): number => words.getUint32(column(id) + 4, true);
  const refused: readonly (readonly [RegExp, (view: DataView) => void])[] = [
    [/names a dictionary entry of 1: 1/, (view) => view.setUint32(offset(1), 1, true)],
    [/typed end is not ascending/, (view) => view.setUint32(offset(9), 10, true)],
    [/typed end does not end at 9: 8/, (view) => view.setUint32(offset(9) + 4, 8, true)],
    [/column appears twice: 6/, (view) => view.setUint8(column(10), 6)],
    [/column is unknown in section kind 3: 4/, (view) => view.setUint8(column(6), 4)],
  ];
  for (const [reason, edit] of refused) {
    assert.throws(() => readTypedBatch(change(edit)), { code: 'BAD_REQUEST', message: reason });
  }
});
