import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsvLines } from './csv.ts';

test('rows with long labels are never one text: it would be longer than a text can be', () => {
  const rowCount = 400;
  const lines = new CsvLines(Array(50).fill('a').join(), 'columns');
  const values = new Float64Array(rowCount);
  const rows = {
    tags: [{ name: 'a', value: 'x'.repeat(60_000) }],
    isFirst: true,
    rowCount,
    millis: new Float64Array(rowCount),
    values,
    valueWords: new Uint32Array(values.buffer),
  };
  const lineLength = 50 * 60_001;
  let length = 0;
  for (const text of lines.texts(rows)) {
    assert.ok(text.length <= lineLength + (64 << 10), `${text.length}`);
    length += text.length;
  }
  assert.equal(length, rowCount * lineLength);
});
