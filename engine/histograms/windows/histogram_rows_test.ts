/** Rows of histograms out of chunks, and how they change over windows, beside the values taken one by one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { SeededNumbers } from '../../codec/samples_testing.ts';
import { encodeTypedRows } from '../../typed/codec.ts';
import { inColumns } from '../../typed/codec_fuzz.ts';
import {
  histogramOfValue,
  isStaleHistogram,
  staleHistogram,
  valueOfHistogram,
} from '../../typed/histogram.ts';
import { histogramValues } from '../../typed/samples_testing.ts';
import { valueKind } from '../../typed/typed_value.ts';
import { changeByRows, windowNote, HistogramChanges } from './change.ts';
import { counterHint, FloatHistogram } from '../float_histogram.ts';
import { readHistogramRows, type HistogramRows } from './histogram_rows.ts';
import { writeHistogram } from '../histograms_testing.ts';
import { seriesOf, startNanos } from './series_testing.ts';

const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const isHistogram = (value: Uint8Array): boolean => value[0] === valueKind.histogram;

test('rows are the histograms of the values, in few runs', () => {
  const numbers = new SeededNumbers(71);
  for (let round = 0; round < 60; round++) {
    const { values, chunks } = seriesOf(numbers, 1 + numbers.below(20));
    const rows = readHistogramRows(chunks, allTimes);
    const expected = values.filter(isHistogram);
    assert.equal(rows.timestampNanos.length, expected.length);
    const times = values.flatMap((value, i) =>
      isHistogram(value) ? [startNanos + BigInt(i) * 15_000_000_000n] : [],
    );
    assert.deepEqual([...rows.timestampNanos], times);
    assert.deepEqual(
      [...rows.isStale],
      expected.map((value) => Number(isStaleHistogram(value))),
    );
    const good = expected.filter((value) => !isStaleHistogram(value));
    const changes = new HistogramChanges(rows);
    assert.deepEqual(
      Array.from(changes.places, (_, i) => writeHistogram(changes.at(i))),
      withHints(good).map(writeHistogram),
    );
    let last = -1;
    for (const { first, past } of rows.runs) {
      assert.ok(first === Math.max(last, 0) && past > first);
      last = past;
    }
    assert.equal(Math.max(last, 0), expected.length);
    const from = numbers.below(expected.length + 1);
    const past = from + numbers.below(expected.length + 1 - from);
    const timeOf = (i: number): bigint => times[i] ?? 2n ** 62n;
    const some = new HistogramChanges(readHistogramRows(chunks, [timeOf(from), timeOf(past)]));
    const goodBefore = expected.slice(0, from).filter((value) => !isStaleHistogram(value)).length;
    const goodWithin = expected.slice(from, past).filter((value) => !isStaleHistogram(value));
    assert.equal(some.places.length, goodWithin.length);
    assert.deepEqual(
      Array.from(some.places, (_, i) => writeHistogram(some.at(i))),
      withHints(goodWithin).map(writeHistogram),
    );
    for (let i = 1; i < goodWithin.length; i++) {
      assert.equal(some.isReset(i), changes.isReset(goodBefore + i));
      assert.equal(some.isOther(i), !some.at(i).equals(some.at(i - 1)));
    }
  }
});

/** What a counter did since the one before is found when it is read. */
function withHints(values: readonly Uint8Array[]): FloatHistogram[] {
  const all = values.map((value) => FloatHistogram.ofValue(histogramOfValue(value)));
  return all.map((histogram, i) => {
    if (histogram.hint === counterHint.gauge || i === 0) return histogram;
    const copy = histogram.copy();
    const isReset = histogram.isResetAfter(all[i - 1]!);
    copy.hint = isReset ? counterHint.unknown : counterHint.notReset;
    return copy;
  });
}

test('a change over a window is what its rows say one by one', () => {
  const numbers = new SeededNumbers(72);
  const seen = new Set<number>();
  let [fast, all] = [0, 0];
  for (let round = 0; round < 40; round++) {
    const rows = readHistogramRows(seriesOf(numbers, 1 + numbers.below(20)).chunks, allTimes);
    const changes = new HistogramChanges(rows);
    const count = changes.places.length;
    if (count < 2) continue;
    const histograms = Array.from({ length: count }, (_, i) => changes.at(i));
    for (let i = 0; i < 60; i++) {
      const first = numbers.below(count - 1);
      const last = Math.min(count - 1, first + 1 + numbers.below(i % 2 === 0 ? 6 : count));
      const isCounter = numbers.below(3) > 0;
      const found = changes.over(first, last, isCounter);
      const wanted = changeByRows(histograms.slice(first, last + 1), isCounter);
      const label = `round ${round}, rows ${first} to ${last}`;
      assert.equal(found.notes, wanted.notes, label);
      seen.add(found.notes);
      all += 1;
      if (isOfOneRun(rows, changes.places[first]!, changes.places[last]!)) fast += 1;
      if (found.histogram === null || wanted.histogram === null) {
        assert.equal(found.histogram, wanted.histogram, label);
        continue;
      }
      assert.deepEqual(writeHistogram(found.histogram), writeHistogram(wanted.histogram), label);
    }
  }
  assert.ok(fast > all / 8 && fast < (all * 7) / 8, `${fast} of ${all}`);
  for (const note of [
    windowNote.nothing,
    windowNote.mixed,
    windowNote.isGauge,
    windowNote.isNoGauge,
  ]) {
    assert.ok(seen.has(note), `note ${note}`);
  }
});

