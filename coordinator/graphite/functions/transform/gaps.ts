/** Rows without a value: filled, counted, or taken out. */
import type { Call } from '../../calls/call.ts';
import { optional, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { compressPeriodicGaps } from '../../series/gaps.ts';
import { floatText, shortNumber } from '../../words/number_text.ts';
import { type Columns, renamed, type Series, tagged } from '../../series/series.ts';

/** Columns of their own with the same rows. */
function copied({ values, present }: Columns): Columns {
  return { values: values.slice(), present: present.slice() };
}

/** A negative limit is none, as M3 has it. */
function gapLimit(call: Call): number {
  const text = `${call.arguments.literal('limit')}`;
  const limit = /^inf/i.test(text) ? Infinity : Number(text);
  return limit < 0 ? Infinity : limit;
}

async function keepLastValue(call: Call): Promise<readonly Series[]> {
  const limit = gapLimit(call);
  return await call.map(await call.list(), (series) => {
    const columns = copied(series);
    const { values, present } = columns;
    let last = -1;
    for (let i = 0; i <= values.length; i++) {
      if (i < values.length && series.present[i] === 0) continue;
      const gap = i - last - 1;
      if (last >= 0 && gap > 0 && gap <= limit) {
        values.fill(values[last]!, last + 1, i);
        present.fill(1, last + 1, i);
      }
      last = i;
    }
    return renamed(series, `keepLastValue(${series.name})`, columns);
  });
}

async function interpolate(call: Call): Promise<readonly Series[]> {
  const limit = gapLimit(call);
  return await call.map(await call.list(), (series) => {
    const columns = copied(series);
    const { values, present } = columns;
    let last = -1;
    for (let i = 0; i < values.length; i++) {
      if (series.present[i] === 0) continue;
      const gap = i - last - 1;
      if (last >= 0 && gap > 0 && gap <= limit) {
        const from = values[last]!;
        const rise = values[i]! - from;
        for (let k = 1; k <= gap; k++) {
          values[last + k] = from + (k * rise) / (gap + 1);
          present[last + k] = 1;
        }
      }
      last = i;
    }
    return renamed(series, `interpolate(${series.name})`, columns);
  });
}

async function transformNull(call: Call): Promise<readonly Series[]> {
  const args = call.arguments;
  const value = args.number('default');
  const tag = args.has('default') ? floatText(value) : shortNumber(value);
  const list = await call.list();
  const references = args.has('referenceSeries') ? await call.list('referenceSeries') : [];
  const isReferenced = references.length > 0;
  const isWanted = isReferenced ? presentInAny(references) : null;
  const suffix = isReferenced ? ',referenceSeries' : '';
  return await call.map(list, (series) => {
    const columns = copied(series);
    for (let i = 0; i < columns.values.length; i++) {
      if (columns.present[i] === 1 || isWanted?.[i] === 0) continue;
      if (isWanted !== null && i >= isWanted.length) continue;
      columns.values[i] = value;
      columns.present[i] = 1;
    }
    const tags = tagged(series, ['transformNull', tag]);
    return renamed(series, `transformNull(${series.name},${shortNumber(value)}${suffix})`, {
      ...columns,
      tags: isReferenced ? new Map([...tags, ['referenceSeries', '1']]) : tags,
    });
  });
}

/** 1 for the rows in which one of them has a value. */
function presentInAny(list: readonly Series[]): Uint8Array {
  const length = list.reduce((most, { values }) => Math.max(most, values.length), 0);
  const any = new Uint8Array(length);
  for (const { present } of list) {
    for (let i = 0; i < present.length; i++) any[i] = any[i]! | present[i]!;
  }
  return any;
}

async function isNonNull(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), (series) =>
    renamed(series, `isNonNull(${series.name})`, {
      values: Float64Array.from(series.present),
      present: new Uint8Array(series.present.length).fill(1),
      tags: tagged(series, ['isNonNull', '1']),
    }),
  );
}

async function compressed(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), (series) => {
    const name = `compressPeriodicGaps(${series.name})`;
    return renamed(compressPeriodicGaps(series), name);
  });
}

/** 1 where the value is another than the last one before it. */
async function changed(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), (series) => {
    const { length } = series.values;
    const values = new Float64Array(length);
    let previous: number | null = null;
    for (let i = 0; i < length; i++) {
      if (series.present[i] === 0) continue;
      const value = series.values[i]!;
      if (previous !== null && value !== previous) values[i] = 1;
      previous = value;
    }
    const present = new Uint8Array(length).fill(1);
    return renamed(series, `changed(${series.name})`, { values, present });
  });
}

export const gapRows: readonly FunctionRow[] = [
  functionRow(
    'Special',
    'changed',
    '1 where the value is another than before, else 0',
    [seriesList],
    changed,
  ),
  functionRow(
    'Transform',
    'compressPeriodicGaps',
    'Series that have a value in each n-th row alone, with a step n times as long',
    [seriesList],
    compressed,
  ),
  functionRow(
    'Transform',
    'interpolate',
    'Gaps filled on a line between their ends',
    [seriesList, optional('limit', 'intOrInf', 'inf')],
    interpolate,
  ),
  functionRow(
    'Transform',
    'isNonNull',
    '1 where there is a value, else 0',
    [seriesList],
    isNonNull,
  ),
  functionRow(
    'Transform',
    'keepLastValue',
    'Gaps filled with the value before them',
    [seriesList, optional('limit', 'intOrInf', 'inf')],
    keepLastValue,
  ),
  functionRow(
    'Transform',
    'transformNull',
    'A number in place of what is missing, if wanted where other series have values alone',
    [seriesList, optional('default', 'float', 0), optional('referenceSeries', 'seriesList')],
    transformNull,
  ),
];
