/** How values change from row to row, and what they add up to. */
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { wholeNumber } from '../../words/number_text.ts';
import { roundTo } from '../../math/rounding.ts';
import { constantColumns, inParts, madeColumns } from '../../series/making.ts';
import { type Columns, renamed, type Series, tagged } from '../../series/series.ts';
import { intervalSeconds } from '../../time/interval.ts';

async function derivative(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const { values, present } = series;
    const columns = await madeColumns(values.length, call);
    await inParts(values.length, call.work, (first, past) => {
      for (let i = Math.max(1, first); i < past; i++) {
        if (present[i] === 0 || present[i - 1] === 0) continue;
        columns.values[i] = values[i]! - values[i - 1]!;
        columns.present[i] = 1;
      }
    });
    const tags = tagged(series, ['derivative', '1']);
    return renamed(series, `derivative(${series.name})`, { ...columns, tags });
  });
}

/** Null where it is not bounded. */
interface CounterBounds {
  readonly max: number | null;
  readonly min: number | null;
}

function boundsOf(call: Call): CounterBounds {
  return {
    max: call.arguments.optionalNumber('maxValue'),
    min: call.arguments.optionalNumber('minValue'),
  };
}

/** What a counter has gone forward in each row; values outside of the bounds count as missing. */
async function increases(
  call: Call,
  series: Series,
  bounds: CounterBounds,
  map: (value: number) => number,
): Promise<Columns> {
  const { values, present } = series;
  const columns = await madeColumns(values.length, call);
  let previous: number | null = null;
  await inParts(values.length, call.work, (first, past) => {
    let before = previous;
    for (let i = first; i < past; i++) {
      const value = values[i]!;
      const isOutside =
        (bounds.max !== null && value > bounds.max) || (bounds.min !== null && value < bounds.min);
      if (present[i] === 0 || isOutside) {
        before = null;
        continue;
      }
      const increase = before === null ? null : increaseOf(value, before, bounds);
      before = value;
      if (increase === null) continue;
      columns.values[i] = map(increase);
      columns.present[i] = 1;
    }
    previous = before;
  });
  return columns;
}

/** Null when the counter began anew and nothing tells from where. */
function increaseOf(value: number, previous: number, { max, min }: CounterBounds): number | null {
  if (value >= previous) return value - previous;
  if (max !== null) return max + 1 + value - previous - (min ?? 0);
  return min === null ? null : value - min;
}

async function nonNegativeDerivative(call: Call): Promise<readonly Series[]> {
  const bounds = boundsOf(call);
  return await call.map(await call.list(), async (series) =>
    renamed(series, `nonNegativeDerivative(${series.name})`, {
      ...(await increases(call, series, bounds, (value) => value)),
      tags: tagged(series, ['nonNegativeDerivative', '1']),
    }),
  );
}

async function perSecond(call: Call): Promise<readonly Series[]> {
  const bounds = boundsOf(call);
  return await call.map(
    await call.list(),
    async (series) =>
      renamed(series, `perSecond(${series.name})`, {
        ...(await increases(call, series, bounds, (value) =>
          roundTo(value / series.stepSeconds, 6),
        )),
        tags: tagged(series, ['perSecond', '1']),
      }),
    20,
  );
}

async function integral(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const { values, present } = series;
    await call.reserve(values.length);
    const sums = new Float64Array(values.length);
    let before = 0;
    await inParts(values.length, call.work, (first, past) => {
      let sum = before;
      for (let i = first; i < past; i++) {
        if (present[i] === 0) continue;
        sum += values[i]!;
        sums[i] = sum;
      }
      before = sum;
    });
    const tags = tagged(series, ['integral', '1']);
    return renamed(series, `integral(${series.name})`, { values: sums, tags });
  });
}

/** The sum begins anew with each interval that is counted from the beginning of the window. */
async function integralByInterval(call: Call): Promise<readonly Series[]> {
  const text = call.arguments.text('intervalUnit');
  const interval = Math.abs(intervalSeconds(text) ?? 0);
  if (interval === 0) {
    throw call.arguments.error('intervalUnit', 'has to be an interval such as 1d', text);
  }
  const { fromSeconds } = call.window;
  return await call.map(await call.list(), async (series) => {
    const { values, present, stepSeconds } = series;
    const columns = await constantColumns(values.length, 0, call);
    let before = 0;
    await inParts(values.length, call.work, (first, past) => {
      let sum = before;
      for (let i = first; i < past; i++) {
        const since = series.startSeconds + i * stepSeconds - fromSeconds;
        const isNew = Math.floor(since / interval) !== Math.floor((since - stepSeconds) / interval);
        if (isNew) sum = 0;
        if (present[i] === 1) sum += values[i]!;
        columns.values[i] = sum;
      }
      before = sum;
    });
    return renamed(series, `integralByInterval(${series.name},'${text}')`, {
      ...columns,
      tags: tagged(series, ['integralByInterval', text]),
    });
  });
}

/** Rows later by some steps. */
async function delay(call: Call): Promise<readonly Series[]> {
  const steps = call.arguments.number('steps');
  return await call.map(await call.list(), async (series) => {
    const { length } = series.values;
    const columns = await madeColumns(length, call);
    const from = Math.max(0, -steps);
    const to = Math.max(0, steps);
    await inParts(Math.max(0, length - Math.abs(steps)), call.work, (first, past) => {
      columns.values.set(series.values.subarray(from + first, from + past), to + first);
      columns.present.set(series.present.subarray(from + first, from + past), to + first);
    });
    const tags = tagged(series, ['delay', wholeNumber(steps)]);
    return renamed(series, `delay(${series.name},${wholeNumber(steps)})`, { ...columns, tags });
  });
}

const counterBounds = [optional('maxValue', 'float'), optional('minValue', 'float')] as const;

export const rateRows: readonly FunctionRow[] = [
  functionRow(
    'Transform',
    'delay',
    'Rows later by some steps',
    [seriesList, required('steps', 'integer')],
    delay,
  ),
  functionRow('Transform', 'derivative', 'Values less those before them', [seriesList], derivative),
  functionRow(
    'Transform',
    'integral',
    'Values added up from the first one on',
    [seriesList],
    integral,
  ),
  functionRow(
    'Transform',
    'integralByInterval',
    'Values added up from the beginning of each interval on',
    [seriesList, required('intervalUnit', 'string')],
    integralByInterval,
  ),
  functionRow(
    'Transform',
    'nonNegativeDerivative',
    'What counters have gone forward, row by row',
    [seriesList, ...counterBounds],
    nonNegativeDerivative,
  ),
  functionRow(
    'Transform',
    'perSecond',
    'What counters have gone forward in a second, row by row',
    [seriesList, ...counterBounds],
    perSecond,
  ),
];
