/**
 * Who makes the rollups: the single node here, M3's coordinator with its embedded aggregator, or VictoriaMetrics with stream
 * aggregation. The last two are found on the PATH, or where they are said to be.
 */
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  call,
  createLocalDatabase,
  eventually,
  NodeServer,
  Program,
} from '../../integration/process.ts';
import { freePorts } from '../../ports.ts';
import { createNamespace } from '../short_namespace.ts';
import { startVictoriaMetrics } from '../victoria_metrics.ts';
import { rollupRules, streamAggregation, windowSeconds } from './rules.ts';

export const systemNames = ['tsdb', 'm3', 'victoria'] as const;
export type SystemName = (typeof systemNames)[number];
/** Without rules, and with them; the rows that came are kept. */
export const modes = ['none', 'rules'] as const;
export type Mode = (typeof modes)[number];

/** Of M3: what came would be sent on series by series, a request each, which costs more than all rollups. */
const nothingAsItCame = { name: 'nothing as it came', filter: '__name__:*', drop: true };

export interface System {
  /** Whose CPU and memory count. */
  readonly program: Program;
  readonly writeUrl: string;
  /** Of Prometheus' API: where rollups are read. */
  readonly queryUrl: string;
  readonly isVictoria: boolean;
  readonly stop: () => Promise<void>;
}

export interface SystemOptions {
  readonly folder: string;
  readonly mode: Mode;
  readonly m3coordinator: string;
  readonly victoriaMetrics: string;
}

/** Ours, and M3, take rows so late; windows are made for good then. */
export const bufferPastSeconds = 120;
/** Rules hold so much later. */
const bufferFutureSeconds = 10;

export async function startSystem(name: SystemName, options: SystemOptions): Promise<System> {
  mkdirSync(options.folder, { recursive: true });
  if (name === 'tsdb') return startOurs(options);
  return name === 'm3' ? startM3(options) : startVictoria(options);
}

async function startOurs({ folder, mode }: SystemOptions): Promise<System> {
  const server = await NodeServer.create({ folder });
  await server.start();
  await createLocalDatabase(server, 'first');
  await call('DELETE', `${server.url}/api/v1/services/tsdb/namespace/first`);
  const own = {
    blockSize: '2h',
    bufferFuture: `${bufferFutureSeconds}s`,
    bufferPast: `${bufferPastSeconds}s`,
  };
  const aggregation = { aggregated: false };
  await createNamespace(server, 'samples', { ...own, retention: '48h', aggregation });
  if (mode !== 'none') {
    const attributes = {
      resolutionDuration: `${windowSeconds}s`,
      downsampleOptions: { all: false },
    };
    const ofWindows = { aggregated: true, attributes };
    await createNamespace(server, 'rollups', {
      ...own,
      retention: '40h',
      aggregation: ofWindows,
    });
    const rules = rollupRules();
    const put = await call('PUT', `${server.url}/r2/v1/namespaces/default/ruleset`, rules);
    if (put.status >= 300) throw new Error(`rules: ${put.status} ${put.text}`);
    const { cutoverMillis } = put.json as unknown as { readonly cutoverMillis: number };
    await delay(Math.max(0, cutoverMillis - Date.now()));
  }
  return {
    program: server.program,
    writeUrl: `${server.url}/api/v1/compat/remote/write`,
    queryUrl: server.url,
    isVictoria: false,
    stop: async () => void (await server.program.stop('SIGKILL')),
  };
}

/** Rollups go to a VictoriaMetrics, as to any storage; what came goes to somebody who takes everything. */
async function startM3({
  folder,
  mode,
  m3coordinator,
  victoriaMetrics,
}: SystemOptions): Promise<System> {
  const storage = await startVictoriaMetrics(join(folder, 'storage'), victoriaMetrics, []);
  const nowhere = await takesEverything();
  const [port, metricsPort] = (await freePorts(2)) as [number, number];
  const policy = {
    resolution: `${windowSeconds}s`,
    retention: '40h',
    downsample: { all: false },
  };
  const file = join(folder, 'm3.yml');
  writeFileSync(
    file,
    JSON.stringify({
      listenAddress: `127.0.0.1:${port}`,
      logging: { level: 'info' },
      metrics: {
        scope: { prefix: 'coordinator' },
        prometheus: { handlerPath: '/metrics', listenAddress: `127.0.0.1:${metricsPort}` },
        sanitization: 'prometheus',
        samplingRate: 1,
      },
      tagOptions: { idScheme: 'quoted' },
      backend: 'prom-remote',
      prometheusRemoteBackend: {
        endpoints: [
          { name: 'raw', address: `http://127.0.0.1:${nowhere.port}/raw` },
          { name: 'rolled', address: `${storage.url}/api/v1/write`, storagePolicy: policy },
        ],
      },
      ...(mode === 'none'
        ? {}
        : {
            downsample: {
              rules: { ...rollupRules(), mappingRules: [nothingAsItCame] },
              bufferPastLimits: [{ resolution: '0s', bufferPast: `${bufferPastSeconds}s` }],
            },
          }),
    }),
  );
  const program = new Program('m3coordinator', folder, m3coordinator, ['-f', file], {}, folder);
  program.start();
  const url = `http://127.0.0.1:${port}`;
  await eventually('M3 answers', async () => (await fetch(`${url}/health`)).ok);
  return {
    program,
    writeUrl: `${url}/api/v1/prom/remote/write`,
    queryUrl: storage.url,
    isVictoria: false,
    stop: async () => {
      await program.stop('SIGKILL');
      await storage.program.stop('SIGKILL');
      nowhere.server.close();
      nowhere.server.closeAllConnections();
    },
  };
}

async function startVictoria({ folder, mode, victoriaMetrics }: SystemOptions): Promise<System> {
  const file = join(folder, 'stream_aggregation.yml');
  writeFileSync(file, JSON.stringify(streamAggregation()));
  const { program, url } = await startVictoriaMetrics(folder, victoriaMetrics, [
    ...(mode === 'none' ? [] : [`-streamAggr.config=${file}`, '-streamAggr.keepInput']),
  ]);
  return {
    program,
    writeUrl: `${url}/api/v1/write`,
    queryUrl: url,
    isVictoria: true,
    stop: async () => void (await program.stop('SIGKILL')),
  };
}

async function takesEverything(): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => response.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}
