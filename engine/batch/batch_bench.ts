/** Batches of 2000 rows as a session packs them and a node reads them. */
import { type BenchResult, type BenchSize } from '#test/benchmark.ts';
import { BatchBuilder, compactBatch, readBatch } from './batch.ts';

const rowCount = 2000;

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const rounds = size === 'full' ? 2000 : 20;
  const runs = size === 'full' ? 7 : 1;
  const slots = Uint32Array.from({ length: rowCount }, (_, i) => i + 1000);
  const generations = new Uint32Array(rowCount).fill(1);
  const timestamps = new BigInt64Array(rowCount).fill(1_700_000_000_000n);
  const values = Float64Array.from({ length: rowCount }, (_, i) => (i * 37) % 101);
  const builder = new BatchBuilder();
  const build = (): Uint8Array => {
    builder.begin(1);
    builder.setRows(rowCount, slots, generations, timestamps, 1_000_000, values);
    return builder.finish();
  };
  const bytes = build();
  const compact = compactBatch(bytes);
  const measure = (name: string, task: () => unknown): BenchResult => {
    const seconds = Array.from({ length: runs }, () => {
      const before = process.cpuUsage();
      for (let round = 0; round < rounds; round++) task();
      const { user, system } = process.cpuUsage(before);
      return (user + system) / (rounds * rowCount);
    }).sort((a, b) => a - b);
    const value = seconds[seconds.length >> 1]!;
    return { name: `engine/batch: ${name}`, unit: 'CPU s/M samples', value };
  };
  return Promise.resolve([
    measure('build', build),
    measure('read', () => readBatch(bytes)),
    measure('compact', () => compactBatch(bytes)),
    measure('read compact', () => readBatch(compact)),
    { name: 'engine/batch: raw', unit: 'bytes/sample', value: bytes.length / rowCount },
    { name: 'engine/batch: compact', unit: 'bytes/sample', value: compact.length / rowCount },
  ]);
}
