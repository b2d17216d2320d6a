/**
 * A day taken over from a real M3, as docs/MIGRATING.md says: rwbench's rows are written to the M3, a Prometheus writes to both for a
 * while, then tsdbctl takes over the folder of the M3 while it runs, is killed twice on the way and goes on, verifies every row and
 * compares queries. Prints one JSON line. The M3 has its own ports (7201, 9000 to 9004, 2379 and 2380), which must be free.
 *
 *     node test/load/m3_import_run.ts --m3 PATH --rwbench PATH [--prometheus PATH --minutes 3]
 *         [--hosts 60] [--hours 24] [--queries 500] [--keep]
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import {
  call,
  createLocalDatabase,
  eventually,
  NodeServer,
  Program,
} from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { type BackfillSource, fileSource } from './backfill_data.ts';
import { bytesOf, freshFolder } from './folder.ts';
import { ProcessUsage } from './process_usage.ts';
import { send } from './send_frames.ts';

const { values } = parseArgs({
  options: {
    m3: { type: 'string' },
    rwbench: { type: 'string' },
    prometheus: { type: 'string' },
    minutes: { type: 'string', default: '3' },
    hosts: { type: 'string', default: '60' },
    hours: { type: 'string', default: '24' },
    queries: { type: 'string', default: '500' },
    keep: { type: 'boolean', default: false },
  },
});
const { m3: m3Binary, rwbench } = values;
if (m3Binary === undefined || rwbench === undefined) {
  throw new Error('--m3 and --rwbench name their binaries');
}

/** Of the M3, and of what it is taken into. */
const namespace = 'default';
const m3Url = 'http://127.0.0.1:7201';
/** As those of the database that takes them over. */
const m3Shards = 64;
const lookMillis = 50;
/** Parts of all rows at which the import is killed. */
const killedAt = [1 / 3, 2 / 3];
/** The M3 has written what it had when its files are the same for so long. */
const settledMillis = 30_000;
const settledMillisMax = 900_000;
/** Queries look back so long, an hour: counters that begin in a range are extrapolated otherwise by Prometheus 3. */
const lookBackMillis = 3_690_000;
/** The same of the present, whose queries are few; rows come to both a moment apart. */
const [presentMillis, apartMillis] = [330_000, 60_000];

const folder = freshFolder('m3-import');
const usage = new ProcessUsage();
const endSeconds = Math.floor(Date.now() / 60_000) * 60;

async function startM3(): Promise<Program> {
  const taken = await call('GET', `${m3Url}/health`).catch(() => null);
  if (taken !== null) throw new Error(`something listens at ${m3Url} already`);
  const file = join(folder, 'm3.yml');
  const data = join(folder, 'm3');
  mkdirSync(data);
  writeFileSync(file, `coordinator: {}\ndb:\n  filesystem:\n    filePathPrefix: ${data}\n`);
  const program = new Program('m3', folder, m3Binary!, ['-f', file]);
  program.start();
  await eventually('the M3 answers', async () => (await fetch(`${m3Url}/health`)).ok);
  const placement = {
    num_shards: m3Shards,
    replication_factor: 1,
    instances: [
      {
        id: 'm3db_local',
        isolation_group: 'local',
        zone: 'embedded',
        weight: 100,
        endpoint: '127.0.0.1:9000',
        hostname: '127.0.0.1',
        port: 9000,
      },
    ],
  };
  // Its key-value store comes later than its API.
  const placementUrl = `${m3Url}/api/v1/services/m3db/placement/init`;
  await eventually('the placement of the M3 is made', async () => {
    const { status, text } = await call('POST', placementUrl, placement);
    if (status >= 300) throw new Error(text);
    return true;
  });
  await ask('POST', `${m3Url}/api/v1/services/m3db/namespace`, {
    name: namespace,
    options: {
      bootstrapEnabled: true,
      flushEnabled: true,
      writesToCommitLog: true,
      cleanupEnabled: true,
      snapshotEnabled: true,
      coldWritesEnabled: true,
      retentionOptions: {
        retentionPeriodDuration: '48h',
        blockSizeDuration: '2h',
        bufferFutureDuration: '10m',
        bufferPastDuration: '10m',
      },
      indexOptions: { enabled: true, blockSizeDuration: '2h' },
      // Its coordinator reads and writes no other one.
      aggregationOptions: { aggregations: [{ aggregated: false }] },
    },
  });
  await eventually('the namespace of the M3 is ready', async () => {
    const url = `${m3Url}/api/v1/services/m3db/namespace/ready`;
    return (await call('POST', url, { name: namespace })).status === 200;
  });
  return program;
}

