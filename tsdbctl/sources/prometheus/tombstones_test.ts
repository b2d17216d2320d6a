/** Blocks of which something is deleted while they are taken over, or between two calls. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, TestCoordinator } from '#coordinator/coordinator_testing.ts';
import {
  clock,
  options,
  signal,
  stored,
  targetOf,
  TestJournal,
} from '../../import/import_testing.ts';
import { nothingDone } from '../../import/journal.ts';
import { runImport } from '../../import/run.ts';
import { blockFiles, type BlockToWrite, diskOf, filesIn, floatChunk } from './block_testing.ts';
import { prometheusSource } from './prometheus_source.ts';

const ulid = '01HZZZZZZZZZZZZZZZZZZZZZZ0';
const millis = nowSeconds() * 1000;
const names = ['m0', 'm1', 'm2', 'm3', 'm4', 'm5'];

/** A folder with a block of a row of each name, of which some can be deleted. */
function folderOf() {
  const series = names.map((value) => ({
    tags: [{ name: '__name__', value }],
    chunks: [floatChunk([{ millis, bits: 0n }])],
  }));
  const filesWithout = (tombstones: NonNullable<BlockToWrite['tombstones']>) =>
    filesIn({ [`data/${ulid}`]: blockFiles({ ulid, series, tombstones, sources: ['x', 'y'] }) });
  const files = filesWithout([]);
  const deleteFirst = (count: number): void => {
    const stones = names
      .slice(0, count)
      .map((_, place) => [place, BigInt(millis), BigInt(millis)] as const);
    for (const [path, bytes] of filesWithout(stones)) files.set(path, bytes);
  };
  return { source: prometheusSource('data', diskOf(files)), deleteFirst };
}

const storedIn = (test: TestCoordinator) => [...stored(test).keys()].toSorted();

test('what is deleted between two calls keeps no other series out', async () => {
  await using test = await TestCoordinator.openReady();
  const { source, deleteFirst } = folderOf();
  const journal = new TestJournal();
  const steps = { source, target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  // As a call leaves it that ended when three of them were written, and had not come to the journal since.
  const waiting = new Map((await source.parts()).map(({ name, contents }) => [name, contents]));
  journal.progress = { ...nothingDone, waiting, part: ulid, series: 3, rows: 3 };
  deleteFirst(2);
  const outcome = await runImport(steps, options);
  assert.deepEqual(storedIn(test), names.slice(2));
  assert.deepEqual([outcome.replaced, outcome.lost], [[ulid], []]);
  // It was whole, and is taken once more.
  deleteFirst(3);
  const again = await runImport(steps, options);
  assert.deepEqual([again.rows, again.replaced, again.lost], [7, [], []]);
  assert.deepEqual(storedIn(test), names.slice(2), 'what was deleted since stays');
  assert.equal((await runImport(steps, options)).rows, 7, 'nothing is deleted meanwhile');
});

test('a block of which something is deleted after it was listed is listed again', async () => {
  await using test = await TestCoordinator.openReady();
  const { source, deleteFirst } = folderOf();
  const [part] = await source.parts();
  assert.equal(part!.name, ulid);
  deleteFirst(1);
  await assert.rejects(Array.fromAsync(part!.series(0)), {
    code: 'NOT_FOUND',
    message: `cannot read data/${ulid}: rows of it were deleted meanwhile`,
  });
  let lists = 0;
  const late = {
    notes: [],
    unfinished: 0,
    parts: async () => {
      const parts = await source.parts();
      lists += 1;
      if (lists === 1) deleteFirst(2);
      return parts;
    },
  };
  const journal = new TestJournal();
  const steps = { target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  const outcome = await runImport({ ...steps, source: late }, options);
  assert.deepEqual([storedIn(test), lists], [names.slice(2), 2]);
  assert.deepEqual(outcome.lost, []);
});

test('a block that did not say what it is is not lost when it does, with rows that were deleted', async () => {
  await using test = await TestCoordinator.openReady();
  const { source, deleteFirst } = folderOf();
  const journal = new TestJournal();
  const steps = { source, target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  journal.progress = { ...nothingDone, waiting: new Map([[ulid, [ulid]]]) };
  deleteFirst(1);
  const outcome = await runImport(steps, options);
  assert.deepEqual([outcome.lost, storedIn(test)], [[], names.slice(1)]);
});
