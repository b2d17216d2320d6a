/** Histograms as text, as Prometheus prints them. */
import { formatGeneral } from '../window_functions/number_format.ts';
import type { FloatHistogram } from './float_histogram.ts';
import { BucketWalk } from './walk.ts';

/** As messages and labels have it: `{count:3, sum:4.5, [-0.001,0.001]:1, (1,2]:2}`. */
export function textOf(histogram: FloatHistogram): string {
  const parts = [`count:${formatGeneral(histogram.count)}`, `sum:${formatGeneral(histogram.sum)}`];
  const walk = new BucketWalk(histogram, 'kept', histogram.zeroCount !== 0);
  for (let place = 0; place < walk.size; place++) {
    const { lower, upper, count, hasLower, hasUpper } = walk.at(place);
    if (count === 0) continue;
    const range = `${formatGeneral(lower)},${formatGeneral(upper)}`;
    parts.push(`${hasLower ? '[' : '('}${range}${hasUpper ? ']' : ')'}:${formatGeneral(count)}`);
  }
  return `{${parts.join(', ')}}`;
}
