/**
 * The reading half of the session: fetch, fetch by ID and aggregate over the replicas.
 */
import { sortPaced, unitePaced } from '#lib/turns/paced.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import { compareTexts } from '#lib/text_order.ts';
import { WorkSignal } from '#lib/env/wait.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { shardOf } from '#lib/hashing/hash.ts';
import { type ReadBytes, unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { mergeBundles } from './bundle_merge.ts';
import type { ReadConsistency } from './consistency.ts';
import { type Answer, fanOut, type FanOut, type Gathered } from './fan_out.ts';
import { fetchBytesMaxDefault } from '../limits.ts';
import { namespaceNumberIn } from '../namespaces/numbers.ts';
import type { AggregateResponse } from '../node/service.ts';
import type {
  AggregateOptions,
  AggregateResult,
  FetchByIdOptions,
  FetchOptions,
  FetchResult,
  SessionOptions,
} from './types.ts';
import { type ClusterStatistics, clusterStatistics, type StatisticsPlan } from './statistics.ts';

const fetchTimeoutMillisDefault = 15_000;

/** Offsets of a bundle are 32 bits. */
const bundleBytesMax = 2 ** 32 - 1;

const readIsOver = new TsdbError('CANCELLED', 'the read is over');

export class SessionReader {
  readonly #options: SessionOptions;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  async fetch(options: FetchOptions, signal: AbortSignal): Promise<FetchResult> {
    const { namespace, query, startNanos, endNanos, seriesLimit, fetchData } = options;
    const { memory = unlimitedReadBytes } = options;
    this.#checkNamespace(namespace);
    const { answers, warnings } = await this.#gather(
      {
        level: this.#level(options.consistency),
        shardsOf: options.shardsOf ?? (() => null),
        ask: ({ node, placementVersion, namespaces, shards }, until) =>
          node.fetch(
            {
              namespace,
              namespaceNumber: namespaceNumberIn(namespaces, namespace),
              placementVersion,
              query,
              startNanos,
              endNanos,
              shards,
              seriesLimit,
              fetchData,
            },
            until,
            { memory },
          ),
      },
      signal,
    );
    const { bundle, seriesMatched } = await mergeBundles(
      answers.map((answer) => answer.bundle),
      { seriesMax: seriesLimit, bytesMax: bytesMaxOf(options.bytesLimit ?? 0) },
      Turns.of(this.#options.env.clock).begin(signal),
      memory,
    );
    const exhaustive =
      answers.every((answer) => answer.exhaustive) && seriesMatched === bundle.seriesCount;
    if (!exhaustive && options.requireExhaustive) {
      // Nodes stop counting at the limit.
      const matched = Math.max(seriesMatched, seriesLimit + 1);
      throw limitExceeded(
        `series_limit=${seriesLimit}, series_matched=at least ${matched}; the limit is that of the request, or limits.perQuery.maxFetchedSeries of the coordinator`,
      );
    }
    return { bundle, exhaustive, warnings, responses: answers.length };
  }

  async fetchById(options: FetchByIdOptions, signal: AbortSignal): Promise<FetchResult> {
    const { namespace, ids, startNanos, endNanos, memory = unlimitedReadBytes } = options;
    this.#checkNamespace(namespace);
    const { answers, warnings } = await this.#gather(
      {
        level: this.#level(options.consistency),
        shardsOf: (numShards) => Uint32Array.from(ids, (id) => shardOf(id, numShards)),
        ask: ({ node, placementVersion, namespaces, shards, ownership }, until) => {
          const namespaceNumber = namespaceNumberIn(namespaces, namespace);
          const here = new Set(shards);
          const asked = ids.filter((id) => here.has(shardOf(id, ownership.numShards)));
          return node.fetchById(
            { namespace, namespaceNumber, placementVersion, ids: asked, startNanos, endNanos },
            until,
            { memory },
          );
        },
      },
      signal,
    );
    const limits = { seriesMax: 0, bytesMax: bytesMaxOf(0) };
    const { bundle } = await mergeBundles(
      answers.map((answer) => answer.bundle),
      limits,
      Turns.of(this.#options.env.clock).begin(signal),
      memory,
    );
    const exhaustive = answers.every((answer) => answer.exhaustive);
    return { bundle, exhaustive, warnings, responses: answers.length };
  }

  async aggregate(options: AggregateOptions, signal: AbortSignal): Promise<AggregateResult> {
    const {
      namespace,
      query,
      startNanos,
      endNanos,
      tagNames,
      namesOnly,
      joined = false,
      limit,
    } = options;
    const { memory = unlimitedReadBytes } = options;
    this.#checkNamespace(namespace);
    const { answers, warnings } = await this.#gather(
      {
        level: this.#level(options.consistency),
        shardsOf: () => null,
        ask: ({ node, placementVersion, namespaces }, until) =>
          node.aggregate(
            {
              namespace,
              namespaceNumber: namespaceNumberIn(namespaces, namespace),
              placementVersion,
              query,
              startNanos,
              endNanos,
              tagNames,
              namesOnly,
              joined,
              limit,
            },
            until,
            { memory },
          ),
      },
      signal,
    );
    await holdMerged(answers, memory, signal);
    const work = Turns.of(this.#options.env.clock).begin(signal);
    const { tags, isCut } = await mergeTags(answers, limit, work);
    const exhaustive = answers.every((answer) => answer.exhaustive) && !isCut;
    if (!exhaustive && options.requireExhaustive) throw limitExceeded(`docs_limit=${limit}`);
    return { tags, exhaustive, warnings, responses: answers.length };
  }

  async statistics(
    options: Pick<StatisticsPlan, 'namespace' | 'limit' | 'metricName'>,
    signal: AbortSignal,
  ): Promise<ClusterStatistics> {
    const { env, topology, nodeOf } = this.#options;
    this.#checkNamespace(options.namespace);
    const { ownership, placementVersion, namespaces } = topology.view;
    if (ownership === null) {
      throw new TsdbError('UNAVAILABLE', 'cannot read: there is no placement');
    }
    const timeoutMillis = this.#options.fetchTimeoutMillis ?? fetchTimeoutMillisDefault;
    const until = new WorkSignal(env, timeoutMillis, signal);
    try {
      const node = (index: number) => nodeOf(ownership.instances[index]!);
      const namespaceNumber = namespaceNumberIn(namespaces, options.namespace);
      const plan = { ...options, namespaceNumber, ownership, placementVersion, nodeOf: node };
      return await clusterStatistics(plan, until.signal);
    } finally {
      until.end(readIsOver);
    }
  }

  async #gather<T extends Answer>(plan: FanOut<T>, signal: AbortSignal): Promise<Gathered<T>> {
    const timeoutMillis = this.#options.fetchTimeoutMillis ?? fetchTimeoutMillisDefault;
    signal.throwIfAborted();
    const until = new WorkSignal(this.#options.env, timeoutMillis, signal);
    try {
      return await fanOut(this.#options, plan, until.signal, signal);
    } finally {
      until.end(readIsOver);
    }
  }

  #level(asked: ReadConsistency | undefined): ReadConsistency {
    return asked ?? this.#options.levels?.readConsistency ?? 'unstrict_majority';
  }

  #checkNamespace(namespace: string): void {
    const { isLoaded, namespaces } = this.#options.topology.view;
    if (isLoaded && !namespaces.has(namespace)) {
      throw new TsdbError('NOT_FOUND', `namespace is not found: ${JSON.stringify(namespace)}`);
    }
  }
}

