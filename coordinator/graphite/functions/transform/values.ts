/** Functions that map each value to another, whatever stands beside it. */
import type { Call } from '../../calls/call.ts';
import { optional, type Parameter, required, seriesList } from '../../calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../calls/row.ts';
import { mapValues, type OfValue } from '../../series/map_values.ts';
import { floatText, plainNumber, shortNumber, wholeNumber } from '../../words/number_text.ts';
import { power } from '../../math/power.ts';
import { reduceAll } from '../../series/reduce.ts';
import { reducerNamed } from '../../math/reducers.ts';
import { roundTo } from '../../math/rounding.ts';
import { renamed, type Series, tagged } from '../../series/series.ts';

/** How a function names its series and tags them, with what it does to a value. */
interface Mapping {
  readonly name: (series: Series) => string;
  readonly tag: readonly [string, string] | null;
  readonly map: OfValue;
}

const mapping =
  (mappingOf: (call: Call) => Mapping): FunctionRow['evaluate'] =>
  async (call) => {
    const { name, tag, map } = mappingOf(call);
    return await call.map(
      await call.list(),
      async (series) =>
        renamed(series, name(series), {
          ...(await mapValues(series, map, call)),
          tags: tag === null ? series.tags : tagged(series, tag),
        }),
      10,
    );
  };

/** Without arguments besides the series. */
const plain = (
  name: string,
  description: string,
  tagValue: string | null,
  map: OfValue,
  aliases: readonly string[] = [],
): FunctionRow =>
  functionRow(
    'Transform',
    name,
    description,
    [seriesList],
    mapping(() => ({
      name: (series) => `${name}(${series.name})`,
      tag: tagValue === null ? null : [name, tagValue],
      map,
    })),
    { aliases },
  );

/** With one number. */
const withNumber = (
  name: string,
  description: string,
  parameter: Parameter,
  shown: (value: number) => string,
  map: (value: number, operand: number) => number | null,
): FunctionRow =>
  functionRow(
    'Transform',
    name,
    description,
    [seriesList, parameter],
    mapping((call) => {
      const operand = call.arguments.number(parameter.name);
      return {
        name: (series) => `${name}(${series.name},${shown(operand)})`,
        tag: [name, floatText(operand)],
        map: (value) => map(value, operand),
      };
    }),
  );

function logit(value: number): number | null {
  const odds = value / (1 - value);
  return odds > 0 && Number.isFinite(odds) ? Math.log(odds) : null;
}

const logarithm = mapping((call) => {
  const base = call.arguments.number('base');
  if (base <= 0 || base === 1) throw call.arguments.error('base', 'is no base', base);
  const divisor = Math.log(base);
  const logarithmOf = base === 10 ? Math.log10 : base === 2 ? Math.log2 : null;
  return {
    name: (series) => `log(${series.name}, ${wholeNumber(base)})`,
    tag: ['log', wholeNumber(base)],
    map: (value) => {
      if (value <= 0) return null;
      return logarithmOf === null ? Math.log(value) / divisor : logarithmOf(value);
    },
  };
});

const round = mapping((call) => {
  const isGiven = call.arguments.has('precision');
  const precision = call.arguments.number('precision');
  return {
    name: ({ name }) => (isGiven ? `round(${name},${shortNumber(precision)})` : `round(${name})`),
    tag: ['round', wholeNumber(precision)],
    map: (value) => roundTo(value, precision),
  };
});

async function scaleToSeconds(call: Call): Promise<readonly Series[]> {
  const seconds = call.arguments.number('seconds');
  return await call.map(
    await call.list(),
    async (series) =>
      renamed(series, `scaleToSeconds(${series.name},${wholeNumber(seconds)})`, {
        ...(await mapValues(
          series,
          (value) => roundTo(value * (seconds / series.stepSeconds), 6),
          call,
        )),
        tags: tagged(series, ['scaleToSeconds', floatText(seconds)]),
      }),
    20,
  );
}

const least = reducerNamed('min')!;
const greatest = reducerNamed('max')!;

async function offsetToZero(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const minimum = await reduceAll(series, least, call);
    return renamed(series, `offsetToZero(${series.name})`, {
      ...(await mapValues(series, (value) => value - minimum!, call)),
      tags: tagged(series, ['offsetToZero', minimum === null ? 'None' : plainNumber(minimum)]),
    });
  });
}

async function minMax(call: Call): Promise<readonly Series[]> {
  return await call.map(await call.list(), async (series) => {
    const minimum = (await reduceAll(series, least, call)) ?? 0;
    const span = ((await reduceAll(series, greatest, call)) ?? 0) - minimum;
    const scaled = (value: number): number => (span === 0 ? 0 : (value - minimum) / span);
    const columns = await mapValues(series, scaled, call);
    return renamed(series, `minMax(${series.name})`, columns);
  });
}

export const valueRows: readonly FunctionRow[] = [
  plain('absolute', 'Values without their sign', '1', Math.abs, ['abs']),
  withNumber(
    'add',
    'A number added to each value',
    required('constant', 'float'),
    wholeNumber,
    (value, constant) => value + constant,
  ),
  plain('exp', 'The exponential of each value', 'e', Math.exp),
  plain('invert', 'One divided by each value', '1', (value) => power(value, -1)),
  functionRow(
    'Transform',
    'log',
    'The logarithm of each value above 0',
    [seriesList, optional('base', 'integer', 10)],
    logarithm,
    { aliases: ['logarithm'] },
  ),
  plain('logit', 'The logit of each value between 0 and 1', 'logit', logit),
  functionRow(
    'Transform',
    'minMax',
    'Values scaled so that the least is 0 and the greatest 1',
    [seriesList],
    minMax,
  ),
  withNumber(
    'offset',
    'A number added to each value',
    required('factor', 'float'),
    shortNumber,
    (value, factor) => value + factor,
  ),
  functionRow(
    'Transform',
    'offsetToZero',
    'Values less the least one of their series',
    [seriesList],
    offsetToZero,
  ),
  withNumber('pow', 'Values to a power', required('factor', 'float'), shortNumber, power),
  functionRow(
    'Transform',
    'round',
    'Values rounded to digits behind the point',
    [seriesList, optional('precision', 'integer', 0)],
    round,
  ),
  withNumber(
    'scale',
    'Values times a number',
    required('factor', 'float'),
    shortNumber,
    (value, factor) => value * factor,
  ),
  functionRow(
    'Transform',
    'scaleToSeconds',
    'Values of one step as if the step were so many seconds',
    [seriesList, required('seconds', 'float')],
    scaleToSeconds,
  ),
  plain('sigmoid', 'The sigmoid of each value', 'sigmoid', (value) => 1 / (1 + Math.exp(-value))),
  plain('squareRoot', 'The square root of each value', '1', (value) => power(value, 0.5)),
];
