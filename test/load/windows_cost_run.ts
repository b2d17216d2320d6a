/**
 * What two resolutions cost beside the samples that they are made of: the single node takes the same bodies with samples
 * alone and with windows of 5 minutes and an hour, in turns. Its clock is set back for the load and goes on a night when
 * that is over, so that blocks are closed and windows made as they would be, at once. Prints a JSON line a run and one of medians.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { toolOptions } from '../command_line.ts';
import { call, createLocalDatabase, eventually, NodeServer } from '../integration/process.ts';
import { madeSource } from './backfill_data.ts';
import { freshFolder } from './folder.ts';
import { medianOf } from './median.ts';
import { ProcessUsage } from './process_usage.ts';
import { send } from './send_frames.ts';
import { createNamespace } from './short_namespace.ts';

const values = toolOptions(
  `node test/load/windows_cost_run.ts [options]: CPU of two resolutions beside samples alone
  --series N     10000 when not given
  --hours N      of samples of each half day, at most 10, which is the default
  --rounds N     half days; 3 when not given
  --interval S   seconds between two samples of a series; 15 when not given
  --runs N       of each kind; 5 when not given`,
  {
    series: { type: 'string', default: '10000' },
    hours: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '3' },
    interval: { type: 'string', default: '15' },
    runs: { type: 'string', default: '5' },
  },
);
const [seriesCount, hours, rounds, interval, runs] = [
  values.series,
  values.hours,
  values.rounds,
  values.interval,
  values.runs,
].map(Number) as [number, number, number, number, number];

const hourMillis = 3_600_000;
const blockHours = 12;
/** Half a block late rows are taken, and then it is closed. */
const bufferPastHours = 11;
const pollMillis = 2_000;
/** So often nothing more has come of flushes. */
const quietPolls = 3;
const namespace = 'samples';
const resolutions = [
  { name: 'fine', resolution: '5m', retention: '2160h', windowsPerHour: 12 },
  { name: 'coarse', resolution: '1h', retention: '17520h', windowsPerHour: 1 },
];

type Kind = 'samples alone' | 'two resolutions';

interface Measured {
  readonly kind: Kind;
  /** Until all was acknowledged, and until files, and windows where there are some, were written. */
  readonly ingestionCpuSeconds: number;
  readonly cpuSeconds: number;
  readonly windows: number;
  readonly peakMebibytes: number;
}

/** Ends of blocks of half a day: the last ones that are over. */
const endsMillis = Array.from({ length: rounds }, (_, round) => {
  const blockMillis = blockHours * hourMillis;
  return (Math.floor(Date.now() / blockMillis) - (rounds - 1 - round)) * blockMillis;
});
const sources = endsMillis.map((endMillis) =>
  madeSource({
    seriesCount,
    scrapes: Math.floor((hours * 3600) / interval),
    intervalMillis: interval * 1000,
    endMillis,
  }),
);
const samples = sources.reduce((sum, source) => sum + source.samples, 0);

async function createNamespaces(server: NodeServer, kind: Kind): Promise<void> {
  await createLocalDatabase(server, 'first');
  // Windows are made of rows of before it was there, for it is alone.
  await call('DELETE', `${server.url}/api/v1/services/tsdb/namespace/first`);
  const own = {
    blockSize: `${blockHours}h`,
    bufferFuture: '10m',
    bufferPast: `${bufferPastHours}h`,
  };
  const aggregation = { aggregated: false };
  await createNamespace(server, namespace, { ...own, retention: '96h', aggregation });
  if (kind === 'samples alone') return;
  for (const { name, resolution, retention } of resolutions) {
    const attributes = { resolutionDuration: resolution, downsampleOptions: { all: true } };
    const ofWindows = { aggregated: true, attributes };
    await createNamespace(server, name, { ...own, retention, aggregation: ofWindows });
  }
}

async function counterOf(server: NodeServer, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${server.ports.metrics}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1] ?? 0);
}

async function measured(kind: Kind): Promise<Measured> {
  const folder = freshFolder('windows-cost');
  const clock = join(folder, 'clock');
  const setClock = (millis: number): void =>
    writeFileSync(clock, String(Math.round(millis - Date.now())));
  setClock(endsMillis[0]! + 60_000);
  const preload = join(import.meta.dirname, 'moved_clock.mjs');
  const server = await NodeServer.create({
    folder,
    settings: ['tick: {minimumInterval: 10s}'],
    environment: { TSDB_TEST_CLOCK_FILE: clock, NODE_OPTIONS: `--import=${preload}` },
  });
  const usage = new ProcessUsage();
  const cpuSeconds = (): number => {
    usage.look(kind, server.program.pid);
    return usage.all().get(kind)!.cpuSeconds;
  };
  try {
    await server.start();
    await createNamespaces(server, kind);
    const before = cpuSeconds();
    let [ingestionCpuSeconds, cpuSecondsInAll, windows] = [0, 0, 0];
    for (const [round, source] of sources.entries()) {
      setClock(endsMillis[round]! + 60_000);
      const beforeRound = cpuSeconds();
      await send(`${server.url}/api/v1/compat/remote/write`, source, 0);
      ingestionCpuSeconds += cpuSeconds() - beforeRound;
      setClock(endsMillis[round]! + bufferPastHours * hourMillis + 600_000);
      windows = await allWritten(server, kind, round);
      cpuSecondsInAll = cpuSeconds() - before;
    }
    const peakMebibytes = Math.round(usage.all().get(kind)!.rssMaxBytes / 2 ** 20);
    return { kind, ingestionCpuSeconds, cpuSeconds: cpuSecondsInAll, windows, peakMebibytes };
  } finally {
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Waits until nothing more comes to files. @returns windows so far */
async function allWritten(server: NodeServer, kind: Kind, round: number): Promise<number> {
  const perHour = resolutions.reduce((sum, each) => sum + each.windowsPerHour, 0);
  const wanted = kind === 'samples alone' ? 0 : (round + 1) * perHour * hours * seriesCount;
  let [last, quiet, windows] = [-1, 0, 0];
  await eventually(
    'all is in files',
    async () => {
      await delay(pollMillis);
      const flushed = await counterOf(server, 'tsdb_node_flushed_blocks_total');
      windows = await counterOf(server, 'tsdb_node_aggregation_windows_total');
      quiet = flushed + windows === last ? quiet + 1 : 0;
      last = flushed + windows;
      if (flushed > round && windows >= wanted && quiet >= quietPolls) return true;
      throw new Error(`${flushed} blocks, ${windows} of ${wanted} windows`);
    },
    600_000,
  );
  return windows;
}

const kinds: readonly Kind[] = ['samples alone', 'two resolutions'];
const results: Measured[] = [];
for (let run = 0; run < runs; run += 1) {
  for (const kind of kinds) {
    const result = await measured(kind);
    results.push(result);
    console.log(JSON.stringify(result));
  }
}
const [alone, both] = kinds.map((kind) =>
  medianOf(results.filter((each) => each.kind === kind).map(({ cpuSeconds }) => cpuSeconds)),
) as [number, number];
console.log(
  JSON.stringify({
    samples,
    cpuSecondsPerMillionAlone: alone / (samples / 1e6),
    cpuSecondsPerMillionWithBoth: both / (samples / 1e6),
    morePercent: 100 * (both / alone - 1),
  }),
);
