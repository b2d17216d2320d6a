/** Targets over series that are in memory: a day of minutes each, from the text to the last column. */
import { cpuUsage } from 'node:process';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { tagsOfName } from '../series/series.ts';
import { Zone } from '../time/zone.ts';
import type { EvaluationContext, FetchedSeries } from './context.ts';
import { evaluate } from './evaluate.ts';

const stepSeconds = 60;
const untilSeconds = 1_700_000_400;

/** One row in fifty has no value. */
function seriesOf(count: number, rows: number): FetchedSeries[] {
  const random = new SeededNumbers(1);
  return Array.from({ length: count }, (_, index) => {
    const name = `servers.host${index}.dc${index % 8}.cpu.user`;
    const values = Float64Array.from({ length: rows }, () => 50 + 10 * random.normal());
    const present = Uint8Array.from(values, () => (random.below(50) === 0 ? 0 : 1));
    const startSeconds = untilSeconds - (rows - 1) * stepSeconds;
    const consolidation = 'average' as const;
    return {
      name,
      tags: tagsOfName(name),
      startSeconds,
      stepSeconds,
      consolidation,
      values,
      present,
    };
  });
}

const targets = [
  'servers.*.*.cpu.user',
  'movingAverage(servers.*.*.cpu.user,"1h")',
  'movingMedian(servers.*.*.cpu.user,"1h")',
  'summarize(servers.*.*.cpu.user,"1h","max")',
  'groupByNode(servers.*.*.cpu.user,2,"average")',
  'aliasByNode(servers.*.*.cpu.user,1,2)',
  'percentileOfSeries(servers.*.*.cpu.user,99)',
  'highestAverage(servers.*.*.cpu.user,10)',
  'asPercent(servers.*.*.cpu.user)',
  'perSecond(servers.*.*.cpu.user)',
  'interpolate(servers.*.*.cpu.user)',
] as const;

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const count = size === 'full' ? 1000 : 10;
  const rows = size === 'full' ? 1440 : 100;
  const runs = size === 'full' ? 5 : 1;
  const series = seriesOf(count, rows);
  const { signal } = new AbortController();
  const context = (): EvaluationContext => ({
    fromSeconds: untilSeconds - rows * stepSeconds,
    untilSeconds,
    time: { nowSeconds: untilSeconds, zone: new Zone('UTC') },
    limits: { seriesMax: 1_000_000, rowsMax: 100_000_000 },
    work: Turns.of(realEnv.clock).begin(signal),
    random: () => 0.5,
    fetch: async (requests) => requests.map(() => series),
    findEvents: null,
    variables: new Map(),
  });
  const results: BenchResult[] = [];
  for (const target of targets) {
    const times: number[] = [];
    for (let run = 0; run <= runs; run++) {
      const before = cpuUsage();
      await evaluate([target], context());
      const { user, system } = cpuUsage(before);
      // The first run is for the compiler.
      if (run > 0) times.push((user + system) / 1000);
    }
    times.sort((a, b) => a - b);
    results.push({
      name: `graphite: ${target}, ${count} series of ${rows} rows`,
      unit: 'CPU ms/target',
      value: times[times.length >> 1]!,
    });
  }
  return results;
}
