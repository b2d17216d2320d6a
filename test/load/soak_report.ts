/** What a soak's records say: the graph, and whether anything grew. */
import { drawPanels, type GraphPanel } from './soak_graph.ts';
import type { SoakOptions, SoakRecord } from './soak_run.ts';

/** More than this between the first and the last block after the warm-up counts as growth. */
const growthMax = 0.1;
const mebibyte = 2 ** 20;

export interface Verdict {
  readonly lines: readonly string[];
  readonly isGood: boolean;
}

/**
 * From the first expiry on everything goes as fast as it comes, and memory and files go up and down
 * with each block. So the time of the first block from then on is compared with that of the last
 * one: by the median, or by the peak.
 */
export function verdictOf(options: SoakOptions, records: readonly SoakRecord[]): Verdict {
  const { retentionSeconds, blockSeconds } = options;
  const lines: string[] = [];
  let isGood = records.length > 0;
  const total = (of: (record: SoakRecord) => number): number =>
    records.reduce((sum, record) => sum + of(record), 0);
  const faults = {
    'failed writes': total((record) => record.writesFailed),
    'skipped writes': total((record) => record.writesSkipped),
    'failed queries': total((record) => record.queriesFailed),
    'wrong answers': total((record) => record.answersWrong),
  };
  for (const [name, count] of Object.entries(faults)) {
    lines.push(`${name}: ${count}`);
    if (count > 0) isGood = false;
  }
  lines.push(`answers checked: ${total((record) => record.answersChecked)}`);
  const millis = (of: (record: SoakRecord) => number): number => Math.max(0, ...records.map(of));
  lines.push(`slowest write: ${millis((record) => record.write.maxMillis)} ms`);
  lines.push(`slowest query: ${millis((record) => record.query.maxMillis)} ms`);
  const warmSeconds = retentionSeconds + blockSeconds;
  const endSeconds = records.at(-1)?.seconds ?? 0;
  if (endSeconds - warmSeconds < 2 * blockSeconds - options.recordSeconds) {
    lines.push('too short to tell growth');
    return { lines, isGood };
  }
  const within = (from: number): SoakRecord[] =>
    records.filter(({ seconds }) => seconds > from && seconds <= from + blockSeconds);
  const [first, last] = [within(warmSeconds), within(endSeconds - blockSeconds)];
  const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]!;
  const peak = (values: number[]): number => Math.max(...values);
  const growths: [string, (values: number[]) => number, (record: SoakRecord) => number][] = [
    ['resident memory, MiB', median, ({ server }) => server.rssBytes / mebibyte],
    ['JavaScript heap, MiB', median, ({ server }) => server.heapBytes / mebibyte],
    ['store, MiB', peak, ({ node }) => (node['store_bytes'] ?? 0) / mebibyte],
    ['index, MiB', median, ({ node }) => (node['index_bytes'] ?? 0) / mebibyte],
    ['files', peak, ({ disk }) => disk.files],
    ['disk, MiB', peak, ({ disk }) => disk.bytes / mebibyte],
    ['series', median, ({ node }) => node['series'] ?? 0],
    ['write p50, ms', median, ({ write }) => write.p50Millis],
    ['write p99, ms', median, ({ write }) => write.p99Millis],
    ['query p50, ms', median, ({ query }) => query.p50Millis],
    ['CPU', median, ({ server }) => server.cpuPerSecond],
  ];
  for (const [name, by, of] of growths) {
    const before = by(first.map(of));
    const after = by(last.map(of));
    const grew = after > before * (1 + growthMax) + 1e-9;
    // Latencies are told, but a busy machine does not decide.
    const decides = !name.endsWith('ms') && name !== 'CPU';
    if (grew && decides) isGood = false;
    lines.push(`${name}: ${before.toFixed(1)} → ${after.toFixed(1)}${grew ? ', grew' : ''}`);
  }
  return { lines, isGood };
}

export function drawSoak(options: SoakOptions, records: readonly SoakRecord[]): string {
  const line = (name: string, of: (record: SoakRecord) => number | undefined) => ({
    name,
    values: records.map((record) => of(record) ?? null),
  });
  const mib = (name: string, of: (record: SoakRecord) => number | undefined) =>
    line(name, (record) => (of(record) ?? 0) / mebibyte);
  /** What was counted since the record before. */
  const since = (name: string, metric: string) => ({
    name,
    values: records.map(({ node }, i) =>
      i === 0 ? null : (node[metric] ?? 0) - (records[i - 1]!.node[metric] ?? 0),
    ),
  });
  const panels: GraphPanel[] = [
    {
      title: 'thousand samples acknowledged a second',
      lines: [line('samples', (record) => record.samplesPerSecond / 1000)],
    },
    {
      title: 'memory of the server, MiB',
      lines: [
        mib('resident', ({ server }) => server.rssBytes),
        mib('samples in memory', ({ node }) => node['store_bytes']),
        mib('JavaScript heap', ({ server }) => server.heapBytes),
        mib('index', ({ node }) => node['index_bytes']),
        mib('file caches', ({ node }) => node['cache_bytes']),
      ],
    },
    {
      title: 'CPU seconds a second',
      lines: [
        line('server', ({ server }) => server.cpuPerSecond),
        line('sender', (record) => record.senderCpuPerSecond),
      ],
    },
    {
      title: 'latency of a write of 2000 samples, ms',
      lines: [
        line('median', ({ write }) => write.p50Millis),
        line('99 of 100', ({ write }) => write.p99Millis),
        line('slowest', ({ write }) => write.maxMillis),
      ],
    },
    {
      title: 'latency of queries, ms',
      lines: [
        line('median', ({ query }) => query.p50Millis),
        line('slowest', ({ query }) => query.maxMillis),
      ],
    },
    {
      title: 'bytes on disk, MiB',
      lines: [
        mib('all', ({ disk }) => disk.bytes),
        mib('filesets', ({ disk }) => disk.dataBytes),
        mib('commit log', ({ disk }) => disk.commitlogBytes),
        mib('snapshots', ({ disk }) => disk.snapshotBytes),
      ],
    },
    { title: 'files', lines: [line('files', ({ disk }) => disk.files)] },
    {
      title: 'series, thousands',
      lines: [line('series', ({ node }) => (node['series'] ?? 0) / 1000)],
    },
    {
      title: 'in each span',
      lines: [
        since('blocks flushed', 'flushed_blocks_total'),
        since('snapshots', 'snapshots_total'),
        line('log segments', ({ node }) => node['commitlog_segments']),
      ],
    },
  ];
  const { samplesPerSecond, blockSeconds, retentionSeconds } = options;
  const title =
    `${samplesPerSecond} samples a second, blocks of ${blockSeconds / 60} minutes, ` +
    `retention of ${retentionSeconds / 60} minutes`;
  return drawPanels(
    title,
    records.map(({ seconds }) => seconds / 60),
    panels,
  );
}