async function ask(method: string, url: string, body?: unknown): Promise<string> {
  const { status, text } = await call(method, url, body, 900_000);
  if (status >= 300) throw new Error(`${url}: ${status} ${text.slice(0, 500)}`);
  return text;
}

async function rowsOfRwbench(): Promise<BackfillSource> {
  const file = join(folder, 'day.rw');
  const { hosts, hours } = values;
  await promisify(execFile)(rwbench!, [
    ...['make', '-out', file, '-hosts', hosts, '-hours', hours],
    ...['-end', String(endSeconds), '-decimals', '2'],
  ]);
  const startMillis = (endSeconds - Number(hours) * 3600) * 1000;
  return fileSource(file, { startMillis, endMillis: endSeconds * 1000 });
}

/** Scrapes itself and both databases, and writes to both. @returns how many rows it sent to each, and how many failed */
async function doubleWritten(node: NodeServer): Promise<object> {
  const [port] = (await freePorts(1)) as [number];
  const file = join(folder, 'prometheus.yml');
  const targets = [port, 7203, node.ports.metrics].map((at) => `'127.0.0.1:${at}'`).join(', ');
  const lines = [
    'global: {scrape_interval: 5s}',
    'scrape_configs:',
    `  - {job_name: all, static_configs: [{targets: [${targets}]}]}`,
    'remote_write:',
    `  - {name: m3, url: '${m3Url}/api/v1/prom/remote/write'}`,
    `  - {name: tsdb, url: '${node.url}/api/v1/prom/remote/write'}`,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  const program = new Program('prometheus', folder, values.prometheus!, [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(folder, 'prometheus')}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]);
  program.start();
  await delay(Number(values.minutes) * 60_000);
  const counts: Record<string, Record<string, number>> = {};
  const metrics = await ask('GET', `http://127.0.0.1:${port}/metrics`);
  const line =
    /^prometheus_remote_storage_samples_(failed_)?total\{.*remote_name="(\w+)".*\} (\S+)/gm;
  for (const [, failed, name, value] of metrics.matchAll(line)) {
    (counts[name!] ??= {})[failed === undefined ? 'sent' : 'failed'] = Number(value);
  }
  await program.stop();
  return counts;
}

/** Until the M3 has files of what it has taken, as far as it makes any. */
async function settled(): Promise<{ readonly filesets: number; readonly seconds: number }> {
  const began = performance.now();
  let [count, since] = [0, began];
  await eventually(
    'the files of the M3 are the same for a while',
    async () => {
      const now = globSync(join(folder, `m3/data/${namespace}/*/fileset-*-checkpoint.db`)).length;
      if (now !== count) [count, since] = [now, performance.now()];
      return count > 0 && performance.now() - since > settledMillis;
    },
    settledMillisMax,
  );
  return { filesets: count, seconds: Math.round((performance.now() - began) / 1000) };
}

interface Ended {
  readonly lines: readonly string[];
  readonly code: number | null;
  readonly seconds: number;
}

/** @param isEnough kills it when it says so */
async function tsdbctl(
  args: readonly string[],
  name: string,
  isEnough: () => Promise<boolean> = async () => false,
): Promise<Ended> {
  const began = performance.now();
  const child = spawn(process.execPath, ['tsdbctl/main.ts', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => (text += part));
  }
  let isOver = false;
  const ended = once(child, 'close').then(([code]) => {
    isOver = true;
    return code as number | null;
  });
  while (!isOver) {
    usage.look(name, child.pid!);
    if (await isEnough()) {
      child.kill('SIGKILL');
      break;
    }
    await Promise.race([delay(lookMillis), ended]);
  }
  const code = await ended;
  return { lines: text.trim().split('\n'), code, seconds: (performance.now() - began) / 1000 };
}

async function rowsWritten(node: NodeServer): Promise<number> {
  const text = await ask('GET', `http://127.0.0.1:${node.ports.metrics}/metrics`);
  let rows = 0;
  for (const [, value] of text.matchAll(/^tsdb_coordinator_written_samples_total\S* (\S+)/gm)) {
    rows += Number(value);
  }
  return rows;
}

function cpuOf(name: string, pid: number): number {
  usage.look(name, pid);
  return usage.all().get(name)!.cpuSeconds;
}

