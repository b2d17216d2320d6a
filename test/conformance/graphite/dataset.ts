/** The series of the cases in memory, with the windows of whisper: rows behind `from` up to `until`. */
import type {
  EvaluationContext,
  FetchedSeries,
  FetchRequest,
} from '#coordinator/graphite/evaluate/context.ts';
import type { TagExpression } from '#coordinator/graphite/parse/tag_expression.ts';
import { tagsOfName } from '#coordinator/graphite/series/series.ts';
import { Zone } from '#coordinator/graphite/time/zone.ts';
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import { compareTexts } from '#lib/text_order.ts';
import { readSuite } from '../suites.ts';

export interface Dataset {
  readonly now: number;
  readonly events: readonly { readonly when: number; readonly tags: readonly string[] }[];
  readonly series: readonly {
    readonly name: string;
    readonly step: number;
    readonly start: number;
    readonly values: readonly (number | null)[];
  }[];
}

export class MemoryDataset {
  readonly #dataset: Dataset;
  /** Requests of all calls of `fetch`. */
  readonly requests: (readonly FetchRequest[])[] = [];

  constructor(dataset: Dataset = readSuite<Dataset>('graphite/dataset.json')) {
    this.#dataset = dataset;
  }

  context(fromSeconds: number, untilSeconds: number, nowSeconds: number): EvaluationContext {
    const { signal } = new AbortController();
    return {
      fromSeconds,
      untilSeconds,
      time: { nowSeconds, zone: new Zone('UTC') },
      limits: { seriesMax: 100_000, rowsMax: 10_000_000 },
      work: Turns.of(realEnv.clock).begin(signal),
      random: () => 0.25,
      fetch: async (requests) => {
        this.requests.push(requests);
        return requests.map((request) => this.#select(request));
      },
      findEvents: async (tags, window) =>
        this.#dataset.events
          .filter((event) => tags === null || tags.every((tag) => event.tags.includes(tag)))
          .map((event) => event.when)
          .filter((when) => when >= window.fromSeconds && when <= window.untilSeconds),
      variables: new Map(),
    };
  }

  #select(request: FetchRequest): FetchedSeries[] {
    const { tagExpressions } = request;
    const matches =
      tagExpressions === null
        ? pathMatcher(request.pathExpression)
        : (name: string) => tagExpressions.every((expression) => hasTag(name, expression));
    return this.#dataset.series
      .filter(({ name }) => matches(name))
      .toSorted((a, b) => compareTexts(a.name, b.name))
      .map((series) => windowOf(series, request));
  }
}

function pathMatcher(expression: string): (name: string) => boolean {
  const source = expression
    .replace(/[\\^$+().|]/g, '\\$&')
    .replace(/\*/g, '[^.]*')
    .replace(/\?/g, '[^.]')
    .replace(/\{([^{}]*)\}/g, (_whole, inside: string) => `(?:${inside.replaceAll(',', '|')})`);
  const pattern = new RegExp(`^${source}$`);
  return (name) => pattern.test(name);
}

function hasTag(name: string, { tag, operator, value }: TagExpression): boolean {
  // Only series with tags of their own are in the index of tags.
  if (!name.includes(';')) return false;
  const found = tagsOfName(name).get(tag) ?? '';
  const pattern = operator.endsWith('~') ? new RegExp(`^(?:${value})`) : null;
  const isEqual = pattern === null ? found === value : pattern.test(found);
  return operator.startsWith('!') ? !isEqual : isEqual;
}

function windowOf(
  series: Dataset['series'][number],
  { fromSeconds, untilSeconds }: FetchRequest,
): FetchedSeries {
  const { name, step, start, values } = series;
  const first = fromSeconds - (fromSeconds % step) + step;
  // A window within one step has the row behind it.
  const length = Math.max(1, (untilSeconds - (untilSeconds % step) + step - first) / step);
  const columns = { values: new Float64Array(length), present: new Uint8Array(length) };
  for (let i = 0; i < length; i++) {
    const value = values[(first - start) / step + i] ?? null;
    if (value === null) continue;
    columns.values[i] = value;
    columns.present[i] = 1;
  }
  return {
    name,
    tags: tagsOfName(name),
    startSeconds: first,
    stepSeconds: step,
    consolidation: 'average',
    ...columns,
  };
}
