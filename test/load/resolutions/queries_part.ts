/** Sixty days of rows in three namespaces, and every query over them held against the plain evaluator. */
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { SeededRandom } from '../../seeded_random.ts';
import { eventually } from '../../integration/process.ts';
import { type Ask, Comparison, namespaceOf, type Steps } from './comparison.ts';
import { dayMillis, hourMillis, type LoadSeries, makeSeries, minuteMillis } from './data.ts';
import { EvaluatedSeries, type Floors, neededMillis, type SourceName } from './evaluator.ts';
import { ResolutionsNode } from './node.ts';
import { aggregatedExpressions, type Expression, plainExpressions } from './queries.ts';

const days = 60;
/** Longer than all rows are old, with what the run takes. */
const firstRetentionMillis = 1_500 * hourMillis;
const samplesMillis = 48 * hourMillis;
const fineMillis = 30 * dayMillis;
const coarseMillis = 730 * dayMillis;
/** Blocks of samples, and of the index of windows. */
const blockMillis = dayMillis;
/** Of a namespace of windows, when it is made ready: clocks may be so far apart. */
const clockDoubtMillis = 2 * minuteMillis;
const bufferPastMillis = 10 * minuteMillis;
const staleBits = 0x7ff0000000000002n;
/** Around each seam, in steps of a minute. */
const seamMillis = 75 * minuteMillis;
const requestsAtOnce = 3;

export interface QueriesOptions {
  readonly folder: string;
  readonly seed: number;
  /** How many queries are asked at most: all, or some of each kind. */
  readonly queriesMax: number;
  readonly report: (line: string) => void;
}

export interface QueriesOutcome {
  readonly series: number;
  readonly rows: number;
  readonly windows: number;
  readonly windowFailures: number;
  readonly seconds: number;
  readonly comparison: Comparison;
}

export async function queriesPart(options: QueriesOptions): Promise<QueriesOutcome> {
  const { folder, seed, queriesMax, report } = options;
  const begin = performance.now();
  const endMillis = Math.floor(Date.now() / minuteMillis) * minuteMillis;
  const startMillis = endMillis - days * dayMillis;
  const series = makeSeries({ startMillis, endMillis, seed });
  const evaluated = series.map((each) => new EvaluatedSeries(each));
  const rows = series.reduce((sum, { values }) => sum + values.length, 0);
  const node = await ResolutionsNode.start(folder, {
    retention: `${firstRetentionMillis / hourMillis}h`,
    blockSize: `${blockMillis / hourMillis}h`,
    numShards: 4,
  });
  try {
    await writeAll(node, series, startMillis, endMillis);
    await node.flush();
    report(`${rows} rows of ${series.length} series are written`);
    const readyMillis = Date.now();
    await node.addWindows(namespaceOf('5m'), '5m', `${fineMillis / hourMillis}h`);
    await node.addWindows(namespaceOf('1h'), '1h', `${coarseMillis / hourMillis}h`);
    const expected = windowsExpected(evaluated, readyMillis);
    const { windows, failures } = await node.windowsMade(expected);
    report(`${windows} windows are made (${expected} at least), ${failures} failures`);
    await shorten(node, startMillis);
    report('samples are kept for 48 h');
    const floorsAt = (nowMillis: number): Floors => ({
      samples: nowMillis - samplesMillis,
      '5m': nowMillis - fineMillis,
      '1h': readyMillis - firstRetentionMillis + hourMillis + clockDoubtMillis,
    });
    const comparison = new Comparison(node.url, evaluated, floorsAt, report);
    const asks = inAnyOrder(
      [
        ...wholeAsks(series, startMillis, endMillis),
        ...seamAsks(series, endMillis),
        ...forcedAsks(series, startMillis, endMillis),
        ...anyAsks(series, startMillis, endMillis, seed),
      ],
      seed,
    ).slice(0, queriesMax);
    await askAll(comparison, asks, report);
    await askNames(comparison, series, startMillis, endMillis);
    return {
      series: series.length,
      rows,
      windows,
      windowFailures: failures,
      seconds: (performance.now() - begin) / 1000,
      comparison,
    };
  } finally {
    await node.server.program.stop();
  }
}

async function writeAll(
  node: ResolutionsNode,
  series: readonly LoadSeries[],
  startMillis: number,
  endMillis: number,
): Promise<void> {
  const next = series.map(() => 0);
  for (let from = startMillis; from <= endMillis; from += dayMillis) {
    const parts = series.map(({ labels, timesMillis, values, isStale }, at) => {
      const samples: { timestampMillis: number; value: number | bigint }[] = [];
      let i = next[at]!;
      for (; i < values.length && timesMillis[i]! < from + dayMillis; i++) {
        const value = isStale[i]! ? staleBits : values[i]!;
        samples.push({ timestampMillis: timesMillis[i]!, value });
      }
      next[at] = i;
      return { tags: Object.entries(labels).map(([name, value]) => ({ name, value })), samples };
    });
    await node.write(encodeRemoteWrite(parts.filter(({ samples }) => samples.length > 0)));
  }
}

