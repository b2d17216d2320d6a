/**
 * Dashboards while samples come in, on the single node and on VictoriaMetrics, one after the other: so many samples a second of
 * 10,000 series by remote write, and viewers who each ask for the panels of a dashboard of their own one after the other, without a
 * pause: five minutes of one host or a few. Prints one JSON line a server, with milliseconds of panels and of whole dashboards.
 * Writers, viewers and server share the machine, so figures compare in one run alone.
 *
 *     node test/load/dashboards_run.ts [--victoria PATH] [--viewers 50] [--panels 20] [--samples 200000] [--seconds 30]
 */
import { rmSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { createLocalDatabase, eventually, NodeServer, Program } from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { freshFolder } from './folder.ts';
import { ProcessUsage } from './process_usage.ts';

const { values } = parseArgs({
  options: {
    victoria: { type: 'string' },
    viewers: { type: 'string', default: '50' },
    panels: { type: 'string', default: '20' },
    samples: { type: 'string', default: '200000' },
    seconds: { type: 'string', default: '30' },
  },
});
const viewers = Number(values.viewers);
const panels = Number(values.panels);
const samplesPerSecond = Number(values.samples);
const seconds = Number(values.seconds);

const hosts = 1000;
const metricsOfHost = 10;
const seriesCount = hosts * metricsOfHost;
const seriesPerBody = 2000;
/** Of what is there before. */
const scrapesBefore = 40;
const scrapeMillis = 10_000;
/** Compiled, cached and opened by then, in both. */
const warmSeconds = 5;

const tags = Array.from({ length: seriesCount }, (_, i) => [
  { name: '__name__', value: `usage_${i % metricsOfHost}` },
  { name: 'hostname', value: `host_${Math.floor(i / metricsOfHost)}` },
  { name: 'region', value: `region_${i % 7}` },
]);

function bodyOf(first: number, timestampMillis: number): Uint8Array {
  return encodeRemoteWrite(
    Array.from({ length: seriesPerBody }, (_, i) => ({
      tags: tags[(first + i) % seriesCount]!,
      samples: [{ timestampMillis, value: Math.round(Math.random() * 10_000) / 100 }],
    })),
  );
}

function panelOf(ordinal: number): string {
  const [host, metric] = [ordinal % hosts, ordinal % metricsOfHost];
  const some = [host, (host + 1) % hosts, (host + 7) % hosts].join('|');
  return [
    `usage_${metric}{hostname="host_${host}"}`,
    `rate(usage_${metric}{hostname="host_${host}"}[2m])`,
    `max by (hostname) (usage_1{hostname=~"host_(${some})"})`,
  ][ordinal % 3]!;
}

interface Target {
  readonly name: string;
  readonly port: number;
  readonly writePath: string;
  readonly queryPath: string;
  readonly pid: number;
}

interface Load {
  /** Samples. */
  readonly written: number;
  /** Of each panel, and of each dashboard. */
  readonly millis: number[];
  readonly dashboardMillis: number[];
}

function sharesOf(millis: readonly number[]): object {
  const sorted = millis.toSorted((a, b) => a - b);
  const at = (share: number): number => Math.round(sorted[Math.floor(sorted.length * share)]!);
  return { p50: at(0.5), p99: at(0.99), max: Math.round(sorted.at(-1)!) };
}

class Dashboards {
  readonly #target: Target;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: viewers + 4 });
  readonly #usage = new ProcessUsage();
  #errors = 0;

  constructor(target: Target) {
    this.#target = target;
  }

  async run(): Promise<object> {
    const { name } = this.#target;
    const now = Date.now();
    for (let scrape = scrapesBefore; scrape >= 1; scrape--) {
      for (let first = 0; first < seriesCount; first += seriesPerBody) {
        await this.#write(first, now - scrape * scrapeMillis);
      }
    }
    await this.#load(warmSeconds);
    const before = this.#cpuSeconds();
    this.#errors = 0;
    const { written, millis, dashboardMillis } = await this.#load(seconds);
    const cpu = this.#cpuSeconds() - before;
    this.#agent.destroy();
    return {
      name,
      samplesPerSecond: Math.round(written / seconds),
      panelsPerSecond: Math.round(millis.length / seconds),
      panelMillis: sharesOf(millis),
      dashboardMillis: sharesOf(dashboardMillis),
      errors: this.#errors,
      cpuSeconds: Number(cpu.toFixed(1)),
    };
  }

  async #load(forSeconds: number): Promise<Load> {
    const began = Date.now();
    const isOver = (): boolean => Date.now() - began > forSeconds * 1000;
    const millis: number[] = [];
    const dashboardMillis: number[] = [];
    let written = 0;
    const write = async (): Promise<void> => {
      for (let [first, time] = [0, began]; !isOver(); ) {
        if (written > ((Date.now() - began) / 1000) * samplesPerSecond) {
          await new Promise((resolve) => setTimeout(resolve, 2));
          continue;
        }
        await this.#write(first, time);
        written += seriesPerBody;
        first += seriesPerBody;
        if (first < seriesCount) continue;
        first = 0;
        time += 1;
      }
    };
    const see = async (ordinal: number): Promise<void> => {
      const end = Math.floor(Date.now() / 1000);
      const parameters = new URLSearchParams({
        query: panelOf(ordinal),
        start: String(end - 300),
        end: String(end),
        step: '15',
      });
      const sent = performance.now();
      await this.#send('GET', `${this.#target.queryPath}?${parameters}`);
      millis.push(performance.now() - sent);
    };
    const view = async (viewer: number): Promise<void> => {
      while (!isOver()) {
        const opened = performance.now();
        for (let panel = 0; panel < panels; panel++) await see(viewer * 13 + panel * 7);
        dashboardMillis.push(performance.now() - opened);
      }
    };
    const all = Array.from({ length: viewers }, (_, viewer) => view(viewer));
    await Promise.all([write(), ...all]);
    return { written, millis, dashboardMillis };
  }

  #write(first: number, timestampMillis: number): Promise<void> {
    return this.#send('POST', this.#target.writePath, bodyOf(first, timestampMillis));
  }

  #send(method: string, path: string, body?: Uint8Array): Promise<void> {
    const headers = {
      'Content-Type': 'application/x-protobuf',
      'Content-Encoding': 'snappy',
      'X-Prometheus-Remote-Write-Version': '0.1.0',
    };
    return new Promise((resolve, reject) => {
      const request = http.request(
        {
          host: '127.0.0.1',
          port: this.#target.port,
          path,
          method,
          agent: this.#agent,
          ...(body === undefined ? {} : { headers }),
        },
        (response) => {
          if (response.statusCode! > 299) this.#errors += 1;
          response.resume();
          response.on('end', resolve);
        },
      );
      request.on('error', reject);
      request.end(body);
    });
  }

  #cpuSeconds(): number {
    this.#usage.look('server', this.#target.pid);
    return this.#usage.all().get('server')!.cpuSeconds;
  }
}

