/** What a typed row costs in chunks: bytes, and CPU time to encode and to decode. */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { cpuNanosOf } from '../codec/codec_bench.ts';
import { decodeTypedRows, encodeTypedRows } from './codec.ts';
import { inColumns } from './codec_fuzz.ts';
import { TypedColumnsReader } from './columns.ts';
import { typedSample, typedSampleNames } from './samples_testing.ts';
import { TypedValueReader } from './typed_value.ts';
import { fieldsOf } from './columns_twin.ts';

const rowCount = 120;
const reader = new TypedColumnsReader();

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const [seriesCount, runs] = size === 'full' ? [40, 9] : [2, 1];
  const results: BenchResult[] = [];
  for (const name of typedSampleNames) {
    const samples = Array.from({ length: seriesCount }, (_, seed) =>
      typedSample(seed, rowCount, name),
    );
    const all = samples.map(({ rows }) => inColumns(rows));
    const chunks = all.map(encodeTypedRows);
    const rows = seriesCount * rowCount;
    const encodeNanos = cpuNanosOf(runs, () => {
      for (let i = 0; i < 10; i++) all.forEach(encodeTypedRows);
    });
    const decodeNanos = cpuNanosOf(runs, () => {
      for (let i = 0; i < 10; i++) chunks.forEach(decodeTypedRows);
    });
    const columnsNanos = cpuNanosOf(runs, () => {
      for (let i = 0; i < 10; i++) for (const chunk of chunks) reader.read(chunk, null);
    });
    const fields = samples
      .flatMap(({ rows: { values } }) => values)
      .reduce((sum, value) => sum + fieldsOf(new TypedValueReader().open(value), value).length, 0);
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    const label = `engine/typed: ${name}, ${rowCount} rows`;
    results.push(
      { name: label, unit: 'bytes/row', value: bytes / rows },
      { name: `${label}, fields`, unit: 'fields/row', value: fields / rows },
      { name: `${label}, encode`, unit: 'ns/row', value: encodeNanos / rows / 10 },
      { name: `${label}, decode`, unit: 'ns/row', value: decodeNanos / rows / 10 },
      { name: `${label}, columns`, unit: 'ns/row', value: columnsNanos / rows / 10 },
    );
  }
  return Promise.resolve(results);
}
