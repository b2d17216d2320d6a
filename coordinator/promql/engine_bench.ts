/**
 * The engine without HTTP, index and network: hosts in the shape of TSBS cpu-only (eleven tags,
 * whole numbers that walk between 0 and 100, a sample every 15 s, six hours in chunks of 480), from
 * the query's text to the last byte of JSON.
 */
import { cpuUsage } from 'node:process';
import { encodeFloatChunk } from '#engine/codec/codec_twin.ts';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import type { Matcher, QueryStorage, SelectRange, SelectResult } from '../select/storage.ts';
import { PromqlEngine, writeResultJson } from './engine.ts';

const startMillis = 1_700_000_400_000;
const hoursMillis = 6 * 3_600_000;
const intervalMillis = 15_000;
const chunkRows = 480;
const metrics = [
  'user',
  'system',
  'idle',
  'nice',
  'iowait',
  'irq',
  'softirq',
  'steal',
  'guest',
  'guest_nice',
];
const regions = ['us-east-1', 'us-west-2', 'eu-central-1', 'ap-southeast-1', 'sa-east-1'];

interface BenchSeries {
  readonly tags: Record<string, string>;
  readonly tagsBytes: Uint8Array;
  readonly chunks: Uint8Array;
}

function tagsOf(metric: string, host: number): Record<string, string> {
  const region = regions[host % regions.length]!;
  return {
    __name__: `usage_${metric}`,
    arch: host % 2 === 0 ? 'x64' : 'x86',
    datacenter: `${region}${'abc'[host % 3]}`,
    hostname: `host_${host}`,
    os: host % 3 === 0 ? 'Ubuntu16.04LTS' : 'Ubuntu15.10',
    rack: `${host % 100}`,
    region,
    service: `${host % 20}`,
    service_environment: ['production', 'staging', 'test'][host % 3]!,
    service_version: `${host % 2}`,
    team: ['SF', 'NYC', 'LON', 'CHI'][host % 4]!,
  };
}

function chunksOf(random: SeededNumbers): Uint8Array {
  const rowCount = hoursMillis / intervalMillis;
  const parts: Uint8Array[] = [];
  let value = random.below(101);
  for (let first = 0; first < rowCount; first += chunkRows) {
    const values = new Float64Array(chunkRows);
    const timestampNanos = new BigInt64Array(chunkRows);
    for (let i = 0; i < chunkRows; i++) {
      value = Math.min(100, Math.max(0, value + Math.round(random.normal())));
      values[i] = value;
      timestampNanos[i] = BigInt(startMillis + (first + i) * intervalMillis) * 1_000_000n;
    }
    parts.push(encodeFloatChunk({ timestampNanos, values, version: 1 }));
  }
  return new Uint8Array(Buffer.concat(parts));
}

/**
 * Answers by the matchers over all series; what a query asks twice is put together once, as an
 * index would have it.
 */
class BenchStorage implements QueryStorage {
  readonly #series: readonly BenchSeries[];
  readonly #answers: Map<string, SelectResult>;

  constructor(hostCount: number) {
    const random = new SeededNumbers(1);
    this.#answers = new Map();
    this.#series = metrics.flatMap((metric) =>
      Array.from({ length: hostCount }, (_, host) => {
        const tags = tagsOf(metric, host);
        const pairs = Object.entries(tags).map(([name, value]) => ({ name, value }));
        return { tags, tagsBytes: encodeTags(pairs), chunks: chunksOf(random) };
      }),
    );
  }

  async select(matchers: readonly Matcher[], _range: SelectRange): Promise<SelectResult> {
    const key = JSON.stringify(matchers);
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = { bundle: bundleOf(this.#matching(matchers)), exhaustive: true, warnings: [] };
      this.#answers.set(key, answer);
    }
    return answer;
  }

  #matching(matchers: readonly Matcher[]): BenchSeries[] {
    return this.#series.filter(({ tags }) =>
      matchers.every(({ name, kind, value }) => {
        const text = tags[name] ?? '';
        return kind === '=' ? text === value : compileAnchored(value).test(text);
      }),
    );
  }

  labelNames(): never {
    throw new Error('not part of this benchmark');
  }

  labelValues(): never {
    throw new Error('not part of this benchmark');
  }

  series(): never {
    throw new Error('not part of this benchmark');
  }
}

