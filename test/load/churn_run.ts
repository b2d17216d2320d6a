/**
 * The churn itself: all series are replaced by new ones at every scrape, and what is seen of the
 * server.
 */
import { readdir, stat } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { NodeServer } from '../integration/process.ts';
import { createShortNamespace } from './short_namespace.ts';

export interface ChurnOptions {
  readonly seriesCount: number;
  readonly scrapes: number;
  readonly scrapeSeconds: number;
  readonly blockSeconds: number;
  readonly retentionSeconds: number;
}

export interface ChurnRecord {
  /** Since the first scrape. */
  readonly seconds: number;
  /** Acknowledged so far. */
  readonly samples: number;
  readonly failed: number;
  /** Of this scrape. */
  readonly slowestMillis: number;
  /** Of the time since the record before. */
  readonly cpuSeconds: number;
  readonly rssBytes: number;
  readonly files: number;
  readonly diskBytes: number;
  /** Metrics `tsdb_…` of the server, without that prefix. */
  readonly metrics: Readonly<Record<string, number>>;
}

const namespace = 'churn';
const connections = 4;
const seriesOfBody = 2000;
const writePath = '/api/v1/compat/remote/write';
const generationDigits = 8;
/** Any time of these years has six bytes as a varint. */
const timeBytes = 6;
const attemptsMax = 20;

/** Labels of a series; the pod is another one at every scrape. */
export function labelsOf(series: number, generation: number): [name: string, value: string][] {
  const pod = Math.floor(series / 10);
  return [
    ['__name__', `container_metric_${series % 10}`],
    ['cluster', 'production'],
    ['container', `app-${pod % 50}`],
    ['datacenter', `eu-west-1${'abc'[pod % 3]!}`],
    ['image', `registry.example/app-${pod % 50}:1.${pod % 7}`],
    ['instance', `10.0.${pod % 200}.17:9100`],
    ['job', 'kubelet'],
    ['namespace', `team-${pod % 30}`],
    ['node', `node-${pod % 200}`],
    ['pod', `app-${String(generation).padStart(generationDigits, '0')}-${pod}`],
  ];
}

/**
 * A body of up to `seriesOfBody` series in which each scrape changes the pods, times and values.
 */
export class ChurnBody {
  readonly #bytes: Buffer<ArrayBuffer>;
  readonly #podsAt: number[] = [];
  readonly #samplesAt: number[] = [];

  constructor(first: number, end: number) {
    const raw: Buffer[] = [];
    let length = 0;
    for (let series = first; series < end; series += 1) {
      const parts = labelsOf(series, 0).map(([name, value]) => label(name, value));
      const labels = Buffer.concat(parts);
      const sample = Buffer.alloc(2 + 9 + 1 + timeBytes);
      sample.set([0x12, 10 + timeBytes, 0x09]);
      sample[11] = 0x10;
      const one = Buffer.concat([labels, sample]);
      const head = Buffer.from([0x0a, ...varint(one.length)]);
      const labelsEnd = length + head.length + labels.length;
      const pod = parts.at(-1)!;
      this.#podsAt.push(labelsEnd - pod.length + pod.indexOf('app-') + 'app-'.length);
      this.#samplesAt.push(labelsEnd + 3);
      raw.push(head, one);
      length += head.length + one.length;
    }
    // One snappy literal.
    const begin = Buffer.from([...varint(length), 62 << 2, ...bytesOf(length - 1, 3)]);
    this.#bytes = Buffer.concat([begin, ...raw]);
    for (const at of [this.#podsAt, this.#samplesAt]) {
      for (let i = 0; i < at.length; i += 1) at[i]! += begin.length;
    }
  }

  get seriesCount(): number {
    return this.#samplesAt.length;
  }

  /** Borrowed until the next call. */
  at(generation: number, unixMillis: number, value: number): Buffer {
    const digits = Buffer.from(String(generation).padStart(generationDigits, '0'));
    const time = varint(unixMillis);
    for (let i = 0; i < this.#samplesAt.length; i += 1) {
      this.#bytes.set(digits, this.#podsAt[i]!);
      this.#bytes.writeDoubleLE(value, this.#samplesAt[i]!);
      this.#bytes.set(time, this.#samplesAt[i]! + 9);
    }
    return this.#bytes;
  }
}

function label(name: string, value: string): Buffer {
  const fields = [
    0x0a,
    name.length,
    ...Buffer.from(name),
    0x12,
    value.length,
    ...Buffer.from(value),
  ];
  return Buffer.from([0x0a, fields.length, ...fields]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return [...bytes, rest];
}

function bytesOf(value: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => (value >>> (8 * i)) & 255);
}

export class Churn {
  readonly #server: NodeServer;
  readonly #options: ChurnOptions;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: connections });
  #samples = 0;
  #failed = 0;
  #slowestMillis = 0;
  #lastCpu = 0;