async function ofOurs(folder: string): Promise<object> {
  const node = await NodeServer.create({ folder });
  try {
    await node.start();
    await createLocalDatabase(node, 'default', {});
    return await new Dashboards({
      name: 'tsdb',
      port: node.ports.coordinator,
      writePath: '/api/v1/compat/remote/write',
      queryPath: '/api/v1/query_range',
      pid: node.program.pid,
    }).run();
  } finally {
    await node.program.stop('SIGKILL');
  }
}

async function ofVictoria(folder: string, binary: string): Promise<object> {
  const [port] = (await freePorts(1)) as [number];
  const program = new Program('victoria-metrics', folder, binary, [
    `-storageDataPath=${join(folder, 'victoria')}`,
    `-httpListenAddr=127.0.0.1:${port}`,
    '-search.latencyOffset=0s',
  ]);
  try {
    program.start();
    const url = `http://127.0.0.1:${port}/health`;
    await eventually('VictoriaMetrics is ready', async () => (await fetch(url)).ok);
    return await new Dashboards({
      name: 'victoria-metrics',
      port,
      writePath: '/api/v1/write',
      queryPath: '/api/v1/query_range',
      pid: program.pid,
    }).run();
  } finally {
    await program.stop('SIGKILL');
  }
}

const folder = freshFolder('dashboards');
try {
  console.log(JSON.stringify(await ofOurs(folder)));
  if (values.victoria !== undefined) {
    console.log(JSON.stringify(await ofVictoria(folder, values.victoria)));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
