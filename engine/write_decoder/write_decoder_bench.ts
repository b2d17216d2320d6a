/**
 * The write decoder alone: remote write bodies of 2000 samples in the shape of TSBS cpu-only
 * (eleven tags, series in the order of their hosts, whole numbers), from compressed bytes to rows.
 */
import { type BenchResult, type BenchSize } from '#test/benchmark.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { histogramOfValue } from '../typed/histogram.ts';
import { histogramValues } from '../typed/samples_testing.ts';
import type { RemoteWriteVersion } from './core.ts';
import { WriteDecoderKernel } from './kernel.ts';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
  type SeriesToWrite,
} from './remote_write_testing.ts';

const fields = [
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
const samplesPerBody = 2000;

function tagsOfSeries(index: number): SeriesToWrite['tags'] {
  const host = Math.floor(index / fields.length);
  const region = regions[host % regions.length]!;
  const tags: Record<string, string> = {
    __name__: `usage_${fields[index % fields.length]}`,
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
  return Object.entries(tags).map(([name, value]) => ({ name, value }));
}

/** Bodies of one scrape of all series in the given order. */
function bodiesOf(
  order: readonly number[],
  scrape: number,
  encode: (series: readonly SeriesToWrite[]) => Uint8Array = encodeRemoteWrite,
): Uint8Array[] {
  const bodies: Uint8Array[] = [];
  for (let first = 0; first < order.length; first += samplesPerBody) {
    bodies.push(
      encode(
        order.slice(first, first + samplesPerBody).map((index) => ({
          tags: tagsOfSeries(index),
          samples: [
            {
              timestampMillis: 1_700_000_000_000 + scrape * 15_000,
              value: (index * 7 + scrape) % 100,
            },
          ],
        })),
      ),
    );
  }
  return bodies;
}

function shuffled(count: number): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  let state = 12345;
  for (let i = count - 1; i > 0; i--) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    const j = state % (i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

export function bench(size: BenchSize): Promise<BenchResult[]> {
  const seriesCount = size === 'full' ? 10_000 : 4000;
  const rounds = size === 'full' ? 40 : 2;
  const runs = size === 'full' ? 7 : 1;
  const inOrder = Array.from({ length: seriesCount }, (_, i) => i);
  const known = [0, 1, 2].flatMap((scrape) => bodiesOf(inOrder, scrape));
  const orders = Array.from({ length: 3 }, (_, scrape) =>
    bodiesOf(shuffled(seriesCount - scrape), scrape),
  );
  const reordered = orders.flat();
  const results = [
    measure('known series, same order', known, rounds, runs),
    measure('known series, another order every scrape', reordered, rounds, runs),
    measure(
      'version 2, known series, same order',
      [0, 1, 2].flatMap((scrape) => bodiesOf(inOrder, scrape, encodeRemoteWriteV2)),
      rounds,
      runs,
      2,
    ),
    measureHistograms(size, rounds, runs),
    measureNew(known.slice(0, known.length / 3), runs),
  ];
  return Promise.resolve(results);
}

const random = {
  u32: () => 1,
  bytes: (length: number) =>
    Uint8Array.from({ length }, (_, i) => Math.imul(i + 1, 0x9e3779b1) >>> 24),
  fraction: () => 0,
};
const memoryBytesMax = 64 * 1024 * 1024;

function cpuSeconds(task: () => number): number {
  const before = process.cpuUsage();
  const samples = task();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / samples;
}

function measure(
  name: string,
  bodies: readonly Uint8Array[],
  rounds: number,
  runs: number,
  version: RemoteWriteVersion = 1,
): BenchResult {
  const kernel = new WriteDecoderKernel(random, memoryBytesMax);
  const pass = (): number => {
    let samples = 0;
    for (let round = 0; round < rounds; round++) {
      for (const body of bodies) samples += kernel.remoteWrite(body, version);
    }
    return samples;
  };
  pass();
  return result(
    name,
    Array.from({ length: runs }, () => cpuSeconds(pass)),
  );
}

/** Of a schema that spreads requests over some 40 buckets. */
function measureHistograms(size: BenchSize, rounds: number, runs: number): BenchResult {
  const numbers = new SeededNumbers(19);
  const count = size === 'full' ? 500 : 50;
  const bodies = [0, 1].map((scrape) =>
    encodeRemoteWriteV2(
      Array.from({ length: count }, (_, index) => ({
        tags: tagsOfSeries(index),
        samples: [],
        histograms: [
          {
            timestampMillis: 1_700_000_000_000 + scrape * 15_000,
            histogram: histogramOfValue(
              histogramValues(numbers, 1, { perRow: 2000, schema: 3 })[0]!,
            ),
          },
        ],
      })),
    ),
  );
  const kernel = new WriteDecoderKernel(random, memoryBytesMax);
  const pass = (): number => {
    for (let round = 0; round < rounds; round++) {
      for (const body of bodies) kernel.remoteWrite(body, 2);
    }
    return rounds * bodies.length * count;
  };
  pass();
  return {
    ...result(
      'native histograms, version 2',
      Array.from({ length: runs }, () => cpuSeconds(pass)),
    ),
    unit: 'CPU s/M histograms',
  };
}

function measureNew(bodies: readonly Uint8Array[], runs: number): BenchResult {
  const seconds = Array.from({ length: runs }, () => {
    const kernel = new WriteDecoderKernel(random, memoryBytesMax);
    return cpuSeconds(() => {
      let samples = 0;
      for (const body of bodies) samples += kernel.remoteWrite(body);
      return samples;
    });
  });
  return result('new series, without their verdicts', seconds);
}

function result(name: string, seconds: number[]): BenchResult {
  const sorted = seconds.sort((a, b) => a - b);
  return {
    name: `engine/write_decoder: ${name}`,
    unit: 'CPU s/M samples',
    value: sorted[sorted.length >> 1]!,
  };
}