function bytesMaxOf(asked: number): number {
  return Math.min(bundleBytesMax, asked === 0 ? fetchBytesMaxDefault : asked);
}

function limitExceeded(limits: string): Error {
  return badRequest(`query exceeded limit: require_exhaustive=true, ${limits}`);
}

/** Of a name or value in a set and in a list, beside its text. */
const mergedTextBytes = 64;

async function holdMerged(
  answers: readonly AggregateResponse[],
  memory: ReadBytes,
  signal: AbortSignal,
): Promise<void> {
  let texts = 0;
  for (const { tags } of answers) for (const { values } of tags) texts += 1 + values.length;
  const bytes = texts * mergedTextBytes;
  if (!memory.tryGrow(bytes)) await memory.grow(bytes, signal);
}

/** Names and values of all answers, sorted; cut at the limit of names and values together. */
async function mergeTags(
  answers: readonly AggregateResponse[],
  limit: number,
  work: Work,
): Promise<{ tags: AggregateResponse['tags']; isCut: boolean }> {
  const valuesOfName = new Map<string, readonly string[]>();
  for (const { tags } of answers) {
    for (const { name, values } of tags) {
      const merged = valuesOfName.get(name);
      valuesOfName.set(
        name,
        merged === undefined ? values : await unitePaced(merged, values, compareTexts, work),
      );
      if (work.spend(nameUnits)) await work.pause();
    }
  }
  let left = limit === 0 ? Number.POSITIVE_INFINITY : limit;
  let isCut = false;
  const tags: { name: string; values: readonly string[] }[] = [];
  // Each answer is sorted.
  const names = [...valuesOfName.keys()];
  const sorted = answers.length === 1 ? names : await sortPaced(names, compareTexts, work);
  for (const name of sorted) {
    if (work.spend(nameUnits)) await work.pause();
    if (left === 0) {
      isCut = true;
      break;
    }
    left--;
    const values = valuesOfName.get(name)!;
    if (values.length > left) isCut = true;
    tags.push({ name, values: values.length > left ? values.slice(0, left) : values });
    left -= Math.min(left, values.length);
  }
  return { tags, isCut };
}

/** About what it takes to look a name up, in units of work (lib/turns/turns.ts). */
const nameUnits = 50;
