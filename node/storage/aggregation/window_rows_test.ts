import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { TypedValueWriter, valueKind } from '#engine/typed/typed_value.ts';
import { valueOfWindow } from '#engine/typed/window.ts';
import { encodeWindowRows, windowRowsOf } from './window_rows.ts';

const window = {
  deletions: 0n,
  rows: 3,
  lags: 4,
  others: 0,
  last: 1,
  min: 0,
  max: 2,
  sum: 3,
  resets: 0,
  lastNumber: 0,
};

test('what somebody wrote among windows by hand is no window', () => {
  const writer = new TypedValueWriter();
  writer.begin(valueKind.message, 0);
  writer.uint(1, 5n);
  const values = [writer.finish(), valueOfWindow(window)];
  let end = 0;
  const chunk = encodeTypedRows({
    timestampNanos: BigInt64Array.of(10n, 20n),
    valueBytes: new Uint8Array(Buffer.concat(values)),
    valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
    rowVersions: Float64Array.of(1, 7),
    startNanos: null,
  });
  const slice = { startNanos: 0n, endNanos: 100n };
  const rows = windowRowsOf([chunk], slice);
  assert.deepEqual([...rows], [[20n, { ...window, version: 7 }]]);
  const again = windowRowsOf([encodeWindowRows(rows)], slice);
  assert.deepEqual(again, rows);
});
