/** What the pipelines of a series make, as one graph of outputs: those that several series make alike are one. */
import { encodeTags, sortTags, type Tags } from '#lib/tags.ts';
import type { AggregationType } from '../aggregation_types.ts';
import type { Pipeline, Stage } from '../match.ts';
import type { StoragePolicy, TransformType } from '../rules.ts';

/** Where a type has a series of its own, this tag names it, with a dot before, as M3 has it. */
export const typeTag = 'agg';

/** A series of a rollup, or several, one for each of its types. */
export interface Output {
  /** Tells it from others: what has equal keys is one. */
  readonly key: string;
  readonly types: readonly AggregationType[];
  /** Tags of the series of each type: the same objects for as long as the output is one. */
  readonly series: readonly Tags[];
  /** Of each value, one after the other. */
  readonly transforms: readonly TransformType[];
  /** What rolls its values up once more; null when they are stored. */
  readonly next: Output | null;
}

/** How a series goes into an output. */
export interface Route {
  /** What its rows come to in a window before they are rolled up; null where each row is. */
  readonly type: AggregationType | null;
  /** Of that. */
  readonly transforms: readonly TransformType[];
  readonly output: Output;
}

/** Of rows whose metric has no type. */
const typeByDefault: AggregationType = 'Last';

/** Outputs by their keys, as long as somebody has use for them. */
export class Outputs {
  readonly #byKey = new Map<string, Output>();
  /** By output, type and transforms: each series has as many as rules that match it. */
  readonly #routes = new Map<string, Route>();

  /** Of the pipelines that name a policy. */
  routesOf(pipelines: readonly Pipeline[], policy: StoragePolicy): Route[] {
    const routes: Route[] = [];
    for (const { target, aggregations, output, stages } of pipelines) {
      if (!target.storagePolicies.some((each) => isSame(each, policy))) continue;
      if (output !== null) {
        routes.push(this.#route(null, [], this.#output(output, aggregations, stages)));
        continue;
      }
      const at = stages.findIndex(({ type }) => type === 'rollup');
      const first = stages[at];
      if (first?.type !== 'rollup') continue;
      const made = this.#output(first.output, first.aggregations, stages.slice(at + 1));
      const transforms = transformsOf(stages.slice(0, at));
      routes.push(this.#route(aggregations[0] ?? typeByDefault, transforms, made));
    }
    return routes;
  }

  #route(
    type: AggregationType | null,
    transforms: readonly TransformType[],
    output: Output,
  ): Route {
    const key = `${type} ${transforms.join()} ${output.key}`;
    let route = this.#routes.get(key);
    if (route === undefined) this.#routes.set(key, (route = { type, transforms, output }));
    return route;
  }

  #output(tags: Tags, aggregations: readonly AggregationType[], stages: readonly Stage[]): Output {
    const at = stages.findIndex(({ type }) => type === 'rollup');
    const rollup = stages[at];
    const next =
      rollup?.type === 'rollup'
        ? this.#output(rollup.output, rollup.aggregations, stages.slice(at + 1))
        : null;
    const types = aggregations.length === 0 ? [typeByDefault] : aggregations;
    const transforms = transformsOf(next === null ? stages : stages.slice(0, at));
    const text = Buffer.from(encodeTags(tags)).toString('latin1');
    const key = JSON.stringify([text, types, transforms, next?.key ?? null]);
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    const series = types.map((type) => tagsOfType(tags, types, type));
    const output = { key, types, series, transforms, next };
    this.#byKey.set(key, output);
    return output;
  }
}

function transformsOf(stages: readonly Stage[]): TransformType[] {
  return stages.flatMap((stage) => (stage.type === 'transform' ? [stage.transform] : []));
}

function isSame(a: StoragePolicy, b: StoragePolicy): boolean {
  return a.resolutionNanos === b.resolutionNanos && a.retentionNanos === b.retentionNanos;
}

const suffixes: Readonly<Partial<Record<AggregationType, string>>> = { SumSq: 'sum_sq' };

/** Tags of the series of one of the types. */
function tagsOfType(tags: Tags, types: readonly AggregationType[], type: AggregationType): Tags {
  if (types.length === 1) return tags;
  const value = `.${suffixes[type] ?? type.toLowerCase()}`;
  const others = tags.filter(({ name }) => name !== typeTag);
  return sortTags([...others, { name: typeTag, value }]);
}
