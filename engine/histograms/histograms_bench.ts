/** What `histogram_quantile(0.99, sum(rate(…)))` does with each row and each step, in CPU time. */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { cpuNanosOf } from '../codec/codec_bench.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { encodeTypedRows } from '../typed/codec.ts';
import { inColumns } from '../typed/codec_fuzz.ts';
import { histogramValues } from '../typed/samples_testing.ts';
import { changeByRows, HistogramChanges } from './windows/change.ts';
import { quantileOf } from './estimates.ts';
import { ColumnSums } from './windows/column_sums.ts';
import { blockNumbersMax, type HistogramBlock } from './windows/histogram_block.ts';
import { readHistogramRows } from './windows/histogram_rows.ts';
import { HistogramSum } from './histogram_sum.ts';

const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const chunkRows = 120;
const windowRows = 20;

/** Request durations of some 50 buckets, every 15 seconds. */
function chunksOf(rowCount: number): Uint8Array[] {
  const values = histogramValues(new SeededNumbers(3), rowCount, { perRow: 100, schema: 3 });
  const chunks: Uint8Array[] = [];
  for (let first = 0; first < rowCount; first += chunkRows) {
    const some = values.slice(first, first + chunkRows);
    const timestampNanos = BigInt64Array.from(
      some,
      (_, i) => 1_700_000_000_000_000_000n + BigInt(first + i) * 15_000_000_000n,
    );
    const rowVersions = Float64Array.from(
      timestampNanos,
      (nanos) => Number(versionAtNanos(nanos)) + 640,
    );
    chunks.push(
      encodeTypedRows(inColumns({ timestampNanos, values: some, rowVersions, startNanos: null })),
    );
  }
  return chunks;
}

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const [rowCount, runs] = size === 'full' ? [1440, 9] : [2 * chunkRows, 1];
  const chunks = chunksOf(rowCount);
  const rows = readHistogramRows(chunks, allTimes);
  const changes = new HistogramChanges(rows);
  const windows = Array.from({ length: rowCount - windowRows }, (_, first) => first);
  const rates = windows.map((first) => changes.over(first, first + windowRows, true).histogram!);
  const histograms = Array.from(changes.places, (_, place) => changes.at(place));
  const places = Int32Array.from(windows);
  const allWindows = {
    steps: places,
    firsts: places,
    lasts: places.map((first) => first + windowRows),
  };
  const room = new Float64Array(blockNumbersMax);
  const blockOf = (of: HistogramChanges): HistogramBlock =>
    of.blockOver(
      allWindows,
      true,
      () => 1,
      (length) => room.subarray(0, length),
    )!.block;
  const block = blockOf(changes);
  const sums = new ColumnSums(block, windows.length);
  const figure = (name: string, count: number, work: () => void): BenchResult => ({
    name: `engine/histograms: ${name}`,
    unit: 'ns',
    value: cpuNanosOf(runs, work) / count,
  });
  return Promise.resolve([
    figure('read a row', rowCount, () => readHistogramRows(chunks, allTimes)),
    figure(`change over a window of ${windowRows} rows`, windows.length, () => {
      const each = new HistogramChanges(rows);
      for (const first of windows) each.over(first, first + windowRows, true);
    }),
    figure('the same of all windows at once', windows.length, () => {
      blockOf(new HistogramChanges(rows));
    }),
    figure(`the same by rows`, windows.length, () => {
      for (const first of windows) {
        changeByRows(histograms.slice(first, first + windowRows + 1), true);
      }
    }),
    figure('add to a sum', rates.length - 1, () => {
      const sum = new HistogramSum(rates[0]!);
      for (const rate of rates.slice(1)) sum.add(rate);
    }),
    figure('add to sums by columns', block.steps.length, () => {
      sums.add(block);
    }),
    figure('quantile', rates.length, () => {
      for (const rate of rates) quantileOf(0.99, rate);
    }),
  ]);
}
