/**
 * Native histograms in the single node and in Prometheus, from the same bodies: CPU time, memory and bytes of what comes in,
 * and what a quantile over all of them takes. Prints one JSON line.
 *
 *     node test/load/histograms_run.ts --prometheus PATH [--series 10000] [--hours 6] [--interval 60] [--keep]
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import type { Histogram } from '#engine/typed/histogram.ts';
import {
  encodeRemoteWrite,
  type SeriesToWrite,
} from '#engine/write_decoder/remote_write_testing.ts';
import {
  call,
  createLocalDatabase,
  eventually,
  NodeServer,
  Program,
} from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { bytesOf, freshFolder } from './folder.ts';
import { ProcessUsage } from './process_usage.ts';

const { values } = parseArgs({
  options: {
    prometheus: { type: 'string' },
    series: { type: 'string', default: '10000' },
    hours: { type: 'string', default: '6' },
    interval: { type: 'string', default: '60' },
    keep: { type: 'boolean', default: false },
  },
});
if (values.prometheus === undefined) throw new Error('--prometheus names its binary');
const seriesCount = Number(values.series);
const intervalMillis = Number(values.interval) * 1000;
const scrapes = Math.floor((Number(values.hours) * 3_600_000) / intervalMillis);
const startMillis =
  Math.floor(Date.now() / intervalMillis) * intervalMillis - scrapes * intervalMillis;
const seriesPerBody = 500;
/** Of schema 3: buckets grow by a twelfth, as those of client libraries do. */
const bucketsPerDoubling = 8;

/** Latencies of one route of one instance: a counter of observations that are spread as a logarithm of normal ones. */
class Route {
  readonly tags: SeriesToWrite['tags'];
  readonly #numbers: SeededNumbers;
  readonly #median: number;
  readonly #spread: number;
  readonly #perScrape: number;
  readonly #counts = new Map<number, number>();
  #count = 0;
  #sum = 0;

  constructor(ordinal: number) {
    this.tags = [
      { name: '__name__', value: 'request_duration_seconds' },
      { name: 'instance', value: `host-${Math.floor(ordinal / 20)}` },
      { name: 'job', value: `service-${ordinal % 50}` },
      { name: 'route', value: `/api/${ordinal % 20}` },
    ];
    this.#numbers = new SeededNumbers(ordinal + 1);
    this.#median = 0.002 * 10 ** (2 * this.#fraction());
    this.#spread = 0.3 + 0.7 * this.#fraction();
    this.#perScrape = Math.floor(2 + 60 * this.#fraction() ** 3);
  }

