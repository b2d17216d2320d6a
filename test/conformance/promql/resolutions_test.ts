/** One answer over samples and windows of two resolutions, beside the same query over all samples. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  Matcher,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  Timeline,
} from '#coordinator/select/storage.ts';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import { noFeatures } from '#coordinator/promql/parse/features.ts';
import { floatsOfWindows, type ValueColumn } from '#engine/aggregation/floats.ts';
import { WindowFold } from '#engine/aggregation/fold.ts';
import { readFloats } from '#engine/store/chunk_merge.ts';
import { apart } from '#engine/store/typed_chunks.ts';
import { realEnv } from '#lib/env/real.ts';
import { columnWithoutRules, OverMemory, withChunks } from './memory_storage.ts';

const never = new AbortController().signal;
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const begin = Math.floor(1_700_000_000_000 / day) * day;
const end = begin + 3 * day;
const samplesFromMillis = end - 12 * hour;
const fine = {
  namespace: '5m',
  resolutionMillis: 5 * minute,
  fromMillis: end - 2 * day,
  takesAll: true,
};
const coarse = { namespace: '1h', resolutionMillis: hour, fromMillis: begin, takesAll: true };
const allTimes = [-(2n ** 62n), 2n ** 62n] as const;

/** All samples, of which the first are let go and kept as windows. */
class Resolutions extends OverMemory {
  readonly asked: string[] = [];
  /** By what was asked. */
  readonly ranges: [of: string, range: SelectRange][] = [];
  /** What their values are; null for the last ones. */
  valueOfWindows: ValueColumn['value'] | null = null;
  #timeline: Timeline = { samplesFromMillis, resolutions: [fine, coarse], places: null };

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
    this.ranges.push([windows?.namespace ?? 'samples', range]);
    this.asked.push(windows === null ? 'samples' : `${windows.namespace} ${windows.column}`);
    return withChunks(result, (chunks) => {
      const { timestampNanos, values } = readFloats([chunks], allTimes);
      const fold = new WindowFold();
      if (windows === null) {
        const first = timestampNanos.findIndex(
          (nanos) => nanos >= BigInt(samplesFromMillis) * 1_000_000n,
        );
        return first < 0 ? [] : [fold.floats(timestampNanos.slice(first), values.slice(first))];
      }
      const { resolutionMillis } = windows.namespace === '5m' ? fine : coarse;
      fold.begin(BigInt(resolutionMillis) * 1_000_000n, timestampNanos.length);
      fold.add(timestampNanos, values).end();
      return floatsOfWindows(
        apart([fold.chunks()]).typed,
        windows.column === 'value' && this.valueOfWindows !== null
          ? { value: this.valueOfWindows, ends: true }
          : columnWithoutRules(windows.column),
        BigInt(resolutionMillis) * 1_000_000n,
      );
    });
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

/** Adds a series of which there is a row at each of these times that has a value. */
function addSeries(name: string, stepMillis: number, valueAt: (millis: number) => number): void {
  const tags = [{ name: '__name__', value: name }];
  for (let millis = begin + stepMillis / 2; millis <= end; millis += stepMillis) {
    storage.all.add(tags, millis, bitsOf(valueAt(millis - begin)));
  }
}

const features = {
  ...noFeatures,
  experimentalFunctions: true,
  extendedRangeSelectors: true,
};
const over = new PromqlEngine(storage, { clock: realEnv.clock, features });
const whole = new PromqlEngine(storage.all, { clock: realEnv.clock, features });
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

/** Of an instant query with one series. */
async function valueAt(engine: PromqlEngine, query: string, millis: number): Promise<number> {
  const { value } = await engine.instantQuery(query, millis, options, never);
  const { matrix } = value as unknown as {
    matrix: { count: number; buffer: { values: Float64Array } };
  };
  assert.equal(matrix.count, 1, query);
  return matrix.buffer.values[0]!;
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

test('a counter that began again and has passed what it had come to since loses nothing of either', async () => {
  // 100 in the first two hours, then again from 0 on to 1000 in the hour in which it began again.
  const restart = 2 * hour + 5 * minute;
  addSeries('once_total', 30_000, (at) =>
    Math.floor(at < restart ? at / 72_000 : (at - restart) / 3_300),
  );
  // One for each row, from 0 on every 70 and every 110 minutes: of some hours the last value is above that of before.
  addSeries('often_total', 30_000, (at) => {
    const within = at % (180 * minute);
    return Math.floor((within < 70 * minute ? within : within - 70 * minute) / 30_000);
  });
  for (const [query, millis] of [
    ['increase(once_total[4h])', begin + 5 * hour],
    ['rate(once_total[4h])', begin + 5 * hour],
    ['increase(often_total[24h])', begin + 25 * hour],
    ['increase(often_total[24h])', begin + 26 * hour],
    ['resets(once_total[4h])', begin + 5 * hour],
  ] as const) {
    const [found, wanted] = [
      await valueAt(over, query, millis),
      await valueAt(whole, query, millis),
    ];
    assert.ok(Math.abs(found / wanted - 1) < 0.002, `${query}: ${found}, ${wanted}`);
  }
});

test('series that end with a stale marker in each window are in ranges over these, and end for instant selectors', async () => {
  // A job of ten minutes an hour, as one series and as one for each run.
  const job = (name: string, run: string): void => {
    const hourOf = begin + Number(run) * hour;
    const tags = [
      { name: '__name__', value: name },
      { name: 'run', value: name === 'job_total' ? '' : run },
    ];
    for (let i = 1; i <= 20; i++) storage.all.add(tags, hourOf + i * 30_000, bitsOf(i));
    storage.all.add(tags, hourOf + 21 * 30_000, 0x7ff0000000000002n);
  };
  for (let run = 0; run < 24; run++)
    for (const name of ['job_total', 'run']) job(name, String(run));
  const millis = begin + 20 * hour;
  for (const query of [
    'count(present_over_time(run[6h]))',
    'count(last_over_time(run[6h]))',
    'sum(last_over_time(run[6h]))',
    'sum(changes(last_over_time(job_total[4h])[6h:1h]))',
    'sum(deriv(job_total[6h]) * 0)',
    'sum(idelta(job_total[6h]) * 0)',
    'count(ts_of_last_over_time(run[6h]))',
    'absent_over_time(nothing[6h])',
    'count(absent_over_time(job_total[6h])) or vector(0)',
    'count(job_total) or vector(0)',
  ]) {
    const [found, wanted] = [
      await valueAt(over, query, millis),
      await valueAt(whole, query, millis),
    ];
    assert.equal(found, wanted, query);
  }
  // Twenty in each hour, as it began again with each.
  assert.equal(await valueAt(over, 'increase(job_total[6h])', millis), 120);
  assert.equal(await valueAt(over, 'rate(job_total[6h]) * 6 * 3600', millis), 120);
  assert.equal(await valueAt(over, 'resets(job_total[6h])', millis), 6);
  assert.equal(await valueAt(over, 'delta(job_total[6h])', millis), 0);
});

test('info of a time whose samples are past retention has its labels from windows', async () => {
  const of = (name: string, version: string) => [
    { name: '__name__', value: name },
    { name: 'instance', value: 'i' },
    { name: 'job', value: 'j' },
    { name: 'version', value: version },
  ];
  // At half past it is another version, of which nothing is left but windows of an hour that end at the same time.
  const upgrade = begin + 13 * hour + 30 * minute;
  for (let millis = begin + 15_000; millis <= end; millis += 60_000) {
    storage.all.add(of('here', ''), millis, bitsOf(5));
    storage.all.add(of('target_info', millis < upgrade ? '1' : '2'), millis, bitsOf(1));
  }
  for (const query of ['info(here)', 'sum by (version) (info(here))', 'info(rate(here[4h]))']) {
    const [found, wanted] = [await answerOf(over, query), await answerOf(whole, query)];
    assert.deepEqual([...found.values.keys()].sort(), [...wanted.values.keys()].sort(), query);
    const versions = [...wanted.values].map(([key, row]) => [key, found.values.get(key), row]);
    for (const [key, row, all] of versions) {
      // The answer begins at 8 o'clock.
      const but = (values: unknown) => (values as readonly unknown[]).toSpliced(14 - 8, 1);
      assert.deepEqual(but(row), but(all), `${query}: ${String(key)}`);
    }
    assert.match(found.notes.join(), /PromQL warning: .* two info series .* of 3600 s/, query);
  }
  // Of the hour of the upgrade it is one of the two, and no error.
  const { value } = await over.instantQuery('info(here)', begin + 14 * hour, options, never);
  assert.equal((value as unknown as { matrix: { count: number } }).matrix.count, 1);
});

test('anchored and smoothed ranges look for the rows around them in windows', async () => {
  addSeries('even_total', minute, (at) => at / 1_000);
  const full = begin + 20 * hour;
  for (const millis of [full, full + 17 * minute]) {
    for (const range of ['6h', '5h30m']) {
      const plain = await valueAt(over, `increase(even_total[${range}])`, millis);
      const anchored = await valueAt(over, `increase(even_total[${range}] anchored)`, millis);
      assert.equal(anchored, plain, `${range} at ${millis - full}`);
      const smoothed = await valueAt(over, `increase(even_total[${range}] smoothed)`, millis);
      const all = await valueAt(whole, `increase(even_total[${range}] smoothed)`, millis);
      assert.ok(Math.abs(smoothed / all - 1) < 1e-9, `${range}: ${smoothed}, ${all}`);
    }
  }
});

test('windows are not asked of a time that is past their retention, while coarser ones have it', async () => {
  const fromMillis = new Map([
    ['samples', samplesFromMillis],
    [fine.namespace, fine.fromMillis],
  ]);
  for (const query of [
    'c_total',
    'max_over_time(g[4h])',
    'increase(c_total[4h])',
    'increase(c_total[10m])',
    'delta(g[4h])',
    'increase(c_total[4h] anchored)',
    'increase(c_total[4h] smoothed)',
    'info(g)',
  ]) {
    storage.ranges.length = 0;
    // Steps at which the ranges begin where samples and windows do, too.
    await over.rangeQuery(query, begin + 8 * hour, end, 5 * minute, options, never);
    for (const [of, { startNanos }] of storage.ranges) {
      const from = fromMillis.get(of);
      if (from === undefined) continue;
      const startMillis = Number(startNanos / 1_000_000n);
      assert.ok(startMillis >= from, `${query}: ${from - startMillis} ms before ${of}`);
    }
    assert.ok(storage.ranges.some(([of]) => of === fine.namespace));
  }
});

test('a range that is shorter than four windows is widened, and the answer says so', async () => {
  const { values, notes } = await answerOf(over, 'increase(c_total[5m])');
  assert.deepEqual(
    notes.map((note) => note.replace(/ \(.*/, '')),
    [
      'PromQL info: the range of increase is shorter than four windows of 3600 s, and four are looked at: the value is theirs times 300/14400',
      'PromQL info: the range of increase is shorter than four windows of 300 s, and four are looked at: the value is theirs times 300/1200',
    ],
  );
  const [rows] = [...values.values()];
  const all = [...(await answerOf(whole, 'increase(c_total[5m])')).values.values()][0]!;
  const sum = (of: readonly (number | null)[]) => of.reduce<number>((n, one) => n + (one ?? 0), 0);
  assert.ok(Math.abs(sum(rows!) / sum(all) - 1) < 0.05, `${sum(rows!)} and ${sum(all)}`);
});

test('of what grows with the range a widened one has the part that was asked for, of the others all', async () => {
  // Each hour another value, and every second hour less than before.
  addSeries('steps_total', minute, (at) => 100 + (Math.floor(at / hour) % 2) * 10);
  const millis = begin + 20 * hour;
  for (const [query, part] of [
    ['resets(steps_total[1h])', 1 / 4],
    ['changes(steps_total[1h])', 1 / 4],
    ['increase(steps_total[1h])', 1 / 4],
    ['sum_over_time(steps_total[1h])', 1 / 4],
    ['count_over_time(steps_total[1h])', 1 / 4],
    ['delta(steps_total[1h])', 1 / 4],
    ['rate(steps_total[1h])', 1],
    ['max_over_time(steps_total[1h])', 1],
    ['last_over_time(steps_total[1h])', 1],
  ] as const) {
    const found = await valueAt(over, query, millis);
    const wide = await valueAt(over, query.replace('1h', '4h'), millis);
    assert.equal(found, wide * part, query);
    const { infos } = await over.instantQuery(query, millis, options, never);
    assert.equal(
      infos.some((info) => info.includes('the value is theirs times 3600/14400')),
      part < 1,
      query,
    );
  }
});

test('what windows do not keep is told of the last samples, with a warning', async () => {
  const { notes } = await answerOf(over, 'quantile_over_time(0.5, g[6h])');
  assert.match(notes.join(), /quantile_over_time is of the last samples of windows of 3600 s/);
});

test('instant queries at the seams are of one resolution', async () => {
  for (const [millis, of] of [
    [samplesFromMillis + 5 * minute, 'samples'],
    [samplesFromMillis + 5 * minute - 1, '5m value'],
    [fine.fromMillis + 10 * minute, '5m value'],
    [fine.fromMillis + 10 * minute - 1, '1h value'],
  ] as const) {
    storage.asked.length = 0;
    const { value } = await over.instantQuery('c_total', millis, options, never);
    assert.deepEqual(storage.asked, [of]);
    assert.equal((value as unknown as { matrix: { count: number } }).matrix.count, 1);
  }
});

test('what windows are as values is read by instant selectors, and by no function over a range', async () => {
  const withValue = async <Result>(
    value: ValueColumn['value'] | null,
    ask: () => Promise<Result>,
  ): Promise<Result> => {
    storage.valueOfWindows = value;
    try {
      return await ask();
    } finally {
      storage.valueOfWindows = null;
    }
  };
  for (const query of [
    'max_over_time(g[4h])',
    'min_over_time(g[4h])',
    'sum_over_time(g[4h])',
    'count_over_time(g[4h])',
    'avg_over_time(g[4h])',
    'present_over_time(g[4h])',
    'absent_over_time(g[4h])',
    'last_over_time(g[4h])',
    'rate(c_total[4h])',
    'increase(c_total[4h])',
    'resets(c_total[4h])',
    'irate(c_total[4h])',
    'delta(g[4h])',
    'idelta(g[4h])',
    'deriv(g[4h])',
    'changes(g[4h])',
    'quantile_over_time(0.5, g[4h])',
    'stddev_over_time(g[4h])',
    'timestamp(g)',
    'info(here)',
  ]) {
    const [plain, found] = [
      await answerOf(over, query),
      await withValue('max', () => answerOf(over, query)),
    ];
    assert.deepEqual(found, plain, query);
  }
  // Of the hour that ends at each step, of a time that has windows of an hour alone.
  const greatest = await answerOf(whole, 'max_over_time(g[1h])');
  for (const query of ['g', 'max_over_time(g[1h:1h])', 'sum by (host) (g)']) {
    const { values } = await withValue('max', () => answerOf(over, query));
    for (const [at, row] of [...values.values()].entries()) {
      const wanted = [...greatest.values.values()][at]!;
      // At eight o'clock the first one; after the second day there are finer windows.
      for (let step = 0; step < 12; step++) assert.equal(row[step], wanted[step], query);
    }
  }
});
