/**
 * A whole coordinator on free ports over a key-value store in memory and one fake node, for tests.
 */
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { openSessionMemory } from '#lib/read_memory/session_memory.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { Topology } from '#cluster/topology/topology.ts';
import { parseConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import { httpRequest } from '#lib/env/http.ts';
import { realEnv } from '#lib/env/real.ts';
import { type FormatLevels, newestFormats } from '#lib/format_level.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { onTheLoop } from '#engine/aside/aside.ts';
import { type Coordinator, startCoordinator } from './coordinator.ts';
import { FakeNode } from './fake_node_testing.ts';

/** The real one, but waits between attempts are short. */
const env: Env = {
  ...realEnv,
  clock: {
    ...realEnv.clock,
    sleep: (millis, signal) => realEnv.clock.sleep(millis / 100, signal),
  },
};

export const testCluster = { environment: 'default_env', zone: 'embedded' };

export interface TestAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Uint8Array;
  readonly text: string;
  /** Parsed on access. */
  readonly json: any;
}

/** Unix seconds of now, whole. */
export function nowSeconds(): number {
  return Math.floor(realEnv.clock.nowMillis() / 1000);
}

export class TestCoordinator implements AsyncDisposable {
  readonly node: FakeNode;
  readonly coordinator: Coordinator;
  readonly topology: Topology;
  readonly kv: Kv;
  readonly #stop = new AbortController();

  private constructor(node: FakeNode, coordinator: Coordinator, topology: Topology, kv: Kv) {
    this.kv = kv;
    this.node = node;
    this.coordinator = coordinator;
    this.topology = topology;
  }

  /** @param settings YAML below `coordinator:`, flow form */
  static async open(settings = '{}', formats?: FormatLevels): Promise<TestCoordinator> {
    const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
    const test = await TestCoordinator.openOn(kv, settings, formats);
    await test.topology.whenLoaded(test.#stop.signal);
    return test;
  }

  /** On a store that may be away. */
  static async openOn(
    kv: Kv,
    settings = '{}',
    formats: FormatLevels = newestFormats,
  ): Promise<TestCoordinator> {
    const config = parseConfig(
      [{ path: 'test.yml', text: `coordinator: ${settings}` }],
      'coordinator',
      {
        TSDB_LISTEN_HOST: '127.0.0.1',
      },
    ).coordinator!;
    const node = new FakeNode(64);
    const cluster = testCluster;
    const topology = new Topology({ kv, cluster, env, log: silentLog }).start();
    const coordinator = await startCoordinator({
      config: {
        ...config,
        listenAddress: { host: '127.0.0.1', port: 0 },
        metricsListenAddress: { host: '127.0.0.1', port: 0 },
      },
      env,
      aside: onTheLoop,
      sessionMemory: openSessionMemory(realEnv.clock, config.readBytesInFlightMax),
      log: silentLog,
      kv,
      cluster,
      topology,
      nodeOf: () => node,
      formats,
      localInstance: null,
      metrics: new Metrics(),
      tracing: null,
      version: '0.0.0',
    });
    return new TestCoordinator(node, coordinator, topology, kv);
  }

  /**
   * A coordinator with a placement whose shards are AVAILABLE and a namespace "default" that is
   * ready.
   */
  static async openReady(settings = '{}', formats?: FormatLevels): Promise<TestCoordinator> {
    const test = await TestCoordinator.open(settings, formats);
    const create = { type: 'local', namespaceName: 'default', retentionTime: '12h' };
    expectOk(await test.post('/api/v1/database/create', create));
    await test.markAvailable();
    expectOk(await test.post('/api/v1/services/tsdb/namespace/ready', { name: 'default' }));
    await test.topology.until(
      (view) => view.namespaces.get('default')?.options.stagingStatus === 'READY',
      test.#stop.signal,
    );
    return test;
  }

  /** What nodes do when they have bootstrapped. */
  async markAvailable(): Promise<void> {
    const { placement, version } = (await this.get('/api/v1/services/tsdb/placement')).json;
    for (const instance of Object.values<any>(placement.instances)) {
      for (const shard of instance.shards) shard.state = 'AVAILABLE';
    }
    const set = { placement, version, confirm: true };
    expectOk(await this.post('/api/v1/services/tsdb/placement/set', set));
    await this.topology.until((view) => view.placementVersion > version, this.#stop.signal);
  }

  url(path: string): string {
    return `http://127.0.0.1:${this.coordinator.api.port}${path}`;
  }

  get(path: string, headers: Record<string, string> = {}): Promise<TestAnswer> {
    return this.send('GET', path, undefined, headers);
  }

  /** @param body an object is sent as JSON, text as a form */
  post(
    path: string,
    body: object | string | Uint8Array,
    headers: Record<string, string> = {},
  ): Promise<TestAnswer> {
    if (typeof body === 'string') {
      const form = { 'Content-Type': 'application/x-www-form-urlencoded', ...headers };
      return this.send('POST', path, body, form);
    }
    if (body instanceof Uint8Array) return this.send('POST', path, body, headers);
    return this.send('POST', path, JSON.stringify(body), headers);
  }

  async send(
    method: string,
    path: string,
    body: string | Uint8Array | undefined,
    headers: Record<string, string> = {},
  ): Promise<TestAnswer> {
    const answer = await httpRequest(
      this.url(path),
      { method, headers, responseBytesMax: 1 << 28, ...(body === undefined ? {} : { body }) },
      this.#stop.signal,
    );
    const text = new TextDecoder().decode(answer.body);
    return {
      status: answer.status,
      headers: answer.headers,
      bytes: answer.body,
      text,
      get json() {
        return JSON.parse(text) as unknown;
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.coordinator[Symbol.asyncDispose]();
    await this.topology[Symbol.asyncDispose]();
  }
}

function expectOk(answer: TestAnswer): void {
  if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.text}`);
}
