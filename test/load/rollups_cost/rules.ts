/**
 * Twenty rollups of the soak's data, four of each of its five metrics, as each system is told of them, and what they come to:
 * sums of everything that came in a minute, of counters how far they have grown.
 */
import { labelsOf, metricNames, valueOf } from '../soak_data.ts';

export const windowSeconds = 60;

interface RolledUp {
  readonly metric: string;
  readonly by: readonly string[];
  readonly isCounter: boolean;
  /** Name that ours and M3 give it. */
  readonly name: string;
}

const groupings: readonly (readonly string[])[] = [
  ['service'],
  ['region', 'team'],
  ['datacenter', 'rack'],
  ['arch', 'os', 'service', 'team'],
];

export const rolledUp: readonly RolledUp[] = metricNames.flatMap((metric) =>
  groupings.map((by): RolledUp => {
    return { metric, by, isCounter: metric.endsWith('_total'), name: `${metric}_by_${by[0]}` };
  }),
);

const storagePolicies = [{ resolution: `${windowSeconds}s`, retention: '40h' }];
const sum = ({ name, by }: RolledUp): object => ({
  rollup: { metricName: name, groupBy: by, aggregations: ['Sum'] },
});
const transform = (type: string): object => ({ transform: { type } });

/** As M3 has them in its configuration, and ours in a file. What came is kept beside them. */
export function rollupRules(): object {
  return {
    rollupRules: rolledUp.map((each) => ({
      name: each.name,
      filter: `__name__:${each.metric}`,
      transforms: each.isCounter
        ? [transform('Increase'), sum(each), transform('Add')]
        : [sum(each)],
      storagePolicies,
    })),
  };
}

/** As VictoriaMetrics has them. */
export function streamAggregation(): object {
  return rolledUp.map(({ metric, by, isCounter }) => ({
    match: `{__name__="${metric}"}`,
    interval: `${windowSeconds}s`,
    by,
    outputs: [isCounter ? 'total' : 'sum_samples'],
  }));
}

/** A selector of the series of one of them, with VictoriaMetrics' names or those of rules. */
export function selectorOf({ metric, by, isCounter, name }: RolledUp, isVictoria: boolean): string {
  if (!isVictoria) return `{__name__="${name}"}`;
  const output = isCounter ? 'total' : 'sum_samples';
  return `{__name__="${metric}:${windowSeconds}s_by_${by.toSorted().join('_')}_${output}"}`;
}

export interface Expected {
  readonly outputs: number;
  /** All that it comes to in all windows and outputs; of a counter, in the last window of each output. */
  readonly sum: number;
}

/** What each comes to, plainly. */
export function expected(seriesCount: number, scrapes: number): readonly Expected[] {
  const groups = rolledUp.map(() => new Set<string>());
  const sums = rolledUp.map(() => 0);
  for (let series = 0; series < seriesCount; series += 1) {
    const metric = series % metricNames.length;
    const labels = new Map(labelsOf(series, 0));
    const first = rolledUp.findIndex((each) => each.metric === metricNames[metric]);
    let [sumOfSeries, grown] = [0, 0];
    for (let scrape = 0; scrape < scrapes; scrape += 1) {
      const value = valueOf(series, scrape);
      sumOfSeries += value;
      const before = scrape === 0 ? value : valueOf(series, scrape - 1);
      // What falls has begun again.
      grown += value < before ? value : value - before;
    }
    for (let rule = first; rule < first + groupings.length; rule += 1) {
      const { by, isCounter } = rolledUp[rule]!;
      groups[rule]!.add(by.map((name) => labels.get(name)).join('|'));
      sums[rule]! += isCounter ? grown : sumOfSeries;
    }
  }
  return rolledUp.map((_, rule) => ({ outputs: groups[rule]!.size, sum: sums[rule]! }));
}
