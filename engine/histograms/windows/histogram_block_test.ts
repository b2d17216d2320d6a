/** Changes of many windows at once, and sums of them, beside the same one by one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { SeededNumbers } from '../../codec/samples_testing.ts';
import { encodeTypedRows } from '../../typed/codec.ts';
import { inColumns } from '../../typed/codec_fuzz.ts';
import { type Histogram, valueOfHistogram } from '../../typed/histogram.ts';
import { ColumnSums } from './column_sums.ts';
import type { FloatHistogram } from '../float_histogram.ts';
import { HistogramSum } from '../histogram_sum.ts';
import { writeHistogram } from '../histograms_testing.ts';
import { type BlockOfChanges, type ChangeWindows, HistogramChanges } from './change.ts';
import { histogramsOf } from './histogram_block.ts';
import { readHistogramRows } from './histogram_rows.ts';
import { SeriesReading } from './series_rows.ts';
import { seriesOf } from './series_testing.ts';

const emptyHistogram: Histogram = {
  isFloat: false,
  schema: 0,
  hint: 0,
  zeroThreshold: 0.001,
  count: 0,
  zeroCount: 0,
  sumBits: 0n,
  customBounds: new Float64Array(0),
  positive: { indexes: new Int32Array(0), counts: new Float64Array(0) },
  negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
};
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const room = (length: number): Float64Array => new Float64Array(length).fill(Number.NaN);

/** Windows of a few rows, at some steps. */
function windowsOf(numbers: SeededNumbers, first: number, past: number): ChangeWindows {
  const list: { step: number; first: number; last: number }[] = [];
  for (let step = 0, from = first; from + 1 < past; step += 1 + numbers.below(2)) {
    const last = Math.min(past - 1, from + 1 + numbers.below(5));
    const before = list.at(-1)?.last ?? 0;
    list.push({ step, first: from, last: Math.max(before, last) });
    from += numbers.below(3);
  }
  return {
    steps: Int32Array.from(list, ({ step }) => step),
    firsts: Int32Array.from(list, (each) => each.first),
    lasts: Int32Array.from(list, ({ last }) => last),
  };
}

function listOf({ block }: BlockOfChanges): Map<number, FloatHistogram> {
  const found = new Map<number, FloatHistogram>();
  histogramsOf(block, (step, histogram) => found.set(step, histogram));
  return found;
}

test('changes over many windows at once are those of each window', () => {
  const numbers = new SeededNumbers(81);
  let [blocks, withResets, withNotes] = [0, 0, 0];
  for (let round = 0; round < 300; round++) {
    const { chunks } = seriesOf(numbers, 1 + numbers.below(8));
    const isOfStats = numbers.below(4) === 0;
    const changes = new HistogramChanges(readHistogramRows(chunks, allTimes), isOfStats);
    if (changes.count < 2) continue;
    const first = numbers.below(changes.count - 1);
    const past = Math.min(changes.count, first + 2 + numbers.below(20));
    const windows = windowsOf(numbers, first, past);
    const isCounter = numbers.below(3) > 0;
    const factorOf = (count: number): number => 1 / (3 + Math.abs(count));
    const outcome = changes.blockOver(windows, isCounter, (_, change) => factorOf(change), room);
    if (outcome === null) continue;
    blocks += 1;
    const found = listOf(outcome);
    assert.equal(found.size, windows.steps.length);
    let notes = 0;
    for (const [i, step] of windows.steps.entries()) {
      const wanted = changes.over(windows.firsts[i]!, windows.lasts[i]!, isCounter, factorOf);
      notes |= wanted.notes;
      assert.deepEqual(writeHistogram(found.get(step)!), writeHistogram(wanted.histogram!));
      for (let at = windows.firsts[i]! + 1; at <= windows.lasts[i]!; at++) {
        if (isCounter && changes.isReset(at)) withResets += 1;
      }
    }
    assert.equal(outcome.notes, notes);
    if (notes !== 0) withNotes += 1;
  }
  assert.ok(
    blocks > 100 && withResets > 50 && withNotes > 10,
    `${blocks} ${withResets} ${withNotes}`,
  );
});