function bundleOf(series: readonly BenchSeries[]): SeriesBundle {
  const offsets = (lengths: readonly number[]) => {
    const result = new Uint32Array(lengths.length + 1);
    lengths.forEach((length, i) => (result[i + 1] = result[i]! + length));
    return result;
  };
  return {
    seriesCount: series.length,
    tagsData: new Uint8Array(Buffer.concat(series.map(({ tagsBytes }) => tagsBytes))),
    tagsOffset: offsets(series.map(({ tagsBytes }) => tagsBytes.length)),
    idScheme: new Uint8Array(series.length).fill(1),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(series.length + 1),
    chunkData: new Uint8Array(Buffer.concat(series.map(({ chunks }) => chunks))),
    chunkOffset: offsets(series.map(({ chunks }) => chunks.length)),
  };
}

/** Name, seconds back from the end, step in seconds, query. */
const queries: readonly (readonly [string, number, number, string])[] = [
  ['one-host-1h', 3600, 15, 'usage_user{hostname="host_7"}'],
  ['one-host-rate-6h', 21600, 60, 'rate(usage_user{hostname="host_7"}[5m])'],
  [
    'max-8-hosts-1h',
    3600,
    60,
    'max by (hostname) (max_over_time(usage_user{hostname=~"host_(1|2|3|4|5|6|7|8)"}[1m]))',
  ],
  ['regexp-hosts-1h', 3600, 60, 'avg by (hostname) (usage_user{hostname=~"host_1[0-9]+"})'],
  ['double-groupby-6h', 21600, 3600, 'avg by (hostname) (avg_over_time(usage_user[1h]))'],
  ['sum-rate-6h', 21600, 60, 'sum(rate(usage_user[5m]))'],
  ['sum-by-region-10k-1h', 3600, 60, 'sum by (region) ({__name__=~"usage_.*"})'],
  ['quantile-6h', 21600, 60, 'quantile(0.99, usage_system)'],
  ['topk-1h', 3600, 60, 'topk(10, usage_idle)'],
  [
    'binary-join-1h',
    3600,
    60,
    'usage_user / on (hostname) group_left () (usage_user + on (hostname) usage_system)',
  ],
  ['raw-1h', 3600, 15, 'usage_user'],
  ['filter-6h', 21600, 60, 'count(usage_user > 90)'],
];

const options = {
  lookbackMillis: 300_000,
  samplesMax: 50_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const hostCount = size === 'full' ? 1000 : 20;
  const runs = size === 'full' ? 9 : 1;
  const engine = new PromqlEngine(new BenchStorage(hostCount), { clock: realEnv.clock });
  const { signal } = new AbortController();
  const endMillis = startMillis + hoursMillis - intervalMillis;
  const results: BenchResult[] = [];
  for (const [name, backSeconds, stepSeconds, query] of queries) {
    const times: number[] = [];
    for (let run = 0; run <= runs; run++) {
      const before = cpuUsage();
      const result = await engine.rangeQuery(
        query,
        endMillis - backSeconds * 1000,
        endMillis,
        stepSeconds * 1000,
        options,
        signal,
      );
      let bytes = 0;
      for await (const piece of writeResultJson(result)) bytes += piece.length;
      const { user, system } = cpuUsage(before);
      // The first run is for the compiler.
      if (run > 0 && bytes > 0) times.push((user + system) / 1000);
    }
    times.sort((a, b) => a - b);
    results.push({
      name: `promql: ${name}, ${hostCount} hosts`,
      unit: 'CPU ms/query',
      value: times[times.length >> 1]!,
    });
  }
  return results;
}
