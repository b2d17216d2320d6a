/**
 * The thick client: writes rows to every replica of their shards and counts acknowledgements, reads
 * from replicas and joins their answers, both by a consistency level. Nodes are reached through
 * `NodeService`, in this process or over gRPC.
 */
import type { Tracing } from '#lib/tracing/tracing.ts';
import { SessionReader } from './read.ts';
import type {
  AggregateOptions,
  AggregateResult,
  FetchByIdOptions,
  FetchOptions,
  FetchResult,
  SeriesTable,
  SessionOptions,
  SessionRows,
  SessionTypedRows,
  WriteOptions,
} from './types.ts';
import { SessionWriter } from './write.ts';
import type { ClusterStatistics, StatisticsPlan } from './statistics.ts';
import type { WriteResult } from './outcomes/write_result.ts';

export type * from './types.ts';

export class Session {
  readonly #writer: SessionWriter;
  readonly #reader: SessionReader;
  readonly #tracing: Tracing | null;

  constructor(options: SessionOptions) {
    this.#tracing = options.tracing ?? null;
    this.#writer = new SessionWriter(options);
    this.#reader = new SessionReader(options);
  }

  /**
   * Writes rows to a namespace. The columns of `rows` are read before this returns its promise.
   *
   * @param series what the slots of the rows mean; read again when a node asks for series
   * @returns the outcome of each row
   * @throws {TsdbError} NOT_FOUND unknown namespace, UNAVAILABLE no placement, RESOURCE_EXHAUSTED
   *   too much on its way; nothing was sent then. The signal's reason when it aborts before the
   *   outcome is known.
   */
  write(
    namespace: string,
    rows: SessionRows | SessionTypedRows,
    series: SeriesTable,
    signal: AbortSignal,
    options: WriteOptions = {},
  ): Promise<WriteResult> {
    const write = () => this.#writer.write(namespace, rows, series, signal, options);
    return this.#traced('write', namespace, write);
  }

  /**
   * Series that match, with their chunks.
   * @throws {TsdbError} UNAVAILABLE or DEADLINE_EXCEEDED when the consistency level is not reached,
   *   BAD_REQUEST, RESOURCE_EXHAUSTED
   */
  fetch(options: FetchOptions, signal: AbortSignal): Promise<FetchResult> {
    return this.#traced('fetch', options.namespace, () => this.#reader.fetch(options, signal));
  }

  /** Series of these IDs; unknown ones are left out. Rejects as `fetch`. */
  fetchById(options: FetchByIdOptions, signal: AbortSignal): Promise<FetchResult> {
    const fetch = () => this.#reader.fetchById(options, signal);
    return this.#traced('fetchById', options.namespace, fetch);
  }

  /** Tag names and values of series that match. Rejects as `fetch`. */
  aggregate(options: AggregateOptions, signal: AbortSignal): Promise<AggregateResult> {
    const aggregate = () => this.#reader.aggregate(options, signal);
    return this.#traced('aggregate', options.namespace, aggregate);
  }

  /**
   * Cardinality of a namespace: names, values and pairs with the most series, over all shards.
   * @param options most rows of each list, and the tag that holds the metric name
   * @throws {TsdbError} UNAVAILABLE when no replica of some shard answers, DEADLINE_EXCEEDED
   */
  statistics(
    options: Pick<StatisticsPlan, 'namespace' | 'limit' | 'metricName'>,
    signal: AbortSignal,
  ): Promise<ClusterStatistics> {
    return this.#reader.statistics(options, signal);
  }

  #traced<T>(what: string, namespace: string, work: () => Promise<T>): Promise<T> {
    // What no request asks for, as lines of streams and rollups, is not traced.
    if (this.#tracing?.traceparent() === undefined) return work();
    const options = { kind: 'client', attributes: { 'tsdb.namespace': namespace } } as const;
    return this.#tracing.run(`session.${what}`, options, work);
  }

  /** The highest version of this session's writes, and of those of others that it has heard of. */
  get lastVersion(): number {
    return this.#writer.lastVersion;
  }

  /**
   * This process has made a deletion: what it writes from now on is later, also for nodes that hear of
   * the deletion after it, so no versions are derived that would say otherwise.
   */
  noteDeletion(version: number): void {
    this.#writer.noteDeletion(version);
  }

  /** As of `SessionWriter`: typed rows and start times are taken from level 3 on. */
  get formatLevel(): number {
    return this.#writer.formatLevel;
  }

  /** Rows of writes whose outcome is not known yet. */
  get outstandingRows(): number {
    return this.#writer.outstandingRows;
  }
}
