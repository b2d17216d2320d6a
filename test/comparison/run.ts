/**
 * Queries at random, asked of the single node and of Prometheus with the same series. Each is made anew by its number:
 *
 *   node test/comparison/run.ts --numbers 1-20000 [--features] [--series 1] [--prometheus PATH] [--show 3]
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { toolOrSkip } from '../tools.ts';
import { compare } from './compare.ts';

const { values } = parseArgs({
  options: {
    numbers: { type: 'string', default: '1-1000' },
    features: { type: 'boolean', default: false },
    series: { type: 'string', default: '1' },
    prometheus: { type: 'string' },
    show: { type: 'string', default: '3' },
  },
});
const range = /^(\d+)-(\d+)$/.exec(values.numbers);
assert.ok(range !== null, '--numbers are given as FIRST-LAST');
const prometheus = values.prometheus ?? toolOrSkip('prometheus', 'nothing is compared');
if (prometheus !== null) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-comparison-'));
  try {
    const found = await compare({
      folder,
      prometheus,
      hasFeatures: values.features,
      seriesSeed: Number(values.series),
      first: Number(range[1]),
      last: Number(range[2]),
    });
    for (const [kind, examples] of found.differences) {
      console.log(`\n== ${kind}: ${examples.length}`);
      for (const example of examples.slice(0, Number(values.show))) console.log(example);
    }
    const { differences: _, ...counts } = found;
    console.log(JSON.stringify(counts));
    process.exitCode = found.differences.size === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