  constructor(server: NodeServer, options: ChurnOptions) {
    this.#server = server;
    this.#options = options;
  }

  /**
   * Makes the namespace, sends all scrapes, and waits until the last series has expired.
   * @param record called after each scrape, and every so often while the rest expires
   */
  async run(record: (record: ChurnRecord) => void, signal: AbortSignal): Promise<void> {
    await createShortNamespace(this.#server, namespace, this.#options);
    const { seriesCount, scrapes, scrapeSeconds, blockSeconds, retentionSeconds } = this.#options;
    const bodies: ChurnBody[] = [];
    for (let first = 0; first < seriesCount; first += seriesOfBody) {
      bodies.push(new ChurnBody(first, Math.min(first + seriesOfBody, seriesCount)));
    }
    const begin = performance.now();
    const pause = (dueMillis: number) =>
      delay(Math.max(0, begin + dueMillis - performance.now()), undefined, { signal }).catch(
        () => {},
      );
    for (let scrape = 0; scrape < scrapes && !signal.aborted; scrape += 1) {
      await pause(scrape * scrapeSeconds * 1000);
      const waiting = [...bodies];
      const sender = async () => {
        for (let body = waiting.pop(); body !== undefined; body = waiting.pop()) {
          await this.#send(body, scrape);
        }
      };
      await Promise.all(Array.from({ length: connections }, sender));
      record(await this.#measure((performance.now() - begin) / 1000));
    }
    // The last block ends, is past retention, and the second tick after that takes the series.
    const sentMillis = performance.now() - begin;
    const tailMillis = (retentionSeconds + 2 * blockSeconds) * 1000 + 40_000;
    for (let after = 0; after < tailMillis && !signal.aborted; after += scrapeSeconds * 1000) {
      await pause(sentMillis + after);
      const one = await this.#measure((performance.now() - begin) / 1000);
      record(one);
      if (one.metrics['node_series'] === 0) break;
    }
    this.#agent.destroy();
  }

  /** Sends until it is taken: 429 and 503 are for what passes. */
  async #send(body: ChurnBody, scrape: number): Promise<void> {
    for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
      const began = performance.now();
      const status = await this.#post(body.at(scrape, Date.now(), scrape)).catch(() => 0);
      this.#slowestMillis = Math.max(this.#slowestMillis, performance.now() - began);
      if (status === 200) {
        this.#samples += body.seriesCount;
        return;
      }
      await delay(100 * attempt);
    }
    this.#failed += 1;
  }

  #post(body: Buffer): Promise<number> {
    return new Promise((resolve, reject) => {
      const asked = request(
        `${this.#server.url}${writePath}`,
        { method: 'POST', agent: this.#agent, headers: { 'content-length': body.length } },
        (response) => {
          response.resume();
          response.on('end', () => resolve(response.statusCode ?? 0));
          response.on('error', reject);
        },
      );
      asked.on('error', reject);
      asked.end(body);
    });
  }