  #fraction(): number {
    return this.#numbers.below(2 ** 30) / 2 ** 30;
  }

  next(): Histogram {
    for (let i = 0; i < this.#perScrape; i++) {
      const normal = this.#fraction() + this.#fraction() + this.#fraction() + this.#fraction() - 2;
      const seconds = this.#median * Math.exp(2 * this.#spread * normal);
      const index = Math.ceil(Math.log2(seconds) * bucketsPerDoubling);
      this.#counts.set(index, (this.#counts.get(index) ?? 0) + 1);
      this.#count += 1;
      this.#sum += seconds;
    }
    const buckets = [...this.#counts].sort(([a], [b]) => a - b);
    return {
      isFloat: false,
      schema: 3,
      hint: 0,
      zeroThreshold: 2 ** -128,
      count: this.#count,
      zeroCount: 0,
      sumBits: new BigUint64Array(Float64Array.of(this.#sum).buffer)[0]!,
      customBounds: new Float64Array(0),
      positive: {
        indexes: Int32Array.from(buckets, ([index]) => index),
        counts: Float64Array.from(buckets, ([, count]) => count),
      },
      negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
    };
  }
}

const folder = freshFolder('histograms');
const [port] = (await freePorts(1)) as [number];
writeFileSync(join(folder, 'prometheus.yml'), 'global: {}\n');
const prometheus = new Program('prometheus', folder, values.prometheus, [
  `--config.file=${join(folder, 'prometheus.yml')}`,
  `--storage.tsdb.path=${join(folder, 'prometheus')}`,
  `--web.listen-address=127.0.0.1:${port}`,
  '--web.enable-remote-write-receiver',
  '--web.enable-admin-api',
  '--query.max-samples=2000000000',
]);
const node = await NodeServer.create({ folder });
const usage = new ProcessUsage();
const look = (): void => {
  usage.look('tsdb', node.program.pid);
  usage.look('prometheus', prometheus.pid);
};
const cpuOf = (name: string): number => {
  look();
  return usage.all().get(name)!.cpuSeconds;
};
const looks = setInterval(look, 500);
const urls = { tsdb: node.url, prometheus: `http://127.0.0.1:${port}` };
const writePaths = { tsdb: '/api/v1/compat/remote/write', prometheus: '/api/v1/write' };
const names = ['tsdb', 'prometheus'] as const;
try {
  prometheus.start();
  await node.start();
  await createLocalDatabase(node, 'histograms', { coldWritesEnabled: true });
  await eventually(
    'Prometheus is ready',
    async () => (await fetch(`${urls.prometheus}/-/ready`)).ok,
  );
  const routes = Array.from({ length: seriesCount }, (_, ordinal) => new Route(ordinal));
  const begin = { tsdb: cpuOf('tsdb'), prometheus: cpuOf('prometheus') };
  let [bodyBytes, bucketCount] = [0, 0];
  for (let scrape = 0; scrape < scrapes; scrape++) {
    const timestampMillis = startMillis + scrape * intervalMillis;
    for (let first = 0; first < seriesCount; first += seriesPerBody) {
      const body = encodeRemoteWrite(
        routes.slice(first, first + seriesPerBody).map((route) => {
          const histogram = route.next();
          bucketCount += histogram.positive.indexes.length;
          return { tags: route.tags, samples: [], histograms: [{ timestampMillis, histogram }] };
        }),
      );
      bodyBytes += body.length;
      for (const name of names) {
        const answer = await fetch(urls[name] + writePaths[name], {
          method: 'POST',
          headers: {
            'Content-Type': 'application/x-protobuf',
            'Content-Encoding': 'snappy',
            'X-Prometheus-Remote-Write-Version': '0.1.0',
          },
          body,
        });
        if (!answer.ok) throw new Error(`${name}: ${answer.status} ${await answer.text()}`);
      }
    }
  }
  const rows = seriesCount * scrapes;
  const taken = { tsdb: cpuOf('tsdb'), prometheus: cpuOf('prometheus') };
  await call('POST', `http://127.0.0.1:${node.ports.httpNode}/flush`, {}, 900_000);
  const snapshot = await call('POST', `${urls.prometheus}/api/v1/admin/tsdb/snapshot`, '', 900_000);
  const stored = { tsdb: cpuOf('tsdb'), prometheus: cpuOf('prometheus') };
  const bytes = {
    tsdb: bytesOf(join(folder, 'data/data/histograms')),
    prometheus: bytesOf(join(folder, 'prometheus/snapshots', snapshot.json.data.name)),
  };
  const end = startMillis + (scrapes - 1) * intervalMillis;
  const queries = {
    all: 'histogram_quantile(0.99, sum(rate(request_duration_seconds[5m])))',
    byJob: 'histogram_quantile(0.99, sum by (job) (rate(request_duration_seconds[5m])))',
    oneHost: 'histogram_quantile(0.99, rate(request_duration_seconds{instance="host-7"}[5m]))',
  };
  const results: Record<string, unknown> = {};
  for (const [key, query] of Object.entries(queries)) {
    const answers: Record<string, string> = {};
    for (const name of names) {
      const before = cpuOf(name);
      const started = performance.now();
      const parameters = new URLSearchParams({
        query,
        start: String((startMillis + 600_000) / 1000),
        end: String(end / 1000),
        step: '60',
        timeout: '300s',
      });
      const answer = await call('GET', `${urls[name]}/api/v1/query_range?${parameters}`);
      const millis = performance.now() - started;
      const cpuMillis = 1000 * (cpuOf(name) - before);
      results[`${key} ${name}`] = { millis: Math.round(millis), cpuMillis: Math.round(cpuMillis) };
      // As far as their ways to add up agree.
      answers[name] = JSON.stringify(answer.json?.data?.result ?? answer.text, (_, each) =>
        typeof each === 'string' && /^[-+.e\d]+$/.test(each) ? Number(each).toPrecision(9) : each,
      );
    }
    results[`${key} same`] = answers['tsdb'] === answers['prometheus'];
  }
  const perMillion = (seconds: number): number => Number(((seconds * 1e6) / rows).toFixed(2));
  const of = (name: (typeof names)[number]): object => ({
    cpuSecondsPerMillion: perMillion(taken[name] - begin[name]),
    cpuSecondsPerMillionStored: perMillion(stored[name] - taken[name]),
    bytesPerHistogram: Number((bytes[name] / rows).toFixed(2)),
    rssMaxMiB: Math.round(usage.all().get(name)!.rssMaxBytes / 2 ** 20),
  });
  console.log(
    JSON.stringify({
      rows,
      bucketsPerHistogram: Number((bucketCount / rows).toFixed(1)),
      bodyBytesPerHistogram: Number((bodyBytes / rows).toFixed(1)),
      tsdb: of('tsdb'),
      prometheus: of('prometheus'),
      queries: results,
    }),
  );
} finally {
  clearInterval(looks);
  await node.program.stop('SIGKILL');
  await prometheus.stop('SIGKILL');
  if (!values.keep) rmSync(folder, { recursive: true, force: true });
}
