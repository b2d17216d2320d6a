/** What the pipelines of a series make, as one graph of outputs: those that several series make alike are one. */
import { badRequest, shownText } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { decodeTags, encodeTags, sortTags, type Tags } from '#lib/tags.ts';
import { type AggregationType, aggregationTypes } from '../aggregation_types.ts';
import type { Pipeline, Stage } from '../match.ts';
import { isSamePolicy, type StoragePolicy, type TransformType, transformTypes } from '../rules.ts';

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
  /**
   * murmur3_32 of the canonical tags of what it is rolled up to in the end: outputs that go into one another have one hash,
   * so that who makes all of a hash needs no others.
   */
  readonly hash: number;
  /** Others that are stored as a series of this one, made in another way: rules that nobody told apart. */
  readonly rivals: readonly Output[];
}

/** How a series goes into an output. */
export interface Route {
  /** Tells it from others of the same outputs. */
  readonly number: number;
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
  /** Of those that are stored the first one of each series, by its canonical tags, a character for each byte. */
  readonly #bySeries = new Map<string, KnownOutput>();
  /** By output, type and transforms: each series has as many as rules that match it. */
  readonly #routes = new Map<string, Route>();

  get size(): number {
    return this.#byKey.size;
  }

  /** Of a pipeline that names a policy and rolls up; null of any other. */
  routeOf({ target, aggregations, output, stages }: Pipeline, policy: StoragePolicy): Route | null {
    if (!target.storagePolicies.some((each) => isSamePolicy(each, policy))) return null;
    if (output !== null) return this.#route(null, [], this.#output(output, aggregations, stages));
    const at = stages.findIndex(({ type }) => type === 'rollup');
    const first = stages[at];
    if (first?.type !== 'rollup') return null;
    const made = this.#output(first.output, first.aggregations, stages.slice(at + 1));
    const transforms = transformsOf(stages.slice(0, at));
    return this.#route(aggregations[0] ?? typeByDefault, transforms, made);
  }

  #route(
    type: AggregationType | null,
    transforms: readonly TransformType[],
    output: Output,
  ): Route {
    const key = `${type} ${transforms.join()} ${output.key}`;
    let route = this.#routes.get(key);
    if (route === undefined) {
      route = { number: this.#routes.size, type, transforms, output };
      this.#routes.set(key, route);
    }
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
    const encoded = encodeTags(tags);
    const text = Buffer.from(encoded).toString('latin1');
    const key = JSON.stringify([text, types, transforms, next?.key ?? null]);
    return this.#byKey.get(key) ?? this.#add(key, tags, encoded, types, transforms, next);
  }

  /**
   * @param key of an output of another process
   * @throws {TsdbError} BAD_REQUEST when it is none, or of a later release
   */
  ofKey(key: string): Output {
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    const { text, types, transforms, next } = readKey(key);
    const encoded = new Uint8Array(Buffer.from(text, 'latin1'));
    const tags = decodeTags(encoded);
    return this.#add(
      key,
      tags,
      encoded,
      types,
      transforms,
      next === null ? null : this.ofKey(next),
    );
  }

  #add(
    key: string,
    tags: Tags,
    encoded: Uint8Array,
    types: readonly AggregationType[],
    transforms: readonly TransformType[],
    next: Output | null,
  ): Output {
    const series = types.map((type) => tagsOfType(tags, types, type));
    const hash = next === null ? murmur3(encoded) : next.hash;
    const output: KnownOutput = { key, types, series, transforms, next, hash, rivals: noRivals };
    this.#byKey.set(key, output);
    if (next === null) for (const of of series) this.#addSeries(of, output);
    return output;
  }

  #addSeries(series: Tags, output: KnownOutput): void {
    const text = textOf(series);
    const first = this.#bySeries.get(text);
    if (first === undefined) {
      this.#bySeries.set(text, output);
      return;
    }
    const others = first.rivals.filter((other) => other.series.some((of) => textOf(of) === text));
    for (const other of [first, ...others]) {
      other.rivals = [...other.rivals, output];
      output.rivals = [...output.rivals, other];
    }
  }
}

interface KnownOutput extends Output {
  rivals: readonly KnownOutput[];
}

const noRivals: readonly KnownOutput[] = [];

const textOf = (tags: Tags): string => Buffer.from(encodeTags(tags)).toString('latin1');

interface KeyParts {
  /** Canonical tags, a character for each byte. */
  readonly text: string;
  readonly types: readonly AggregationType[];
  readonly transforms: readonly TransformType[];
  readonly next: string | null;
}

function readKey(key: string): KeyParts {
  const [text, types, transforms, next] = parsed(key);
  const isKey =
    typeof text === 'string' &&
    isListOf(types, aggregationTypes) &&
    isListOf(transforms, transformTypes) &&
    (next === null || typeof next === 'string');
  if (isKey) return { text, types, transforms, next };
  throw badRequest(`output: it is none that this release knows: ${shownText(key)}`);
}

function parsed(key: string): unknown[] {
  try {
    const list: unknown = JSON.parse(key);
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

function isListOf<T>(list: unknown, all: readonly T[]): list is readonly T[] {
  return Array.isArray(list) && list.every((each) => all.includes(each));
}

function transformsOf(stages: readonly Stage[]): TransformType[] {
  return stages.flatMap((stage) => (stage.type === 'transform' ? [stage.transform] : []));
}

/** As M3 names them, where that is not the type in lower case. */
const suffixes: Readonly<Partial<Record<AggregationType, string>>> = {
  SumSq: 'sum_sq',
  Min: 'lower',
  Max: 'upper',
};

/** Tags of the series of one of the types. */
function tagsOfType(tags: Tags, types: readonly AggregationType[], type: AggregationType): Tags {
  if (types.length === 1) return tags;
  const value = `.${suffixes[type] ?? type.toLowerCase()}`;
  const others = tags.filter(({ name }) => name !== typeTag);
  return sortTags([...others, { name: typeTag, value }]);
}