/** @param toMillis begin of the double-write */
async function imported(node: NodeServer, toMillis: number): Promise<object> {
  const to = new Date(toMillis).toISOString();
  const args = ['data', 'import', 'm3', join(folder, 'm3'), '--namespace', namespace];
  args.push('--coordinator', node.url, '--state', join(folder, 'import.json'), '--to', to);
  const dryRun = await tsdbctl([...args, '--dry-run'], 'dry run');
  const summary = dryRun.lines.find((line) => line.includes('rows,')) ?? '';
  const rows = Number(/(\d+) rows,/.exec(summary)?.[1]);
  if (dryRun.code !== 0 || !(rows > 0)) throw new Error(dryRun.lines.join('\n'));

  const before = await rowsWritten(node);
  const nodeBefore = cpuOf('tsdb', node.program.pid);
  const runs: Ended[] = [];
  for (const part of [...killedAt, Infinity]) {
    const isEnough = async (): Promise<boolean> =>
      (await rowsWritten(node)) - before >= part * rows;
    runs.push(await tsdbctl(args, 'import', isEnough));
  }
  const last = runs.at(-1)!;
  if (last.code !== 0) throw new Error(last.lines.join('\n'));
  await ask('POST', `http://127.0.0.1:${node.ports.httpNode}/flush`, {});
  const nodeCpu = cpuOf('tsdb', node.program.pid) - nodeBefore;
  const sent = (await rowsWritten(node)) - before;
  const seconds = runs.reduce((sum, run) => sum + run.seconds, 0);

  const verify = await tsdbctl([...args, '--verify'], 'verify');
  const perMillion = (cpuSeconds: number): number => Number(((cpuSeconds * 1e6) / rows).toFixed(2));
  return {
    rows,
    // Killed ones with the ends of their lives: what was sent twice is that.
    rowsSent: sent,
    killed: runs.filter(({ code }) => code === null).length,
    seconds: Number(seconds.toFixed(1)),
    rowsPerSecond: Math.round(sent / seconds),
    clientCpuSecondsPerMillion: perMillion(usage.all().get('import')!.cpuSeconds),
    nodeCpuSecondsPerMillion: perMillion(nodeCpu),
    dryRun: summary,
    goesOn: runs.map(({ lines }) => lines.find((line) => line.startsWith('goes on'))),
    result: last.lines.find((line) => line.includes('parts are taken over')),
    verify: {
      code: verify.code,
      result: verify.lines.find((line) => line.includes('missing')),
      seconds: Number(verify.seconds.toFixed(1)),
    },
  };
}

async function compared(
  node: NodeServer,
  fromMillis: number,
  toMillis: number,
  count: string,
): Promise<object> {
  // Beside whole steps, as docs/MIGRATING.md says: no row lies on the edge of a range.
  const text = (millis: number): string =>
    new Date(Math.floor(millis / 60_000) * 60_000 + 7_000).toISOString();
  const args = ['compare', m3Url, node.url, '--count', count];
  args.push('--from', text(fromMillis), '--to', text(toMillis));
  const { lines, code } = await tsdbctl(args, 'compare');
  return { code, result: lines.at(-1), differences: lines.slice(0, -1) };
}

async function main(): Promise<void> {
  const m3 = await startM3();
  const node = await NodeServer.create({ folder: join(folder, 'tsdb') });
  try {
    const day = await rowsOfRwbench();
    await node.start();
    await createLocalDatabase(node, namespace, { coldWritesEnabled: true });
    const m3Before = cpuOf('m3', m3.pid);
    const { seconds, samples } = await send(`${m3Url}/api/v1/prom/remote/write`, day, 0);
    const loaded = {
      samples,
      seconds: Number(seconds.toFixed(1)),
      m3CpuSecondsPerMillion: Number(
        (((cpuOf('m3', m3.pid) - m3Before) * 1e6) / samples).toFixed(2),
      ),
    };
    const doubleMillis = Date.now();
    const doubleWrite = values.prometheus === undefined ? null : await doubleWritten(node);
    const doubleEndMillis = Date.now();
    const presentFrom = doubleMillis + presentMillis;
    const presentTo = doubleEndMillis - apartMillis;
    const present =
      presentFrom < presentTo ? await compared(node, presentFrom, presentTo, '100') : null;
    const files = { ...(await settled()), bytes: bytesOf(join(folder, 'm3')) };
    const taken = await imported(node, doubleMillis);
    const pastFrom = day.startMillis + lookBackMillis;
    const past = await compared(node, pastFrom, day.endMillis, values.queries);
    console.log(JSON.stringify({ loaded, files, doubleWrite, present, import: taken, past }));
  } finally {
    await node.program.stop('SIGKILL');
    await m3.stop('SIGKILL');
    if (!values.keep) rmSync(folder, { recursive: true, force: true });
  }
}

await main();
