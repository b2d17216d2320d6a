import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ComparedBlock, differed, dueBlocks } from './due_blocks.ts';

const file = { volume: 1 };
const equalAt = (atMillis: number): ComparedBlock => ({
  file,
  atMillis,
  isEqual: true,
  differences: 0,
  notBeforeMillis: 0,
});
const newestFirst = [5n, 4n, 3n, 2n, 1n];
const fileOf = () => file;

test('a round compares blocks that are new or were changed, and the one that was compared longest ago', () => {
  const compared = new Map([
    [4n, equalAt(400)],
    [3n, { ...equalAt(300), file: null }],
    [2n, equalAt(100)],
    [1n, equalAt(200)],
  ]);
  const options = { strategy: 'default', nowMillis: 1000, fileOf } as const;
  assert.deepEqual(dueBlocks(newestFirst, compared, options), [5n, 3n, 2n]);
});

test('a full sweep compares all but those that rest', () => {
  const rests = differed(undefined, { file, atMillis: 900, hasChanged: false }, 500);
  const compared = new Map([
    [4n, equalAt(400)],
    [3n, rests],
  ]);
  const options = { strategy: 'full_sweep', fileOf } as const;
  assert.deepEqual(dueBlocks(newestFirst, compared, { ...options, nowMillis: 1000 }), [
    5n,
    4n,
    2n,
    1n,
  ]);
  assert.deepEqual(dueBlocks(newestFirst, compared, { ...options, nowMillis: 1400 }), newestFirst);
});

test('what differs again and again is compared less and less often, ten minutes apart at most', () => {
  const restsOf = (hasChanged: boolean): number[] => {
    const rests: number[] = [];
    let known: ComparedBlock | undefined;
    for (let i = 0; i < 12; i += 1) {
      known = differed(known, { file, atMillis: 1000, hasChanged }, 2000);
      rests.push(known.notBeforeMillis - 1000);
    }
    return rests;
  };
  assert.deepEqual(restsOf(false).slice(0, 4), [2000, 4000, 8000, 16_000]);
  assert.equal(restsOf(false).at(-1), 600_000);
  // What was mended is looked at once more at once, and not again and again.
  assert.deepEqual(restsOf(true).slice(0, 4), [0, 4000, 8000, 16_000]);
});
