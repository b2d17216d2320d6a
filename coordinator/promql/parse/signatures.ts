/** Names, argument types and result types of all functions. */
import type { ValueType } from './ast.ts';

export interface Signature {
  readonly args: readonly ValueType[];
  /** How many of the last arguments may be left out; -1: the last may also repeat. */
  readonly optional: number;
  readonly result: ValueType;
  /** Needs `experimentalFunctions` of the engine, as it needs a feature flag in Prometheus. */
  readonly experimental: boolean;
}

const table = new Map<string, Signature>();

function define(
  names: string,
  args: readonly ValueType[],
  result: ValueType,
  options: { optional?: number; experimental?: boolean } = {},
): void {
  for (const name of names.split(' ')) {
    table.set(name, {
      args,
      optional: options.optional ?? 0,
      result,
      experimental: options.experimental ?? false,
    });
  }
}

define(
  'abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg histogram_count ' +
    'histogram_stddev histogram_stdvar histogram_sum ln log10 log2 rad sgn sin sinh sort sort_desc sqrt tan tanh timestamp',
  ['vector'],
  'vector',
);
define(
  'absent_over_time avg_over_time changes count_over_time delta deriv idelta increase irate last_over_time ' +
    'max_over_time min_over_time present_over_time rate resets stddev_over_time stdvar_over_time sum_over_time',
  ['matrix'],
  'vector',
);
define(
  'first_over_time mad_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time',
  ['matrix'],
  'vector',
  { experimental: true },
);
define(
  'day_of_month day_of_week day_of_year days_in_month hour minute month year',
  ['vector'],
  'vector',
  {
    optional: 1,
  },
);
define('clamp', ['vector', 'scalar', 'scalar'], 'vector');
define('clamp_max clamp_min', ['vector', 'scalar'], 'vector');
define('double_exponential_smoothing', ['matrix', 'scalar', 'scalar'], 'vector', {
  experimental: true,
});
define('histogram_fraction', ['scalar', 'scalar', 'vector'], 'vector');
define('histogram_quantile', ['scalar', 'vector'], 'vector');
define('label_join', ['vector', 'string', 'string', 'string'], 'vector', { optional: -1 });
define('label_replace', ['vector', 'string', 'string', 'string', 'string'], 'vector');
define('pi time', [], 'scalar');
define('predict_linear', ['matrix', 'scalar'], 'vector');
define('quantile_over_time', ['scalar', 'matrix'], 'vector');
define('round', ['vector', 'scalar'], 'vector', { optional: 1 });
define('scalar', ['vector'], 'scalar');
define('sort_by_label sort_by_label_desc', ['vector', 'string'], 'vector', {
  optional: -1,
  experimental: true,
});
define('vector', ['scalar'], 'vector');

export const signatures: ReadonlyMap<string, Signature> = table;

/**
 * Known to the grammar, but not carried out here: they need native histograms or start timestamps.
 */
export const unavailableFunctions: ReadonlySet<string> = new Set([
  'end',
  'histogram_quantiles',
  'info',
  'range',
  'start',
  'start_timestamp',
  'step',
]);
