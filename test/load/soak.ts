/**
 * A server under a steady load for long: half a million samples a second with queries whose answers
 * are checked, small blocks and a short retention, so that flush, snapshot, cleanup and expiry run
 * many times. Memory, files and latency must stay flat.
 *
 *     node test/load/soak.ts [--minutes 60] [--rate 500000] [--series 50000] [--block 600] [--retention 1800]
 *                            [--churn 60] [--queries 2] [--folder FOLDER] [--out soak.jsonl] [--graph docs/soak.svg]
 *     node test/load/soak.ts --draw soak.jsonl --graph docs/soak.svg     draws a run anew
 *
 * SIGTERM ends it early, with graph and verdict. Exits with 1 when a write failed, an answer was
 * wrong, or something grew.
 */
import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { NodeServer } from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { drawSoak, verdictOf } from './soak_report.ts';
import { Soak, type SoakOptions, type SoakRecord } from './soak_run.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '500000' },
    series: { type: 'string', default: '50000' },
    block: { type: 'string', default: '600' },
    retention: { type: 'string', default: '1800' },
    churn: { type: 'string', default: '60' },
    queries: { type: 'string', default: '2' },
    record: { type: 'string', default: '10' },
    folder: { type: 'string' },
    keep: { type: 'boolean', default: false },
    out: { type: 'string', default: 'soak.jsonl' },
    graph: { type: 'string', default: 'docs/soak.svg' },
    draw: { type: 'string' },
  },
});

async function main(): Promise<number> {
  if (values.draw !== undefined) {
    const [head, ...lines] = readFileSync(values.draw, 'utf8').trim().split('\n');
    const records = lines.map((line) => JSON.parse(line) as SoakRecord);
    const { options } = JSON.parse(head!) as { options: SoakOptions };
    writeFileSync(values.graph, drawSoak(options, records));
    return told(verdictOf(options, records));
  }
  const options: SoakOptions = {
    seconds: Number(values.minutes) * 60,
    seriesCount: Number(values.series),
    samplesPerSecond: Number(values.rate),
    blockSeconds: Number(values.block),
    retentionSeconds: Number(values.retention),
    recordSeconds: Number(values.record),
    churnSeconds: Number(values.churn),
    queriesPerSecond: Number(values.queries),
  };
  const folder = freshFolder('soak', values.folder);
  const server = await NodeServer.create({ folder });
  const records: SoakRecord[] = [];
  writeFileSync(values.out, `${JSON.stringify({ options, folder })}\n`);
  try {
    await server.start();
    console.log(`server ${server.program.pid}, ${server.url}, folder ${folder}`);
    const soak = new Soak(server, options, (line) => console.log(line));
    const interrupted = new AbortController();
    for (const name of ['SIGINT', 'SIGTERM'] as const) {
      process.once(name, () => interrupted.abort());
    }
    await soak.run((record) => {
      records.push(record);
      appendFileSync(values.out, `${JSON.stringify(record)}\n`);
      console.log(lineOf(record));
    }, interrupted.signal);
  } finally {
    await server.program.stop();
    if (!values.keep) rmSync(folder, { recursive: true, force: true });
  }
  writeFileSync(values.graph, drawSoak(options, records));
  return told(verdictOf(options, records));
}

function told(verdict: { readonly lines: readonly string[]; readonly isGood: boolean }): number {
  for (const line of verdict.lines) console.log(line);
  return verdict.isGood ? 0 : 1;
}

function lineOf(record: SoakRecord): string {
  const { seconds, samplesPerSecond, write, query, server, disk, node } = record;
  const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
  return (
    `${seconds.toFixed(0)} s: ${samplesPerSecond}/s, write ${write.p50Millis} ${write.p99Millis} ${write.maxMillis} ms, ` +
    `query ${query.p50Millis} ${query.maxMillis} ms, rss ${mebibytes(server.rssBytes)} heap ${mebibytes(server.heapBytes)} MiB, ` +
    `cpu ${server.cpuPerSecond}, ${disk.files} files ${mebibytes(disk.bytes)} MiB, ` +
    `log ${node['commitlog_segments']}, flushed ${node['flushed_blocks_total']}, snapshots ${node['snapshots_total']}, ` +
    `failed ${record.writesFailed} skipped ${record.writesSkipped} wrong ${record.answersWrong}/${record.answersChecked}`
  );
}

process.exitCode = await main();
