/**
 * Backfill of old samples into a namespace with cold writes that has data already: speed, CPU,
 * memory and bytes written, and equality with Prometheus on the same bodies. Prints one JSON line.
 *
 *   node test/load/backfill.ts --days 30 --series 1000 --interval 60 --memory 512MiB --block 24h \
 *     [--order series] [--file frames.rw --end 1790000000] [--prometheus /usr/bin/prometheus] [--queries 100]
 */
import {
  appendFileSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { freePorts } from '../ports.ts';
import {
  call,
  createLocalDatabase,
  eventually,
  namespaceReady,
  NodeServer,
  Program,
} from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { type BackfillSource, fileSource, madeSource, seriesSource } from './backfill_data.ts';
import { compareAnswers, makeQueries } from './backfill_queries.ts';
import { send } from './send_frames.ts';

const namespace = 'backfill';
const dayMillis = 24 * 3_600_000;
const ticksPerSecond = 100;

const { values } = parseArgs({
  options: {
    days: { type: 'string', default: '30' },
    series: { type: 'string', default: '1000' },
    interval: { type: 'string', default: '60' },
    memory: { type: 'string', default: '512MiB' },
    block: { type: 'string', default: '24h' },
    order: { type: 'string', default: 'time' },
    file: { type: 'string' },
    end: { type: 'string', default: String(Math.floor(Date.now() / 60_000) * 60) },
    prometheus: { type: 'string' },
    queries: { type: 'string', default: '100' },
    keep: { type: 'boolean', default: false },
  },
});

interface ProcessUse {
  readonly cpuSeconds: number;
  readonly rssBytes: number;
  readonly peakRssBytes: number;
  readonly writtenBytes: number;
}

function useOf(pid: number): ProcessUse {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kibibytes = (name: string): number =>
    1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)![1]);
  const io = /^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))!;
  return {
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond,
    rssBytes: kibibytes('VmRSS'),
    peakRssBytes: kibibytes('VmHWM'),
    writtenBytes: Number(io[1]),
  };
}

function directoryBytes(folder: string): { bytes: number; files: number } {
  let [bytes, files] = [0, 0];
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    bytes += statSync(join(entry.parentPath, entry.name)).size;
    files += 1;
  }
  return { bytes, files };
}

async function createNamespace(server: NodeServer, days: number): Promise<void> {
  await createLocalDatabase(server, 'first');
  const url = `${server.url}/api/v1/services/tsdb/namespace`;
  const options = {
    bootstrapEnabled: true,
    flushEnabled: true,
    writesToCommitLog: true,
    cleanupEnabled: true,
    snapshotEnabled: true,
    coldWritesEnabled: true,
    retentionOptions: {
      retentionPeriodDuration: `${24 * (days + 2)}h`,
      blockSizeDuration: values.block,
      bufferFutureDuration: '10m',
      bufferPastDuration: '10m',
    },
    indexOptions: { enabled: true, blockSizeDuration: values.block },
    aggregationOptions: { aggregations: [{ aggregated: false }] },
  };
  const made = await call('POST', url, { name: namespace, options });
  if (made.status !== 200) throw new Error(`namespace: ${made.status} ${made.text}`);
  await namespaceReady(server.url, namespace);
  await call('DELETE', `${url}/first`);
}

async function flush(server: NodeServer): Promise<Record<string, number>> {
  const answer = await call('POST', `http://127.0.0.1:${server.ports.httpNode}/flush`, {});
  if (answer.status !== 200) throw new Error(`flush: ${answer.status} ${answer.text}`);
  return answer.json as Record<string, number>;
}

