/** What a sample costs in the digest that replicas are compared by. */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { cpuNanosOf } from '../codec/codec_bench.ts';
import { codecSamples } from '../codec/samples_testing.ts';
import { encodeFloatChunk } from '../codec/codec_twin.ts';
import type { ChunkRows } from '../codec/chunk.ts';
import { digestSeries } from './row_digest.ts';

const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const id = new TextEncoder().encode(
  '{__name__="cpu_usage_user",arch="x64",datacenter="eu-central-1a",hostname="host_17",os="Ubuntu16.10"}',
);

function partOf(rows: ChunkRows, first: number, end: number, version: number): Uint8Array {
  return encodeFloatChunk({
    timestampNanos: rows.timestampNanos.slice(first, end),
    values: rows.values.slice(first, end),
    version,
  });
}

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const [seriesCount, runs] = size === 'full' ? [400, 9] : [4, 1];
  const results: BenchResult[] = [];
  for (const rowCount of [12, 120, 720]) {
    const all = Array.from(
      { length: seriesCount },
      (_, seed) =>
        codecSamples(seed, rowCount).find(({ name }) => name === 'two-decimal walk')!.rows,
    );
    const half = rowCount >> 1;
    const shapes: Record<string, (rows: ChunkRows) => Uint8Array[]> = {
      'one chunk': (rows) => [partOf(rows, 0, rowCount, 1)],
      'two that follow each other': (rows) => [
        partOf(rows, 0, half, 1),
        partOf(rows, half, rowCount, 2),
      ],
      'two that overlap': (rows) => [
        partOf(rows, 0, rowCount, 1),
        partOf(rows, half - 1, half + 1, 2),
      ],
    };
    for (const [shape, cut] of Object.entries(shapes)) {
      const series = all.map(cut);
      const nanos = cpuNanosOf(runs, () => {
        for (let i = 0; i < 10; i++) {
          for (const parts of series) digestSeries(id, parts, ...allTimes);
        }
      });
      results.push({
        name: `engine/store: digest of ${rowCount} rows, ${shape}`,
        unit: 'ns/sample',
        value: nanos / (seriesCount * rowCount * 10),
      });
    }
  }
  return Promise.resolve(results);
}
