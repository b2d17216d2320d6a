/** Rows without a value: filled, counted, or taken out. */
import type { Call } from '../../calls/call.ts';
import { optional, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { compressPeriodicGaps } from '../../series/gaps.ts';
import { floatText, shortNumber } from '../../words/number_text.ts';
import {
  constantColumns,
  copiedColumns,
  inParts,
  inSteps,
  rowsAtOnce,
} from '../../series/making.ts';
import { type Columns, renamed, type Series, tagged } from '../../series/series.ts';

/** A negative limit is none, as M3 has it. */
function gapLimit(call: Call): number {
  const text = `${call.arguments.literal('limit')}`;
  const limit = /^inf/i.test(text) ? Infinity : Number(text);
  return limit < 0 ? Infinity : limit;
}

async function keepLastValue(call: Call): Promise<readonly Series[]> {
  const limit = gapLimit(call);
  return await call.map(await call.list(), async (series) => {
    const columns = await copiedColumns(series, call);
    // With a row more than there are, what is behind the last value is a gap, too.
    const length = series.values.length + 1;
    await inSteps(filled(series, columns, length, limit, false), call.work);
    return renamed(series, `keepLastValue(${series.name})`, columns);
  });
}

/**
 * Fills the gaps behind values, a part at a time.
 * @param isSloped on a line to the value behind the gap; else with the one before it
 */
function* filled(
  { present }: Columns,
  columns: Columns,
  length: number,
  limit: number,
  isSloped: boolean,
): Generator<void, void> {
  const { values } = columns;
  let last = -1;
  for (let i = 0; i < length; i++) {
    if (i > 0 && i % rowsAtOnce === 0) yield;
    if (i < present.length && present[i] === 0) continue;
    const gap = i - last - 1;
    if (last >= 0 && gap > 0 && gap <= limit) {
      const rise = isSloped ? values[i]! - values[last]! : null;
      for (let from = last + 1; from < i; from += rowsAtOnce) {
        if (from > last + 1) yield;
        fill(columns, last, i, from, Math.min(i, from + rowsAtOnce), rise);
      }
    }
    last = i;
  }
}

/** The rows [from, until) of the gap between `last` and `end`. @param rise over the gap; null where it stays as it was */
function fill(
  { values, present }: Columns,
  last: number,
  end: number,
  from: number,
  until: number,
  rise: number | null,
): void {
  const value = values[last]!;
  for (let i = from; i < until; i++) {
    values[i] = rise === null ? value : value + ((i - last) * rise) / (end - last);
    present[i] = 1;
  }
}

async function interpolate(call: Call): Promise<readonly Series[]> {
  const limit = gapLimit(call);
  return await call.map(await call.list(), async (series) => {
    const columns = await copiedColumns(series, call);
    const { length } = series.values;
    await inSteps(filled(series, columns, length, limit, true), call.work);
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
  const isWanted = isReferenced ? await presentInAny(call, references) : null;
  const suffix = isReferenced ? ',referenceSeries' : '';
  return await call.map(list, async (series) => {
    const columns = await copiedColumns(series, call);
    await inParts(columns.values.length, call.work, (first, past) => {
      for (let i = first; i < past; i++) {
        if (columns.present[i] === 1 || isWanted?.[i] === 0) continue;
        if (isWanted !== null && i >= isWanted.length) continue;
        columns.values[i] = value;
        columns.present[i] = 1;
      }
    });
    const tags = tagged(series, ['transformNull', tag]);
    return renamed(series, `transformNull(${series.name},${shortNumber(value)}${suffix})`, {
      ...columns,
      tags: isReferenced ? new Map([...tags, ['referenceSeries', '1']]) : tags,
    });
  });
}

/** 1 for the rows in which one of them has a value. */
async function presentInAny(call: Call, list: readonly Series[]): Promise<Uint8Array> {
  const length = list.reduce((most, { values }) => Math.max(most, values.length), 0);
  await call.reserve(length);
  const any = new Uint8Array(length);
  for (const { present } of list) {
    await inParts(present.length, call.work, (first, past) => {
      for (let i = first; i < past; i++) any[i] = any[i]! | present[i]!;
    });
    if (call.work.spend(present.length)) await call.work.pause();
  }
  return any;
}

async function isNonNull(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const { present } = series;
    const columns = await constantColumns(present.length, 0, call);
    await inParts(present.length, call.work, (first, past) => {
      for (let i = first; i < past; i++) columns.values[i] = present[i]!;
    });
    const tags = tagged(series, ['isNonNull', '1']);
    return renamed(series, `isNonNull(${series.name})`, { ...columns, tags });
  });
}

async function compressed(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const name = `compressPeriodicGaps(${series.name})`;
    return renamed(await compressPeriodicGaps(series, call), name);
  });
}

/** 1 where the value is another than the last one before it. */
async function changed(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const { length } = series.values;
    const columns = await constantColumns(length, 0, call);
    let previous: number | null = null;
    await inParts(length, call.work, (first, past) => {
      let before = previous;
      for (let i = first; i < past; i++) {
        if (series.present[i] === 0) continue;
        const value = series.values[i]!;
        if (before !== null && value !== before) columns.values[i] = 1;
        before = value;
      }
      previous = before;
    });
    return renamed(series, `changed(${series.name})`, columns);
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
