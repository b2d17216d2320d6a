/**
 * Series that queries are compared over: counters, gauges, classic and native histograms, series of both kinds, with gaps,
 * resets, markers and odd values; a seed decides all of them.
 */
import type { Buckets, Histogram } from '#engine/typed/histogram.ts';
import { customSchema, resetHint } from '#engine/typed/histogram.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import type { SeriesToWrite } from '#engine/write_decoder/remote_write_testing.ts';
import type { SeededRandom } from '../seeded_random.ts';

export const intervalMillis = 15_000;
export const rowsEach = 160;

/** As Prometheus ends a series. */
const staleMarker = 0x7ff0000000000002n;

type Row = { value: number | bigint } | { histogram: Histogram } | null;

export function makeSeries(random: SeededRandom, startMillis: number): SeriesToWrite[] {
  const all: SeriesToWrite[] = [];
  const add = (labels: Record<string, string>, rowOf: (row: number) => Row): void => {
    const samples: { timestampMillis: number; value: number | bigint }[] = [];
    const histograms: { timestampMillis: number; histogram: Histogram }[] = [];
    // Scrapes are hardly ever on time.
    const offset = random.below(intervalMillis);
    for (let row = 0; row < rowsEach; row++) {
      const made = rowOf(row);
      if (made === null) continue;
      const timestampMillis = startMillis + row * intervalMillis + offset + random.below(30);
      if ('histogram' in made) histograms.push({ timestampMillis, ...made });
      else samples.push({ timestampMillis, ...made });
    }
    all.push({
      tags: Object.entries(labels).map(([name, value]) => ({ name, value })),
      samples,
      histograms,
    });
  };
  const shapes = new Shapes(random);
  for (const job of ['api', 'db']) {
    for (const instance of ['a', 'b', 'c']) {
      const labels = { job, instance };
      for (const code of ['200', '500']) {
        add({ __name__: 'requests_total', ...labels, code }, shapes.counter(0.02));
      }
      add({ __name__: 'memory_bytes', ...labels }, shapes.gauge(3e9, 1e8));
      add({ __name__: 'up', ...labels }, () => ({ value: random.below(8) === 0 ? 0 : 1 }));
      add({ __name__: 'latency_seconds', ...labels }, shapes.exponential(random.below(3), false));
      add({ __name__: 'size_bytes', ...labels }, shapes.custom());
      const version = instance === 'c' ? '2' : '1';
      add({ __name__: 'target_info', ...labels, version }, () => ({ value: 1 }));
      for (const [le, rowOf] of shapes.classic(['0.1', '0.5', '1', '5', '+Inf'])) {
        add({ __name__: 'wait_seconds_bucket', ...labels, le }, rowOf);
      }
    }
    add({ __name__: 'queue', job }, shapes.exponential(1, true));
    add({ __name__: 'mixed', job }, shapes.mixed(job === 'api'));
    add({ __name__: 'sparse', job }, shapes.sparse());
  }
  add({ __name__: 'odd', kind: 'nan' }, shapes.odd([NaN, 1, 2]));
  add({ __name__: 'odd', kind: 'inf' }, shapes.odd([Infinity, -Infinity, 0, 1]));
  add({ __name__: 'odd', kind: 'tiny' }, shapes.odd([1e-300, -0, 0, 1e308, -1e308]));
  add({ __name__: 'odd', kind: 'same' }, () => ({ value: 0.1 }));
  add({ __name__: 'ended' }, (row) => {
    if (row < 100) return { value: row };
    return row === 100 ? { value: staleMarker } : null;
  });
  return all;
}

class Shapes {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  counter(resetChance: number): () => Row {
    let value = this.#random.below(1000);
    return () => {
      if (this.#random.fraction() < resetChance) value = 0;
      value += this.#random.below(50) * (this.#random.below(4) === 0 ? 0.25 : 1);
      return this.#random.below(30) === 0 ? null : { value };
    };
  }

