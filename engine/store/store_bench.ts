/** What a sample costs on its way into a store, and what a series costs that holds few. */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { histogramValues } from '../typed/samples_testing.ts';
import { cpuNanosOf } from '../codec/codec_bench.ts';
import { resultOf } from './rows.ts';
import { Store, type StoreNamespace, type StoreRows, type StoreTypedRows } from './store.ts';

const second = 1_000_000_000n;
const startMillis = 1_699_999_200_000;
const random = { u32: () => 1, bytes: (n: number) => new Uint8Array(n), fraction: () => 0 };

const namespace: StoreNamespace = {
  blockSizeNanos: 7200n * second,
  bufferPastNanos: 7200n * second,
  bufferFutureNanos: 7200n * second,
  retentionNanos: 172_800n * second,
  coldWrites: false,
};

/** Fixed parts of a store's memory. */
const emptyBytes: number = new Store({ random, memoryBytesMax: 8 << 20 }).memoryBytes;

type Disorder = 'none' | 'swapped' | 'late';

/** Every series once a scrape; values walk. */
class Feed {
  readonly store: Store;
  readonly rows: StoreRows;
  readonly #numbers: SeededNumbers;
  readonly #outcomes: Uint8Array;
  readonly #steps: Float64Array;
  #scrape: number;

