/** Who takes the samples: the single node here, and VictoriaMetrics; each with Carbon's listener, and nothing in it. */
import { mkdirSync } from 'node:fs';
import { NodeServer, type Program } from '../../integration/process.ts';
import { freePorts } from '../../ports.ts';
import { createOnlyNamespace } from '../short_namespace.ts';
import { startVictoriaMetrics } from '../victoria_metrics.ts';
import type { Addresses } from './send.ts';

export const systemNames = ['tsdb', 'victoria'] as const;
export type SystemName = (typeof systemNames)[number];

/** Samples since the start, by the system's own metrics. */
export interface Counted {
  readonly taken: number;
  /** Of those that were taken: who asks does not see them yet. */
  readonly pending: number;
  /** For whatever reason. */
  readonly refused: number;
}

export interface System extends Addresses {
  /** Whose CPU and memory count. */
  readonly program: Program;
  readonly counted: () => Promise<Counted>;
  /** The text of a profile of its CPU from now on; null of a system that makes none. */
  readonly profile: ((seconds: number) => Promise<string>) | null;
  readonly stop: () => Promise<void>;
}

export interface SystemOptions {
  readonly folder: string;
  /** Its binary, where it is started. */
  readonly victoriaMetrics: string | undefined;
}

/** Rows are taken as warm ones so late: a block is open for all of it. */
export const bufferPastHours = 11;
const blockHours = 12;

export async function startSystem(name: SystemName, options: SystemOptions): Promise<System> {
  mkdirSync(options.folder, { recursive: true });
  return name === 'tsdb' ? startOurs(options) : startVictoria(options);
}

async function startOurs({ folder }: SystemOptions): Promise<System> {
  const [carbonPort] = (await freePorts(1)) as [number];
  const server = await NodeServer.create({
    folder,
    coordinatorSettings: [`carbon: {ingester: {listenAddress: "127.0.0.1:${carbonPort}"}}`],
  });
  await server.start();
  await createOnlyNamespace(server, 'samples', {
    retention: '96h',
    blockSize: `${blockHours}h`,
    bufferFuture: '2h',
    bufferPast: `${bufferPastHours}h`,
    aggregation: { aggregated: false },
  });
  return {
    program: server.program,
    url: server.url,
    carbonPort,
    otlpPath: '/v1/metrics',
    counted: async () => {
      const text = await textOf(`http://127.0.0.1:${server.ports.metrics}/metrics`);
      return {
        taken: sumOf(text, 'tsdb_coordinator_written_samples_total'),
        pending: 0,
        refused:
          sumOf(text, 'tsdb_coordinator_refused_samples_total') +
          sumOf(text, 'tsdb_coordinator_dropped_samples_total'),
      };
    },
    profile: (seconds) =>
      textOf(`http://127.0.0.1:${server.ports.debug}/debug/pprof/profile?seconds=${seconds}`),
    stop: async () => void (await server.program.stop('SIGKILL')),
  };
}

async function startVictoria({ folder, victoriaMetrics }: SystemOptions): Promise<System> {
  const [carbonPort] = (await freePorts(1)) as [number];
  const { program, url } = await startVictoriaMetrics(folder, victoriaMetrics!, [
    `-graphiteListenAddr=127.0.0.1:${carbonPort}`,
  ]);
  return {
    program,
    url,
    carbonPort,
    otlpPath: '/opentelemetry/v1/metrics',
    counted: async () => {
      const text = await textOf(`${url}/metrics`);
      return {
        taken: sumOf(text, 'vm_rows_inserted_total'),
        pending: sumOf(text, 'vm_pending_rows'),
        refused: sumOf(text, 'vm_rows_invalid_total') + sumOf(text, 'vm_rows_ignored_total'),
      };
    },
    profile: null,
    stop: async () => void (await program.stop('SIGKILL')),
  };
}

async function textOf(url: string): Promise<string> {
  const response = await fetch(url);
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text.slice(0, 500)}`);
  return text;
}

/** Of all series of a metric. */
function sumOf(text: string, name: string): number {
  let sum = 0;
  for (const [, value] of text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)`, 'gm'))) {
    sum += Number(value);
  }
  return sum;
}
