/** Texts of scripts that call functions there are, with arguments that are mostly of their types. */
import fc from '#test/property_testing.ts';
import type { ScriptParameter, ScriptType } from '../calls/parameters.ts';
import { scriptFunctions } from '../functions/table.ts';

/** One of the first in most scripts, else one of those that are wrong, or odd. */
const mostly = (right: readonly string[], odd: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...right) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  );

const numbers = mostly(
  ['1', '2', '-3', '0.5', '50', '99', '7', '-.5'],
  ['0', '1000000', `1${'0'.repeat(320)}`, '1e3'],
);
const intervals = mostly(
  ['1m', '5min', '90s', '1h30m', '1d'],
  ['0s', '-2m', '1mon', '999999999999s', '"+1m"', '5'],
);
const globs = mostly(
  ['*', 'web*', 'web[12]', '{a,b}', 'web?', '[^a]*'],
  ['"we b"', '""', '{a', 'a,b', '\\*', '[z-a]', '1.10', 'true'],
);
const tags = mostly(
  ['dc', 'host', 'name', '__name__', 'le', 'bucket', 'bucketid'],
  ['nothing', '"a tag"', 'a*', '5'],
);

const valuesOf: Readonly<Record<ScriptType, fc.Arbitrary<string>>> = {
  aggregation: mostly(['avg', 'max', 'median', 'count', 'stddev', 'last'], ['averag', 'multiply']),
  boolean: mostly(['true', 'false', 'True'], ['yes']),
  count: mostly(['1', '2', '3', '10'], ['-1', '0', '3.5', '9007199254740993']),
  glob: globs,
  interval: intervals,
  limit: mostly(['1', 'inf'], ['-1', 'none']),
  number: numbers,
  percentile: mostly(['1', '50', '99.9', '100'], ['0', '-1', '101']),
  series: numbers,
  shift: intervals,
  steps: intervals,
  tag: tags,
  tagOrSeries: fc.oneof({ weight: 4, arbitrary: tags }, numbers),
  text: mostly(['x', '"an alias"', '5', 'true'], ['{}']),
  window: fc.oneof(intervals, mostly(['1', '3'], ['0', '-2', '1000000000'])),
};
const rarely = (text: fc.Arbitrary<string>): fc.Arbitrary<readonly string[]> =>
  fc.oneof(
    { weight: 40, arbitrary: fc.constant([]) },
    text.map((each) => [each]),
  );

const anyValue = fc.oneof(...Object.values(valuesOf));

const conditions = fc
  .uniqueArray(fc.tuple(fc.constantFrom('name', 'host', 'dc', 'le', '__g1__'), globs), {
    selector: ([tag]) => tag,
    minLength: 1,
    maxLength: 3,
  })
  .map((pairs) => pairs.map(([tag, glob]) => `${tag}:${glob}`).join(' '));
const metric = fc.constantFrom(
  'requests',
  'errors',
  'latency',
  'took_bucket',
  'servers.*.cpu',
  '{requests,errors}',
  '*',
);
const begin = fc.oneof(
  { weight: 6, arbitrary: metric.map((name) => `fetch name:${name}`) },
  conditions.map((text) => `fetch ${text}`),
  numbers.map((text) => `constantLine ${text}`),
  fc.constant('identity line'),
);
const source = fc.oneof({ weight: 4, arbitrary: begin }, fc.constant('m'));

const called = fc.constantFrom(...[...scriptFunctions].filter(([, { begins }]) => !begins));

interface Texts {
  readonly pipeline: string;
  readonly step: string;
  readonly nested: string;
}

const { pipeline, step } = fc.letrec<Texts>((tie: fc.LetrecTypedTie<Texts>) => ({
  pipeline: fc
    .tuple(source, fc.array(tie('step'), { maxLength: 4 }))
    .map((parts) => parts.flat().join(' | ')),
  /** In parentheses, with series of its own or going on with those of its call. */
  nested: fc
    .oneof({ depthSize: 'small' }, source, tie('pipeline'), tie('step'))
    .map((text) => `(${text})`),
  step: called.chain(([name, { parameters }]) =>
    fc
      .tuple(
        fc.tuple(...parameters.map((parameter) => argumentsOf(parameter, tie('nested')))),
        rarely(anyValue),
      )
      .map(([texts, further]) => [name, ...texts.flat(), ...further].join(' ')),
  ),
}));

function argumentsOf(
  { name, type, isRequired, isMultiple }: ScriptParameter,
  nested: fc.Arbitrary<string>,
): fc.Arbitrary<readonly string[]> {
  const mayNest = type === 'series' || type === 'tagOrSeries';
  const value = fc.oneof(
    { depthSize: 'small' },
    { weight: 40, arbitrary: valuesOf[type] },
    ...(mayNest ? [{ weight: 30, arbitrary: nested }] : []),
    { weight: 1, arbitrary: anyValue },
  );
  // Behind one that is missing others are found by their names alone.
  const written = fc
    .tuple(fc.boolean(), value)
    .map(([isNamed, text]) => (!isMultiple && (isNamed || !isRequired) ? `${name}:${text}` : text));
  const minLength = isRequired ? 1 : 0;
  return fc.array(written, { minLength, maxLength: isMultiple ? 2 : 1 });
}

/** Without pipelines among its arguments. */
const plainStep = called.chain(([name, { parameters }]) =>
  fc
    .tuple(...parameters.map((parameter) => argumentsOf(parameter, numbers)))
    .map((texts) => [name, ...texts.flat()].join(' ')),
);

/** `m` is a macro that begins with series, `steps` one that goes on with some. */
export const knownScript: fc.Arbitrary<string> = fc
  .tuple(fc.tuple(begin, plainStep), fc.option(step), pipeline, fc.boolean())
  .map(([macro, steps, last, usesSteps]) => {
    const lines = [
      `m = ${macro.join(' | ')};`,
      ...(steps === null ? [] : [`steps = ${steps};`]),
      usesSteps && steps !== null ? `${last} | steps` : last,
    ];
    return lines.join('\n');
  });
