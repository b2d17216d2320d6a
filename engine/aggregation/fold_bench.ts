/** Rows of twelve hours to windows of five minutes, and a column of these, in CPU time and bytes. */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { cpuNanosOf } from '../codec/codec_bench.ts';
import { codecSamples } from '../codec/samples_testing.ts';
import { apart } from '../store/typed_chunks.ts';
import { floatsOfWindows, type ReadColumn, type ValueColumn } from './floats.ts';
import { WindowFold } from './fold.ts';

const rowCount = 2_880;
const resolutionNanos = 300_000_000_000n;
const names = ['two-decimal walk', 'counter', 'float walk', 'integer walk, jittered'];

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const [runs, rounds] = size === 'full' ? [9, 200] : [1, 2];
  const fold = new WindowFold();
  const results: BenchResult[] = [];
  for (const { name, rows } of codecSamples(1, rowCount)) {
    if (!names.includes(name)) continue;
    const { timestampNanos, values } = rows;
    const folded = (): number =>
      fold.begin(resolutionNanos, rowCount).add(timestampNanos, values).end();
    const windows = folded();
    const label = `engine/aggregation: ${name}`;
    const nanosOf = (work: () => void): number =>
      cpuNanosOf(runs, () => {
        for (let i = 0; i < rounds; i++) work();
      }) / rounds;
    const { typed } = apart([fold.chunks()]);
    const readNanosOf = (column: ReadColumn | ValueColumn): number =>
      nanosOf(() => void floatsOfWindows(typed, column, resolutionNanos)) / windows;
    results.push(
      { name: `${label}, fold`, unit: 'ns/row', value: nanosOf(folded) / rowCount },
      {
        name: `${label}, windows to a chunk`,
        unit: 'ns/window',
        value: nanosOf(() => void fold.chunks()) / windows,
      },
      { name: label, unit: 'bytes/window', value: fold.chunks().length / windows },
      { name: `${label}, read last`, unit: 'ns/window', value: readNanosOf('last') },
      {
        name: `${label}, read max and where the series ends`,
        unit: 'ns/window',
        value: readNanosOf({ value: 'max', ends: true }),
      },
    );
  }
  return Promise.resolve(results);
}
