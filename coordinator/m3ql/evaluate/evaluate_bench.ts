/** Scripts over series that are in memory, a day of minutes each, from the text to the answer's rows; and rows of storage on steps. */
import { cpuUsage } from 'node:process';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { metricNameTag } from '#lib/tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import type { FetchedSeries } from '../../graphite/evaluate/context.ts';
import { Zone } from '../../graphite/time/zone.ts';
import { Pacer } from '../../promql/rows/pacer.ts';
import type { StoredRows } from '../../graphite/storage/rows.ts';
import { rowsAtSteps } from '../storage/rows.ts';
import { matrixOf } from './answer.ts';
import { evaluateScript } from './evaluate.ts';

const stepSeconds = 60;
const startSeconds = 1_700_000_400;

/** One row in fifty has no value. */
function seriesOf(count: number, rows: number): FetchedSeries[] {
  const random = new SeededNumbers(1);
  return Array.from({ length: count }, (_, index) => {
    const tags = new Map([
      [metricNameTag, 'requests'],
      ['dc', `${index % 8}`],
      ['host', `web${index}`],
    ]);
    const values = Float64Array.from({ length: rows }, () => 50 + 10 * random.normal());
    const present = Uint8Array.from(values, () => (random.below(50) === 0 ? 0 : 1));
    const name = `requests;dc=${index % 8};host=web${index}`;
    const consolidation = 'average' as const;
    return { name, tags, startSeconds, stepSeconds, consolidation, values, present };
  });
}

const scripts = [
  'fetch name:requests',
  'fetch name:requests | perSecond | sum dc | > 5',
  'fetch name:requests | moving 1h avg',
  'fetch name:requests | asPercent (sum dc) dc',
  'fetch name:requests | head 10',
  'fetch name:requests | summarize 1h max',
] as const;

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const count = size === 'full' ? 1000 : 10;
  const rowCount = size === 'full' ? 1440 : 100;
  const runs = size === 'full' ? 5 : 1;
  const series = seriesOf(count, rowCount);
  const results: BenchResult[] = [];
  for (const script of scripts) {
    const millis = await median(runs, () => evaluate(script, series, rowCount));
    results.push({
      name: `m3ql: ${script}, ${count} series of ${rowCount} rows`,
      unit: 'CPU ms/script',
      value: millis,
    });
  }
  const rows = size === 'full' ? 1_000_000 : 1_000;
  const stored = storedRows(rows);
  const steps = { startSeconds: 0, stepSeconds: 1, length: rows };
  const millis = await median(runs, async () => {
    rowsAtSteps(stored, steps, 1_000, []);
  });
  results.push({ name: 'm3ql: rows at steps', unit: 'ns/row', value: (millis * 1e6) / rows });
  return results;
}

async function evaluate(
  script: string,
  series: readonly FetchedSeries[],
  rowCount: number,
): Promise<void> {
  const grid = { startSeconds, stepSeconds, rowCount };
  const work = Turns.of(realEnv.clock).begin(new AbortController().signal);
  const list = await evaluateScript(script, grid, {
    time: { nowSeconds: startSeconds, zone: new Zone('UTC') },
    limits: { seriesMax: 1_000_000, rowsMax: 100_000_000 },
    work,
    random: () => 0.5,
    fetch: async (requests) => requests.map(() => series),
    findEvents: null,
    variables: new Map(),
  });
  await matrixOf(list, grid, new Pacer(work, 100_000_000, unlimitedReadBytes));
}

/** A row in each step but some. */
function storedRows(count: number): StoredRows {
  return {
    count,
    timestampMillis: Float64Array.from({ length: count }, (_, row) => row * 1_010),
    values: new Float64Array(count).fill(1),
  };
}

/** CPU milliseconds; the first run is for the compiler. */
async function median(runs: number, run: () => Promise<void>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i <= runs; i++) {
    const before = cpuUsage();
    await run();
    const { user, system } = cpuUsage(before);
    if (i > 0) times.push((user + system) / 1000);
  }
  times.sort((a, b) => a - b);
  return times[times.length >> 1]!;
}
