/**
 * The soak itself: a paced load with queries against a server process, and what is seen of both.
 */
import { readFileSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { call, type NodeServer } from '../integration/process.ts';
import { createShortNamespace } from './short_namespace.ts';
import { labelsOf, metricNames, seriesOfSlice, SliceBody, valueOf } from './soak_data.ts';

export interface SoakOptions {
  readonly seconds: number;
  readonly seriesCount: number;
  readonly samplesPerSecond: number;
  readonly blockSeconds: number;
  readonly retentionSeconds: number;
  readonly recordSeconds: number;
  /** A slice's series are replaced by new ones so often; 0 for never. */
  readonly churnSeconds: number;
  readonly queriesPerSecond: number;
}

export interface Latency {
  readonly count: number;
  readonly p50Millis: number;
  readonly p99Millis: number;
  readonly maxMillis: number;
}

export interface SoakRecord {
  readonly seconds: number;
  /** Acknowledged in this span. */
  readonly samplesPerSecond: number;
  readonly writesFailed: number;
  /** Requests that were not sent at all, for too many were under way. */
  readonly writesSkipped: number;
  readonly write: Latency;
  readonly query: Latency;
  readonly queriesFailed: number;
  readonly queriesSkipped: number;
  /** Answers that were held against what was written. */
  readonly answersChecked: number;
  readonly answersWrong: number;
  readonly server: {
    readonly rssBytes: number;
    readonly heapBytes: number;
    readonly externalBytes: number;
    /** Of this span. */
    readonly cpuPerSecond: number;
    readonly loopLagMaxMillis: number;
  };
  /** Of the process that sends. */
  readonly senderCpuPerSecond: number;
  readonly disk: {
    readonly files: number;
    readonly bytes: number;
    readonly dataBytes: number;
    readonly commitlogBytes: number;
    readonly snapshotBytes: number;
    readonly indexBytes: number;
  };
  /** Metrics `tsdb_node_…` of the server, without that prefix. */
  readonly node: Readonly<Record<string, number>>;
  /** Milliseconds of the slowest query of each kind, in this span. */
  readonly slowestQuery: Readonly<Record<string, number>>;
}

const namespace = 'soak';
const connectionsMax = 8;
/**
 * Requests that wait at a time, six seconds of the usual rate; what comes due beyond is skipped,
 * and counted.
 */
const writesAtOnceMax = 1500;
const queriesAtOnceMax = 4;
const paceMillis = 5;
/** A window that is checked, in scrapes. */
const windowScrapes = 50;
/** Rows of the last moments may still be under way. */
const settleMillis = 1000;
const writePath = '/api/v1/compat/remote/write';

class Latencies {
  #millis: number[] = [];

  add(millis: number): void {
    this.#millis.push(millis);
  }

  take(): Latency {
    const all = Float64Array.from(this.#millis).sort();
    this.#millis = [];
    const at = (share: number): number =>
      all.length === 0 ? 0 : round(all[Math.min(all.length - 1, Math.floor(share * all.length))]!);
    return { count: all.length, p50Millis: at(0.5), p99Millis: at(0.99), maxMillis: at(1) };
  }
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Of one slice: from which scrape on its series have which generation. */
interface Life {
  readonly fromScrape: number;
  readonly generation: number;
}

type CountName =
  | 'samples'
  | 'writesFailed'
  | 'writesSkipped'
  | 'queriesFailed'
  | 'queriesSkipped'
  | 'answersChecked'
  | 'answersWrong';

export class Soak {
  readonly #server: NodeServer;
  readonly #options: SoakOptions;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  readonly #bodies: SliceBody[];
  readonly #lives: Life[][];
  readonly #scrapeMillis: number;
  /** For each slice and scrape: 1 when acknowledged. */
  readonly #acknowledged: Uint8Array[];
  #startUnixMillis = 0;
  #writesUnderWay = 0;
  #queriesUnderWay = 0;
  #nextQuery = 0;
  readonly #writes = new Latencies();
  readonly #queries = new Latencies();
  #slowest: Record<string, number> = {};
  readonly #counts: Record<CountName, number> = {
    samples: 0,
    writesFailed: 0,
    writesSkipped: 0,
    queriesFailed: 0,
    queriesSkipped: 0,
    answersChecked: 0,
    answersWrong: 0,
  };
  #lastCpu = 0;
  #lastSenderCpu = 0;
  #lastSeconds = 0;
  readonly #problems = new Set<string>();
  readonly #report: (line: string) => void;
  #random = 12_345;

  constructor(server: NodeServer, options: SoakOptions, report: (line: string) => void) {
    this.#server = server;
    this.#options = options;
    this.#report = report;
    const { seriesCount, samplesPerSecond, seconds } = options;
    this.#scrapeMillis = (seriesCount / samplesPerSecond) * 1000;
    if (!Number.isInteger(this.#scrapeMillis)) {
      throw new Error(`${seriesCount} series at ${samplesPerSecond}/s: not a whole millisecond`);
    }
    const slices = Math.ceil(seriesCount / seriesOfSlice);
    this.#bodies = Array.from({ length: slices }, (_, i) => new SliceBody(i, seriesCount, 0));
    this.#lives = this.#bodies.map(() => [{ fromScrape: 0, generation: 0 }]);
    const scrapes = Math.ceil((seconds * 1000) / this.#scrapeMillis) + 1;
    this.#acknowledged = this.#bodies.map(() => new Uint8Array(scrapes));
  }

  /**
   * Makes the namespace, loads the server, and gives a record every so often; a signal ends it
   * early.
   */
  async run(record: (record: SoakRecord) => void, signal: AbortSignal): Promise<void> {
    await createShortNamespace(this.#server, namespace, this.#options);
    // Scrapes lie on a grid of their own, so that windows of queries have known edges.
    this.#startUnixMillis = Math.ceil(Date.now() / 1000) * 1000;
    await delay(this.#startUnixMillis - Date.now());
    const begin = performance.now();
    const { seconds, recordSeconds } = this.#options;
    const stop = new AbortController();
    const ended = AbortSignal.any([stop.signal, signal]);
    const asking = this.#ask(ended);
    const sending = this.#send(begin, begin + seconds * 1000, signal);
    await this.#measure(0);
    for (let next = recordSeconds; next <= seconds; next += recordSeconds) {
      await delay(Math.max(0, begin + next * 1000 - performance.now()), undefined, {
        signal,
      }).catch(() => {});
      if (signal.aborted) break;
      record(await this.#measure((performance.now() - begin) / 1000));
    }
    await sending;
    stop.abort();
    await asking;
    this.#agent.destroy();
  }

  /** Open loop: a request goes when it is due, whatever the ones before it do. */
  async #send(begin: number, end: number, signal: AbortSignal): Promise<void> {
    const slices = this.#bodies.length;
    const { churnSeconds } = this.#options;
    const dueOf = (n: number): number => begin + (n * this.#scrapeMillis) / slices;
    let nextChurn = churnSeconds > 0 ? begin + churnSeconds * 1000 : Infinity;
    let churned = 0;
    for (let next = 0; dueOf(next) < end && !signal.aborted; ) {
      const now = performance.now();
      if (now >= nextChurn) {
        nextChurn += churnSeconds * 1000;
        // Requests of this scrape may have gone already: the new ones begin with the next.
        this.#replaceSeries(churned % slices, Math.floor(next / slices) + 1);
        churned += 1;
      }
      for (; dueOf(next) <= now && dueOf(next) < end; next += 1) {
        if (this.#writesUnderWay >= writesAtOnceMax) {
          this.#counts.writesSkipped += 1;
          continue;
        }
        void this.#write(next % slices, Math.floor(next / slices), dueOf(next));
      }
      await delay(paceMillis);
    }
    while (this.#writesUnderWay > 0) await delay(paceMillis);
  }

  #replacement: { slice: number; fromScrape: number; body: SliceBody } | null = null;

  #replaceSeries(slice: number, fromScrape: number): void {
    const generation = this.#lives[slice]!.at(-1)!.generation + 1;
    const body = new SliceBody(slice, this.#options.seriesCount, generation);
    this.#lives[slice]!.push({ fromScrape, generation });
    this.#replacement = { slice, fromScrape, body };
  }

  async #write(slice: number, scrape: number, dueMillis: number): Promise<void> {
    const replacement = this.#replacement;
    if (replacement?.slice === slice && scrape >= replacement.fromScrape) {
      this.#bodies[slice] = replacement.body;
      this.#replacement = null;
    }
    const made = this.#bodies[slice]!;
    this.#writesUnderWay += 1;
    try {
      const body = made.at(scrape, this.#startUnixMillis + scrape * this.#scrapeMillis);
      const { status, text } = await this.#post(body);
      if (status !== 200) throw new Error(`${status} ${text}`);
      this.#acknowledged[slice]![scrape] = 1;
      this.#counts.samples += made.seriesCount;
    } catch (error) {
      this.#counts.writesFailed += 1;
      this.#problem(`write: ${String(error)}`);
    } finally {
      this.#writesUnderWay -= 1;
      this.#writes.add(performance.now() - dueMillis);
    }
  }

  #post(body: Buffer): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const asked = request(
        `${this.#server.url}${writePath}`,
        { method: 'POST', agent: this.#agent, headers: { 'content-length': body.length } },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (part: string) => {
            text += part;
          });
          response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
          response.on('error', reject);
        },
      );
      asked.on('error', reject);
      asked.end(body);
    });
  }

  #problem(text: string): void {
    // One of each kind is enough to look into.
    const kind = text.replace(/\d+/g, '#').slice(0, 160);
    if (this.#problems.has(kind) || this.#problems.size > 100) return;
    this.#problems.add(kind);
    this.#report(text.slice(0, 1000));
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const { queriesPerSecond } = this.#options;
    if (queriesPerSecond === 0) return;
    const aborted = { signal };
    while (!signal.aborted) {
      await delay(1000 / queriesPerSecond, undefined, aborted).catch(() => {});
      if (signal.aborted) break;
      if (this.#queriesUnderWay >= queriesAtOnceMax) {
        this.#counts.queriesSkipped += 1;
        continue;
      }
      void this.#askOne();
    }
    while (this.#queriesUnderWay > 0) await delay(paceMillis);
  }

  #below(end: number): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#random / 2 ** 32) * end);
  }

  async #askOne(): Promise<void> {
    const now = Date.now() / 1000;
    const ago = (seconds: number): string =>
      String(Math.max(now - seconds, this.#startUnixMillis / 1000));
    const hosts = Math.max(1, Math.floor(this.#options.seriesCount / metricNames.length));
    const host = `host_${this.#below(hosts)}`;
    const range = (query: string, seconds: number, step: string): [string, object] => [
      '/api/v1/query_range',
      { query, start: ago(seconds), end: String(now), step },
    ];
    const kinds: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['one series', () => this.#query(...range(`soak_cpu_user{host="${host}"}`, 600, '15s'))],
      ['check', () => this.#check()],
      [
        'rate by host',
        () => this.#query(...range(`rate(soak_requests_total{host="${host}"}[1m])`, 1800, '60s')),
      ],
      ['check', () => this.#check()],
      [
        'ten hosts',
        () =>
          this.#query(
            ...range(`max by (host) ({__name__=~"soak_cpu_.*",host=~"host_1.?"})`, 300, '10s'),
          ),
      ],
      ['check', () => this.#check()],
      [
        'region',
        () =>
          this.#query('/api/v1/query', {
            query: `sum by (region) (rate(soak_requests_total{service="${this.#below(20)}"}[30s]))`,
          }),
      ],
      ['check', () => this.#check()],
      ['top', () => this.#query('/api/v1/query', { query: 'topk(5, soak_disk_used_ratio)' })],
      ['label values', () => this.#query('/api/v1/label/host/values', null)],
    ];
    const [kind, ask] = kinds[this.#nextQuery % kinds.length]!;
    this.#nextQuery += 1;
    const begin = performance.now();
    this.#queriesUnderWay += 1;
    try {
      await ask();
    } catch (error) {
      this.#counts.queriesFailed += 1;
      this.#problem(`query ${kind}: ${String(error)}`);
    } finally {
      this.#queriesUnderWay -= 1;
      const millis = performance.now() - begin;
      this.#queries.add(millis);
      this.#slowest[kind] = Math.max(this.#slowest[kind] ?? 0, round(millis));
    }
  }

  async #query(path: string, parameters: object | null): Promise<QueryResult[]> {
    const form = parameters === null ? '' : `?${new URLSearchParams({ ...parameters })}`;
    const { status, text, json } = await call('GET', `${this.#server.url}${path}${form}`);
    if (status !== 200) throw new Error(`${path}: ${status} ${text.slice(0, 300)}`);
    return (json as { data: { result: QueryResult[] } }).data.result;
  }

  /**
   * One series in one window of the past, anywhere inside retention: its sum and count are those of
   * what was written.
   */
  async #check(): Promise<void> {
    const { retentionSeconds, blockSeconds, seriesCount } = this.#options;
    // Where a machine is slow, questions are still asked when the last scrape has gone.
    const newest = Math.min(
      Math.floor((Date.now() - settleMillis - this.#startUnixMillis) / this.#scrapeMillis),
      this.#acknowledged[0]!.length - 1,
    );
    // The block at the edge of retention may go while it is read.
    const reach = Math.max(0, retentionSeconds - blockSeconds) * 1000;
    const reachable = Math.min(newest - windowScrapes + 1, Math.floor(reach / this.#scrapeMillis));
    if (reachable <= 0) return;
    const last = newest - this.#below(reachable);
    const first = last - windowScrapes + 1;
    const series = this.#below(seriesCount);
    const slice = Math.floor(series / seriesOfSlice);
    const lives = this.#lives[slice]!;
    const life = lives.findLastIndex(({ fromScrape }) => fromScrape <= first);
    if ((lives[life + 1]?.fromScrape ?? Infinity) <= last) return;
    const acknowledged = this.#acknowledged[slice]!.subarray(first, last + 1);
    if (acknowledged.includes(0)) return;
    let sum = 0;
    for (let scrape = first; scrape <= last; scrape += 1) sum += valueOf(series, scrape);
    const selector = labelsOf(series, lives[life]!.generation)
      .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
      .join(',');
    const window = `{${selector}}[${windowScrapes * this.#scrapeMillis}ms]`;
    const time = String((this.#startUnixMillis + last * this.#scrapeMillis) / 1000);
    for (const [name, wanted] of [
      ['count_over_time', windowScrapes],
      ['sum_over_time', sum],
    ] as const) {
      const query = `${name}(${window})`;
      const result = await this.#query('/api/v1/query', { query, time });
      const value = Number(result[0]?.value[1] ?? NaN);
      this.#counts.answersChecked += 1;
      if (result.length === 1 && Math.abs(value - wanted) <= 1e-9 * Math.abs(wanted)) continue;
      this.#counts.answersWrong += 1;
      this.#report(
        `wrong: ${query} at ${time} is ${value} (${result.length} series), not ${wanted}`,
      );
    }
  }

  async #measure(seconds: number): Promise<SoakRecord> {
    const metrics = await this.#metrics();
    const metric = (name: string): number => metrics.get(name) ?? 0;
    const cpu = metric('process_cpu_seconds_total');
    const own = process.cpuUsage();
    const senderCpu = (own.user + own.system) / 1e6;
    const span = Math.max(seconds - this.#lastSeconds, 1e-3);
    const { samples, ...counts } = this.#counts;
    const record: SoakRecord = {
      seconds: round(seconds),
      samplesPerSecond: Math.round(samples / span),
      ...counts,
      write: this.#writes.take(),
      query: this.#queries.take(),
      server: {
        rssBytes: this.#rssBytes(),
        heapBytes: metric('nodejs_heap_size_used_bytes'),
        externalBytes: metric('nodejs_external_memory_bytes'),
        cpuPerSecond: round((cpu - this.#lastCpu) / span),
        loopLagMaxMillis: round(1000 * metric('nodejs_eventloop_lag_max_seconds')),
      },
      senderCpuPerSecond: round((senderCpu - this.#lastSenderCpu) / span),
      disk: await this.#disk(),
      node: Object.fromEntries(
        [...metrics]
          .filter(([name]) => name.startsWith('tsdb_node_'))
          .map(([name, value]) => [name.slice('tsdb_node_'.length), value]),
      ),
      slowestQuery: this.#slowest,
    };
    for (const name of Object.keys(this.#counts) as CountName[]) this.#counts[name] = 0;
    this.#slowest = {};
    this.#lastCpu = cpu;
    this.#lastSenderCpu = senderCpu;
    this.#lastSeconds = seconds;
    return record;
  }

  /** Sums over labels. */
  async #metrics(): Promise<Map<string, number>> {
    const url = `http://127.0.0.1:${this.#server.ports.metrics}/metrics`;
    const text = await (await fetch(url)).text();
    const sums = new Map<string, number>();
    for (const [, name, value] of text.matchAll(/^([a-z_]+)(?:\{[^}]*\})? (\S+)$/gm)) {
      sums.set(name!, (sums.get(name!) ?? 0) + Number(value));
    }
    return sums;
  }

  #rssBytes(): number {
    const status = readFileSync(`/proc/${this.#server.program.pid}/status`, 'utf8');
    return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]);
  }

  async #disk(): Promise<SoakRecord['disk']> {
    const sums = new Map<string, number>();
    let files = 0;
    let bytes = 0;
    const walkFolder = async (folder: string, kind: string): Promise<void> => {
      // Files go away while they are counted.
      const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
      for (const entry of entries) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) {
          await walkFolder(path, kind === '' ? entry.name : kind);
          continue;
        }
        const length = (await stat(path).catch(() => null))?.size ?? 0;
        files += 1;
        bytes += length;
        sums.set(kind, (sums.get(kind) ?? 0) + length);
      }
    };
    await walkFolder(join(this.#server.folder, 'data'), '');
    const of = (kind: string): number => sums.get(kind) ?? 0;
    return {
      files,
      bytes,
      dataBytes: of('data'),
      commitlogBytes: of('commitlogs'),
      snapshotBytes: of('snapshots'),
      indexBytes: of('index'),
    };
  }
}

interface QueryResult {
  readonly value: readonly [number, string];
}
