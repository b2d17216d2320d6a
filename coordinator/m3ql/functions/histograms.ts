/** Percentiles and shares of histograms whose buckets are series, row by row. */
import { metricNameTag } from '#lib/tags.ts';
import type { Call } from '../../graphite/calls/call.ts';
import { groupByKey } from '../../graphite/series/nodes.ts';
import { normalize } from '../../graphite/series/normalize.ts';
import { madeColumns } from '../../graphite/series/making.ts';
import { newSeries, type Series } from '../../graphite/series/series.ts';
import {
  bucketFraction,
  bucketQuantile,
  type Buckets,
} from '../../promql/evaluate/classic_buckets.ts';
import { made } from '../calls/functions.ts';
import { needs, type ScriptFunction } from '../calls/parameters.ts';
import { keyWithoutTags, withTags } from '../series/tags.ts';
import { bucketRange, endOf } from './buckets.ts';

/** A series that counts what is up to `upper`, or between both. */
interface Bucket {
  readonly series: Series;
  readonly lower: number;
  readonly upper: number;
}

/** Of buckets that count what is below them, too; NaN is none. */
type Estimate = (buckets: Buckets) => number;

/** Where counts of buckets fall, as those of different moments do, the larger one stays. */
const ignoreForced = () => {};

function percentile(call: Call): Estimate {
  const percent = call.arguments.number('percentile');
  return (buckets) => bucketQuantile(percent / 100, buckets, ignoreForced);
}

async function ofRanges(call: Call, estimate: Estimate): Promise<readonly Series[]> {
  const rangeTag = call.arguments.text('rangeTag');
  const tags = [call.arguments.text('idTag'), rangeTag];
  return await estimated(call, tags, false, estimate, (series) => {
    const range = bucketRange(series.tags.get(rangeTag) ?? '');
    return range === null ? null : { series, ...range };
  });
}

async function promHistogramPercentile(call: Call): Promise<readonly Series[]> {
  const estimate = percentile(call);
  return await estimated(call, ['le'], true, estimate, (series) => {
    const upper = endOf(series.tags.get('le') ?? '');
    return upper === null ? null : { series, lower: -Infinity, upper };
  });
}

/** One series for all buckets with the same other tags; series that are no buckets are left out. */
async function estimated(
  call: Call,
  bucketTags: readonly string[],
  isCumulative: boolean,
  estimate: Estimate,
  bucketOf: (series: Series) => Bucket | null,
): Promise<readonly Series[]> {
  const list = await call.list();
  const keyOf = (series: Series) => keyWithoutTags(series, bucketTags);
  const results: Series[] = [];
  for (const group of (await groupByKey(list, keyOf, call.work)).values()) {
    const grid = await normalize(group, call);
    const buckets = grid.series.map(bucketOf).filter((bucket) => bucket !== null);
    if (buckets.length === 0) continue;
    const columns = await estimateRows(call, buckets, grid.length, isCumulative, estimate);
    const { startSeconds, endSeconds, stepSeconds } = grid;
    const [first] = group;
    const tags = new Map([...first!.tags].filter(([name]) => !bucketTags.includes(name)));
    const name = tags.get(metricNameTag) ?? '';
    const series = newSeries(name, startSeconds, endSeconds, stepSeconds, columns, 0);
    results.push(withTags(series, tags));
  }
  return results;
}

async function estimateRows(
  call: Call,
  buckets: readonly Bucket[],
  length: number,
  isCumulative: boolean,
  estimate: Estimate,
) {
  const columns = await madeColumns(length, call);
  const bounds = boundsOf(buckets, isCumulative);
  const placeOf = new Map(Array.from(bounds, (bound, place) => [bound, place]));
  const places = Uint32Array.from(buckets, ({ upper }) => placeOf.get(upper)!);
  const row = { bounds, counts: new Float64Array(bounds.length), length: bounds.length };
  for (let at = 0; at < length; at++) {
    row.counts.fill(0);
    let isThere = 0;
    for (let i = 0; i < buckets.length; i++) {
      const { values, present } = buckets[i]!.series;
      if (present[at] !== 1) continue;
      row.counts[places[i]!]! += values[at]!;
      isThere = 1;
    }
    if (!isCumulative) {
      for (let i = 1; i < bounds.length; i++) row.counts[i]! += row.counts[i - 1]!;
    }
    const value = isThere === 1 ? estimate(row) : NaN;
    if (call.work.spend(10 * (buckets.length + bounds.length))) await call.work.pause();
    if (Number.isNaN(value)) continue;
    columns.values[at] = value;
    columns.present[at] = 1;
  }
  return columns;
}

/** Ascending, each once. Lower ends of buckets that nobody has sent are among them, and what is above all. */
function boundsOf(buckets: readonly Bucket[], isCumulative: boolean): Float64Array<ArrayBuffer> {
  const ends = new Set(buckets.map(({ upper }) => upper));
  if (!isCumulative) {
    for (const { lower } of buckets) if (lower > -Infinity) ends.add(lower);
    ends.add(Infinity);
  }
  return Float64Array.from(ends).sort();
}

const bucketParameters = [needs('idTag', 'tag'), needs('rangeTag', 'tag')] as const;

export const histogramFunctions: readonly ScriptFunction[] = [
  made('histogramCDF', [...bucketParameters, needs('value', 'number')], (call) => {
    const value = call.arguments.number('value');
    return ofRanges(call, (buckets) => bucketFraction(-Infinity, value, buckets));
  }),
  made('histogramPercentile', [...bucketParameters, needs('percentile', 'percentile')], (call) =>
    ofRanges(call, percentile(call)),
  ),
  made('promHistogramPercentile', [needs('percentile', 'percentile')], promHistogramPercentile),
];
