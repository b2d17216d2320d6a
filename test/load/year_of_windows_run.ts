/**
 * A year of windows of an hour with series that come and go, made by a clock that is moved (docs/INDEX.md, Closed spans): what a
 * node keeps in memory of it, bytes of a window on disk, what a start and queries over the year take. Prints a line of JSON.
 *
 *     node --expose-gc test/load/year_of_windows_run.ts [--series 200000] [--days 365] [--churn 0.05] [--rows-an-hour 2] [--folder FOLDER] [--keep]
 *
 * A long one goes on where it was stopped: --minutes 100 --folder FOLDER --go-on, again and again.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { toolOptions } from '../command_line.ts';
import { freshFolder } from './folder.ts';
import { Year } from './year_of_windows/year.ts';

const usage = `year_of_windows_run [--series N] [--days N] [--churn PART] [--rows-an-hour N] [--folder FOLDER] [--minutes N] [--go-on] [--keep]

  --series N         that are active; 200000 when not given, a multiple of 500
  --days N           365 when not given
  --churn PART       of the hosts that others take the place of each day; 0.05 when not given
  --rows-an-hour N   of each series; 2 when not given
  --folder FOLDER    where data goes; else the system's folder for such
  --minutes N        stops at the end of a day after so many
  --go-on            in the very folder, with what it has
  --keep             keeps it
  -h, --help         this text`;

const text = { type: 'string' } as const;
const values = toolOptions(usage, {
  series: text,
  days: text,
  churn: text,
  'rows-an-hour': text,
  folder: text,
  minutes: text,
  'go-on': { type: 'boolean', default: false },
  keep: { type: 'boolean', default: false },
});

function numberOf(
  name: 'series' | 'days' | 'churn' | 'rows-an-hour' | 'minutes',
  otherwise: number,
): number {
  const given = values[name];
  const value = given === undefined ? otherwise : Number(given);
  if (given !== '' && value >= 0 && value < 1e8) return value;
  console.error(`--${name} is a number: ${given}\n\n${usage}`);
  process.exit(2);
}

const folder = values['go-on'] ? values.folder! : freshFolder('year-of-windows', values.folder);
mkdirSync(folder, { recursive: true });
const year = new Year({
  folder,
  series: Math.ceil(numberOf('series', 200_000) / 500) * 500,
  days: numberOf('days', 365),
  churn: numberOf('churn', 0.05),
  rowsAnHour: Math.max(1, Math.round(numberOf('rows-an-hour', 2))),
  minutesMax: numberOf('minutes', 1e6),
  report: (line) => console.error(line),
});
const report = await year.run();
if (report === null) {
  console.error(`stopped; it goes on with --go-on --folder ${folder}`);
  process.exit(3);
}
const perWindow = (bytes: number): string => (bytes / report.windows).toFixed(2);
console.error(
  `${report.windows} windows of ${report.samples} samples: ${perWindow(report.dataBytes)} bytes each, with names ${perWindow(report.dataBytes + report.indexFileBytes + report.columnsBytes)}`,
);
console.log(JSON.stringify(report));
if (!values.keep) rmSync(folder, { recursive: true, force: true });
