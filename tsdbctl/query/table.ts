/** Answers of queries as tables: a row for each value. */
import { tableText } from '../table.ts';

type Pair = readonly [seconds: number, value: string];

interface SeriesOfAnswer {
  readonly metric: Readonly<Record<string, string>>;
  readonly value?: Pair;
  readonly values?: readonly Pair[];
  readonly histogram?: readonly [seconds: number, histogram: object];
  readonly histograms?: readonly (readonly [seconds: number, histogram: object])[];
}

export interface QueryAnswer {
  readonly data: {
    readonly resultType: string;
    readonly result: readonly SeriesOfAnswer[] | Pair;
  };
  readonly warnings?: readonly string[];
  readonly infos?: readonly string[];
}

export function queryTable({ data, warnings = [], infos = [] }: QueryAnswer): string {
  const notes = [...warnings, ...infos].map((note) => `! ${note}`);
  return [tableOf(data), ...notes].join('\n');
}

function tableOf({ resultType, result }: QueryAnswer['data']): string {
  if (resultType === 'scalar' || resultType === 'string') {
    const [seconds, value] = result as Pair;
    return tableText(['time', 'value'], [[timeText(seconds), value]]);
  }
  const all = result as readonly SeriesOfAnswer[];
  if (all.length === 0) return 'no series';
  const rows = all.flatMap(({ metric, value, values = [], histogram, histograms = [] }) => {
    const series = seriesText(metric);
    const floats = value === undefined ? values : [value];
    const others = histogram === undefined ? histograms : [histogram];
    return [
      ...floats.map(([seconds, text]) => [series, timeText(seconds), text]),
      ...others.map(([seconds, of]) => [series, timeText(seconds), JSON.stringify(of)]),
    ];
  });
  return tableText(['series', 'time', 'value'], rows);
}

const timeText = (seconds: number): string => new Date(seconds * 1000).toISOString();

function seriesText({ __name__: name = '', ...tags }: SeriesOfAnswer['metric']): string {
  const pairs = Object.entries(tags).map(([tag, value]) => `${tag}=${JSON.stringify(value)}`);
  return pairs.length === 0 && name !== '' ? name : `${name}{${pairs.join(',')}}`;
}
