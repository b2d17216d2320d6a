/**
 * Queries over several resolutions, and how a namespace of windows is filled, over HTTP with a real process
 * (docs/AGGREGATION.md). *Queries*: sixty days of a sample a minute are in three namespaces, samples of two days, windows of
 * 5 minutes of thirty, windows of an hour of all; every value of every answer is held against a plain evaluator over the rows
 * that were written. *Fill*: windows of 5 minutes of samples at 15 s that are there already. Prints a table and a line of JSON.
 *
 *     node test/load/resolutions_run.ts [--part queries|fill] [--seed 1] [--queries N] [--series 1000] [--days 2] [--folder FOLDER] [--keep]
 *
 * Exits with 1 when anything differs.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { toolOptions } from '../command_line.ts';
import { freshFolder } from './folder.ts';
import { fillPart } from './resolutions/fill_part.ts';
import { queriesPart } from './resolutions/queries_part.ts';
import { linesOfFill, linesOfQueries, jsonOfQueries } from './resolutions/report.ts';

const usage = `resolutions_run [--part queries|fill|both] [--seed N] [--queries N] [--series N] [--days N] [--folder FOLDER] [--keep]

  --part PART       queries, fill, or both; both when not given
  --seed N          of queries: what is written, and asked at any time; 1 when not given
  --queries N       of queries: so many of them, some of each kind; all (eight thousand) when not given
  --series N        of fill; 1000 when not given
  --days N          of fill: how much there is of each series, at 15 s; 2 when not given
  --folder FOLDER   where logs and data go; else the system's folder for such
  --keep            keeps them also when all is well
  -h, --help        this text`;

const text = { type: 'string' } as const;
const flag = { type: 'boolean', default: false } as const;
const values = toolOptions(usage, {
  part: text,
  seed: text,
  queries: text,
  series: text,
  days: text,
  folder: text,
  keep: flag,
});

function refuse(why: string): never {
  console.error(`${why}\n\n${usage}`);
  process.exit(2);
}

/** A number, or the end of this process with the usage. */
function numberOf(name: string, given: string | undefined, otherwise: number, min: number): number {
  const value = given === undefined ? otherwise : Number(given);
  if (given !== '' && value >= min && value < 1e6) return value;
  return refuse(`--${name} is a number of at least ${min}: ${given}`);
}

const part = values.part ?? 'both';
if (!['queries', 'fill', 'both'].includes(part)) {
  refuse(`--part is queries, fill or both: ${part}`);
}
const seed = numberOf('seed', values.seed, 1, 0);
const queriesMax = Math.floor(numberOf('queries', values.queries, 999_999, 1));
const series = Math.floor(numberOf('series', values.series, 1000, 1));
const days = numberOf('days', values.days, 2, 0.5);
const folder = freshFolder('resolutions-run', values.folder);
const report = (line: string): void => console.error(line);
// Whoever ends it ends its node, too, which goes when this process exits.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1));

const queries =
  part === 'fill'
    ? null
    : await queriesPart({
        folder: join(folder, 'queries'),
        seed,
        queriesMax,
        report,
      });
const fill =
  part === 'queries'
    ? null
    : await fillPart({ folder: join(folder, 'fill'), series, days, report });
const lines = [
  ...(queries === null ? [] : linesOfQueries(queries)),
  ...(fill === null ? [] : linesOfFill(fill)),
];
console.log(lines.join('\n'));
console.log(
  JSON.stringify({ seed, queries: queries === null ? null : jsonOfQueries(queries), fill }),
);
const isGood =
  (queries === null ||
    (queries.comparison.differenceCount === 0 && queries.windowFailures === 0)) &&
  (fill === null || fill.windowFailures === 0);
if (isGood && !values.keep) rmSync(folder, { recursive: true, force: true });
else console.error(`logs and data: ${folder}`);
process.exitCode = isGood ? 0 : 1;
