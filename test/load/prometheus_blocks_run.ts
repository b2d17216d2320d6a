/**
 * A block of a real Prometheus taken over, and answers held beside its own: CPU time and speed of the import by tsdbctl, and of vmctl's
 * into VictoriaMetrics beside it. Prints one JSON line.
 *
 *     node test/load/prometheus_blocks_run.ts --prometheus PATH [--victoria PATH --vmctl PATH]
 *         [--series 10000] [--hours 24] [--interval 60] [--queries 200] [--keep]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import {
  call,
  createLocalDatabase,
  eventually,
  NodeServer,
  Program,
} from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { madeSource } from './backfill_data.ts';
import { compareAnswers, makeQueries } from './backfill_queries.ts';
import { bytesOf, freshFolder } from './folder.ts';
import { ProcessUsage } from './process_usage.ts';
import { send } from './send_frames.ts';
import { startVictoriaMetrics } from './victoria_metrics.ts';

const { values } = parseArgs({
  options: {
    prometheus: { type: 'string' },
    victoria: { type: 'string' },
    vmctl: { type: 'string' },
    series: { type: 'string', default: '10000' },
    hours: { type: 'string', default: '24' },
    interval: { type: 'string', default: '60' },
    queries: { type: 'string', default: '200' },
    keep: { type: 'boolean', default: false },
  },
});
if (values.prometheus === undefined) throw new Error('--prometheus names its binary');

const namespace = 'history';
const lookMillis = 100;
const intervalMillis = 1000 * Number(values.interval);
const spanMillis = 3_600_000 * Number(values.hours);
const source = madeSource({
  seriesCount: Number(values.series),
  scrapes: Math.floor(spanMillis / intervalMillis),
  intervalMillis,
  endMillis: Math.floor(Date.now() / intervalMillis) * intervalMillis,
});
const folder = freshFolder('prometheus-blocks');
const usage = new ProcessUsage();

interface Imported {
  readonly seconds: number;
  readonly samplesPerSecond: number;
  readonly clientCpuSecondsPerMillion: number;
  readonly serverCpuSecondsPerMillion: number;
  readonly serverRssMaxMiB: number;
  readonly diskBytesPerSample: number;
}

/** Runs a program to its end. @returns what it printed */
async function runToEnd(name: string, command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => (text += part));
  }
  const looks = setInterval(() => usage.look(name, child.pid!), lookMillis);
  const [code] = (await once(child, 'close')) as [number | null];
  clearInterval(looks);
  if (code !== 0) throw new Error(`${name} ended with ${code}: ${text.slice(-2000)}`);
  return text;
}

/** `runToEnd` of a shell's command, with a terminal (util-linux' script). */
async function runOnTerminal(name: string, command: string): Promise<void> {
  const child = spawn('script', ['-qec', command, '/dev/null'], { stdio: 'ignore' });
  const looks = setInterval(() => {
    const children = `/proc/${child.pid}/task/${child.pid}/children`;
    const [pid] = readFileSync(children, 'utf8').trim().split(' ');
    if (pid !== '') usage.look(name, Number(pid));
  }, lookMillis);
  const [code] = (await once(child, 'close')) as [number | null];
  clearInterval(looks);
  if (code !== 0) throw new Error(`${name} ended with ${code}`);
}

function cpuOf(name: string, pid: number): number {
  usage.look(name, pid);
  return usage.all().get(name)!.cpuSeconds;
}

/** @param finish brings what was taken to where it stays */
async function measured(
  server: { readonly name: string; readonly pid: number; readonly data: string },
  client: string,
  run: () => Promise<unknown>,
  finish: () => Promise<unknown>,
): Promise<Imported> {
  const before = cpuOf(server.name, server.pid);
  const began = performance.now();
  await run();
  const seconds = (performance.now() - began) / 1000;
  await finish();
  const perMillion = (cpuSeconds: number): number =>
    Number(((cpuSeconds * 1e6) / source.samples).toFixed(3));
  return {
    seconds: Number(seconds.toFixed(1)),
    samplesPerSecond: Math.round(source.samples / seconds),
    clientCpuSecondsPerMillion: perMillion(usage.all().get(client)?.cpuSeconds ?? 0),
    serverCpuSecondsPerMillion: perMillion(cpuOf(server.name, server.pid) - before),
    serverRssMaxMiB: Math.round(usage.all().get(server.name)!.rssMaxBytes / 2 ** 20),
    diskBytesPerSample: Number((bytesOf(server.data) / source.samples).toFixed(3)),
  };
}

