/** The single node and Prometheus with the same series, to ask both. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type PromqlFeatureName, promqlFeatureNames } from '#lib/config/schema/promql_features.ts';
import {
  encodeRemoteWrite,
  type SeriesToWrite,
} from '#engine/write_decoder/remote_write_testing.ts';
import { freePorts } from '../ports.ts';
import {
  call,
  createLocalDatabase,
  eventually,
  namespaceReady,
  NodeServer,
  Program,
} from '../integration/process.ts';
import type { ApiAnswer } from './answers.ts';

/** Of one request each: a series has one row in it, since Prometheus takes no histogram that is older than a float beside it. */
const millisOfRequest = 10_000;

export interface RawAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly bytes: Buffer;
  readonly text: string;
}

export class Peers implements AsyncDisposable {
  readonly #node: NodeServer;
  readonly #prometheus: Program;
  readonly #prometheusUrl: string;

  private constructor(node: NodeServer, prometheus: Program, prometheusUrl: string) {
    this.#node = node;
    this.#prometheus = prometheus;
    this.#prometheusUrl = prometheusUrl;
  }

  /** @param hasFeatures all of PromQL that is behind flags but labels of types and units */
  static async start(folder: string, prometheusPath: string, hasFeatures: boolean): Promise<Peers> {
    mkdirSync(folder, { recursive: true });
    const features: PromqlFeatureName[] = hasFeatures
      ? promqlFeatureNames.filter((name) => name !== 'type-and-unit-labels')
      : [];
    const [port] = (await freePorts(1)) as [number];
    writeFileSync(join(folder, 'prometheus.yml'), 'global: {}\n');
    const prometheus = new Program('prometheus', folder, prometheusPath, [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'prometheus')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--web.enable-remote-write-receiver',
      ...(hasFeatures ? [`--enable-feature=${features.join(',')}`] : []),
    ]);
    const node = await NodeServer.create({
      folder,
      coordinatorSettings: [
        `query: {prometheus: {features: [${features.join(', ')}]}}`,
        'tagOptions: {nameValidation: utf8}',
      ],
    });
    prometheus.start();
    await node.start();
    await createNamespace(node);
    const peers = new Peers(node, prometheus, `http://127.0.0.1:${port}`);
    await eventually('Prometheus is ready', async () => {
      return (await fetch(`${peers.#prometheusUrl}/-/ready`)).ok;
    });
    return peers;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#prometheus.stop('SIGKILL');
    await this.#node.program.stop('SIGKILL');
  }

  /** In the order of time: Prometheus takes nothing that is older than what it has. */
  async write(series: readonly SeriesToWrite[]): Promise<void> {
    const times = series.flatMap(({ samples, histograms = [] }) =>
      [...samples, ...histograms].map(({ timestampMillis }) => timestampMillis),
    );
    const end = Math.max(...times);
    for (let start = Math.min(...times); start <= end; start += millisOfRequest) {
      const isPart = ({ timestampMillis }: { timestampMillis: number }): boolean =>
        timestampMillis >= start && timestampMillis < start + millisOfRequest;
      const part = series.map(({ tags, samples, histograms = [] }) => ({
        tags,
        samples: samples.filter(isPart),
        histograms: histograms.filter(isPart),
      }));
      const body = encodeRemoteWrite(part);
      const headers = {
        'Content-Type': 'application/x-protobuf',
        'Content-Encoding': 'snappy',
        'X-Prometheus-Remote-Write-Version': '0.1.0',
      };
      const paths = [
        `${this.#prometheusUrl}/api/v1/write`,
        `${this.#node.url}/api/v1/compat/remote/write`,
      ];
      for (const path of paths) {
        const answer = await fetch(path, { method: 'POST', headers, body });
        assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.text()}`);
      }
    }
  }

  /** @param parameters `query` and `time`, or `query`, `start`, `end` and `step` */
  async ask(parameters: Record<string, string>): Promise<{ theirs: ApiAnswer; ours: ApiAnswer }> {
    const path = 'time' in parameters ? '/api/v1/query' : '/api/v1/query_range';
    const body = new URLSearchParams(parameters);
    const { theirs, ours } = await this.send(path, { method: 'POST', body });
    return { theirs: JSON.parse(theirs.text), ours: JSON.parse(ours.text) };
  }

  /** Sends both the same request. */
  async send(path: string, request: RequestInit): Promise<{ theirs: RawAnswer; ours: RawAnswer }> {
    const [theirs, ours] = await Promise.all(
      [this.#prometheusUrl, this.#node.url].map(async (url) => {
        const response = await fetch(`${url}${path}`, request);
        const bytes = Buffer.from(await response.arrayBuffer());
        return {
          status: response.status,
          contentType: response.headers.get('content-type') ?? '',
          bytes,
          text: bytes.toString(),
        };
      }),
    );
    return { theirs: theirs!, ours: ours! };
  }
}

/** One that takes the rows of the last hour. */
async function createNamespace(node: NodeServer): Promise<void> {
  await createLocalDatabase(node, 'first');
  const url = `${node.url}/api/v1/services/tsdb/namespace`;
  const options = {
    bootstrapEnabled: true,
    writesToCommitLog: true,
    retentionOptions: {
      retentionPeriodDuration: '48h',
      blockSizeDuration: '4h',
      bufferFutureDuration: '10m',
      bufferPastDuration: '1h',
    },
    indexOptions: { enabled: true, blockSizeDuration: '4h' },
    aggregationOptions: { aggregations: [{ aggregated: false }] },
  };
  const made = await call('POST', url, { name: 'compared', options });
  assert.equal(made.status, 200, made.text);
  await namespaceReady(node.url, 'compared');
  await call('DELETE', `${url}/first`);
}
