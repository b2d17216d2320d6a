/**
 * The single node that is attacked: a real process with small limits, a marker in it, and what must
 * be as it was whatever strangers do: the marker, the placement, the namespaces, the limits.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { remoteWriteBody } from '../integration/remote_write_body.ts';
import { freePorts } from '../ports.ts';
import type { Listeners } from './attack.ts';
import {
  call,
  createLocalDatabase,
  eventually,
  type NodePorts,
  NodeServer,
} from '../integration/process.ts';

const mebibyte = 2 ** 20;

/** What the process is told to keep to. */
const configured = {
  storageBytesMax: 512 * mebibyte,
  identityBytesMax: 64 * mebibyte,
  writeBytesInFlightMax: 64 * mebibyte,
  readBytesInFlightMax: 64 * mebibyte,
  statsdSeriesMax: 50_000,
};

/**
 * What the process may hold at most, the sum of its limits: those above, those that are fixed
 * (docs/OPERATIONS.md, Limits), and what it takes without any request. Limits are of bytes as they
 * are sent; what becomes of them while they are worked on is given the same again.
 */
export const rssBytesMax: number =
  // Program, heap of V8 with its garbage, compiled kernels.
  384 * mebibyte +
  // The embedded key-value store, which attacks fill in an hour, and as much garbage of the heap that it lies in.
  2 * 256 * mebibyte +
  configured.storageBytesMax +
  configured.identityBytesMax +
  2 * configured.writeBytesInFlightMax +
  2 * configured.readBytesInFlightMax +
  // Bodies that are no writes: of the coordinator's API, and of JSON requests to the node.
  256 * mebibyte +
  128 * mebibyte;

const namespace = 'default';

export const marker = {
  name: 'marker',
  seriesCount: 16,
  samplesOfSeries: 50,
  stepMillis: 10_000,
  valueOf: (series: number, sample: number): number => series * 1000 + sample + 0.5,
};

export interface MarkerState {
  readonly isWhole: boolean;
  /** What it was instead, or what the request was answered. */
  readonly text: string;
  /** False: the request was refused or had no answer, which says nothing of the marker. */
  readonly isAnswered: boolean;
}

/** Whoever writes an exemplar or metadata has their namespaces made: they are part of what is there before. */
async function makeCompanions(url: string): Promise<void> {
  const up = { name: '__name__', value: 'up' };
  const exemplars = [{ labels: [], value: 1, timestampMillis: Date.now() }];
  const families = [{ name: 'up', type: 2, help: '', unit: '' }];
  const body = encodeRemoteWrite([{ tags: [up], samples: [], exemplars }], families);
  await eventually('the companion namespaces are ready', async () => {
    await call('POST', `${url}/api/v1/compat/remote/write`, body);
    const { json } = await call('GET', `${url}/api/v1/namespace`);
    return ['_exemplars', '_metadata'].every(
      (name) => json.registry.namespaces[name]?.stagingState.status === 'READY',
    );
  });
}

export class Victim {
  readonly listeners: Listeners;
  readonly #server: NodeServer;
  readonly #firstMarkerMillis: number;
  /** What nobody changes, as it was before anything was sent. */
  #settings = '';
  /** What a start tells people, which is no JSON. */
  readonly #bannerLength: number;

  private constructor(server: NodeServer, listeners: Listeners, firstMarkerMillis: number) {
    this.#server = server;
    this.listeners = listeners;
    this.#firstMarkerMillis = firstMarkerMillis;
    this.#bannerLength = server.program.log().length;
  }

  /** Starts a process in the folder, with a database and the marker in it. */
  static async start(folder: string): Promise<Victim> {
    const [carbon, carbonPickle, openTsdb, statsd] = (await freePorts(4)) as [
      number,
      number,
      number,
      number,
    ];
    const server = await NodeServer.create({
      folder,
      settings: [`memoryMax: ${configured.storageBytesMax}`],
      coordinatorSettings: [
        `memoryMax: ${configured.identityBytesMax}`,
        `limits: {maxWriteBytesInFlight: ${configured.writeBytesInFlightMax}, maxReadBytesInFlight: ${configured.readBytesInFlightMax}}`,
        `carbon: {ingester: {listenAddress: "127.0.0.1:${carbon}", pickleListenAddress: "127.0.0.1:${carbonPickle}"}}`,
        `opentsdb: {ingester: {listenAddress: "127.0.0.1:${openTsdb}"}}`,
        `statsd: {ingester: {listenAddress: "127.0.0.1:${statsd}", flushInterval: 1s, maxSeries: ${configured.statsdSeriesMax}}}`,
      ],
    });
    await server.start();
    await createLocalDatabase(server, namespace);
    // The newest sample is a few seconds old, so that none is written later than it says.
    const { samplesOfSeries, seriesCount, stepMillis } = marker;
    const first = Date.now() - samplesOfSeries * stepMillis;
    const series = Array.from({ length: seriesCount }, (_, i) => ({
      labels: { __name__: marker.name, part: String(i) },
      samples: Array.from({ length: samplesOfSeries }, (__, k) => ({
        timestampMillis: first + k * stepMillis,
        value: marker.valueOf(i, k),
      })),
    }));
    const url = `${server.url}/api/v1/compat/remote/write`;
    const { status, text } = await call('POST', url, remoteWriteBody(series));
    if (status >= 300) throw new Error(`the marker is not taken: ${status} ${text}`);
    await makeCompanions(server.url);
    const victim = new Victim(server, { carbon, carbonPickle, openTsdb, statsd }, first);
    victim.#settings = await victim.#readSettings();
    const state = await victim.readMarker();
    if (!state.isWhole) throw new Error(`the marker cannot be read: ${state.text}`);
    return victim;
  }

