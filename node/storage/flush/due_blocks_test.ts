import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type BlockInMemory,
  closedQuietMillis,
  coldQuietMillis,
  dueBlocks,
  waitingRows,
} from './due_blocks.ts';

const nowMillis = 10_000_000;
const waitMillisMax = 600_000;
const moment = { nowNanos: 1000n, nowMillis, memoryIsShort: false };
const short = { ...moment, memoryIsShort: true };

/** A block that closed just now, whose rows came and changed so long ago. */
function block(ages: { since: number; changed: number }, more: Partial<BlockInMemory> = {}) {
  const { since, changed } = ages;
  const waiting = {
    rowCount: 1,
    sinceMillis: nowMillis - since,
    changedAtMillis: nowMillis - changed,
  };
  return { closesNanos: 1000n, hasFileset: false, bytes: 1, waiting, waitMillisMax, ...more };
}

const why = (one: BlockInMemory, at = moment) => dueBlocks([one], at)[0]?.why ?? null;

test('a closed block is due when no row came for a time', () => {
  const quiet = { since: closedQuietMillis, changed: closedQuietMillis };
  const busy = { since: closedQuietMillis, changed: closedQuietMillis - 1 };
  assert.equal(why(block(quiet)), 'closed');
  assert.equal(why(block(busy)), null, 'a backfill may be writing it');
  assert.equal(why(block(quiet, { closesNanos: 1001n })), null, 'it is open');
});

test('late rows are due when no more came for a longer time, or at the latest after that', () => {
  const late = { hasFileset: true };
  assert.equal(why(block({ since: coldQuietMillis, changed: coldQuietMillis }, late)), 'late rows');
  assert.equal(why(block({ since: coldQuietMillis, changed: coldQuietMillis - 1 }, late)), null);
  assert.equal(why(block({ since: waitMillisMax, changed: 0 }, late)), 'late rows');
  assert.equal(why(block({ since: waitMillisMax, changed: 0 })), 'closed');
});

test('when memory is short every block is due, and keeps its better reason', () => {
  const open = { closesNanos: 1001n };
  const quiet = { since: coldQuietMillis, changed: coldQuietMillis };
  assert.equal(why(block({ since: 0, changed: 0 }, open), short), 'memory is short');
  assert.equal(why(block({ since: 0, changed: 0 }), short), 'memory is short');
  assert.equal(why(block(quiet), short), 'closed');
});

test('the most urgent come first, and of these the largest', () => {
  const quiet = { since: coldQuietMillis, changed: coldQuietMillis };
  const blocks = [
    block(quiet, { closesNanos: 1001n, bytes: 5 }),
    block(quiet, { hasFileset: true, bytes: 9 }),
    block(quiet, { closesNanos: 1001n, bytes: 7 }),
    block(quiet, { bytes: 2 }),
    block(quiet, { bytes: 3 }),
  ];
  const order = dueBlocks(blocks, short).map((due) => [due.why, due.block.bytes]);
  assert.deepEqual(order, [
    ['closed', 3],
    ['closed', 2],
    ['late rows', 9],
    ['memory is short', 7],
    ['memory is short', 5],
  ]);
});

test('rows wait since the first of them, and have changed when their number has', () => {
  const first = waitingRows(undefined, 5, 100);
  assert.deepEqual(first, { rowCount: 5, sinceMillis: 100, changedAtMillis: 100 });
  assert.deepEqual(waitingRows(first, 5, 200), first);
  const more = waitingRows(first, 6, 300);
  assert.deepEqual(more, { rowCount: 6, sinceMillis: 100, changedAtMillis: 300 });
});