  async #measure(seconds: number): Promise<ChurnRecord> {
    const text = await (
      await fetch(`http://127.0.0.1:${this.#server.ports.metrics}/metrics`)
    ).text();
    const all = new Map<string, number>();
    for (const [, name, value] of text.matchAll(/^([a-z_]+) (\S+)$/gm))
      all.set(name!, Number(value));
    const cpu = all.get('process_cpu_seconds_total') ?? 0;
    const { files, bytes } = await sizeOf(join(this.#server.folder, 'data'));
    const record: ChurnRecord = {
      seconds: Math.round(seconds * 10) / 10,
      samples: this.#samples,
      failed: this.#failed,
      slowestMillis: Math.round(this.#slowestMillis),
      cpuSeconds: Math.round((cpu - this.#lastCpu) * 100) / 100,
      rssBytes: all.get('process_resident_memory_bytes') ?? 0,
      files,
      diskBytes: bytes,
      metrics: Object.fromEntries(
        [...all].flatMap(([name, value]) =>
          name.startsWith('tsdb_') ? [[name.slice(5), value]] : [],
        ),
      ),
    };
    this.#lastCpu = cpu;
    this.#slowestMillis = 0;
    return record;
  }
}

async function sizeOf(folder: string): Promise<{ files: number; bytes: number }> {
  let files = 0;
  let bytes = 0;
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  for (const name of names) {
    const found = await stat(join(folder, name)).catch(() => null);
    if (found === null || !found.isFile()) continue;
    files += 1;
    bytes += found.size;
  }
  return { files, bytes };
}

/** Growth that counts as none: what the allocator keeps, and where in a block a record falls. */
const growthMax = 1.1;

/** What must hold of a run: once the first series expire, nothing grows. */
export function verdictOf(
  options: ChurnOptions,
  records: readonly ChurnRecord[],
): { readonly lines: readonly string[]; readonly isGood: boolean } {
  const { retentionSeconds, blockSeconds, scrapes } = options;
  const lines: string[] = [];
  let isGood = true;
  const told = (line: string, holds: boolean): void => {
    lines.push(`${holds ? 'good' : 'BAD'}: ${line}`);
    isGood &&= holds;
  };
  const sent = records.slice(0, scrapes);
  // From here on as much expires as comes.
  const settled = sent.filter(({ seconds }) => seconds > retentionSeconds + 2 * blockSeconds);
  const half = Math.floor(settled.length / 2);
  const maxima = (of: (record: ChurnRecord) => number): [number, number] => [
    Math.max(...settled.slice(0, half).map(of)),
    Math.max(...settled.slice(half).map(of)),
  ];
  if (half > 0) {
    const kinds: readonly [string, (record: ChurnRecord) => number][] = [
      ['resident memory', ({ rssBytes }) => rssBytes],
      ['bytes on disk', ({ diskBytes }) => diskBytes],
      ['series', ({ metrics }) => metrics['node_series'] ?? 0],
      ['bytes of the store', ({ metrics }) => metrics['node_store_bytes'] ?? 0],
      ['bytes of the index', ({ metrics }) => metrics['node_index_bytes'] ?? 0],
      [
        'bytes of the write decoder',
        ({ metrics }) => metrics['coordinator_front_memory_bytes'] ?? 0,
      ],
    ];
    for (const [name, of] of kinds) {
      const [before, after] = maxima(of);
      told(`${name} at most ${before}, then ${after}`, after <= before * growthMax);
    }
  }
  const last = records.at(-1);
  told(`requests given up: ${last?.failed}`, last?.failed === 0);
  told(
    `slowest request: ${Math.max(...records.map(({ slowestMillis }) => slowestMillis))} ms`,
    true,
  );
  if (records.length > scrapes) {
    const left = last?.metrics['node_series'] ?? -1;
    told(`series left at the end: ${left}`, left === 0);
  }
  return { lines, isGood };
}