  constructor(seriesCount: number, decimals: number, isShuffled: boolean) {
    this.store = new Store({ random, memoryBytesMax: 2 ** 31 });
    this.store.setNamespace(0, namespace);
    this.#numbers = new SeededNumbers(1);
    const slots = Uint32Array.from({ length: seriesCount }, () => this.store.createSeries(0));
    if (isShuffled) {
      for (let i = seriesCount - 1; i > 0; i--) {
        const j = this.#numbers.below(i + 1);
        [slots[i], slots[j]] = [slots[j]!, slots[i]!];
      }
    }
    this.rows = {
      rowCount: seriesCount,
      slots,
      generations: new Uint32Array(seriesCount).fill(1),
      timestamps: new BigInt64Array(seriesCount),
      timeUnitNanos: 1_000_000,
      values: new Float64Array(seriesCount),
    };
    this.#outcomes = new Uint8Array(seriesCount);
    const scale = 10 ** decimals;
    this.#steps = Float64Array.from({ length: 65_536 }, () => {
      const step = this.#numbers.normal();
      return decimals < 0 ? step : Math.round(step * scale) / scale;
    });
    this.#scrape = 0;
  }

  /** Prepares the next scrape: not measured. */
  next(disorder: Disorder): void {
    const { rowCount, values, timestamps } = this.rows;
    const offset = this.#numbers.u32();
    let scrape = this.#scrape++;
    if (disorder === 'swapped') scrape ^= 1;
    if (disorder === 'late' && scrape % 10 === 9) scrape -= 200;
    const millis = BigInt(startMillis + 3_600_000 + scrape * 1000);
    timestamps.fill(millis);
    for (let row = 0; row < rowCount; row++) {
      values[row] = Math.abs(values[row]! + this.#steps[(row * 7 + offset) & 65_535]!);
    }
  }

  write(): void {
    this.#outcomes.fill(0);
    const now = BigInt(startMillis + 5_400_000) * 1_000_000n;
    this.store.check(this.rows, 0, now, this.#outcomes);
    this.store.append(this.rows, this.#scrape * 1000, this.#outcomes);
  }
}

function appendNanos(
  seriesCount: number,
  scrapes: number,
  options: { decimals: number; isShuffled: boolean; disorder: Disorder },
): { nanosPerSample: number; bytesPerSample: number } {
  const feed = new Feed(seriesCount, options.decimals, options.isShuffled);
  const empty = feed.store.memoryBytes;
  let nanos = 0;
  for (let scrape = 0; scrape < scrapes; scrape++) {
    feed.next(options.disorder);
    nanos += cpuNanosOf(1, () => feed.write());
  }
  const samples = seriesCount * scrapes;
  return {
    nanosPerSample: nanos / samples,
    bytesPerSample: (feed.store.memoryBytes - empty) / samples,
  };
}

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const [seriesCount, scrapes] = size === 'full' ? [10_000, 512] : [50, 260];
  const results: BenchResult[] = [];
  const cases = [
    { name: 'in order, integers', decimals: 0, isShuffled: false, disorder: 'none' },
    { name: 'in order, two decimals', decimals: 2, isShuffled: false, disorder: 'none' },
    { name: 'in order, full floats', decimals: -1, isShuffled: false, disorder: 'none' },
    { name: 'shuffled series, integers', decimals: 0, isShuffled: true, disorder: 'none' },
    { name: 'pairs swapped, integers', decimals: 0, isShuffled: false, disorder: 'swapped' },
    { name: 'every tenth late, integers', decimals: 0, isShuffled: false, disorder: 'late' },
  ] as const;
  for (const { name, ...options } of cases) {
    const { nanosPerSample } = appendNanos(seriesCount, scrapes, options);
    results.push({
      name: `engine/store: check, append and seal, ${name}`,
      unit: 'ns/sample',
      value: nanosPerSample,
    });
  }
  results.push(...unordered(size === 'full' ? 32 : 4));
  results.push(unorderedTyped(size === 'full' ? 1000 : 100));
  results.push(...busySeries(seriesCount, size === 'full' ? 1440 : 300));
  results.push(...idleSeries(size === 'full' ? 1_000_000 : 2000));
  return Promise.resolve(results);
}

/** Batches of 512 rows a series over times of which there are rows already, with versions derived from the times. */
function unordered(seriesCount: number): BenchResult[] {
  const orders = {
    'newest first': (row: number) => 511 - row,
    'in any order': (row: number) => (row * 197) % 512,
    'the same rows again': (row: number) => row,
  };
  return Object.entries(orders).map(([name, placeOf]) => {
    const feed = new Feed(seriesCount, 0, false);
    const { store } = feed;
    const { slots, generations, timeUnitNanos } = feed.rows;
    const rowCount = 512 * seriesCount;
    const outcomes = new Uint8Array(rowCount);
    let nanos = 0;
    for (let batch = 0; batch < 20; batch++) {
      const apart = name === 'the same rows again' ? 0 : batch;
      const millisOf = (i: number): number =>
        startMillis + 3_600_000 + placeOf(i >> Math.log2(seriesCount)) * 1000 + apart;
      const rows: StoreRows = {
        rowCount,
        slots: Uint32Array.from({ length: rowCount }, (_, i) => slots[i % seriesCount]!),
        generations: new Uint32Array(rowCount).fill(generations[0]!),
        timestamps: BigInt64Array.from({ length: rowCount }, (_, i) => BigInt(millisOf(i))),
        timeUnitNanos,
        values: Float64Array.from({ length: rowCount }, (_, i) => i % 100),
      };
      outcomes.fill(0);
      nanos += cpuNanosOf(1, () => store.append(rows, startMillis * 1000, outcomes, true));
    }
    return {
      name: `engine/store: append where rows are, ${name}`,
      unit: 'ns/sample',
      value: nanos / (20 * rowCount),
    };
  });
}

/** Histograms over times of which there are some already. */
function unorderedTyped(rowCount: number): BenchResult {
  const numbers = new SeededNumbers(1);
  const store = new Store({ random, memoryBytesMax: 2 ** 31 });
  store.setNamespace(0, namespace);
  store.keepRowVersions(true);
  const slots = new Uint32Array(rowCount).fill(store.createSeries(0));
  let nanos = 0;
  const batches = 6;
  for (let batch = 0; batch < batches; batch++) {
    const values = histogramValues(numbers, rowCount, { perRow: 20, schema: 1 });
    const newest = startMillis + 3_600_000 + batch;
    let end = 0;
    const rows: StoreTypedRows = {
      rowCount,
      slots,
      generations: new Uint32Array(rowCount).fill(1),
      timestamps: BigInt64Array.from(slots, (_, row) => BigInt(newest - 1000 * row)),
      timeUnitNanos: 1_000_000,
      startNanos: new BigInt64Array(rowCount),
      valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
      valueBytes: new Uint8Array(Buffer.concat(values)),
    };
    const outcomes = new Uint8Array(rowCount);
    nanos += cpuNanosOf(1, () => store.appendTyped(rows, startMillis * 1000, outcomes, true));
  }
  return {
    name: 'engine/store: append of histograms where some are, newest first',
    unit: 'ns/row',
    value: nanos / (batches * rowCount),
  };
}

/** What series cost that have been written to for a block, and their flush. */
function busySeries(seriesCount: number, scrapes: number): BenchResult[] {
  const feed = new Feed(seriesCount, 0, false);
  for (let scrape = 0; scrape < scrapes; scrape++) {
    feed.next('none');
    feed.write();
  }
  const { store } = feed;
  const bytes = (store.memoryBytes - emptyBytes) / seriesCount;
  const { blockStartNanos, rowCount } = resultOf(store.sumsInSteps(0, 65_536))[0]!;
  const slots = store.slotsOfBlock(0, blockStartNanos);
  const read = readOf(store, slots, `${seriesCount} series of ${scrapes} rows`);
  let flushed = 0;
  const nanos = cpuNanosOf(1, () => {
    for (let at = 0; at < slots.length; at += 1000) {
      flushed += store.flushBlock(slots.subarray(at, at + 1000), blockStartNanos).chunkData.length;
    }
    store.dropFlushed(slots, blockStartNanos);
  });
  const label = `engine/store: ${seriesCount} series of ${scrapes} rows`;
  return [
    read,
    { name: label, unit: 'bytes/series', value: bytes },
    { name: `${label}, flushed`, unit: 'bytes/sample', value: flushed / rowCount },
    { name: `${label}, flush`, unit: 'ns/sample', value: nanos / rowCount },
  ];
}

function readOf(store: Store, slots: Uint32Array, what: string): BenchResult {
  const nanos = cpuNanosOf(3, () => void store.read(slots, 0n, 2n ** 62n));
  return {
    name: `engine/store: ${what}, read by the store`,
    unit: 'ns/series',
    value: nanos / slots.length,
  };
}

/** What many series cost that have few rows, and walks over all of them. */
function idleSeries(seriesCount: number): BenchResult[] {
  const feed = new Feed(seriesCount, 0, true);
  for (let scrape = 0; scrape < 20; scrape++) {
    feed.next('none');
    feed.write();
  }
  const { store } = feed;
  const bytes = (store.memoryBytes - emptyBytes) / seriesCount;
  let slots: Uint32Array = new Uint32Array(0);
  const blocksNanos = cpuNanosOf(1, () => {
    for (const block of resultOf(store.sumsInSteps(0, 65_536))) {
      slots = store.slotsOfBlock(0, block.blockStartNanos);
    }
  });
  const [block] = store.blocks(0);
  store.flushBlock(slots, block!.blockStartNanos);
  store.dropFlushed(slots, block!.blockStartNanos);
  const now = BigInt(startMillis) * 1_000_000n;
  store.expire(0, now);
  const expireNanos = cpuNanosOf(3, () => void store.expire(0, now));
  const label = `engine/store: ${seriesCount} series of 20 rows`;
  return [
    { name: label, unit: 'bytes/series', value: bytes },
    {
      name: `${label}, sumsInSteps() and slotsOfBlock()`,
      unit: 'ns/series',
      value: blocksNanos / seriesCount,
    },
    { name: `${label}, flushed, expire()`, unit: 'ns/series', value: expireNanos / seriesCount },
  ];
}
