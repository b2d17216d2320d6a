/** Values in the names of series. */
import type { Call } from '../../calls/call.ts';
import { oneOrMore, optional, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { fixed, type UnitSystem, withPrefix } from '../../words/formatted.ts';
import { floatText } from '../../words/number_text.ts';
import { reduceAll } from '../../series/reduce.ts';
import { reducerNamed } from '../../math/reducers.ts';
import { lastValue, type Series } from '../../series/series.ts';

function systemOf(text: string | null | undefined): UnitSystem | null {
  return text === 'si' || text === 'binary' ? text : null;
}

async function legendValue(call: Call): Promise<readonly Series[]> {
  const given = call.arguments.texts('valuesTypes');
  const system = systemOf(given.at(-1));
  const types = system === null ? given : given.slice(0, -1);
  for (const type of types) {
    if (reducerNamed(type) === undefined) {
      throw call.arguments.error('valuesTypes', 'has to name an aggregation, as average', type);
    }
  }
  return await call.map(await call.list(), async (series) => {
    let { name } = series;
    for (const type of types) {
      const value = await reduceAll(series, reducerNamed(type)!, call);
      const isCount = type === 'count';
      if (system === null) {
        const text = value === null ? 'None' : isCount ? `${value}` : floatText(value);
        name += ` (${type}: ${text})`;
      } else {
        const text = value === null ? 'None' : withPrefix(value, system);
        name = name.padEnd(20) + type.padEnd(5) + text.padEnd(10);
      }
    }
    return { ...series, name };
  });
}

/** Longer names stick out of their column. */
const nameWidthMax = 1_000;

/** What is put into a legend: three values, each column as wide as its widest whole number. */
async function cactiStyle(call: Call): Promise<readonly Series[]> {
  const system = systemOf(call.arguments.optionalText('system'));
  const units = call.arguments.optionalText('units');
  const list = await call.list();
  const shown = (value: number) => {
    const text = system === null ? fixed(value, 2) : withPrefix(value, system);
    if (units === null) return text;
    if (system === null) return `${text} ${units}`;
    return text.replace(/([A-Za-z]*)$/, (prefix: string) => ` ${prefix}${units}`);
  };
  const max = reducerNamed('max')!;
  const min = reducerNamed('min')!;
  const columns = await call.keys(list, async (series) => [
    lastValue(series),
    await reduceAll(series, max, call),
    await reduceAll(series, min, call),
  ]);
  const longest = list.reduce((most, { name }) => Math.max(most, name.length), 0);
  const nameWidth = Math.min(longest, nameWidthMax);
  const widths = [0, 1, 2].map((column) =>
    columns.reduce((most, values) => {
      // Zero and none take the place of a small number.
      const value = Math.trunc(values[column]! || 3);
      return Math.max(most, shown(value).length + 3);
    }, 3),
  );
  const cell = (values: readonly (number | null)[], column: number) => {
    const value = values[column]!;
    return (value === null ? 'nan' : shown(value)).padEnd(widths[column]!);
  };
  let index = 0;
  return await call.map(list, (series) => {
    const values = columns[index++]!;
    const name = series.name.padEnd(nameWidth);
    return {
      ...series,
      name: `${name} Current:${cell(values, 0)} Max:${cell(values, 1)} Min:${cell(values, 2)} `,
    };
  });
}

export const legendRows: readonly FunctionRow[] = [
  functionRow(
    'Special',
    'cactiStyle',
    'Last, greatest and least value in the name, in columns',
    [seriesList, optional('system', 'string', null, ['si', 'binary']), optional('units', 'string')],
    cactiStyle,
  ),
  functionRow(
    'Alias',
    'legendValue',
    'What series come to by some aggregations in their names',
    [seriesList, oneOrMore('valuesTypes', 'string')],
    legendValue,
  ),
];