test('a factor that is not finite, or several forms in the windows, are left to who makes them one by one', () => {
  const numbers = new SeededNumbers(82);
  let rows = readHistogramRows(seriesOf(numbers, 30).chunks, allTimes);
  while (rows.runs.length < 2 || rows.runs[0]!.past < 3) {
    rows = readHistogramRows(seriesOf(numbers, 30).chunks, allTimes);
  }
  const changes = new HistogramChanges(rows);
  const ends = { steps: Int32Array.of(0), firsts: Int32Array.of(0) };
  const over = (last: number, factor: number): BlockOfChanges | null =>
    changes.blockOver({ ...ends, lasts: Int32Array.of(last) }, false, () => factor, room);
  assert.ok(rows.runs.length > 1 && rows.runs[0]!.past > 1);
  assert.notEqual(over(1, 1), null);
  assert.equal(over(1, Number.POSITIVE_INFINITY), null);
  assert.equal(over(changes.count - 1, 1), null);
});

test('windows that look at very many rows are left to who gives way between them', () => {
  const rowCount = 2000;
  const values = Array.from({ length: rowCount }, (_, i) =>
    valueOfHistogram({ ...emptyHistogram, count: rowCount - i, zeroCount: rowCount - i }),
  );
  const timestampNanos = BigInt64Array.from(values, (_, i) => BigInt(i));
  const rowVersions = Float64Array.from(timestampNanos, (nanos) => Number(versionAtNanos(nanos)));
  const chunk = encodeTypedRows(
    inColumns({ timestampNanos, values, rowVersions, startNanos: null }),
  );
  const changes = new HistogramChanges(readHistogramRows([chunk], allTimes));
  const over = (count: number): BlockOfChanges | null => {
    const steps = Int32Array.from({ length: count }, (_, i) => i);
    const windows = { steps, firsts: steps.map(() => 0), lasts: steps.map(() => rowCount - 1) };
    return changes.blockOver(windows, true, () => 1, room);
  };
  // Each row is a reset, so that all of them are added up for each window.
  assert.equal(listOf(over(10)!).get(9)!.count, (rowCount * (rowCount - 1)) / 2);
  assert.equal(over(100), null);
});

test('sums of blocks are those of their histograms, to the last bit', () => {
  const numbers = new SeededNumbers(83);
  const stepCount = 24;
  let [added, refused] = [0, 0];
  for (let round = 0; round < 40; round++) {
    let sums: ColumnSums | null = null;
    const wanted = new Map<number, HistogramSum>();
    for (let series = 0; series < 12; series++) {
      const changes = new HistogramChanges(
        readHistogramRows(seriesOf(numbers, 2).chunks, allTimes),
      );
      const windows = windowsOf(numbers, 0, Math.min(changes.count, 12));
      const scale = 10 ** (numbers.below(20) - 10);
      const outcome = changes.blockOver(windows, true, () => scale, room);
      if (outcome === null) continue;
      sums ??= new ColumnSums(outcome.block, stepCount);
      if (!sums.add(outcome.block)) {
        refused += 1;
        continue;
      }
      added += 1;
      for (const [step, histogram] of listOf(outcome)) {
        const sum = wanted.get(step);
        if (sum === undefined) wanted.set(step, new HistogramSum(histogram));
        else sum.add(histogram);
      }
    }
    if (sums === null) continue;
    for (let step = 0; step < stepCount; step++) {
      const found: HistogramSum | null = sums.sumAt(step);
      const expected = wanted.get(step);
      assert.equal(found === null, expected === undefined);
      if (found === null) continue;
      assert.deepEqual(
        writeHistogram(found.result().compact()),
        writeHistogram(expected!.result().compact()),
      );
      // It goes on as one that was added up one by one.
      const more: FloatHistogram = expected!.result();
      assert.equal(found.add(more), expected!.add(more));
      assert.deepEqual(
        writeHistogram(found.result().compact()),
        writeHistogram(expected!.result().compact()),
      );
    }
  }
  assert.ok(added > 100 && refused > 20, `${added} added, ${refused} refused`);
});

test('rows are the same in room that others have used', () => {
  const numbers = new SeededNumbers(84);
  const series = Array.from({ length: 30 }, () => seriesOf(numbers, 1 + numbers.below(30)).chunks);
  const textsOf = (chunks: readonly Uint8Array[]): string[] => {
    using reading = new SeriesReading(Buffer.concat(chunks), allTimes);
    while (reading.next() !== null);
    const { histograms } = reading.rows();
    return Array.from({ length: histograms.count }, (_, place) =>
      JSON.stringify(writeHistogram(histograms.at(place))),
    );
  };
  const first = series.map(textsOf);
  assert.deepEqual(series.toReversed().map(textsOf).toReversed(), first);
  for (const [i, chunks] of series.entries()) {
    const changes = new HistogramChanges(readHistogramRows(chunks, allTimes));
    assert.deepEqual(
      Array.from({ length: changes.count }, (_, place) =>
        JSON.stringify(writeHistogram(changes.at(place))),
      ),
      first[i],
    );
  }
});
