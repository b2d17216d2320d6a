/** What is asked: expressions over the series, each with what the plain evaluator says it comes to. */
import { hourMillis, type LoadSeries, minuteMillis } from './data.ts';
import {
  type Asked,
  counterFunctions,
  type EvaluatedSeries,
  functions,
  isExactOfAny,
  isExactOfWhole,
  quantile,
  type SourceName,
} from './evaluator.ts';

/** Over the series of a metric, by the labels that stay. */
export interface Expression extends Asked {
  readonly text: string;
  readonly metric: string;
  readonly aggregation: Aggregation | null;
}

interface Aggregation {
  readonly operator: 'sum' | 'max' | 'avg' | 'count';
  readonly by: 'zone' | null;
}

/** Of these, 1 h is shorter than four windows of 1 h, and the first one shorter than four of 5 minutes. */
export const rangesMillis: readonly number[] = [
  10 * minuteMillis,
  hourMillis,
  6 * hourMillis,
  24 * hourMillis,
];

const durationOf = (millis: number): string =>
  millis % hourMillis === 0 ? `${millis / hourMillis}h` : `${millis / minuteMillis}m`;

export function expressionOf(
  metric: string,
  asked: Asked,
  aggregation: Aggregation | null = null,
): Expression {
  const { name, rangeMillis } = asked;
  const range = `${metric}[${durationOf(rangeMillis)}]`;
  const inner =
    name === 'instant'
      ? metric
      : name === 'quantile_over_time'
        ? `${name}(${quantile}, ${range})`
        : `${name}(${range})`;
  const by = aggregation?.by ? ` by (${aggregation.by})` : '';
  const text = aggregation === null ? inner : `${aggregation.operator}${by}(${inner})`;
  return { ...asked, metric, aggregation, text };
}

const metricsOf = (series: readonly LoadSeries[]): string[] => [
  ...new Set(series.map(({ labels }) => labels.__name__)),
];

/** Every function over every metric that it is for, with every range. */
export function plainExpressions(series: readonly LoadSeries[]): Expression[] {
  return metricsOf(series).flatMap((metric) => {
    const { isCounter } = series.find(({ labels }) => labels.__name__ === metric)!;
    return [
      expressionOf(metric, { name: 'instant', rangeMillis: 0 }),
      ...functions
        .filter((name) => isCounter || !counterFunctions.has(name))
        .flatMap((name) =>
          rangesMillis.map((rangeMillis) => expressionOf(metric, { name, rangeMillis })),
        ),
    ];
  });
}

export function aggregatedExpressions(): Expression[] {
  const over = (
    metric: string,
    name: Asked['name'],
    hours: number,
    operator: Aggregation['operator'],
    by: Aggregation['by'],
  ): Expression =>
    expressionOf(metric, { name, rangeMillis: hours * hourMillis }, { operator, by });
  return [
    over('requests_total', 'rate', 1, 'sum', null),
    over('requests_total', 'rate', 6, 'sum', 'zone'),
    over('requests_total', 'increase', 24, 'sum', 'zone'),
    over('bursts_total', 'increase', 6, 'max', null),
    over('level', 'max_over_time', 6, 'max', 'zone'),
    over('level', 'avg_over_time', 24, 'avg', null),
    over('balance', 'sum_over_time', 6, 'sum', null),
    over('balance', 'min_over_time', 1, 'max', 'zone'),
    over('lease', 'present_over_time', 6, 'count', 'zone'),
    over('lease', 'instant', 0, 'count', null),
    over('distant', 'last_over_time', 6, 'sum', null),
    over('job_rows', 'count_over_time', 6, 'sum', null),
  ];
}

/** By the labels that tell the answer's series apart. */
export type Values = ReadonlyMap<string, number>;

/** What labels of an answer are in `Values`. */
export function keyOf(
  { aggregation }: Expression,
  labels: Readonly<Record<string, string>>,
): string {
  return (aggregation === null ? labels['instance'] : labels['zone']) ?? '';
}

/** @param series all of the metric */
export function expectedAt(
  expression: Expression,
  series: readonly EvaluatedSeries[],
  atMillis: number,
  source: SourceName,
): Values {
  const values = new Map<string, number>();
  const groups = new Map<string, number[]>();
  const { aggregation } = expression;
  for (const each of series) {
    const value = each.at(expression, atMillis, source);
    if (value === null) continue;
    const { instance, zone } = each.series.labels;
    if (aggregation === null) {
      values.set(instance, value);
      continue;
    }
    const key = aggregation.by === null ? '' : zone;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [value]);
    else group.push(value);
  }
  if (aggregation === null) return values;
  return new Map([...groups].map(([key, group]) => [key, aggregated(aggregation, group)]));
}

function aggregated({ operator }: Aggregation, values: readonly number[]): number {
  if (operator === 'max') return Math.max(...values);
  if (operator === 'count') return values.length;
  const sum = values.reduce((a, b) => a + b);
  return operator === 'avg' ? sum / values.length : sum;
}

/** Whether a value is to be equal to the last bit. */
export function isExact(expression: Expression, isWhole: boolean, source: SourceName): boolean {
  const { aggregation } = expression;
  if (aggregation?.operator === 'count') return true;
  if (aggregation?.operator === 'avg') return false;
  if (isWhole) return isExactOfWhole(expression, source);
  return aggregation?.operator !== 'sum' && isExactOfAny(expression, source);
}
