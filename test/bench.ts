/**
 * `npm run bench [-- filter]`: every `*_bench.ts` at full size, the median of five runs of each
 * figure, one JSON line a figure.
 */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';

const runCount = 5;
const root = join(import.meta.dirname, '..');
const usage = `npm run bench -- [TEXT]: benchmarks whose file's name contains TEXT, all when not given`;
const [filter = '', ...others] = process.argv.slice(2);
if (filter === '--help' || filter === '-h') {
  console.log(usage);
  process.exit(0);
}
if (filter.startsWith('-') || others.length > 0) {
  console.error(`unknown: ${filter.startsWith('-') ? filter : others.join(' ')}\n${usage}`);
  process.exit(2);
}
const rooms = '{lib,engine,cluster,kv,node,coordinator,aggregator,operator,tsdbctl,test/load}';

for (const file of globSync(`${rooms}/**/*_bench.ts`, { cwd: root }).sort()) {
  if (!file.includes(filter)) continue;
  const { bench } = (await import(join(root, file))) as {
    bench: (size: BenchSize) => Promise<BenchResult[]>;
  };
  const runs: BenchResult[][] = [];
  for (let run = 0; run < runCount; run++) runs.push(await bench('full'));
  for (const [index, { name, unit }] of runs[0]!.entries()) {
    const values = runs.map((results) => results[index]!.value).sort((a, b) => a - b);
    const figures = { median: values[runCount >> 1], min: values[0], max: values[runCount - 1] };
    console.log(JSON.stringify({ name, unit, ...figures, runs: runCount }));
  }
}
