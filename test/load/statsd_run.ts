/**
 * How many lines of statsd a process takes on one core without losing any, here and by statsd_exporter: the same packets of
 * twenty lines of 10,000 metrics by UDP on this machine, at a steady rate for some seconds, at higher and higher rates until
 * lines are missing. The process has one core, the sender the others. Prints a line a step: lines a second, lines that are
 * missing, CPU time of the process for a million lines, and its memory. Meanwhile it does what it is there for: ours writes all
 * metrics every ten seconds, statsd_exporter is scraped as often.
 */
import { execFileSync } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { chosen, toolOptions } from '../command_line.ts';
import { eventually, NodeServer, Program } from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import { freshFolder } from './folder.ts';
import { ProcessUsage } from './process_usage.ts';

const systemNames = ['tsdb', 'statsd_exporter'] as const;
type SystemName = (typeof systemNames)[number];

const seriesCount = 10_000;
const linesOfPacket = 20;
const types = ['c', 'c', 'g', 'ms'] as const;
/** Datagrams are sent in bursts, as those of many senders come. */
const burstMillis = 2;
const settleMillis = 1500;
const scrapeMillis = 10_000;

const values = toolOptions(
  `node test/load/statsd_run.ts [options]: lines of statsd a second on one core, without loss
  --statsd-exporter PATH    its binary; without it only ours is run
  --systems LIST            of ${systemNames.join(', ')}; all that there are when not given
  --rates LIST              thousands of lines a second; 100,200,400,600,800,1000,1200,1500 when not given
  --seconds N               of each rate; 12 when not given: a flush is among them`,
  {
    'statsd-exporter': { type: 'string' },
    systems: { type: 'string' },
    rates: { type: 'string', default: '100,200,400,600,800,1000,1200,1500' },
    seconds: { type: 'string', default: '12' },
  },
);

interface System {
  readonly program: Program;
  readonly udpPort: number;
  /** Lines that it has seen. */
  readonly lines: () => Promise<number>;
}

/** Counters, gauges and timers with three tags. */
function packetsOf(): Buffer[] {
  const lines = Array.from({ length: seriesCount }, (_, i) => {
    const tags = `#env:prod,host:web${Math.floor(i / 100)},region:eu`;
    return `service.api.requests${i % 100}:${(i * 7919) % 1000}|${types[i % types.length]!}|${tags}`;
  });
  return Array.from({ length: seriesCount / linesOfPacket }, (_, i) =>
    Buffer.from(lines.slice(i * linesOfPacket, (i + 1) * linesOfPacket).join('\n')),
  );
}

async function metricOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(url)).text();
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1] ?? Number.NaN);
}

async function startOurs(folder: string): Promise<System> {
  const [udpPort] = (await freePorts(1)) as [number];
  const server = await NodeServer.create({
    folder,
    coordinatorSettings: [`statsd: {ingester: {listenAddress: "127.0.0.1:${udpPort}"}}`],
  });
  await server.start();
  const url = `http://127.0.0.1:${server.ports.metrics}/metrics`;
  return {
    program: server.program,
    udpPort,
    lines: () => metricOf(url, 'tsdb_coordinator_statsd_lines_total'),
  };
}

async function startExporter(folder: string, binary: string): Promise<System> {
  const [udpPort, webPort] = (await freePorts(2)) as [number, number];
  // Tags are read here and there; its own default of the buffer is the system's.
  const program = new Program('statsd_exporter', folder, binary, [
    `--statsd.listen-udp=127.0.0.1:${udpPort}`,
    '--statsd.listen-tcp=',
    `--web.listen-address=127.0.0.1:${webPort}`,
    `--statsd.read-buffer=${8 << 20}`,
  ]);
  program.start();
  const url = `http://127.0.0.1:${webPort}/metrics`;
  await eventually('it answers', async () => (await fetch(url)).ok);
  return { program, udpPort, lines: () => metricOf(url, 'statsd_exporter_lines_total') };
}

/** Sends at a steady rate. @returns lines that were sent */
async function send(
  socket: Socket,
  port: number,
  packets: readonly Buffer[],
  linesPerSecond: number,
  seconds: number,
): Promise<number> {
  const packetsPerMilli = linesPerSecond / linesOfPacket / 1000;
  const begin = performance.now();
  let sent = 0;
  while (true) {
    const millis = performance.now() - begin;
    if (millis >= seconds * 1000) return sent * linesOfPacket;
    const due = Math.floor(millis * packetsPerMilli);
    let under = 0;
    const done: Promise<void>[] = [];
    for (; sent < due && under < 2000; sent++, under++) {
      const packet = packets[sent % packets.length]!;
      done.push(
        new Promise((resolve, reject) => {
          socket.send(packet, port, '127.0.0.1', (error) =>
            error === null ? resolve() : reject(error),
          );
        }),
      );
    }
    await Promise.all(done);
    await delay(burstMillis);
  }
}

async function run(name: SystemName): Promise<void> {
  const folder = freshFolder(`statsd-${name}`);
  const system =
    name === 'tsdb'
      ? await startOurs(folder)
      : await startExporter(folder, values['statsd-exporter']!);
  const { pid } = system.program;
  const core = availableParallelism() - 1;
  execFileSync('taskset', ['-acp', String(core), String(pid)]);
  execFileSync('taskset', ['-acp', `0-${Math.max(0, core - 1)}`, String(process.pid)]);
  const socket = createSocket('udp4');
  socket.bind(0);
  const packets = packetsOf();
  const usage = new ProcessUsage();
  const scraping = setInterval(() => void system.lines().catch(() => {}), scrapeMillis);
  try {
    await send(socket, system.udpPort, packets, 50_000, 5);
    for (const thousands of values.rates.split(',').map(Number)) {
      usage.look(name, pid!);
      const before = { lines: await settledLines(system), ...usage.all().get(name)! };
      const sent = await send(
        socket,
        system.udpPort,
        packets,
        thousands * 1000,
        Number(values.seconds),
      );
      const lines = (await settledLines(system)) - before.lines;
      usage.look(name, pid!);
      const after = usage.all().get(name)!;
      const cpu = after.cpuSeconds - before.cpuSeconds;
      console.log(
        JSON.stringify({
          system: name,
          linesPerSecond: Math.round(sent / Number(values.seconds)),
          missing: sent - lines,
          cpuSecondsPerMillion: Number(((cpu * 1e6) / Math.max(1, lines)).toFixed(3)),
          rssMaxMebibytes: Math.round(after.rssMaxBytes / 2 ** 20),
        }),
      );
      if (sent - lines > sent / 10) break;
    }
  } finally {
    clearInterval(scraping);
    socket.close();
    await system.program.stop('SIGKILL');
    writeFileSync(join(folder, 'done'), '');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** When no more of them come. */
async function settledLines(system: System): Promise<number> {
  for (let before = -1; ; ) {
    // Counts become metrics within a second.
    await delay(settleMillis);
    const lines = await system.lines();
    if (lines === before) return lines;
    before = lines;
  }
}

const all: readonly SystemName[] = systemNames.filter(
  (name) => name === 'tsdb' || values['statsd-exporter'] !== undefined,
);
for (const name of chosen(values.systems ?? all.join(','), all)) await run(name);
