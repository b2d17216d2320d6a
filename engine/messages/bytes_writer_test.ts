import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BytesWriter } from './bytes_writer.ts';

test('what a length is of stays, wherever the writer has to grow', () => {
  for (let before = 1000; before <= 1024; before++) {
    for (const length of [1, 8, 130]) {
      const writer = new BytesWriter();
      writer.copy(new Uint8Array(before), 0, before);
      const from = writer.beginLength();
      writer.copy(new Uint8Array(length).fill(7), 0, length);
      writer.endLength(from);
      const written = [...writer.finish().subarray(before)];
      const head = length < 128 ? [length] : [0x82, 1];
      assert.deepEqual(written, [...head, ...new Array<number>(length).fill(7)], `${before}`);
    }
  }
});
