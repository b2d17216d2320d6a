/** Rows as monitoring makes them, by seed: for tests, fuzz and benchmarks of codec and store. */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { ChunkRows } from './chunk.ts';

/** A small generator of numbers that is the same everywhere; not for anything secret. */
export class SeededNumbers {
  #state: number;

  constructor(seed: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995) >>> 0;
  }

  u32(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let x = this.#state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return (x ^ (x >>> 14)) >>> 0;
  }

  below(limit: number): number {
    return this.u32() % limit;
  }

  fraction(): number {
    return this.u32() / 2 ** 32;
  }

  shuffle(items: unknown[]): void {
    for (let i = items.length - 1; i > 0; i--) {
      const other = this.below(i + 1);
      [items[i], items[other]] = [items[other], items[i]];
    }
  }

  /** Standard normal. */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log((this.u32() + 1) / (2 ** 32 + 1)));
    return radius * Math.cos(2 * Math.PI * this.fraction());
  }
}

export interface CodecSample {
  readonly name: string;
  readonly rows: ChunkRows;
}

const startNanos = 1_700_000_400_000_000_000n;
const staleMarkerBits = 0x7ff0000000000002n;

type Times = (row: number, numbers: SeededNumbers) => bigint;
const everyFifteenSeconds: Times = (row) => startNanos + BigInt(row) * 15_000_000_000n;
const jitteredMillis: Times = (row, numbers) =>
  startNanos + BigInt(row * 15_000 + Math.round(numbers.normal() * 2.5)) * 1_000_000n;
const jitteredNanos: Times = (row, numbers) =>
  startNanos + BigInt(row) * 10_000_000_000n + BigInt(numbers.below(1_000_000));
const withGaps: Times = (row) =>
  startNanos + BigInt(row * 15_000 + (row > 20 ? 3_600_000 : 0)) * 1_000_000n;

/** A walk inside 0 to 100, as benchmarks of CPU metrics have it, rounded by the caller. */
function walk(numbers: SeededNumbers, rowCount: number): number[] {
  let value = numbers.fraction() * 100;
  return Array.from({ length: rowCount }, () => {
    value = Math.min(100, Math.max(0, value + numbers.normal()));
    return value;
  });
}

type Values = (numbers: SeededNumbers, rowCount: number) => ArrayLike<number>;

function counter(numbers: SeededNumbers, rowCount: number, isReset: boolean): number[] {
  let value = numbers.below(100_000);
  return Array.from({ length: rowCount }, (_, row) => {
    value = isReset && row === rowCount >> 1 ? 0 : value + 90 + numbers.below(20);
    return value;
  });
}