  get ports(): NodePorts {
    return this.#server.ports;
  }

  get pid(): number {
    return this.#server.program.pid;
  }

  get isRunning(): boolean {
    return this.#server.program.running;
  }

  /** The last lines of its log. */
  logEnd(): string {
    return this.#server.program.log().slice(-2000);
  }

  get rssBytes(): number {
    try {
      const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
      return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0);
    } catch {
      return 0; // It has ended.
    }
  }

  /** Of user and system, since its start. */
  get cpuSeconds(): number {
    try {
      const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) / 100;
    } catch {
      return 0;
    }
  }

  /** Every sample of the marker against what was written. */
  async readMarker(): Promise<MarkerState> {
    const query = encodeURIComponent(`${marker.name}[24h]`);
    let answer: Awaited<ReturnType<typeof call>>;
    try {
      answer = await call(
        'GET',
        `${this.#server.url}/api/v1/query?query=${query}`,
        undefined,
        30_000,
      );
    } catch (error) {
      return { isWhole: false, isAnswered: false, text: (error as Error).message };
    }
    const { status, text, json } = answer;
    if (status !== 200) {
      const isRefused = status === 429 || status === 503;
      return { isWhole: false, isAnswered: !isRefused, text: `${status} ${text.slice(0, 200)}` };
    }
    const got = new Map<string, string>();
    for (const { metric, values } of json.data.result as {
      metric: Record<string, string>;
      values: [number, string][];
    }[]) {
      got.set(JSON.stringify(metric), JSON.stringify(values));
    }
    let missing = 0;
    for (let i = 0; i < marker.seriesCount; i += 1) {
      const metric = JSON.stringify({ __name__: marker.name, part: String(i) });
      const wanted = Array.from({ length: marker.samplesOfSeries }, (_, k) => [
        (this.#firstMarkerMillis + k * marker.stepMillis) / 1000,
        String(marker.valueOf(i, k)),
      ]);
      if (got.get(metric) !== JSON.stringify(wanted)) missing += 1;
    }
    const isWhole = missing === 0 && got.size === marker.seriesCount;
    const told = isWhole ? 'whole' : `${missing} series are not as written, ${got.size} are there`;
    return { isWhole, isAnswered: true, text: told };
  }

  /** Waits for an answer, for a while: an overloaded process may refuse. */
  async markerWhole(): Promise<MarkerState> {
    let state = await this.readMarker();
    for (let tries = 0; !state.isAnswered && this.isRunning && tries < 60; tries += 1) {
      await delay(500);
      state = await this.readMarker();
    }
    return state;
  }

  /** What was changed of the placement, the namespaces or the limits; null when nothing was. */
  async changedSettings(): Promise<string | null> {
    const now = await this.#readSettings();
    return now === this.#settings ? null : `was ${this.#settings}, is ${now}`;
  }

  /**
   * Lines of its log that it has not written as such: who can write lines of their own has it say
   * what they like.
   */
  foreignLogLines(): string[] {
    const lines = this.#server.program.log().slice(this.#bannerLength).split('\n').slice(0, -1);
    return lines.filter((line) => !isLogLine(line));
  }

  /** @returns the exit code, null after a kill */
  async stop(): Promise<number | null> {
    return this.#server.program.stop('SIGTERM');
  }

  kill(): void {
    process.kill(this.pid, 'SIGKILL');
  }

  async #readSettings(): Promise<string> {
    const { url } = this.#server;
    return eventually('the settings can be read', async () => {
      const answers = await Promise.all([
        call('GET', `${url}/api/v1/services/tsdb/placement`),
        call('GET', `${url}/api/v1/services/tsdb/namespace`),
        // Nothing is written without `commit`.
        call('POST', `${url}/api/v1/kvstore`, { key: 'tsdb.query.limits', value: {} }),
      ]);
      if (answers.some(({ status }) => status === 429 || status === 503)) return null;
      return answers.map(({ status, text }) => `${status} ${text}`).join('\n');
    });
  }
}

function isLogLine(line: string): boolean {
  try {
    const { level, time, msg } = JSON.parse(line) as Record<string, unknown>;
    return level !== undefined && time !== undefined && msg !== undefined;
  } catch {
    // Node's own warnings are no JSON.
    return /^\(node:\d+\)|^\(Use `node /.test(line);
  }
}
