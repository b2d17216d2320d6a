import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { readerMemoryMillis, ReaderLevels } from './reader_levels.ts';

test('the lowest level of the readers of the last ten minutes is told, and forgotten after them', () => {
  let millis = 0;
  const readers = new ReaderLevels({ ...realEnv.clock, monotonicMillis: () => millis });
  readers.note(undefined);
  readers.note(formatLevelNewest);
  readers.note(9);
  assert.equal(readers.lowest(), formatLevelNewest);
  readers.note(1);
  readers.note(formatLevelNewest);
  assert.equal(readers.lowest(), 1);
  millis = readerMemoryMillis;
  assert.equal(readers.lowest(), 1);
  millis += 1;
  assert.equal(readers.lowest(), formatLevelNewest);
});