function isOfOneRun({ runs }: HistogramRows, first: number, last: number): boolean {
  return runs.some((run) => run.first <= first && last < run.past);
}

test('a counter that was reset has gone up by what it had before and has since', () => {
  const numbers = new SeededNumbers(73);
  const part = (): FloatHistogram[] =>
    histogramValues(numbers, 10, { perRow: 50, schema: 3 }).map((value) =>
      FloatHistogram.ofValue(histogramOfValue(value)),
    );
  const [before, after] = [part(), part()];
  const { histogram, notes } = changeByRows([...before, ...after], true);
  assert.equal(notes, windowNote.nothing);
  const wanted = before.at(-1)!.copy();
  wanted.subtract(before[0]!);
  wanted.add(after.at(-1)!);
  assert.equal(histogram!.count, wanted.count);
  assert.deepEqual(histogram!.positive, wanted.compact().positive);
  assert.ok(Math.abs(histogram!.sum - wanted.sum) < 1e-9);
});

/** A chunk of rows with so many buckets each, from an index on. */
function chunkOf(
  rows: readonly {
    readonly schema: number;
    readonly from: number;
    readonly counts: readonly number[];
  }[],
): Uint8Array {
  const values = rows.map(({ schema, from, counts }) =>
    counts.length === 0
      ? staleHistogram
      : valueOfHistogram({
          isFloat: true,
          schema,
          hint: 0,
          zeroThreshold: 0,
          count: 1000,
          zeroCount: 0,
          sumBits: 0n,
          customBounds: new Float64Array(0),
          positive: {
            indexes: Int32Array.from(counts, (_, i) => from + i),
            counts: Float64Array.from(counts),
          },
          negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
        }),
  );
  const timestampNanos = BigInt64Array.from(values, (_, i) => startNanos + BigInt(i));
  const rowVersions = Float64Array.from(timestampNanos, (nanos) => Number(versionAtNanos(nanos)));
  return encodeTypedRows(inColumns({ timestampNanos, values, rowVersions, startNanos: null }));
}

test('a marker that the series ends divides no run, and buckets that move make no large matrix', () => {
  const rows = Array.from({ length: 200 }, (_, i) => ({
    schema: 3,
    from: 1,
    counts: i % 40 === 7 ? [] : [i, i],
  }));
  assert.equal(readHistogramRows([chunkOf(rows)], allTimes).runs.length, 1);
  const moving = Array.from({ length: 4096 }, (_, i) => ({
    schema: 3,
    from: i % 256,
    counts: [1],
  }));
  const { runs } = readHistogramRows([chunkOf(moving)], allTimes);
  const cells = runs.reduce((sum, { matrix }) => sum + matrix.length, 0);
  // Of a row the count and one bucket.
  assert.ok(cells <= 2 * 16 * 2 * 4096 + 4096 * runs.length, `${cells} in ${runs.length} runs`);
});

test('a bucket that is NaN and gone is a reset, as by its definition', () => {
  const rows = readHistogramRows(
    [
      chunkOf([
        { schema: 3, from: 1, counts: [1, Number.NaN] },
        { schema: 3, from: 1, counts: [5] },
        { schema: 3, from: 1, counts: [7] },
      ]),
    ],
    allTimes,
  );
  const changes = new HistogramChanges(rows);
  const histograms = [0, 1, 2].map((place) => changes.at(place));
  const [found, wanted] = [changes.over(0, 2, true), changeByRows(histograms, true)];
  assert.deepEqual(writeHistogram(found.histogram!), writeHistogram(wanted.histogram!));
  assert.equal(found.histogram!.positive.counts[0], 7);
});

test('rows that have no buckets in common do not make a matrix of all of them', () => {
  const count = 512;
  const values = Array.from({ length: count }, (_, row) =>
    valueOfHistogram({
      isFloat: false,
      schema: 8,
      hint: 0,
      zeroThreshold: 0,
      count: 60,
      zeroCount: 0,
      sumBits: 0n,
      customBounds: new Float64Array(0),
      positive: {
        indexes: Int32Array.from({ length: 60 }, (__, i) => row * 60 + i),
        counts: new Float64Array(60).fill(1),
      },
      negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
    }),
  );
  const timestampNanos = BigInt64Array.from(values, (_, i) => startNanos + BigInt(i));
  const rowVersions = Float64Array.from(timestampNanos, (nanos) => Number(versionAtNanos(nanos)));
  const chunk = encodeTypedRows(
    inColumns({ timestampNanos, values, rowVersions, startNanos: null }),
  );
  const { runs } = readHistogramRows([chunk], allTimes);
  const cells = runs.reduce((sum, { matrix }) => sum + matrix.length, 0);
  assert.ok(cells < 40 * 60 * count, `${cells} numbers in ${runs.length} runs`);
});
