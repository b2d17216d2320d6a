import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cutOf, isClosed, isInMemory, rawRangeOf, slicesIn, slicesOf } from './slices.ts';

const minute = 60_000_000_000n;
const hour = 60n * minute;

const sliceNanosOf = (...args: Parameters<typeof cutOf>) => cutOf(...args).sliceNanos;

test('a slice is a part of a block of whole windows, twelve hours at most, or one window', () => {
  for (const [resolution, block, slice] of [
    [5n * minute, 2n * hour, 2n * hour],
    [5n * minute, 12n * hour, 12n * hour],
    [5n * minute, 24n * hour, 12n * hour],
    [5n * minute, 60n * hour, 12n * hour],
    [7n * minute, 7n * 24n * hour, 96n * 7n * minute],
    [hour, 720n * hour, 12n * hour],
    [24n * hour, 720n * hour, 24n * hour],
    [24n * hour, 12n * hour, 24n * hour],
    // As many windows as a series may have at once.
    [minute / 120n, 24n * hour, 8n * hour],
  ] as const) {
    assert.equal(sliceNanosOf(resolution, block, 48n * hour), slice, `${resolution} in ${block}`);
  }
  // As few as the limits let there be, also where no number of them is a part of the windows of a block.
  assert.equal(sliceNanosOf(7n * minute, 103n * 7n * minute, 48n * hour), 52n * 7n * minute);
  assert.equal(sliceNanosOf(17n * minute, 43n * 17n * minute, 48n * hour), 22n * 17n * minute);
  // A quarter of the time that rows are kept.
  assert.equal(sliceNanosOf(5n * minute, 12n * hour, 6n * hour), 90n * minute);
  assert.equal(sliceNanosOf(hour, 24n * hour, 12n * hour), 3n * hour);
  assert.equal(sliceNanosOf(hour, 24n * hour, 2n * hour), hour);
});

test('the last slice of a block may be shorter, and none reaches into another block', () => {
  const [step, from] = [7n * minute, 103n * 7n * minute];
  const cut = cutOf(step, from, 48n * hour);
  const startsIn = (startNanos: bigint, endNanos: bigint) =>
    slicesIn(cut, { startNanos, endNanos }).map((slice) => [
      Number(slice.startNanos / step),
      Number(slice.endNanos / step),
    ]);
  assert.deepEqual(startsIn(0n, 2n * from), [
    [0, 52],
    [52, 103],
    [103, 155],
    [155, 206],
  ]);
  assert.deepEqual(startsIn(from - 1n, from + 1n), [
    [52, 103],
    [103, 155],
  ]);
  assert.deepEqual(startsIn(51n * step, 52n * step), [[0, 52]]);
  assert.deepEqual(startsIn(-from, -1n), [
    [-103, -51],
    [-51, 0],
  ]);
});

test('the rows of a slice are those of its windows, half open to the left', () => {
  const slice = { startNanos: 12n * hour, endNanos: 24n * hour };
  assert.deepEqual(rawRangeOf(slice, hour), {
    startNanos: 11n * hour + 1n,
    endNanos: 23n * hour + 1n,
  });
});

test('slices of filesets are all that have a window of their rows', () => {
  const file = (fromHour: bigint, hours: bigint) => ({
    shard: 1,
    blockStartNanos: fromHour * hour,
    endNanos: (fromHour + hours) * hour,
  });
  const cut = { blockNanos: 24n * hour, sliceNanos: 12n * hour };
  const startsOf = (...files: ReturnType<typeof file>[]) =>
    slicesOf(files, hour, cut).map(({ startNanos }) => Number(startNanos / hour));
  // Rows of 11 to 12 o'clock are in the window of 12, the first of the next slice.
  assert.deepEqual(startsOf(file(10n, 2n)), [0, 12]);
  assert.deepEqual(startsOf(file(8n, 2n)), [0]);
  assert.deepEqual(startsOf(file(22n, 8n), file(0n, 2n)), [0, 12, 24]);
});

test('a slice is closed when its blocks are, and may have rows in memory then', () => {
  const raw = {
    blockSizeNanos: 2n * hour,
    bufferPastNanos: 10n * minute,
    retentionNanos: 48n * hour,
    expiredBeforeNanos: 0n,
    inMemory: new Set<bigint>(),
  };
  const range = { startNanos: 11n * hour + 1n, endNanos: 23n * hour + 1n };
  // The row of 23 o'clock is in the block up to 24.
  assert.equal(isClosed(raw, range, 24n * hour + 10n * minute - 1n), false);
  assert.equal(isClosed(raw, range, 24n * hour + 10n * minute), true);
  const inMemory = (block: bigint) =>
    isInMemory({ ...raw, inMemory: new Set([block * hour]) }, range);
  assert.deepEqual([8n, 10n, 16n, 22n, 24n].map(inMemory), [false, true, true, true, false]);
});
