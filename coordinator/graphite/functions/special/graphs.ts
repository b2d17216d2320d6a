/** How graphs are drawn; values stay as they are, but of what is stacked. */
import { badRequest } from '#lib/errors.ts';
import type { Call } from '../../calls/call.ts';
import { optional, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { shortNumber, wholeNumber } from '../../words/number_text.ts';
import { inParts } from '../../series/making.ts';
import { type GraphOptions, renamed, type Series, tagged } from '../../series/series.ts';

async function drawn(
  call: Call,
  options: GraphOptions,
  changes: (series: Series) => Partial<Series> = () => ({}),
): Promise<readonly Series[]> {
  return await call.map(await call.list(), (series) => ({
    ...series,
    ...changes(series),
    options: { ...series.options, ...options },
  }));
}

async function dashed(call: Call): Promise<readonly Series[]> {
  const length = call.arguments.number('dashLength');
  return await drawn(call, { dashed: length }, (series) => ({
    name: `dashed(${series.name}, ${shortNumber(length)})`,
    tags: tagged(series, ['dashed', wholeNumber(length)]),
  }));
}

const marked = (name: 'secondYAxis' | 'drawAsInfinite', description: string): FunctionRow =>
  functionRow('Graph', name, description, [seriesList], (call) =>
    drawn(call, { [name]: true }, (series) => ({
      name: `${name}(${series.name})`,
      tags: tagged(series, [name, '1']),
    })),
  );

const defaultStack = '__DEFAULT__';

/** Each series on top of those before it, of all targets that stack by one name. */
async function stacked(call: Call): Promise<readonly Series[]> {
  const stack = call.arguments.text('stack');
  const { stacks } = call.host.state;
  return await call.map(await call.list(), async (series) => {
    const { length } = series.values;
    await call.reserve(length);
    const more = length - (stacks.get(stack)?.length ?? 0);
    if (more > 0) await call.host.keep(more);
    const totals = grown(stacks.get(stack), length);
    stacks.set(stack, totals);
    const values = new Float64Array(length);
    await inParts(length, call.work, (first, past) => {
      for (let i = first; i < past; i++) {
        if (series.present[i] === 0) continue;
        totals[i] = totals[i]! + series.values[i]!;
        values[i] = totals[i]!;
      }
    });
    const isDefault = stack === defaultStack;
    return renamed(series, isDefault ? `stacked(${series.name})` : series.name, {
      values,
      tags: isDefault ? tagged(series, ['stacked', stack]) : series.tags,
      options: { ...series.options, stacked: true },
    });
  });
}

function grown(
  totals: Float64Array<ArrayBuffer> | undefined,
  length: number,
): Float64Array<ArrayBuffer> {
  if (totals !== undefined && totals.length >= length) return totals;
  const longer = new Float64Array(length);
  if (totals !== undefined) longer.set(totals);
  return longer;
}

async function areaBetween(call: Call): Promise<readonly Series[]> {
  const list = await call.list();
  const [lower, upper] = list;
  if (lower === undefined || upper === undefined || list.length !== 2) {
    throw badRequest(
      `cannot evaluate areaBetween: seriesList has to be two series: ${list.length}`,
    );
  }
  const name = `areaBetween(${upper.pathExpression})`;
  const tags = tagged(upper, ['areaBetween', '1']);
  const stackedOptions = { ...upper.options, stacked: true } as const;
  return [
    { ...lower, name, tags, options: { ...lower.options, stacked: true, invisible: true } },
    { ...upper, name, tags, options: stackedOptions },
  ];
}

export const graphRows: readonly FunctionRow[] = [
  functionRow(
    'Graph',
    'alpha',
    'How opaque series are drawn',
    [seriesList, required('alpha', 'float')],
    (call) => drawn(call, { alpha: call.arguments.number('alpha') }),
  ),
  functionRow('Graph', 'areaBetween', 'The area between two series', [seriesList], areaBetween),
  functionRow(
    'Graph',
    'color',
    'The color of series',
    [seriesList, required('theColor', 'string')],
    (call) => drawn(call, { color: call.arguments.text('theColor') }),
  ),
  functionRow(
    'Graph',
    'dashed',
    'Series drawn with dashes',
    [seriesList, optional('dashLength', 'integer', 5)],
    dashed,
  ),
  marked('drawAsInfinite', 'A vertical line at each value that is not 0'),
  functionRow(
    'Graph',
    'lineWidth',
    'How wide series are drawn',
    [seriesList, required('width', 'float')],
    (call) => drawn(call, { lineWidth: call.arguments.number('width') }),
  ),
  marked('secondYAxis', 'Series drawn by the axis on the right'),
  functionRow(
    'Graph',
    'stacked',
    'Series drawn one on top of the other',
    [seriesList, optional('stack', 'string', defaultStack)],
    stacked,
  ),
];
