/**
 * Every function of Graphite's query language, by its name and its aliases. A row says what a function
 * takes, for which windows it wants its series, and what carries it out; rows stand in files by subject:
 *
 *     combine/     several series become one
 *     transform/   values become others, row by row or over time
 *     calculate/   windows, forecasts, lines
 *     filter/      some series, or values, are kept; series are sorted
 *     alias/       names
 *     special/     settings, drawing, series made of nothing
 */
import type { FunctionRow } from '../calls/row.ts';
import { legendRows } from './alias/legends.ts';
import { nameRows } from './alias/names.ts';
import { forecastRows } from './calculate/forecasts.ts';
import { levelRows } from './calculate/levels.ts';
import { movingRows } from './calculate/moving.ts';
import { aggregateRows } from './combine/aggregate.ts';
import { groupRows } from './combine/groups.ts';
import { listRows } from './combine/lists.ts';
import { shareRows } from './combine/shares.ts';
import { byNameRows } from './filter/names.ts';
import { byPercentileRows } from './filter/percentiles.ts';
import { byRankRows } from './filter/ranks.ts';
import { byValueRows } from './filter/values.ts';
import { graphRows } from './special/graphs.ts';
import { madeRows } from './special/made.ts';
import { settingRows } from './special/settings.ts';
import { gapRows } from './transform/gaps.ts';
import { rateRows } from './transform/rates.ts';
import { shiftRows } from './transform/shifts.ts';
import { summaryRows } from './transform/summaries.ts';
import { valueRows } from './transform/values.ts';

/** Each once. */
export const functionRows: readonly FunctionRow[] = [
  ...aggregateRows,
  ...byNameRows,
  ...byPercentileRows,
  ...byRankRows,
  ...byValueRows,
  ...forecastRows,
  ...gapRows,
  ...graphRows,
  ...groupRows,
  ...legendRows,
  ...levelRows,
  ...listRows,
  ...madeRows,
  ...movingRows,
  ...nameRows,
  ...rateRows,
  ...settingRows,
  ...shareRows,
  ...shiftRows,
  ...summaryRows,
  ...valueRows,
];

/** By every name. */
export const functions: ReadonlyMap<string, FunctionRow> = new Map(
  functionRows.flatMap((row) => [row.name, ...row.aliases].map((name) => [name, row] as const)),
);
