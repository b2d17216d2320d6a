/** What `load_with_nhcb` adds: classic histograms as native ones with custom buckets, under the name without its suffix. */
import { compacted, layoutOfBounds } from '#engine/histograms/buckets.ts';
import { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { customSchema } from '#engine/typed/histogram.ts';
import { encodeTags, type Tag } from '#lib/tags.ts';
import type { SeriesLine } from './script.ts';
import type { ScriptValue } from './script_values.ts';

/** Of one time: cumulative counts by bound. */
interface Classic {
  readonly buckets: Map<number, number>;
  count: number | null;
  sum: number;
}

interface Found {
  readonly tags: readonly Tag[];
  readonly times: (Classic | null)[];
}

export function customBucketLines(lines: readonly SeriesLine[]): SeriesLine[] {
  const found = new Map<string, Found>();
  for (const { tags, values } of lines) {
    const name = tags.find((tag) => tag.name === '__name__')?.value ?? '';
    const suffix = /_(bucket|count|sum)$/.exec(name)?.[1];
    if (suffix === undefined) continue;
    const bound = boundOf(tags.find((tag) => tag.name === 'le')?.value);
    if (suffix === 'bucket' && Number.isNaN(bound)) continue;
    const base = tags
      .filter((tag) => tag.name !== 'le')
      .map((tag) =>
        tag.name === '__name__'
          ? { name: '__name__', value: name.slice(0, -suffix.length - 1) }
          : tag,
      );
    const key = Buffer.from(encodeTags(base)).toString('latin1');
    let series = found.get(key);
    if (series === undefined) found.set(key, (series = { tags: base, times: [] }));
    for (const [index, value] of values.entries()) {
      series.times[index] ??= null;
      if (typeof value !== 'bigint') continue;
      const number = new Float64Array(BigUint64Array.of(value).buffer)[0]!;
      const at = (series.times[index] ??= { buckets: new Map(), count: null, sum: 0 });
      if (suffix === 'count') at.count = number;
      else if (suffix === 'sum') at.sum = number;
      else if (!at.buckets.has(bound)) at.buckets.set(bound, number);
    }
  }
  return [...found.values()].map(({ tags, times }) => ({
    tags,
    values: times.map((at): ScriptValue => {
      return at === null ? null : { histogram: convert(at), hasHint: false };
    }),
    startMillis: null,
  }));
}

function boundOf(text: string | undefined): number {
  if (text === undefined || text === '') return Number.NaN;
  if (/^\+?inf$/i.test(text)) return Infinity;
  return Number(text);
}

function convert({ buckets, count: known, sum }: Classic): FloatHistogram {
  const cumulative = [...buckets].sort(([a], [b]) => a - b);
  const count = known ?? cumulative.at(-1)?.[1] ?? 0;
  if (cumulative.at(-1)?.[0] !== Infinity) cumulative.push([Infinity, count]);
  const customBounds = Float64Array.from(cumulative.slice(0, -1), ([bound]) => bound);
  const counts = Float64Array.from(
    cumulative,
    ([, upTo], i) => upTo - (cumulative[i - 1]?.[1] ?? 0),
  );
  const positive = compacted({ indexes: layoutOfBounds(customBounds), counts });
  return new FloatHistogram({ schema: customSchema, count, sum, customBounds, positive });
}
