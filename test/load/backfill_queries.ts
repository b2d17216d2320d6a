/** Queries over backfilled data, and the comparison of two servers' answers to them. */

export interface RangeQuery {
  readonly text: string;
  readonly startSeconds: number;
  readonly endSeconds: number;
  readonly stepSeconds: number;
}

const hourSeconds = 3600;
const daySeconds = 24 * hourSeconds;
/** Windows and steps of queries, short ones over raw samples and long ones over days. */
const shapes = [
  { lengthSeconds: hourSeconds, stepSeconds: 15, range: '5m' },
  { lengthSeconds: 6 * hourSeconds, stepSeconds: 60, range: '10m' },
  { lengthSeconds: daySeconds, stepSeconds: 300, range: '1h' },
  { lengthSeconds: 7 * daySeconds, stepSeconds: 3600, range: '3h' },
  { lengthSeconds: 30 * daySeconds, stepSeconds: 6 * hourSeconds, range: '1d' },
] as const;
/** `M` stands for a selector, `R` for a range. */
const texts = [
  'M',
  'count_over_time(M[R])',
  'sum by (region) (rate(M[R]))',
  'avg by (team) (avg_over_time(M[R]))',
  'max by (region) (max_over_time(M[R]))',
  'min_over_time(M[R])',
  'sum(count_over_time(M[R]))',
  'quantile by (team) (0.9, M)',
  'count by (region) (M > 40)',
  'sum_over_time(M[R])',
  'changes(M[R])',
  'sum by (team) (increase(M[R]))',
  'last_over_time(M[R]) - M',
] as const;

/** The same number and seed give the same queries. */
export function makeQueries(
  count: number,
  metrics: readonly string[],
  span: { readonly startMillis: number; readonly endMillis: number },
): RangeQuery[] {
  let state = 1;
  const below = (end: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
  return Array.from({ length: count }, (_, i) => {
    const spanSeconds = Math.floor((span.endMillis - span.startMillis) / 1000);
    const shape = shapes[i % shapes.length]!;
    const lengthSeconds = Math.min(shape.lengthSeconds, spanSeconds);
    const startSeconds = Math.floor(span.startMillis / 1000) + below(spanSeconds - lengthSeconds);
    const metric = metrics[below(metrics.length)]!;
    const selector = below(3) === 0 ? `${metric}{service=~"1[0-9]?"}` : metric;
    const text = texts[below(texts.length)]!.replace('M', selector).replace('- M', `- ${selector}`);
    return {
      text: text.replace('R', shape.range),
      startSeconds,
      endSeconds: startSeconds + lengthSeconds,
      stepSeconds: shape.stepSeconds,
    };
  });
}

interface Matrix {
  readonly data: {
    readonly result: readonly {
      readonly metric: Record<string, string>;
      readonly values: readonly (readonly [number, string])[];
    }[];
  };
}

/** Relative difference up to which two floats that were summed in another order are equal. */
const relativeMax = 1e-9;

/** @returns how the answers differ, or null; and the number of their points */
export function compareAnswers(
  ours: string,
  theirs: string,
): { readonly difference: string | null; readonly points: number } {
  const [a, b] = [byLabels(ours), byLabels(theirs)];
  let points = 0;
  if (a.size !== b.size) return { difference: `${a.size} series, not ${b.size}`, points };
  for (const [labels, values] of b) {
    const own = a.get(labels);
    if (own === undefined) return { difference: `series is missing: ${labels}`, points };
    if (own.length !== values.length) {
      return { difference: `${own.length} points, not ${values.length}: ${labels}`, points };
    }
    points += values.length;
    for (let i = 0; i < values.length; i += 1) {
      const [time, value] = values[i]!;
      const [ownTime, ownValue] = own[i]!;
      if (ownTime !== time || !isClose(Number(ownValue), Number(value))) {
        return {
          difference: `${ownValue} at ${ownTime}, not ${value} at ${time}: ${labels}`,
          points,
        };
      }
    }
  }
  return { difference: null, points };
}

function byLabels(text: string): Map<string, Matrix['data']['result'][number]['values']> {
  const { data } = JSON.parse(text) as Matrix;
  return new Map(
    data.result.map(({ metric, values }) => [
      JSON.stringify(Object.entries(metric).sort(([a], [b]) => (a < b ? -1 : 1))),
      values,
    ]),
  );
}

function isClose(a: number, b: number): boolean {
  if (Object.is(a, b) || a === b) return true;
  return Math.abs(a - b) <= relativeMax * Math.max(Math.abs(a), Math.abs(b));
}
