/**
 * Ingestion at full speed with queries beside it, on the single node and on VictoriaMetrics, one after the other, on the same
 * bytes: six hours are loaded, then four more as fast as the server takes them while three heavy queries over the first ones are
 * asked again and again, and a small one. Prints one JSON line a server: samples a second, milliseconds of each query, CPU.
 * All share the machine, so figures compare in one run alone.
 *
 *     node test/load/mixed_run.ts --rwbench PATH [--victoria PATH] [--rounds 1]
 */
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { call, namespaceReady, NodeServer, shardsAvailable } from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { ProcessUsage } from './process_usage.ts';
import { startVictoriaMetrics } from './victoria_metrics.ts';
import { warmNamespaceOptions } from './warm_namespace.ts';

const { values } = parseArgs({
  options: {
    rwbench: { type: 'string' },
    victoria: { type: 'string' },
    rounds: { type: 'string', default: '1' },
  },
});
const rwbench = values.rwbench ?? '';
if (rwbench === '') throw new Error('--rwbench PATH is missing');

const run = promisify(execFile);
const hoursBefore = 6;
const hoursMeasured = 4;
const connections = 4;
const endSeconds = Math.floor(Date.now() / 60_000) * 60;
/** Of the six hours, and of all queries. */
const queriesEndSeconds = endSeconds - hoursMeasured * 3600;

/** Of queries.tsv: name, seconds back, step, text. */
const queries = [
  ['small', 3_600, 15, 'usage_user{hostname="host_249"}'],
  ['sum-rate', 21_600, 60, 'sum(rate(usage_user[5m]))'],
  ['sum-by-region', 3_600, 60, 'sum by (region) ({__name__=~"usage_.*"})'],
  ['quantile', 21_600, 60, 'quantile(0.99, usage_system)'],
] as const;

interface Target {
  readonly name: string;
  readonly url: string;
  readonly writePath: string;
  readonly pid: number;
}

const folder = freshFolder('mixed');
const before = join(folder, 'before.rw');
const measured = join(folder, 'measured.rw');

async function make(file: string, hours: number, end: number): Promise<void> {
  await run(rwbench, ['make', '-out', file, '-hours', String(hours), '-end', String(end)]);
}

async function replay(file: string, { url, writePath, pid }: Target): Promise<any> {
  const { stdout } = await run(rwbench, [
    'replay',
    ...['-in', file, '-url', url + writePath, '-conns', String(connections), '-pid', String(pid)],
  ]);
  return JSON.parse(stdout.trim().split('\n').at(-1)!);
}

const agent = new http.Agent({ keepAlive: true });

function ask(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = http.get(url, { agent }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode!));
    });
    request.on('error', reject);
  });
}

async function measure(target: Target): Promise<object> {
  await replay(before, target);
  const usage = new ProcessUsage();
  const cpuSeconds = (): number => {
    usage.look('server', target.pid);
    return usage.all().get('server')!.cpuSeconds;
  };
  let isOver = false;
  let errors = 0;
  const millis: Record<string, number[]> = {};
  const loop = async ([name, back, step, query]: (typeof queries)[number]): Promise<void> => {
    const parameters = new URLSearchParams({
      query,
      start: String(queriesEndSeconds - back),
      end: String(queriesEndSeconds),
      step: String(step),
      // Answers are made, not remembered.
      nocache: '1',
    });
    const url = `${target.url}/api/v1/query_range?${parameters}`;
    const times = (millis[name] = [] as number[]);
    while (!isOver) {
      const sent = performance.now();
      if ((await ask(url)) !== 200) errors += 1;
      times.push(performance.now() - sent);
    }
  };
  const cpuBefore = cpuSeconds();
  const loops = queries.map(loop);
  let sent: any;
  try {
    sent = await replay(measured, target);
  } finally {
    isOver = true;
    await Promise.allSettled(loops);
  }
  const quantiles = Object.entries(millis).map(([name, times]) => {
    const sorted = times.toSorted((a, b) => a - b);
    const at = (share: number): number =>
      Math.round(10 * sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!) / 10;
    return [name, { count: sorted.length, p50Millis: at(0.5), p99Millis: at(0.99) }];
  });
  return {
    name: target.name,
    samplesPerSecond: Math.round(sent.samples_per_second ?? sent.samples / sent.seconds),
    ...Object.fromEntries(quantiles),
    errors,
    cpuSeconds: Number((cpuSeconds() - cpuBefore).toFixed(1)),
  };
}

const namespace = { name: 'wide', options: warmNamespaceOptions };

async function ofOurs(): Promise<object> {
  const node = await NodeServer.create({ folder: join(folder, 'ours') });
  try {
    await node.start();
    const { url } = node;
    const instance = {
      id: 'tsdb_local',
      isolationGroup: 'local',
      zone: 'embedded',
      weight: 1,
      endpoint: `127.0.0.1:${node.ports.grpc}`,
      hostname: 'localhost',
      port: node.ports.grpc,
    };
    const init = { numShards: 64, replicationFactor: 1, instances: [instance] };
    for (const [path, body] of [
      ['placement/init', init],
      ['namespace', namespace],
    ] as const) {
      const answer = await call('POST', `${url}/api/v1/services/tsdb/${path}`, body);
      if (answer.status !== 200) throw new Error(`${path}: ${answer.text}`);
    }
    await shardsAvailable(url);
    await namespaceReady(url, namespace.name);
    const { pid } = node.program;
    return await measure({ name: 'tsdb', url, writePath: '/api/v1/compat/remote/write', pid });
  } finally {
    await node.program.stop('SIGKILL');
    rmSync(join(folder, 'ours'), { recursive: true, force: true });
  }
}

async function ofVictoria(binary: string): Promise<object> {
  const own = join(folder, 'victoria');
  const { program, url } = await startVictoriaMetrics(own, binary, ['-search.latencyOffset=0s']);
  try {
    const { pid } = program;
    return await measure({ name: 'victoria-metrics', url, writePath: '/api/v1/write', pid });
  } finally {
    await program.stop('SIGKILL');
    rmSync(own, { recursive: true, force: true });
  }
}

try {
  await make(before, hoursBefore, queriesEndSeconds);
  await make(measured, hoursMeasured, endSeconds);
  for (let round = 0; round < Number(values.rounds); round++) {
    console.log(JSON.stringify(await ofOurs()));
    if (values.victoria !== undefined)
      console.log(JSON.stringify(await ofVictoria(values.victoria)));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
