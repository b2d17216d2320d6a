/** Queries of native histograms over windows of them: what samples come to, as far as windows keep it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import { noFeatures } from '#coordinator/promql/parse/features.ts';
import type {
  Matcher,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  Timeline,
} from '#coordinator/select/storage.ts';
import { floatsOfWindows } from '#engine/aggregation/floats.ts';
import { SeriesFold } from '#engine/aggregation/series_fold.ts';
import { counterHint, FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import { realEnv } from '#lib/env/real.ts';
import { columnWithoutRules, OverMemory, withChunks } from './memory_storage.ts';

const never = new AbortController().signal;
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const begin = Math.floor(1_700_000_000_000 / day) * day;
const end = begin + day;
const resolutionMillis = 5 * minute;

/** Everything is read from windows that are made of the samples. */
class Windows extends OverMemory {
  timeline(): Timeline {
    const of = { namespace: '5m', resolutionMillis, fromMillis: begin, takesAll: true };
    return { samplesFromMillis: Infinity, resolutions: [of], places: null };
  }

  async select(
    matchers: readonly Matcher[],
    range: SelectRange,
    _limits: SelectLimits,
    _signal: AbortSignal,
    windows: SelectWindows | null = null,
  ): Promise<SelectResult> {
    const result = await this.all.select(matchers, range);
    return withChunks(result, (chunks) => {
      const fold = new SeriesFold().begin(BigInt(resolutionMillis) * 1_000_000n, 1_000);
      fold.add([chunks], allTimes);
      fold.end();
      return floatsOfWindows(
        apart([fold.chunks()]).typed,
        columnWithoutRules(windows!.column),
        BigInt(resolutionMillis) * 1_000_000n,
      );
    });
  }
}

const storage = new Windows();
const nameOf = (name: string) => [{ name: '__name__', value: name }];
/** A counter of requests by duration, and a gauge of the sizes of what waits. */
let counts = [0, 0, 0];
for (let i = 0, millis = begin + 15_000; millis <= end; i++, millis += 60_000) {
  // A process that began again in the middle of the day.
  if (i === 725) counts = [0, 0, 0];
  counts = counts.map((count, bucket) => count + ((i * (bucket + 3)) % (5 + bucket)));
  const histogram = (of: readonly number[], hint: FloatHistogram['hint']): FloatHistogram =>
    new FloatHistogram({
      hint,
      schema: 1,
      zeroThreshold: 0.001,
      zeroCount: 0,
      count: of.reduce((a, b) => a + b, 0),
      sum: of.reduce((sum, count, bucket) => sum + count * 1.3 ** bucket, 0),
      positive: { indexes: Int32Array.of(0, 1, 2), counts: Float64Array.from(of) },
    });
  storage.all.add(nameOf('c'), millis, histogram(counts, counterHint.unknown));
  const gauge = [1 + (i % 7), 2 + (i % 5), 1 + (i % 3)];
  storage.all.add(nameOf('g'), millis, histogram(gauge, counterHint.gauge));
}

const features = { ...noFeatures, experimentalFunctions: true, extendedRangeSelectors: true };
const clock = realEnv.clock;
const over = new PromqlEngine(storage, { clock, features });
const whole = new PromqlEngine(storage.all, { clock, features });
const options = {
  lookbackMillis: 5 * minute,
  samplesMax: 10_000_000,
  limits: { seriesMax: 0, requireExhaustive: false },
};

/** At steps of an hour from `begin` + 6 h on. */
async function valuesOf(engine: PromqlEngine, query: string): Promise<number[]> {
  const first = begin + 6 * hour;
  const { value } = await engine.rangeQuery(query, first, end, hour, options, never);
  const { matrix, grid } = value as unknown as {
    matrix: { labels: unknown[]; stepCount: number; buffer: { values: Float64Array } };
    grid: { stepCount: number };
  };
  assert.equal(matrix.labels.length, 1, query);
  return [...matrix.buffer.values.slice(0, grid.stepCount)];
}

function close(actual: readonly number[], expected: readonly number[], within: number): void {
  assert.equal(actual.length, expected.length);
  for (const [i, value] of actual.entries()) {
    const apart = Math.abs(value - expected[i]!);
    const text = `step ${i}: ${value}, not ${expected[i]}`;
    assert.ok(apart <= within * Math.max(1, Math.abs(expected[i]!)), text);
  }
}

for (const query of [
  'histogram_count(sum_over_time(g[4h]))',
  'histogram_sum(sum_over_time(g[4h]))',
  'histogram_quantile(0.9, sum_over_time(g[4h]))',
  'histogram_avg(avg_over_time(g[4h]))',
  'count_over_time(g[4h])',
  'histogram_count(last_over_time(g[4h]))',
]) {
  test(`${query} is the same over windows`, async () => {
    close(await valuesOf(over, query), await valuesOf(whole, query), 1e-12);
  });
}

for (const [query, within] of [
  ['histogram_count(increase(c[4h]))', 0.01],
  ['histogram_quantile(0.9, rate(c[4h]))', 0.01],
  ['histogram_count(c)', 0.02],
] as const) {
  test(`${query} over windows is of their last histograms`, async () => {
    close(await valuesOf(over, query), await valuesOf(whole, query), within);
  });
}