/** Of slices whose rows are all in closed blocks, and which are in no block that is past retention: all of these. */
function windowsExpected(series: readonly EvaluatedSeries[], nowMillis: number): number {
  // A window that ends when a slice begins is in that slice.
  const until = floorTo(nowMillis - bufferPastMillis, blockMillis);
  return (['5m', '1h'] as const).reduce((count, source) => {
    const from = floorTo(nowMillis - (source === '5m' ? fineMillis : coarseMillis), blockMillis);
    return series.reduce((sum, each) => {
      const { timesMillis } = each.columns(source).last;
      return sum + timesMillis.filter((end) => end >= from && end < until).length;
    }, count);
  }, 0);
}

const floorTo = (millis: number, step: number): number => Math.floor(millis / step) * step;

async function shorten(node: ResolutionsNode, startMillis: number): Promise<void> {
  await node.admin('PUT', 'services/tsdb/namespace', {
    name: 'default',
    options: {
      retentionOptions: { retentionPeriodDuration: `${samplesMillis / hourMillis}h` },
    },
  });
  // The block that 48 h ago is in stays.
  const gone = floorTo(Date.now() - samplesMillis, blockMillis);
  const parameters = new URLSearchParams({
    query: 'count(level)',
    start: String(startMillis / 1000),
    end: String((gone - 1) / 1000),
    step: '3600',
  });
  await eventually('samples are past retention', async () => {
    const answer = await fetch(`${node.url}/api/v1/query_range?${parameters}`, {
      headers: { 'TSDB-Metrics-Type': 'unaggregated' },
    });
    const { data } = (await answer.json()) as { data: { result: unknown[] } };
    return data.result.length === 0;
  });
}

/** The whole time, in steps that are ends of windows, and in others. */
function wholeAsks(series: readonly LoadSeries[], startMillis: number, endMillis: number): Ask[] {
  const fullHour = Math.ceil(startMillis / hourMillis) * hourMillis;
  const steps: Steps = stepsOf(fullHour, endMillis, hourMillis);
  const odd: Steps = stepsOf(
    fullHour + 17 * minuteMillis,
    endMillis,
    3 * hourMillis + minuteMillis,
  );
  return [...plainExpressions(series), ...aggregatedExpressions()].flatMap((expression) => [
    { expression, steps, forced: null },
    { expression, steps: odd, forced: null },
  ]);
}

function stepsOf(startMillis: number, untilMillis: number, stepMillis: number): Steps {
  const count = Math.floor((untilMillis - startMillis) / stepMillis) + 1;
  return { startMillis, stepMillis, count };
}

/** When a query comes to read samples, and 5 minutes, for all that it looks at. */
function seamsOf(expression: Expression): number[] {
  return [
    Date.now() - samplesMillis + neededMillis(expression, 'samples'),
    Date.now() - fineMillis + neededMillis(expression, '5m'),
  ].map((millis) => Math.floor(millis / minuteMillis) * minuteMillis);
}

/** Every minute around the seams: in one answer, and some of them as an instant query each. */
function seamAsks(series: readonly LoadSeries[], endMillis: number): Ask[] {
  const all = [...plainExpressions(series), ...aggregatedExpressions()];
  const ranges = all.flatMap((expression) =>
    seamsOf(expression).map((seam): Ask => {
      const until = Math.min(seam + seamMillis, endMillis);
      return { expression, steps: stepsOf(seam - seamMillis, until, minuteMillis), forced: null };
    }),
  );
  const instants = all.filter(
    ({ name, rangeMillis, metric }) =>
      (name === 'instant' && ['level', 'requests_total', 'job_rows'].includes(metric)) ||
      (metric === 'requests_total' && name === 'rate' && rangeMillis === hourMillis) ||
      (metric === 'bursts_total' && name === 'increase' && rangeMillis === 6 * hourMillis) ||
      (metric === 'level' && name === 'sum_over_time' && rangeMillis === hourMillis),
  );
  const points = instants.flatMap((expression) =>
    seamsOf(expression).flatMap((seam) =>
      eachMinute(seam).map((at): Ask => ({ expression, steps: instantAt(at), forced: null })),
    ),
  );
  return [...ranges, ...points];
}

const eachMinute = (seam: number): number[] =>
  Array.from({ length: (2 * seamMillis) / minuteMillis + 1 }, (_, i) => {
    return seam - seamMillis + i * minuteMillis;
  });

const instantAt = (startMillis: number): Steps => ({ startMillis, stepMillis: 0, count: 1 });