/** A Prometheus whose head takes all of it, so that it comes to one block. */
async function startPrometheus(binary: string): Promise<{ program: Program; url: string }> {
  const [port] = (await freePorts(1)) as [number];
  writeFileSync(join(folder, 'prometheus.yml'), 'global: {}\n');
  const duration = `${2 * Number(values.hours)}h`;
  const program = new Program('prometheus', folder, binary, [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'prometheus')}`,
    `--storage.tsdb.min-block-duration=${duration}`,
    `--storage.tsdb.max-block-duration=${duration}`,
    '--storage.tsdb.retention.time=60d',
    `--web.listen-address=127.0.0.1:${port}`,
    '--web.enable-remote-write-receiver',
    '--web.enable-admin-api',
  ]);
  program.start();
  const url = `http://127.0.0.1:${port}`;
  await eventually('Prometheus is ready', async () => (await fetch(`${url}/-/ready`)).ok);
  return { program, url };
}

async function importHere(
  node: NodeServer,
  snapshot: string,
): Promise<Imported & { readonly verified: string }> {
  const args = ['tsdbctl/main.ts', 'data', 'import', 'prometheus', snapshot];
  const state = join(folder, 'import.json');
  const target = ['--coordinator', node.url, '--state', state];
  const server = {
    name: 'tsdb',
    pid: node.program.pid,
    data: join(folder, `data/data/${namespace}`),
  };
  const imported = await measured(
    server,
    'tsdbctl',
    () => runToEnd('tsdbctl', process.execPath, [...args, ...target]),
    () => call('POST', `http://127.0.0.1:${node.ports.httpNode}/flush`, {}, 900_000),
  );
  const verified = await runToEnd('tsdbctl verify', process.execPath, [
    ...args,
    ...target,
    '--verify',
  ]);
  return { ...imported, verified: verified.trim().split('\n').at(-1)! };
}

async function importToVictoria(
  binary: string,
  vmctl: string,
  snapshot: string,
): Promise<Imported> {
  const victoria = await startVictoriaMetrics(join(folder, 'victoria'), binary, []);
  try {
    const { pid } = victoria.program;
    return await measured(
      { name: 'victoria-metrics', pid, data: join(folder, 'victoria/data') },
      'vmctl',
      () =>
        // It draws its progress, and does nothing where there is no terminal; `exec`, so that it is the process that is looked at.
        runOnTerminal(
          'vmctl',
          `exec ${vmctl} prometheus -s --prom-snapshot=${snapshot} --vm-addr=${victoria.url}`,
        ),
      () => call('GET', `${victoria.url}/internal/force_flush`),
    );
  } finally {
    await victoria.program.stop('SIGKILL');
  }
}

async function compared(ours: string, theirs: string): Promise<object> {
  const names = await call('GET', `${ours}/api/v1/label/__name__/values`);
  const queries = makeQueries(Number(values.queries), names.json.data as string[], source);
  const differences: string[] = [];
  let points = 0;
  for (const { text, startSeconds, endSeconds, stepSeconds } of queries) {
    const parameters = new URLSearchParams({
      query: text,
      start: String(startSeconds),
      end: String(endSeconds),
      step: String(stepSeconds),
    });
    const answers: string[] = [];
    for (const url of [ours, theirs]) {
      const answer = await call('GET', `${url}/api/v1/query_range?${parameters}`);
      if (answer.status !== 200) throw new Error(`${url}: ${answer.text.slice(0, 300)}`);
      answers.push(answer.text);
    }
    const result = compareAnswers(answers[0]!, answers[1]!);
    points += result.points;
    if (result.difference !== null) differences.push(`${text}: ${result.difference}`);
  }
  const equal = queries.length - differences.length;
  return { queries: queries.length, equal, points, differences };
}

async function main(): Promise<void> {
  const prometheus = await startPrometheus(values.prometheus!);
  const node = await NodeServer.create({ folder });
  try {
    await send(`${prometheus.url}/api/v1/write`, source, 0, undefined, 1);
    const snapshotUrl = `${prometheus.url}/api/v1/admin/tsdb/snapshot`;
    const { json } = await call('POST', snapshotUrl, '', 900_000);
    const snapshot = join(folder, 'prometheus/snapshots', json.data.name as string);
    const blocks = readdirSync(snapshot).length;
    const blockBytesPerSample = Number((bytesOf(snapshot) / source.samples).toFixed(3));
    await node.start();
    await createLocalDatabase(node, namespace, { coldWritesEnabled: true });
    const tsdb = await importHere(node, snapshot);
    const queries = await compared(node.url, prometheus.url);
    const victoria =
      values.victoria === undefined || values.vmctl === undefined
        ? null
        : await importToVictoria(values.victoria, values.vmctl, snapshot);
    const { samples } = source;
    console.log(
      JSON.stringify({ samples, blocks, blockBytesPerSample, tsdb, victoria, ...queries }),
    );
  } finally {
    await node.program.stop('SIGKILL');
    await prometheus.program.stop('SIGKILL');
    if (!values.keep) rmSync(folder, { recursive: true, force: true });
  }
}

await main();
