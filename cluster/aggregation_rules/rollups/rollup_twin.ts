/** What rollups come to, slow and obvious: each window of each series by itself, from all rows of the series. */
import { sortTags, type Tags } from '#lib/tags.ts';
import type { AggregationType } from '../aggregation_types.ts';
import type { Pipeline } from '../match.ts';
import type { StoragePolicy, TransformType } from '../rules.ts';
import type { RuleSetsOverTime } from '../sets/over_time.ts';

export interface TwinSeries {
  readonly tags: Tags;
  /** Ascending; NaN values are no numbers, and stale markers are left out. */
  readonly rows: readonly { readonly nanos: bigint; readonly value: number }[];
}

interface Row {
  readonly nanos: bigint;
  readonly value: number;
}

/** Values by the text of their tags and times. */
export function rollupTwin(
  series: readonly TwinSeries[],
  sets: RuleSetsOverTime,
  policy: StoragePolicy,
  ends: readonly bigint[],
): Map<string, number> {
  const { resolutionNanos } = policy;
  const reach = resolutionNanos * 2n > 300_000_000_000n ? resolutionNanos * 2n : 300_000_000_000n;
  const found = new Map<string, number>();
  const sums = new Map<string, number>();
  const before = new Map<string, Row>();
  const windowOf = (nanos: bigint): bigint =>
    ((nanos + resolutionNanos - 1n) / resolutionNanos) * resolutionNanos;

  const changed = (key: string, transform: TransformType, end: bigint, value: number): number => {
    if (transform === 'Absolute') return Math.abs(value);
    if (transform === 'Add') {
      sums.set(key, (sums.get(key) ?? 0) + value);
      return sums.get(key)!;
    }
    const last = before.get(key);
    before.set(key, { nanos: end, value });
    if (last === undefined || end - last.nanos > reach) return NaN;
    const change = value >= last.value ? value - last.value : value;
    return transform === 'Increase' ? change : change / (Number(end - last.nanos) / 1e9);
  };

  /** Values of a series in the windows up to one, each of its own rows alone. */
  const valueOfSeries = (
    { rows }: TwinSeries,
    type: AggregationType,
    transforms: readonly TransformType[],
    end: bigint,
  ): number => {
    const inside = (at: bigint): Row[] => rows.filter(({ nanos }) => windowOf(nanos) === at);
    const [first, ...rest] = transforms;
    if (first === undefined || first === 'Absolute') {
      const value = aggregated(inside(end), type);
      return first === undefined ? value : after(Math.abs(value), rest);
    }
    if (type === 'Last') {
      const numbers = rows.filter(({ value }) => !Number.isNaN(value));
      let change = NaN;
      let nanos = 0n;
      for (const [i, row] of numbers.entries()) {
        const last = numbers[i - 1];
        if (windowOf(row.nanos) !== end || last === undefined || row.nanos - last.nanos > reach)
          continue;
        // Rows further back than the look-back of the first window are not looked at.
        if (windowOf(last.nanos) <= ends[0]! - resolutionNanos - reachInWindows(reach)) continue;
        const by = row.value >= last.value ? row.value - last.value : row.value;
        change = Number.isNaN(change) ? by : change + by;
        nanos += row.nanos - last.nanos;
      }
      return after(first === 'Increase' ? change : change / (Number(nanos) / 1e9), rest);
    }
    const value = aggregated(inside(end), type);
    if (Number.isNaN(value)) return NaN;
    for (let at = end - resolutionNanos; end - at <= reach; at -= resolutionNanos) {
      const last = aggregated(inside(at), type);
      if (Number.isNaN(last)) continue;
      const by = value >= last ? value - last : value;
      return after(first === 'Increase' ? by : by / (Number(end - at) / 1e9), rest);
    }
    return NaN;
  };
  const reachInWindows = (nanos: bigint): bigint =>
    ((nanos + resolutionNanos - 1n) / resolutionNanos) * resolutionNanos;
  /** Only what needs no other window. */
  const after = (value: number, rest: readonly TransformType[]): number =>
    rest.includes('Absolute') ? Math.abs(value) : value;

  for (const end of ends) {
    /** By the text of an output and of what is done with it: rows of the window, and what is done. */
    let stage = new Map<string, { rows: Row[]; pipeline: Pipeline; place: number }>();
    const into = (
      to: typeof stage,
      pipeline: Pipeline,
      place: number,
      rows: readonly Row[],
    ): void => {
      if (rows.length === 0) return;
      const { tags, types } = rollupAt(pipeline, place);
      const rest = JSON.stringify(pipeline.stages.slice(place + 1));
      const key = `${textOf(tags)} ${types.join()} ${rest}`;
      const known = to.get(key);
      if (known === undefined) to.set(key, { rows: [...rows], pipeline, place });
      else known.rows.push(...rows);
    };
    for (const one of series) {
      const rules = sets.of(one.tags);
      if (rules === null) continue;
      /** What of the series itself has gone somewhere: once, whichever rules ask for it. */
      const gone = new Set<string>();
      for (const pipeline of rules.at(end - resolutionNanos).match(one.tags).pipelines) {
        const isOf = pipeline.target.storagePolicies.some(
          (each) =>
            each.resolutionNanos === resolutionNanos &&
            each.retentionNanos === policy.retentionNanos,
        );
        if (!isOf) continue;
        if (pipeline.output !== null) {
          into(
            stage,
            pipeline,
            -1,
            one.rows.filter(({ nanos }) => windowOf(nanos) === end),
          );
          continue;
        }
        const place = pipeline.stages.findIndex(({ type }) => type === 'rollup');
        if (place < 0) continue;
        const aggregation = pipeline.aggregations[0] ?? 'Last';
        const way = JSON.stringify([aggregation, pipeline.stages]);
        if (gone.has(way)) continue;
        gone.add(way);
        const transforms = pipeline.stages
          .slice(0, place)
          .flatMap((each) => (each.type === 'transform' ? [each.transform] : []));
        const value = valueOfSeries(one, aggregation, transforms, end);
        if (!Number.isNaN(value)) into(stage, pipeline, place, [{ nanos: end, value }]);
      }
    }
    while (stage.size > 0) {
      const next: typeof stage = new Map();
      for (const [key, { rows, pipeline, place }] of stage) {
        const { tags, types } = rollupAt(pipeline, place);
        for (const type of types) {
          let value = aggregated(rows, type);
          let at = place + 1;
          for (; pipeline.stages[at]?.type === 'transform'; at++) {
            const { transform } = pipeline.stages[at] as { transform: TransformType };
            if (Number.isNaN(value)) break;
            if (transform === 'Reset') {
              found.set(`${textOf(typed(tags, types, type))} ${end + resolutionNanos / 2n}`, 0);
              break;
            }
            value = changed(`${key} ${type} ${at}`, transform, end, value);
          }
          if (Number.isNaN(value)) continue;
          const rollup = pipeline.stages.findIndex(
            (each, i) => i > place && each.type === 'rollup',
          );
          if (rollup >= 0) into(next, pipeline, rollup, [{ nanos: end, value }]);
          else found.set(`${textOf(typed(tags, types, type))} ${end}`, value);
        }
      }
      stage = next;
    }
  }
  return found;
}