const shapes: readonly [name: string, times: Times, values: Values][] = [
  ['integer walk', everyFifteenSeconds, (n, rows) => walk(n, rows).map(Math.round)],
  [
    'two-decimal walk',
    everyFifteenSeconds,
    (n, rows) => walk(n, rows).map((value) => Math.round(value * 100) / 100),
  ],
  ['float walk', everyFifteenSeconds, walk],
  ['float32 walk', everyFifteenSeconds, (n, rows) => walk(n, rows).map(Math.fround)],
  ['constant', everyFifteenSeconds, (n, rows) => new Float64Array(rows).fill(n.fraction())],
  ['integer walk, jittered', jitteredMillis, (n, rows) => walk(n, rows).map(Math.round)],
  ['integer walk, nanoseconds', jitteredNanos, (n, rows) => walk(n, rows).map(Math.round)],
  ['counter', everyFifteenSeconds, (n, rows) => counter(n, rows, false)],
  ['counter with a reset', withGaps, (n, rows) => counter(n, rows, true)],
  [
    'byte counter',
    everyFifteenSeconds,
    (n, rows) => counter(n, rows, false).map((value) => value * 1e6 + n.below(1e6)),
  ],
  [
    'mostly constant',
    everyFifteenSeconds,
    (n, rows) => Array.from({ length: rows }, (_, row) => 5 + (row >> 6) + (n.below(64) >> 6)),
  ],
  ['noise', jitteredMillis, (n, rows) => Array.from({ length: rows }, () => 500 + n.below(40))],
  [
    'alternating',
    everyFifteenSeconds,
    (n, rows) => Array.from({ length: rows }, () => n.below(2) * 1.5),
  ],
  [
    'all magnitudes',
    jitteredNanos,
    (n, rows) => Array.from({ length: rows }, () => n.normal() * 10 ** (n.below(600) - 300)),
  ],
  [
    'specials',
    jitteredMillis,
    (n, rows) =>
      Array.from(
        { length: rows },
        () =>
          [0, -0, Infinity, -Infinity, 5e-324, 1.7976931348623157e308, 2 ** 53, -1][n.below(8)]!,
      ),
  ],
  [
    'many digits among few',
    everyFifteenSeconds,
    (n, rows) =>
      Array.from({ length: rows }, () => (n.below(40) === 0 ? n.fraction() : n.below(50) / 10)),
  ],
  [
    'seven-digit walk',
    everyFifteenSeconds,
    (n, rows) => walk(n, rows).map((value) => Number(value.toPrecision(7))),
  ],
  [
    'four-digit latencies',
    everyFifteenSeconds,
    (n, rows) =>
      Array.from({ length: rows }, () => Number((Math.exp(n.normal()) / 100).toPrecision(4))),
  ],
  [
    'sum of seconds',
    everyFifteenSeconds,
    (n, rows) => {
      let sum = n.below(1e5);
      return Array.from({ length: rows }, () => (sum += n.below(1e9) / 1e9));
    },
  ],
];

/** One of each kind. */
export function codecSamples(seed: number, rowCount: number): CodecSample[] {
  return shapes.map((_, shape) => sampleOf(shape, seed, rowCount));
}

/** One of any kind. */
export function codecSample(seed: number, rowCount: number): CodecSample {
  return sampleOf(new SeededNumbers(seed).below(shapes.length), seed, rowCount);
}

/** Every third kind has stale markers in it, too. */
function sampleOf(shape: number, seed: number, rowCount: number): CodecSample {
  const [name, times, values] = shapes[shape]!;
  const numbers = new SeededNumbers(seed * 64 + shape);
  const timestampNanos = BigInt64Array.from({ length: rowCount }, (_, row) => times(row, numbers));
  const column = Float64Array.from(values(numbers, rowCount));
  if (shape % 3 === 2) {
    const bits = new BigUint64Array(column.buffer);
    for (let row = numbers.below(50); row < rowCount; row += 100) bits[row] = staleMarkerBits;
  }
  // Written within the eight seconds after the last row.
  const version = Number(versionAtNanos(timestampNanos[rowCount - 1]!)) + numbers.below(500_000);
  return { name, rows: { timestampNanos, values: column, version } };
}

/** Rows of no kind at all: random bits, times anywhere in 64 bits. */
export function randomRows(seed: number, rowCount: number): ChunkRows {
  const numbers = new SeededNumbers(seed);
  const wide = () => (BigInt(numbers.u32()) << 32n) | BigInt(numbers.u32());
  const shift = BigInt(numbers.below(64));
  const times = new Set<bigint>();
  while (times.size < rowCount) times.add(BigInt.asIntN(64, wide()) >> (shift > 40n ? 40n : shift));
  const bits = BigUint64Array.from({ length: rowCount }, wide);
  const keep = (1n << BigInt(numbers.below(65))) - 1n;
  for (let i = 1; i < rowCount; i++)
    bits[i] = (bits[i]! & keep) | (bits[0]! & ~keep & (2n ** 64n - 1n));
  return {
    timestampNanos: BigInt64Array.from(times).sort(),
    values: new Float64Array(bits.buffer),
    version: numbers.u32(),
  };
}
