/** Packets of lines of known and of new metrics, and a flush of them. */
import { cpuUsage } from 'node:process';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { noMapping } from '../mapping/file.ts';
import { PrometheusSeries } from '../series/prometheus.ts';
import { allDialects } from './names.ts';
import { LineReader } from './reader.ts';

const linesOfPacket = 20;
const types = ['c', 'c', 'g', 'ms'] as const;

/** Counters, gauges and timers with three tags, some with a rate. */
function packetsOf(seriesCount: number): Buffer[] {
  const lines = Array.from({ length: seriesCount }, (_, i) => {
    const type = types[i % types.length]!;
    const rate = type === 'c' && i % 3 === 0 ? '|@0.5' : '';
    const tags = `#env:prod,host:web${Math.floor(i / 100)},region:eu`;
    return `service.api.requests${i % 100}:${(i * 7919) % 1000}|${type}${rate}|${tags}`;
  });
  const packets: Buffer[] = [];
  for (let at = 0; at < lines.length; at += linesOfPacket) {
    packets.push(Buffer.from(lines.slice(at, at + linesOfPacket).join('\n')));
  }
  return packets;
}

export function bench(size: BenchSize): BenchResult[] {
  const seriesCount = size === 'full' ? 10_000 : 100;
  const rounds = size === 'full' ? 200 : 2;
  const packets = packetsOf(seriesCount);
  const results: BenchResult[] = [];
  const measure = (name: string, lines: number, run: () => void): void => {
    const before = cpuUsage();
    run();
    const { user, system } = cpuUsage(before);
    results.push({ name, unit: 'CPU ns/line', value: (1000 * (user + system)) / lines });
  };
  const series = new PrometheusSeries(noMapping, {}, seriesCount);
  const reader = new LineReader(series, allDialects, 1);
  const read = (): void => {
    for (const packet of packets) reader.read(packet);
  };
  measure('statsd: lines of new metrics', seriesCount, read);
  read();
  measure('statsd: lines of known metrics', rounds * seriesCount, () => {
    for (let round = 0; round < rounds; round++) read();
  });
  let written = 0;
  measure('statsd: flush, a metric', seriesCount, () => {
    for (const lines of series.lines(() => 1e12)) for (const line of lines) written += line.length;
  });
  if (written === 0) throw new Error('nothing was written');
  return results;
}