/** @param place of its stage; below 0 for the first aggregation of rows */
function rollupAt(
  { output, aggregations, stages }: Pipeline,
  place: number,
): { readonly tags: Tags; readonly types: readonly AggregationType[] } {
  const orDefault = (types: readonly AggregationType[]): readonly AggregationType[] =>
    types.length === 0 ? ['Last'] : types;
  if (place < 0) return { tags: output!, types: orDefault(aggregations) };
  const stage = stages[place]!;
  if (stage.type !== 'rollup') throw new Error('no rollup');
  return { tags: stage.output, types: orDefault(stage.aggregations) };
}

function typed(tags: Tags, types: readonly AggregationType[], type: AggregationType): Tags {
  if (types.length === 1) return tags;
  const ofM3 = new Map<AggregationType, string>([
    ['SumSq', 'sum_sq'],
    ['Min', 'lower'],
    ['Max', 'upper'],
  ]);
  const suffix = ofM3.get(type) ?? type.toLowerCase();
  return sortTags([...tags, { name: 'agg', value: `.${suffix}` }]);
}

export const textOf = (tags: Tags): string =>
  tags.map(({ name, value }) => `${name}=${value}`).join();

function aggregated(rows: readonly Row[], type: AggregationType): number {
  if (rows.length === 0) return NaN;
  const numbers = rows.map(({ value }) => value).filter((value) => !Number.isNaN(value));
  const sum = numbers.reduce((a, b) => a + b, 0);
  const mean = sum / numbers.length;
  if (type === 'Count') return rows.length;
  if (type === 'Last') {
    const last = rows.reduce((a, b) => (b.nanos > a.nanos ? b : a));
    const ofLast = rows.filter(({ nanos }) => nanos === last.nanos).map(({ value }) => value);
    const some = ofLast.filter((value) => !Number.isNaN(value));
    return some.length === 0 ? NaN : Math.max(...some);
  }
  if (numbers.length === 0) return NaN;
  switch (type) {
    case 'Min':
      return Math.min(...numbers);
    case 'Max':
      return Math.max(...numbers);
    case 'Mean':
      return mean;
    case 'Sum':
      return sum;
    case 'SumSq':
      return numbers.reduce((a, b) => a + b * b, 0);
    case 'Stdev': {
      if (numbers.length < 2) return 0;
      const squares = numbers.reduce((a, b) => a + (b - mean) ** 2, 0);
      return Math.sqrt(squares / (numbers.length - 1));
    }
    default: {
      const digits = /^P(\d+)$/.exec(type)?.[1] ?? '50';
      const sorted = numbers.toSorted((a, b) => a - b);
      const rank = Math.ceil(Number(`0.${digits}`) * sorted.length);
      return sorted[Math.max(1, rank) - 1]!;
    }
  }
}
