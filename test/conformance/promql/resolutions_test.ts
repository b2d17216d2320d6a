/** One answer over samples and windows of two resolutions, beside the same query over all samples. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  Matcher,
  QueryStorage,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  Timeline,
} from '#coordinator/select/storage.ts';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import { floatsOfWindows } from '#engine/aggregation/floats.ts';
import { WindowFold } from '#engine/aggregation/fold.ts';
import { readFloats } from '#engine/store/chunk_merge.ts';
import { realEnv } from '#lib/env/real.ts';
import { MemoryStorage } from './memory_storage.ts';

const never = new AbortController().signal;
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const begin = Math.floor(1_700_000_000_000 / day) * day;
const end = begin + 3 * day;
const samplesFromMillis = end - 12 * hour;
const fine = { namespace: '5m', resolutionMillis: 5 * minute, fromMillis: end - 2 * day };
const coarse = { namespace: '1h', resolutionMillis: hour, fromMillis: begin };
const allTimes = [-(2n ** 62n), 2n ** 62n] as const;

/** All samples, of which the first are let go and kept as windows. */
class Resolutions implements QueryStorage {
  readonly all = new MemoryStorage();
  readonly asked: string[] = [];
  #timeline: Timeline = { samplesFromMillis, resolutions: [fine, coarse] };

  timeline(): Timeline {
    return this.#timeline;
  }

  async select(
    matchers: readonly Matcher[],
    range: SelectRange,
    _limits: SelectLimits,
    _signal: AbortSignal,
    windows: SelectWindows | null = null,
  ): Promise<SelectResult> {
    const result = await this.all.select(matchers, range);
    this.asked.push(windows === null ? 'samples' : `${windows.namespace} ${windows.column}`);
    const { bundle } = result;
    const { seriesCount, chunkData, chunkOffset } = bundle;
    const offsets = new Uint32Array(seriesCount + 1);
    const parts: Uint8Array[] = [];
    for (let i = 0; i < seriesCount; i++) {
      const { timestampNanos, values } = readFloats(
        [chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!)],
        allTimes,
      );
      const fold = new WindowFold();
      if (windows === null) {
        const first = timestampNanos.findIndex(
          (nanos) => nanos >= BigInt(samplesFromMillis) * 1_000_000n,
        );
        if (first >= 0) parts.push(fold.floats(timestampNanos.slice(first), values.slice(first)));
      } else {
        const { resolutionMillis } = windows.namespace === '5m' ? fine : coarse;
        fold.begin(BigInt(resolutionMillis) * 1_000_000n, timestampNanos.length);
        fold.add(timestampNanos, values).end();
        parts.push(...floatsOfWindows([fold.chunks()], windows.column));
      }
      offsets[i + 1] = parts.reduce((sum, { length }) => sum + length, 0);
    }
    const whole = {
      ...bundle,
      chunkData: new Uint8Array(Buffer.concat(parts)),
      chunkOffset: offsets,
    };
    return { ...result, bundle: whole };
  }

  labelNames(): never {
    return this.all.labelNames();
  }

  labelValues(): never {
    return this.all.labelValues();
  }

  series(): never {
    return this.all.series();
  }
}

const storage = new Resolutions();
const bitsOf = (value: number) => new BigUint64Array(Float64Array.of(value).buffer)[0]!;
let counter = 0;
for (let i = 0, millis = begin + 15_000; millis <= end; i++, millis += 30_000) {
  counter = i % 997 === 996 ? 3 : counter + 1 + (i % 7);
  for (const [name, host, value] of [
    ['c_total', 'a', counter],
    ['g', 'a', (i * 31) % 101],
    ['g', 'b', 50 - ((i * 17) % 23)],
  ] as const) {
    // One is away for a while.
    if (host === 'b' && millis > begin + 30 * hour && millis < begin + 40 * hour) continue;
    storage.all.add(
      [
        { name: '__name__', value: name },
        { name: 'host', value: host },
      ],
      millis,
      bitsOf(value),
    );
  }
}

const over = new PromqlEngine(storage, { clock: realEnv.clock });
const whole = new PromqlEngine(storage.all, { clock: realEnv.clock });
const options = {
  lookbackMillis: 5 * minute,
  samplesMax: 10_000_000,
  limits: { seriesMax: 0, requireExhaustive: false },
};

