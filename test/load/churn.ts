/**
 * A server whose series are all replaced by new ones at every scrape, with small blocks and a short
 * retention: memory and files must be flat once as much expires as comes.
 *
 *     node test/load/churn.ts [--series 100000] [--scrapes 50] [--every 15] [--block 120] [--retention 240]
 *                             [--folder FOLDER] [--out churn.jsonl]
 *
 * SIGTERM ends it early. Exits with 1 when a request was given up, or something grew.
 */
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { NodeServer } from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { Churn, type ChurnOptions, type ChurnRecord, verdictOf } from './churn_run.ts';

const { values } = parseArgs({
  options: {
    series: { type: 'string', default: '100000' },
    scrapes: { type: 'string', default: '50' },
    every: { type: 'string', default: '15' },
    block: { type: 'string', default: '120' },
    retention: { type: 'string', default: '240' },
    folder: { type: 'string' },
    out: { type: 'string', default: 'churn.jsonl' },
  },
});

async function main(): Promise<number> {
  const options: ChurnOptions = {
    seriesCount: Number(values.series),
    scrapes: Number(values.scrapes),
    scrapeSeconds: Number(values.every),
    blockSeconds: Number(values.block),
    retentionSeconds: Number(values.retention),
  };
  const folder = freshFolder('churn', values.folder);
  const server = await NodeServer.create({ folder });
  const records: ChurnRecord[] = [];
  writeFileSync(values.out, `${JSON.stringify({ options })}\n`);
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort());
  try {
    await server.start();
    console.log(`server ${server.program.pid}, ${server.url}, folder ${folder}`);
    await new Churn(server, options).run((record) => {
      records.push(record);
      appendFileSync(values.out, `${JSON.stringify(record)}\n`);
      console.log(lineOf(record));
    }, interrupted.signal);
  } finally {
    await server.program.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  const { lines, isGood } = verdictOf(options, records);
  for (const line of lines) console.log(line);
  return isGood ? 0 : 1;
}

function lineOf({ seconds, samples, slowestMillis, cpuSeconds, ...record }: ChurnRecord): string {
  const { metrics, rssBytes, diskBytes, files, failed } = record;
  const mebibytes = (bytes: number | undefined): string => ((bytes ?? 0) / 2 ** 20).toFixed(0);
  return (
    `${seconds.toFixed(0)} s: ${samples} samples, slowest ${slowestMillis} ms, cpu ${cpuSeconds} s, rss ${mebibytes(rssBytes)} MiB, ` +
    `series ${metrics['node_series']}, store ${mebibytes(metrics['node_store_bytes'])}, ` +
    `index ${mebibytes(metrics['node_index_bytes'])}, write decoder ${mebibytes(metrics['coordinator_front_memory_bytes'])} ` +
    `(${metrics['coordinator_front_series']}), ${files} files ${mebibytes(diskBytes)} MiB, failed ${failed}`
  );
}

process.exitCode = await main();