/** Numbers of the server's own metrics, by name without the prefix. */
async function metricsOf(server: NodeServer): Promise<Record<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${server.ports.metrics}/metrics`)).text();
  const numbers: Record<string, number> = {};
  for (const [, name, value] of text.matchAll(
    /^tsdb_node_(flushed_\w+|snapshots?_\w+|memory_\w+) (\S+)$/gm,
  )) {
    numbers[name!] = Number(value);
  }
  return numbers;
}

async function comparePrometheus(
  binary: string,
  folder: string,
  source: BackfillSource,
  server: NodeServer,
): Promise<object> {
  const [port] = (await freePorts(1)) as [number];
  const url = `http://127.0.0.1:${port}`;
  const config = join(folder, 'prometheus.yml');
  writeFileSync(config, 'global: {}\nstorage: {tsdb: {out_of_order_time_window: 60d}}\n');
  const prometheus = new Program('prometheus', folder, binary, [
    `--config.file=${config}`,
    `--storage.tsdb.path=${join(folder, 'prometheus')}`,
    '--storage.tsdb.retention.time=120d',
    `--web.listen-address=127.0.0.1:${port}`,
    '--web.enable-remote-write-receiver',
  ]);
  prometheus.start();
  try {
    await eventually('Prometheus is ready', async () => (await fetch(`${url}/-/ready`)).ok);
    const sent = await send(`${url}/api/v1/write`, source, 0);
    const { cpuSeconds, peakRssBytes } = useOf(prometheus.pid);
    const names = await call('GET', `${server.url}/api/v1/label/__name__/values`);
    const queries = makeQueries(Number(values.queries), names.json.data as string[], source);
    let [points, equal] = [0, 0];
    const differences: string[] = [];
    for (const { text, startSeconds, endSeconds, stepSeconds } of queries) {
      const parameters = new URLSearchParams({
        query: text,
        start: String(startSeconds),
        end: String(endSeconds),
        step: String(stepSeconds),
      });
      const [ours, theirs] = await Promise.all(
        [server.url, url].map((base) => call('GET', `${base}/api/v1/query_range?${parameters}`)),
      );
      const result =
        ours!.status === 200 && theirs!.status === 200
          ? compareAnswers(ours!.text, theirs!.text)
          : {
              difference: `${ours!.text.slice(0, 200)} | ${theirs!.text.slice(0, 200)}`,
              points: 0,
            };
      points += result.points;
      if (result.difference === null) equal += 1;
      else
        differences.push(
          `${text} ${startSeconds} ${endSeconds} ${stepSeconds}: ${result.difference}`,
        );
    }
    return {
      samplesPerSecond: Math.round(sent.samples / sent.seconds),
      cpuSecondsPerMillion: cpuSeconds / (sent.samples / 1e6),
      peakRssMebibytes: Math.round(peakRssBytes / 2 ** 20),
      queries: queries.length,
      equal,
      points,
      differences,
    };
  } finally {
    await prometheus.stop();
  }
}

async function main(): Promise<void> {
  const days = Number(values.days);
  const endMillis = Number(values.end) * 1000;
  const startMillis = endMillis - days * dayMillis;
  const intervalMillis = 1000 * Number(values.interval);
  const source =
    values.file === undefined
      ? (values.order === 'series' ? seriesSource : madeSource)({
          seriesCount: Number(values.series),
          scrapes: Math.floor((days * dayMillis) / intervalMillis),
          intervalMillis,
          endMillis,
        })
      : fileSource(values.file, { startMillis, endMillis });
  const folder = freshFolder('backfill');
  const server = await NodeServer.create({ folder });
  appendFileSync(join(folder, 'tsdb.yml'), `  memoryMax: ${values.memory}\n`);
  try {
    await server.start();
    await createNamespace(server, days);
    const url = `${server.url}/api/v1/compat/remote/write`;
    // The namespace has data: the newest part, in filesets, which the backfill brings once more.
    await send(url, source, 1 - 1 / days);
    await flush(server);
    const before = useOf(server.program.pid);
    let rssMax = 0;
    const watch = setInterval(() => {
      rssMax = Math.max(rssMax, useOf(server.program.pid).rssBytes);
    }, 500);
    const sent = await send(url, source, 0);
    const after = useOf(server.program.pid);
    const flushed = await flush(server);
    clearInterval(watch);
    const end = useOf(server.program.pid);
    const millions = sent.samples / 1e6;
    const data = directoryBytes(join(folder, 'data', 'data'));
    const report = {
      samples: sent.samples,
      samplesPerSecond: Math.round(sent.samples / sent.seconds),
      retries: sent.retries,
      slowestMillis: Math.round(sent.slowestMillis),
      cpuSecondsPerMillion: (after.cpuSeconds - before.cpuSeconds) / millions,
      cpuSecondsPerMillionWithFlush: (end.cpuSeconds - before.cpuSeconds) / millions,
      rssMaxMebibytes: Math.round(rssMax / 2 ** 20),
      writtenBytesPerSample: (end.writtenBytes - before.writtenBytes) / sent.samples,
      dataBytesPerSample: data.bytes / sent.samples,
      dataFiles: data.files,
      flushed,
      metrics: await metricsOf(server),
    };
    const peer =
      values.prometheus === undefined
        ? null
        : await comparePrometheus(values.prometheus, folder, source, server);
    console.log(JSON.stringify({ ...report, prometheus: peer }));
  } finally {
    await server.program.stop();
    if (!values.keep) rmSync(folder, { recursive: true, force: true });
    else console.error(folder);
  }
}

await main();
