/**
 * A whole server process over its interfaces: remote write, JSON, and gRPC with our own client. CPU
 * is that of the server, as its metrics tell it, sync included.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NodeClient } from '#cluster/node/client.ts';
import type { WriteResponse } from '#cluster/node/service.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { encodeTags } from '#lib/tags.ts';
import { call, createLocalDatabase, NodeServer } from '../integration/process.ts';
import { remoteWriteBody } from '../integration/remote_write_body.ts';

/** Requests on their way at a time. */
const requestsAtOnce = 4;
/** Samples reach so far back from now, inside the write window. */
const spanMillis = 500_000;
const namespace = 'bench';

interface Shape {
  readonly seriesCount: number;
  /** Points of a series by JSON and by remote write, each as its own request for all series. */
  readonly httpScrapes: number;
  readonly grpcScrapes: number;
}

const shapes: Readonly<Record<BenchSize, Shape>> = {
  small: { seriesCount: 20, httpScrapes: 4, grpcScrapes: 4 },
  full: { seriesCount: 1000, httpScrapes: 200, grpcScrapes: 2000 },
};

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-server-bench-'));
  const server = await NodeServer.create({ folder });
  try {
    await server.start();
    await createLocalDatabase(server, namespace);
    return await new ServerBench(server, shapes[size]).run();
  } finally {
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

class ServerBench {
  readonly #server: NodeServer;
  readonly #shape: Shape;
  readonly #startMillis = Date.now() - spanMillis;

  constructor(server: NodeServer, shape: Shape) {
    this.#server = server;
    this.#shape = shape;
  }

  async run(): Promise<BenchResult[]> {
    const results = [];
    const { seriesCount, httpScrapes, grpcScrapes } = this.#shape;
    const cases = [
      ['remote write', httpScrapes, () => this.#remoteWrite()],
      ['json/write', httpScrapes, () => this.#jsonWrite()],
      ['gRPC, known series', grpcScrapes, () => this.#grpcWrite()],
    ] as const;
    for (const [name, scrapes, prepare] of cases) {
      const work = await prepare();
      const before = await this.#cpuSeconds();
      await work();
      const seconds = (await this.#cpuSeconds()) - before;
      const value = seconds / ((seriesCount * scrapes) / 1e6);
      results.push({ name: `server: ${name}`, unit: 'CPU s/M samples', value });
    }
    return results;
  }

  async #cpuSeconds(): Promise<number> {
    const url = `http://127.0.0.1:${this.#server.ports.metrics}/metrics`;
    const text = await (await fetch(url)).text();
    const match = /^process_cpu_seconds_total (\S+)/m.exec(text);
    if (match === null) throw new Error('the server has no metric of its CPU');
    return Number(match[1]);
  }

  #millisOf(scrape: number, scrapes: number): number {
    return this.#startMillis + Math.floor((scrape * spanMillis) / scrapes);
  }

  #remoteWrite(): () => Promise<void> {
    const { seriesCount, httpScrapes } = this.#shape;
    const bodies = Array.from({ length: httpScrapes }, (_, scrape) =>
      remoteWriteBody(
        Array.from({ length: seriesCount }, (_, i) => ({
          labels: { __name__: 'remote_write', ...labelsOf(i) },
          samples: [
            { timestampMillis: this.#millisOf(scrape, httpScrapes), value: (scrape * i) % 100 },
          ],
        })),
      ),
    );
    return () => this.#post('/api/v1/compat/remote/write', bodies);
  }

  #jsonWrite(): () => Promise<void> {
    const { seriesCount, httpScrapes } = this.#shape;
    const bodies = Array.from({ length: httpScrapes }, (_, scrape) =>
      Array.from({ length: seriesCount }, (_, i) => ({
        tags: { __name__: 'json_write', ...labelsOf(i) },
        timestamp: String(this.#millisOf(scrape, httpScrapes) / 1000),
        value: (scrape * i) % 100,
      })),
    );
    return () => this.#post('/api/v1/json/write', bodies);
  }

  async #post(path: string, bodies: readonly unknown[]): Promise<void> {
    for (let first = 0; first < bodies.length; first += requestsAtOnce) {
      const some = bodies.slice(first, first + requestsAtOnce);
      const answers = some.map((body) => call('POST', `${this.#server.url}${path}`, body));
      for (const { status, text } of await Promise.all(answers)) {
        if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
      }
    }
  }

  /** References come with the first batch, which is not measured. */
  async #grpcWrite(): Promise<() => Promise<void>> {
    const { seriesCount, grpcScrapes } = this.#shape;
    const client = new NodeClient({ target: `127.0.0.1:${this.#server.ports.grpc}` });
    const { signal } = new AbortController();
    const { placementVersion } = await client.health(signal);
    const builder = new BatchBuilder();
    const send = async (batch: Uint8Array, referenceEpoch: string): Promise<WriteResponse> => {
      const answer = await client.write(
        { namespace, placementVersion, referenceEpoch, batch },
        signal,
      );
      if (answer.outcomes.length > 0) throw new Error('a row was refused');
      return answer;
    };
    const slots = new Uint32Array(seriesCount);
    const generations = new Uint32Array(seriesCount);
    const batchOf = (scrape: number): Uint8Array => {
      const millis = this.#millisOf(scrape, grpcScrapes + 1);
      const timestamps = new BigInt64Array(seriesCount).fill(BigInt(millis));
      const values = Float64Array.from({ length: seriesCount }, (_, i) => (scrape * i) % 100);
      builder.setRows(seriesCount, slots, generations, timestamps, 1_000_000, values);
      return builder.finish();
    };
    builder.begin(1);
    for (let i = 0; i < seriesCount; i += 1) {
      const labels = { __name__: 'grpc', ...labelsOf(i) };
      const tags = Object.entries(labels).map(([name, value]) => ({ name, value }));
      slots[i] = builder.addSeries(encodeTags(tags), idSchemeCode.quoted, new Uint8Array(0));
    }
    const { references, referenceEpoch } = await send(batchOf(0), '');
    for (let i = 0; i < seriesCount; i += 1) {
      slots[i] = references[2 * i]!;
      generations[i] = references[2 * i + 1]!;
    }
    return async () => {
      for (let first = 1; first <= grpcScrapes; first += requestsAtOnce) {
        const answers = [];
        const end = Math.min(first + requestsAtOnce, grpcScrapes + 1);
        for (let scrape = first; scrape < end; scrape += 1) {
          builder.begin(1 + scrape);
          answers.push(send(batchOf(scrape), referenceEpoch));
        }
        await Promise.all(answers);
      }
      client[Symbol.dispose]();
    };
  }
}

function labelsOf(i: number): Record<string, string> {
  const labels: Record<string, string> = { hostname: `host_${i}` };
  for (const name of ['arch', 'datacenter', 'os', 'rack', 'region', 'service', 'team']) {
    labels[name] = `${name}-${i % 7}`;
  }
  return labels;
}
