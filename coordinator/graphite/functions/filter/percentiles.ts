/** Series and values that are kept for their place among others. */
import type { Call } from '../../calls/call.ts';
import { required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { floatText, plainNumber, shortNumber } from '../../words/number_text.ts';
import { percentileOf, percentileOfRows } from '../../series/percentile.ts';
import { reduceAll } from '../../series/reduce.ts';
import { reducerNamed } from '../../math/reducers.ts';
import { mapValues } from '../../series/map_values.ts';
import { inParts, madeColumns, type RowMaker } from '../../series/making.ts';
import { renamed, type Series, tagged } from '../../series/series.ts';
import { intervalSeconds } from '../../time/interval.ts';

/** The percentile that is asked for, and the one as far from the other end; the upper one is at least 50. */
function percentsOf(call: Call): readonly [number, number] {
  const n = call.arguments.number('n');
  const upper = n < 50 ? 100 - n : n;
  return [100 - upper, upper];
}

async function averageOutsidePercentile(call: Call): Promise<readonly Series[]> {
  const [lower, upper] = percentsOf(call);
  const list = await call.list();
  const average = reducerNamed('average')!;
  const averages = await call.keys(list, (series) => reduceAll(series, average, call));
  const values = Float64Array.from(averages.filter((value) => value !== null));
  const low = percentileOf(values, values.length, lower, false);
  const high = percentileOf(values, values.length, upper, false);
  return list.filter((_series, index) => !isBetween(averages[index]!, low, high));
}

function isBetween(value: number | null, low: number | null, high: number | null): boolean {
  return value !== null && low !== null && high !== null && low < value && value < high;
}

/** Series that are between both percentiles in every row are left out. */
async function removeBetweenPercentile(call: Call): Promise<readonly Series[]> {
  const [lower, upper] = percentsOf(call);
  const list = await call.list();
  const length = list.reduce((least, { values }) => Math.min(least, values.length), Infinity);
  const isOutside = new Uint8Array(list.length);
  const scratch = new Float64Array(list.length);
  for (let row = 0; list.length > 0 && row < length; row++) {
    let count = 0;
    for (const { values, present } of list) {
      if (present[row] === 1) scratch[count++] = values[row]!;
    }
    const low = percentileOf(scratch, count, lower, false);
    const high = percentileOf(scratch, count, upper, false);
    for (let i = 0; i < list.length; i++) {
      const { values, present } = list[i]!;
      const value = present[row] === 1 ? values[row]! : null;
      if (!isBetween(value, low, high)) isOutside[i] = 1;
    }
    if (call.work.spend(60 * list.length)) await call.work.pause();
  }
  return list.filter((_series, index) => isOutside[index] === 1);
}

/** Values on the wrong side of what `boundOf` says of a series are taken out. */
const without = (
  name: string,
  description: string,
  boundOf: (series: Series, n: number, maker: RowMaker) => Promise<number | null>,
  isWrong: (value: number, bound: number) => boolean,
): FunctionRow =>
  functionRow(
    'Filter Data',
    name,
    description,
    [seriesList, required('n', 'float')],
    async (call) => {
      const n = call.arguments.number('n');
      const isPercentile = boundOf === percentileOfRows;
      return await call.map(
        await call.list(),
        async (series) => {
          const bound = await boundOf(series, n, call);
          const newName = `${name}(${series.name}, ${shortNumber(n)})`;
          if (bound === null) return renamed(series, newName);
          const kept = (value: number): number | null => (isWrong(value, bound) ? null : value);
          const columns = await mapValues(series, kept, call);
          const tags = isPercentile ? tagged(series, ['nPercentile', floatText(n)]) : series.tags;
          return renamed(series, newName, { ...columns, tags });
        },
        20,
      );
    },
  );

/**
 * Values of stretches in which they were on one side of a number for some time; in others what makes it plain
 * that they were not: a value on the other side of it.
 */
const sustained = (
  name: string,
  description: string,
  isRight: (value: number, threshold: number) => boolean,
  sign: 1 | -1,
): FunctionRow =>
  functionRow(
    'Filter Data',
    name,
    description,
    [seriesList, required('threshold', 'float'), required('intervalString', 'interval')],
    async (call) => {
      const threshold = call.arguments.number('threshold');
      const text = call.arguments.text('intervalString');
      const seconds = Math.abs(intervalSeconds(text)!);
      const other = threshold - sign * Math.abs(threshold);
      return await call.map(await call.list(), async (series) => {
        const { values, present, stepSeconds } = series;
        const columns = await madeColumns(values.length, call);
        const rowsMin = Math.floor(seconds / stepSeconds);
        let rows = 0;
        await inParts(values.length, call.work, (first, past) => {
          for (let i = first; i < past; i++) {
            rows = present[i] === 1 && isRight(values[i]!, threshold) ? rows + 1 : 0;
            const isValue = rows >= rowsMin;
            columns.values[i] = isValue ? values[i]! : other;
            columns.present[i] = isValue ? present[i]! : 1;
          }
        });
        const newName = `${name}(${series.name}, ${plainNumber(threshold)}, '${text}')`;
        return renamed(series, newName, columns);
      });
    },
  );

export const byPercentileRows: readonly FunctionRow[] = [
  functionRow(
    'Filter Series',
    'averageOutsidePercentile',
    'Series whose mean is outside of a percentile and the one as far from the other end',
    [seriesList, required('n', 'float')],
    averageOutsidePercentile,
  ),
  without(
    'removeAbovePercentile',
    'Values above a percentile of their series taken out',
    percentileOfRows,
    (value, bound) => value > bound,
  ),
  without(
    'removeAboveValue',
    'Values above a number taken out',
    async (_series, n) => n,
    (value, bound) => value > bound,
  ),
  without(
    'removeBelowPercentile',
    'Values below a percentile of their series taken out',
    percentileOfRows,
    (value, bound) => value < bound,
  ),
  without(
    'removeBelowValue',
    'Values below a number taken out',
    async (_series, n) => n,
    (value, bound) => value < bound,
  ),
  functionRow(
    'Filter Series',
    'removeBetweenPercentile',
    'Series that are outside of a percentile, and the one as far from the other end, in some row',
    [seriesList, required('n', 'float')],
    removeBetweenPercentile,
  ),
  sustained(
    'sustainedAbove',
    'Values that were at least a number for some time',
    (value, threshold) => value >= threshold,
    1,
  ),
  sustained(
    'sustainedBelow',
    'Values that were at most a number for some time',
    (value, threshold) => value <= threshold,
    -1,
  ),
];