interface Answer {
  readonly values: ReadonlyMap<string, readonly (number | null)[]>;
  readonly notes: readonly string[];
}

async function answerOf(
  engine: PromqlEngine,
  query: string,
  startMillis = begin + 8 * hour,
): Promise<Answer> {
  const { value, warnings, infos } = await engine.rangeQuery(
    query,
    startMillis,
    end,
    hour,
    options,
    never,
  );
  assert.equal(value.kind, 'matrix');
  const { matrix, grid } = value as unknown as {
    matrix: {
      labels: { toString(): string }[];
      stepCount: number;
      buffer: { values: Float64Array; words: Uint32Array };
    };
    grid: { stepCount: number };
  };
  const values = new Map<string, (number | null)[]>();
  for (const [index, labels] of matrix.labels.entries()) {
    const row = Array.from({ length: grid.stepCount }, (_, step) => {
      const one = matrix.buffer.values[index * matrix.stepCount + step]!;
      return Number.isNaN(one) ? null : one;
    });
    values.set((labels as unknown as { key: string }).key, row);
  }
  return { values, notes: [...warnings, ...infos] };
}

for (const query of [
  'max_over_time(g[4h])',
  'min_over_time(g[4h])',
  'sum_over_time(g[4h])',
  'count_over_time(g[4h])',
  'avg_over_time(g[4h])',
  'sum(max_over_time(g[6h] offset 1h))',
  'max_over_time(sum_over_time(g[4h])[8h:1h])',
  'g and on(host) max_over_time(g[4h]) > 0',
]) {
  test(`${query} is what it is over all samples, without a seam`, async () => {
    storage.asked.length = 0;
    const [found, wanted] = [await answerOf(over, query), await answerOf(whole, query)];
    assert.deepEqual(
      new Set(storage.asked.map((asked) => asked.split(' ')[0])),
      new Set(['1h', '5m', 'samples']),
    );
    assert.deepEqual(found.notes, []);
    assert.deepEqual(found.values, wanted.values);
  });
}

test('the growth of a counter over windows is near that over samples, resets and all', async () => {
  for (const query of ['increase(c_total[6h])', 'rate(c_total[6h])']) {
    const [found, wanted] = [await answerOf(over, query), await answerOf(whole, query)];
    const [rows, all] = [[...found.values.values()][0]!, [...wanted.values.values()][0]!];
    assert.equal(rows.length, all.length);
    for (const [step, value] of rows.entries()) {
      // A window more or less at the edges.
      assert.ok(
        Math.abs(value! / all[step]! - 1) < 0.01,
        `${query} at ${step}: ${value}, ${all[step]}`,
      );
    }
  }
});

test('a range that is shorter than four windows is widened, and the answer says so', async () => {
  const { values, notes } = await answerOf(over, 'increase(c_total[5m])');
  assert.deepEqual(
    notes.map((note) => note.replace(/ \(.*/, '')),
    [
      'PromQL info: the range of increase is shorter than four windows of 3600 s, and four are looked at',
      'PromQL info: the range of increase is shorter than four windows of 300 s, and four are looked at',
    ],
  );
  const [rows] = [...values.values()];
  const all = [...(await answerOf(whole, 'increase(c_total[5m])')).values.values()][0]!;
  const sum = (of: readonly (number | null)[]) => of.reduce<number>((n, one) => n + (one ?? 0), 0);
  assert.ok(Math.abs(sum(rows!) / sum(all) - 1) < 0.05, `${sum(rows!)} and ${sum(all)}`);
});

test('what windows do not keep is told of the last samples, with a warning', async () => {
  const { notes } = await answerOf(over, 'quantile_over_time(0.5, g[6h])');
  assert.match(notes.join(), /quantile_over_time is of the last samples of windows of 3600 s/);
});

test('instant queries at the seams are of one resolution', async () => {
  for (const [millis, of] of [
    [samplesFromMillis + 5 * minute, 'samples'],
    [samplesFromMillis + 5 * minute - 1, '5m last'],
    [fine.fromMillis + 10 * minute, '5m last'],
    [fine.fromMillis + 10 * minute - 1, '1h last'],
  ] as const) {
    storage.asked.length = 0;
    const { value } = await over.instantQuery('c_total', millis, options, never);
    assert.deepEqual(storage.asked, [of]);
    assert.equal((value as unknown as { matrix: { count: number } }).matrix.count, 1);
  }
});
