/** What a sample costs in chunks: bytes, and CPU time to encode and to decode. */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { encodeRawChunk, type ChunkRows } from './chunk.ts';
import { gorillaBytes } from './gorilla_testing.ts';
import { codecSamples } from './samples_testing.ts';
import { Decoder } from '../store/decoder.ts';
import { emptyBundle } from './series_bundle.ts';
import { Store } from '../store/store.ts';

const kinds = [
  'integer walk',
  'two-decimal walk',
  'float walk',
  'constant',
  'counter',
  'integer walk, jittered',
  'float32 walk',
  'seven-digit walk',
  'four-digit latencies',
  'sum of seconds',
  'byte counter',
];

/** Median of the CPU nanoseconds that a call takes. */
export function cpuNanosOf(runs: number, call: () => void): number {
  const times: number[] = [];
  for (let run = 0; run < runs; run++) {
    const before = process.cpuUsage();
    call();
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) * 1000);
  }
  return times.sort((a, b) => a - b)[runs >> 1]!;
}

/** A store with one series for each of the rows, all in one block. */
function storeOf(series: readonly ChunkRows[]): { store: Store; slots: Uint32Array } {
  const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };
  const store = new Store({ random, memoryBytesMax: 512 << 20 });
  store.setNamespace(0, {
    blockSizeNanos: 2n ** 62n - 1n,
    bufferPastNanos: 0n,
    bufferFutureNanos: 0n,
    retentionNanos: 0n,
    coldWrites: false,
  });
  const slots = Uint32Array.from(series, (rows) => {
    const slot = store.createSeries(0);
    store.insertChunks(slot, encodeRawChunk(rows));
    return slot;
  });
  return { store, slots };
}

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const [seriesCount, runs] = size === 'full' ? [400, 9] : [4, 1];
  const results: BenchResult[] = [];
  const decoder = new Decoder();
  for (const [kind, name] of kinds.entries()) {
    for (const rowCount of kind === 0 ? [128, 480, 1440] : [480]) {
      const all = Array.from(
        { length: seriesCount },
        (_, seed) => codecSamples(seed, rowCount).find((sample) => sample.name === name)!.rows,
      );
      const { store, slots } = storeOf(all);
      const samples = seriesCount * rowCount;
      const [start] = store.blockStarts(slots[0]!);
      let block = store.readBlock(slots, start!);
      const encodeNanos = cpuNanosOf(runs, () => {
        for (let i = 0; i < 10; i++) block = store.readBlock(slots, start!);
      });
      const bundle = { ...emptyBundle, seriesCount, ...block };
      const decodeNanos = cpuNanosOf(runs, () => {
        for (let i = 0; i < 10; i++) {
          for (let index = 0; index < seriesCount; index++) {
            decoder.decode(bundle, index, -(2n ** 63n), 2n ** 63n - 1n);
          }
        }
      });
      const label = `engine/codec: ${name}, ${rowCount} rows`;
      const gorilla = all.reduce((sum, rows) => sum + gorillaBytes(rows), 0);
      results.push(
        { name: label, unit: 'bytes/sample', value: block.chunkData.length / samples },
        { name: `${label}, by Gorilla`, unit: 'bytes/sample', value: gorilla / samples },
        {
          name: `${label}, merge and encode`,
          unit: 'ns/sample',
          value: encodeNanos / samples / 10,
        },
        { name: `${label}, decode`, unit: 'ns/sample', value: decodeNanos / samples / 10 },
      );
    }
  }
  return Promise.resolve(results);
}
