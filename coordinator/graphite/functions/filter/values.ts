/** Series that are kept for what they come to. */
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { presentCount, reduceAll } from '../../series/reduce.ts';
import { reducerNamed } from '../../math/reducers.ts';
import { isEnough, type Series } from '../../series/series.ts';

/** Whether a value, null when there is none, stands in a relation to a number. */
const operators: Readonly<Record<string, (value: number | null, than: number) => boolean>> = {
  '!=': (value, than) => value === null || value !== than,
  '<': (value, than) => value === null || value < than,
  '<=': (value, than) => value === null || value <= than,
  '=': (value, than) => value !== null && value === than,
  '>': (value, than) => value !== null && value > than,
  '>=': (value, than) => value !== null && value >= than,
};

async function filterBy(
  call: Call,
  reducerName: string,
  operator: string,
  than: number,
): Promise<readonly Series[]> {
  const reducer = reducerNamed(reducerName)!;
  const isRight = operators[operator]!;
  return await call.filter(await call.list(), async (series) =>
    isRight(await reduceAll(series, reducer, call), than),
  );
}

const keeping = (
  name: string,
  reducerName: string,
  operator: '>' | '<=',
  description: string,
): FunctionRow =>
  functionRow('Filter Series', name, description, [seriesList, required('n', 'float')], (call) =>
    filterBy(call, reducerName, operator, call.arguments.number('n')),
  );

async function removeEmptySeries(call: Call): Promise<readonly Series[]> {
  const factor = call.arguments.optionalNumber('xFilesFactor') ?? 0;
  return await call.filter(await call.list(), async (series) =>
    isEnough(await presentCount(series, call.work), series.values.length, factor),
  );
}

export const byValueRows: readonly FunctionRow[] = [
  keeping('averageAbove', 'average', '>', 'Series whose mean is above a number'),
  keeping('averageBelow', 'average', '<=', 'Series whose mean is not above a number'),
  keeping('currentAbove', 'last', '>', 'Series whose last value is above a number'),
  keeping('currentBelow', 'last', '<=', 'Series whose last value is not above a number'),
  functionRow(
    'Filter Series',
    'filterSeries',
    'Series that come to more, less or the same as a number, by an aggregation',
    [
      seriesList,
      required('func', 'aggFunc'),
      required('operator', 'string', Object.keys(operators)),
      required('threshold', 'float'),
    ],
    (call) =>
      filterBy(
        call,
        call.arguments.text('func'),
        call.arguments.text('operator'),
        call.arguments.number('threshold'),
      ),
  ),
  keeping('maximumAbove', 'max', '>', 'Series whose greatest value is above a number'),
  keeping('maximumBelow', 'max', '<=', 'Series whose greatest value is not above a number'),
  keeping('minimumAbove', 'min', '>', 'Series whose least value is above a number'),
  keeping('minimumBelow', 'min', '<=', 'Series whose least value is not above a number'),
  functionRow(
    'Filter Series',
    'removeEmptySeries',
    'Series that have values, or a share of rows with values',
    [seriesList, optional('xFilesFactor', 'float')],
    removeEmptySeries,
  ),
];