  gauge(mean: number, step: number): () => Row {
    let value = mean;
    return () => {
      value += (this.#random.fraction() - 0.5) * step;
      return { value };
    };
  }

  odd(values: readonly number[]): () => Row {
    return () => ({ value: this.#random.pick(values) });
  }

  /** With holes that are longer than anybody looks back. */
  sparse(): (row: number) => Row {
    return (row) => {
      if (row % 60 > 20 && row % 60 < 50) return null;
      return this.#random.below(3) === 0 ? { value: row - 40 } : null;
    };
  }

  classic(bounds: readonly string[]): [le: string, rowOf: (row: number) => Row][] {
    const rows = Array.from({ length: rowsEach }, () => bounds.map(() => this.#random.below(6)));
    return bounds.map((le, place) => {
      let total = 0;
      return [
        le,
        (row) => {
          for (let i = 0; i <= place; i++) total += rows[row]![i]!;
          return { value: total };
        },
      ];
    });
  }

  /** Of a counter, or of a gauge whose counts are floats. */
  exponential(schema: number, isGauge: boolean): (row: number) => Row {
    // Both sides have a bucket at any time: Prometheus looks at whether a side has any, empty ones included, of which nobody
    // else knows.
    let counts = new Map([[0, 1]]);
    let negative = new Map([[0, 1]]);
    let zeroCount = 0;
    let sum = 0;
    let zeroThreshold = 1e-3;
    return (row) => {
      if (isGauge || this.#random.below(50) === 0) {
        counts = new Map([[0, 1]]);
        negative = new Map([[0, 1]]);
        zeroCount = 0;
        sum = 0;
        if (!isGauge && this.#random.below(2) === 0) zeroThreshold *= 2;
      }
      for (let i = this.#random.below(5); i >= 0; i--) {
        const index = this.#random.below(12) - 6;
        const side = this.#random.below(6) === 0 ? negative : counts;
        const count = this.#random.below(5) + (isGauge ? 0.5 : 1);
        side.set(index, (side.get(index) ?? 0) + count);
        sum += (side === negative ? -1 : 1) * count * 2 ** (index / 2 ** schema);
      }
      zeroCount += this.#random.below(3);
      if (row === 120 && !isGauge) return null;
      const [positiveBuckets, negativeBuckets] = [bucketsOf(counts), bucketsOf(negative)];
      const histogram: Histogram = {
        isFloat: isGauge,
        schema,
        hint: isGauge ? resetHint.gauge : resetHint.unknown,
        zeroThreshold,
        zeroCount,
        count: zeroCount + total(positiveBuckets) + total(negativeBuckets),
        sumBits: bitsOfDouble(sum),
        customBounds: new Float64Array(0),
        positive: positiveBuckets,
        negative: negativeBuckets,
      };
      return { histogram };
    };
  }

  /** Bounds change once. */
  custom(): (row: number) => Row {
    let counts = [0, 0, 0, 0];
    let sum = 0;
    const change = 60 + this.#random.below(60);
    return (row) => {
      if (row === change || this.#random.below(60) === 0) {
        counts = [0, 0, 0, 0];
        sum = 0;
      }
      for (const i of counts.keys()) {
        const more = this.#random.below(4);
        counts[i]! += more;
        sum += more * (i + 0.5);
      }
      const customBounds = row < change ? [1, 2, 4] : [1, 3, 4];
      const positive = bucketsOf(new Map(counts.entries()));
      const histogram: Histogram = {
        isFloat: false,
        schema: customSchema,
        hint: resetHint.unknown,
        zeroThreshold: 0,
        zeroCount: 0,
        count: total(positive),
        sumBits: bitsOfDouble(sum),
        customBounds: Float64Array.from(customBounds),
        positive,
        negative: bucketsOf(new Map()),
      };
      return { histogram };
    };
  }

  /** Floats first, then histograms, or in turns. */
  mixed(inTurns: boolean): (row: number) => Row {
    const floats = this.counter(0);
    const histograms = this.exponential(0, false);
    return (row) => {
      const isFloat = inTurns ? row % 7 < 3 : row < rowsEach / 2;
      return isFloat ? floats() : histograms(row);
    };
  }
}

function bucketsOf(counts: ReadonlyMap<number, number>): Buckets {
  const all = [...counts].filter(([, count]) => count > 0).sort(([a], [b]) => a - b);
  return {
    indexes: Int32Array.from(all, ([index]) => index),
    counts: Float64Array.from(all, ([, count]) => count),
  };
}

function total({ counts }: Buckets): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
