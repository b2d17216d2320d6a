/** A single node of its own folder, with a namespace of samples and aggregated ones beside it, as the parts of the run need it. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { call, namespaceReady, NodeServer, shardsAvailable } from '../../integration/process.ts';

const retryMillis = 250;
const triesMax = 240;
/** Of windows: they are waited for as long as this between two of them. */
const standstillMillisMax = 600_000;
const lookMillis = 500;

export interface SamplesOptions {
  readonly retention: string;
  /** By the retention where it is not given. */
  readonly blockSize?: string;
  readonly numShards?: number;
}

export interface WindowCounts {
  readonly windows: number;
  readonly failures: number;
  readonly cpuSeconds: number;
}

export class ResolutionsNode {
  readonly server: NodeServer;

  private constructor(server: NodeServer) {
    this.server = server;
  }

  /** It has a namespace `default` of samples that takes rows of any age. */
  static async start(folder: string, samples: SamplesOptions): Promise<ResolutionsNode> {
    const server = await NodeServer.create({ folder, settings: ['tick: {minimumInterval: 1s}'] });
    await server.start();
    const { retention, blockSize, numShards } = samples;
    const node = new ResolutionsNode(server);
    await node.admin('POST', 'database/create', {
      type: 'local',
      namespaceName: 'default',
      retentionTime: retention,
      coldWritesEnabled: true,
      ...(blockSize === undefined ? {} : { blockSize: { time: blockSize } }),
      ...(numShards === undefined ? {} : { numShards }),
    });
    await shardsAvailable(server.url);
    await namespaceReady(server.url, 'default');
    return node;
  }

  get url(): string {
    return this.server.url;
  }

  async admin(method: string, path: string, body: object): Promise<void> {
    const { status, text } = await call(method, `${this.url}/api/v1/${path}`, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
  }

  /** Remote write; what is refused for a passing reason is sent again. */
  async write(body: Uint8Array): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const { status, text } = await call('POST', `${this.url}/api/v1/compat/remote/write`, body);
      if (status < 300) return;
      if (!(status === 429 || status === 503) || tries === triesMax) {
        throw new Error(`remote write: ${status} ${text.slice(0, 500)}`);
      }
      await new Promise((resolve) => setTimeout(resolve, retryMillis));
    }
  }

  async flush(): Promise<void> {
    const url = `http://127.0.0.1:${this.server.ports.httpNode}/flush`;
    const { status, text } = await call('POST', url, {});
    if (status !== 200) throw new Error(`flush: ${status} ${text}`);
  }

  /** Windows of every series. */
  async addWindows(name: string, resolution: string, retention: string): Promise<void> {
    await this.admin('POST', 'services/tsdb/namespace', {
      name,
      options: {
        flushEnabled: true,
        cleanupEnabled: true,
        retentionOptions: { retentionPeriodDuration: retention, blockSizeDuration: '24h' },
        indexOptions: { enabled: true, blockSizeDuration: '24h' },
        aggregationOptions: {
          aggregations: [
            {
              aggregated: true,
              attributes: {
                resolutionDuration: resolution,
                downsampleOptions: { all: true },
              },
            },
          ],
        },
      },
    });
    await namespaceReady(this.url, name);
  }

  async counts(): Promise<WindowCounts> {
    const metrics = `http://127.0.0.1:${this.server.ports.metrics}/metrics`;
    const text = await (await fetch(metrics)).text();
    const valueOf = (name: string): number =>
      Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
    return {
      windows: valueOf('tsdb_node_aggregation_windows_total'),
      failures: valueOf('tsdb_node_aggregation_failures_total'),
      cpuSeconds: valueOf('process_cpu_seconds_total'),
    };
  }

  /** Waits for so many windows, for as long as some are made now and then. */
  async windowsMade(expected: number): Promise<WindowCounts> {
    let made = 0;
    let sinceMillis = performance.now();
    for (;;) {
      const counts = await this.counts();
      if (counts.windows >= expected) return counts;
      if (counts.windows > made) {
        [made, sinceMillis] = [counts.windows, performance.now()];
      } else if (performance.now() - sinceMillis > standstillMillisMax) {
        throw new Error(`${counts.windows} of ${expected} windows, ${counts.failures} failures`);
      }
      await new Promise((resolve) => setTimeout(resolve, lookMillis));
    }
  }

  memoryBytes(): number {
    const status = readFileSync(`/proc/${this.server.program.pid}/status`, 'utf8');
    return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]);
  }

  /** Of a namespace's filesets. */
  filesetBytes(namespace: string): number {
    return readdirSync(join(this.server.folder, 'data', 'data', namespace), {
      recursive: true,
      withFileTypes: true,
    })
      .filter((entry) => entry.isFile())
      .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  }
}