/** Windows by name, also of recent time, of which nodes have made none. */
function forcedAsks(series: readonly LoadSeries[], startMillis: number, endMillis: number): Ask[] {
  const policyOf: Record<Exclude<SourceName, 'samples'>, string> = {
    '5m': `5m:${fineMillis / hourMillis}h`,
    '1h': `1h:${coarseMillis / hourMillis}h`,
  };
  const asks: Ask[] = [];
  for (const expression of plainExpressions(series)) {
    for (const source of ['5m', '1h'] as const) {
      const keptFrom = source === '5m' ? Date.now() - fineMillis + hourMillis : startMillis;
      const first = keptFrom + neededMillis(expression, source);
      const headers = {
        'TSDB-Metrics-Type': 'aggregated',
        'TSDB-Storage-Policy': policyOf[source],
      };
      const forced = { source, headers };
      const from = Math.ceil(first / hourMillis) * hourMillis;
      asks.push({ expression, steps: stepsOf(from, endMillis, 2 * hourMillis), forced });
      const recent = stepsOf(endMillis - 4 * hourMillis, endMillis, 7 * minuteMillis);
      asks.push({ expression, steps: recent, forced });
    }
    const samples = {
      source: 'samples',
      headers: { 'TSDB-Metrics-Type': 'unaggregated' },
    } as const;
    const begin = Date.now() - samplesMillis + hourMillis + neededMillis(expression, 'samples');
    const from = Math.ceil(begin / hourMillis) * hourMillis;
    asks.push({ expression, steps: stepsOf(from, endMillis, hourMillis), forced: samples });
  }
  return asks.filter(({ steps }) => steps.count > 0);
}

/** Instant queries at any time. */
function anyAsks(
  series: readonly LoadSeries[],
  startMillis: number,
  endMillis: number,
  seed: number,
): Ask[] {
  const random = new SeededRandom(seed + 1);
  const all = [...plainExpressions(series), ...aggregatedExpressions()];
  return Array.from({ length: 500 }, () => {
    const expression = random.pick(all);
    const at = startMillis + random.below((endMillis - startMillis) / minuteMillis) * minuteMillis;
    return { expression, steps: instantAt(at), forced: null };
  });
}

/** So that some of them are of each kind. */
function inAnyOrder(asks: readonly Ask[], seed: number): Ask[] {
  const random = new SeededRandom(seed + 2);
  const ordered = asks.map((ask) => ({ ask, place: random.u32() }));
  return ordered.sort((a, b) => a.place - b.place).map(({ ask }) => ask);
}

async function askAll(
  comparison: Comparison,
  asks: readonly Ask[],
  report: (line: string) => void,
): Promise<void> {
  let [next, asked] = [0, 0];
  const tenth = Math.ceil(asks.length / 10);
  const worker = async (): Promise<void> => {
    while (next < asks.length) {
      const ask = asks[next]!;
      next += 1;
      await comparison.ask(ask);
      asked += 1;
      if (asked % tenth === 0) {
        report(`${asked} of ${asks.length} queries, ${comparison.differenceCount} differences`);
      }
    }
  };
  await Promise.all(Array.from({ length: requestsAtOnce }, worker));
}

/** So many windows a fileset of them spans, and with it their index. */
const windowsOfFileset = 720;

/** Names of each stretch: series are known by blocks of the index, so some may be told that had rows nearby. */
async function askNames(
  comparison: Comparison,
  series: readonly LoadSeries[],
  startMillis: number,
  endMillis: number,
): Promise<void> {
  const day = (ago: number): number => endMillis - ago * dayMillis;
  const ranges: readonly [row: string, from: number, to: number][] = [
    ['1h', startMillis, day(50)],
    ['1h', day(39), day(35)],
    ['1h and 5m', day(33), day(27)],
    ['5m', day(20), day(15)],
    ['5m', day(6), day(4)],
    ['5m and samples', day(3), day(1)],
    ['samples', day(1), endMillis],
    ['samples', day(0.4), endMillis],
    ['all', startMillis, endMillis],
  ];
  const lookOf = (row: string): number => {
    if (row.includes('1h')) return windowsOfFileset * hourMillis + 2 * hourMillis;
    const ofWindows = row.includes('5m') ? (windowsOfFileset * hourMillis) / 12 : 0;
    return Math.max(ofWindows, blockMillis) + 2 * hourMillis;
  };
  const withRows = (from: number, to: number): Set<string> =>
    new Set(
      series
        .filter(({ timesMillis }) => timesMillis.some((at) => at >= from && at <= to))
        .map(({ labels }) => labels.instance),
    );
  for (const [row, from, to] of ranges) {
    const expected = {
      surely: withRows(from, to),
      perhaps: withRows(from - lookOf(row), to + lookOf(row)),
    };
    await comparison.askNames([from, to], expected, row);
  }
}
