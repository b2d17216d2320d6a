/**
 * The node contract answered by the whole cluster, for gRPC on 9001: clients in any language send
 * batches with dictionaries and read without knowing the placement; the session does the rest.
 */
import type { Truncations } from '#cluster/metadata/truncations.ts';
import {
  type AggregateRequest,
  type AggregateResponse,
  type FetchByIdRequest,
  type FetchRequest,
  type FetchResponse,
  type NodeHealth,
  type NodeService,
  rowOutcome,
  type StatisticsRequest,
  type StatisticsResponse,
  type StreamShardPage,
  type WriteRequest,
  type WriteResponse,
} from '#cluster/node/service.ts';
import type { SeriesTable, Session } from '#cluster/session/session.ts';
import type { TopologySource } from '#cluster/topology/topology.ts';
import { writeOutcome } from '#cluster/session/outcomes/write_result.ts';
import {
  type BatchView,
  readTypedBatch,
  rowsOfBatch,
  type TimeUnitNanos,
} from '#engine/batch/batch.ts';
import { badRequest } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { type Delivery, readHeld } from '#lib/read_memory/delivery.ts';
import type { ReadMemory } from '#lib/read_memory/read_memory.ts';
import { checkedId } from '#lib/series_id/series_name.ts';

/** This node: for the answer to a health check, which says what its readers read. */
interface NodeBehind extends Pick<NodeService, 'health'> {
  readonly readers: { note(formatLevel: number | undefined): void };
}

export class ClusterService implements NodeService {
  readonly #session: Session;
  readonly #memory: ReadMemory;
  readonly #topology: TopologySource;
  readonly #truncations: Pick<Truncations, 'truncate'>;
  readonly #node: NodeBehind;

  constructor(
    session: Session,
    memory: ReadMemory,
    topology: TopologySource,
    truncations: Pick<Truncations, 'truncate'>,
    node: NodeBehind,
  ) {
    this.#session = session;
    this.#memory = memory;
    this.#topology = topology;
    this.#truncations = truncations;
    this.#node = node;
  }

  /**
   * Every row names its dictionary entry: the cluster gives no references, and answers (0, 0) for
   * each.
   */
  async write(request: WriteRequest, signal: AbortSignal): Promise<WriteResponse> {
    const batch = readTypedBatch(request.batch);
    const series = new DictionarySeries(batch);
    const parts = rowsOfBatch(batch).map(({ rows }) => {
      for (let row = 0; row < rows.rowCount; row += 1) {
        if (rows.generations[row] !== 0) {
          throw badRequest(`cannot write to the cluster: row ${row} names no dictionary entry`);
        }
      }
      const timeUnitNanos = rows.timeUnitNanos as TimeUnitNanos;
      const generations = rows.generations.map(() => 1);
      return { ...rows, timeUnitNanos, generations, mayBeRefused: true };
    });
    const results = await Promise.all(
      parts.map((rows) => this.#session.write(request.namespace, rows, series, signal)),
    );
    const isWhole = results.every(({ rowCount, writtenCount }) => rowCount === writtenCount);
    const outcomes = isWhole
      ? []
      : results.flatMap(({ rowCount, outcomes: some }) =>
          some === null ? new Array<number>(rowCount).fill(rowOutcome.written) : [...some],
        );
    return {
      referenceEpoch: '',
      outcomes: Uint8Array.from(outcomes, rowOutcomeOf),
      references: new Uint32Array(2 * batch.seriesCount),
      // The session gives the versions.
      highestVersion: 0,
    };
  }

  fetch(
    request: FetchRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<FetchResponse> {
    this.#node.readers.note(request.formatLevel);
    return readHeld(this.#memory, delivery, signal, async (memory) => {
      const options = { ...request, requireExhaustive: false, memory };
      const { bundle, exhaustive, warnings } = await this.#session.fetch(options, signal);
      return { bundle, exhaustive, shards: this.#wholeShards(warnings) };
    });
  }

  fetchById(
    request: FetchByIdRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<FetchResponse> {
    this.#node.readers.note(request.formatLevel);
    return readHeld(this.#memory, delivery, signal, async (memory) => {
      const options = { ...request, memory };
      const { bundle, exhaustive, warnings } = await this.#session.fetchById(options, signal);
      return { bundle, exhaustive, shards: this.#wholeShards(warnings) };
    });
  }

  aggregate(
    request: AggregateRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<AggregateResponse> {
    return readHeld(this.#memory, delivery, signal, async (memory) => {
      const options = { ...request, requireExhaustive: false, memory };
      const { tags, exhaustive, warnings } = await this.#session.aggregate(options, signal);
      return { tags, exhaustive, shards: this.#wholeShards(warnings) };
    });
  }

  /**
   * Of all shards, whatever the request names: the cluster's numbers cannot be joined with others.
   */
  async statistics(request: StatisticsRequest, signal: AbortSignal): Promise<StatisticsResponse> {
    const { instances: _, ...found } = await this.#session.statistics(request, signal);
    const none = new Uint32Array(0);
    return { ...found, nameSketch: none, pairSketch: none, shards: this.#allShards() };
  }

  truncate(namespace: string, signal: AbortSignal): Promise<number> {
    return this.#truncations.truncate(namespace, signal);
  }

  // oxlint-disable-next-line require-yield -- the contract's stream, which a cluster has not
  async *streamShard(): AsyncGenerator<StreamShardPage, void, undefined> {
    throw badRequest('cannot stream a shard of the cluster: ask the node that owns it');
  }

  health(signal: AbortSignal): Promise<NodeHealth> {
    return this.#node.health(signal);
  }

  /** None when fewer replicas answered than the level asks for: it is not told of which shards. */
  #wholeShards(warnings: readonly string[]): Uint32Array {
    return warnings.length === 0 ? this.#allShards() : new Uint32Array(0);
  }

  #allShards(): Uint32Array {
    const count = this.#topology.view.placement?.numShards ?? 0;
    return Uint32Array.from({ length: count }, (_, shard) => shard);
  }
}

/** The dictionary of a batch as the session's series table: slots are its ordinals. */
class DictionarySeries implements SeriesTable {
  readonly isOfOneWrite = true;
  readonly idHash: Uint32Array;
  readonly generation: Uint32Array;
  readonly refused: Uint8Array;
  readonly #batch: BatchView;

  constructor(batch: BatchView) {
    const { seriesCount } = batch;
    this.#batch = batch;
    this.idHash = new Uint32Array(seriesCount);
    this.generation = new Uint32Array(seriesCount).fill(1);
    this.refused = new Uint8Array(seriesCount);
    for (let i = 0; i < seriesCount; i += 1) {
      const id = checkedId({
        idScheme: batch.seriesIdScheme(i),
        tags: batch.seriesTags(i),
        explicitId: batch.seriesId(i),
      });
      if (id === null) this.refused[i] = 1;
      else this.idHash[i] = murmur3(id);
    }
  }

  problem(slot: number): string {
    return this.refused[slot] === 1 ? 'the series is malformed' : '';
  }

  tags(slot: number): Uint8Array {
    return this.#batch.seriesTags(slot);
  }

  idScheme(slot: number): number {
    return this.#batch.seriesIdScheme(slot);
  }

  explicitId(slot: number): Uint8Array {
    return this.#batch.seriesId(slot);
  }
}

/** The session's outcome of a row in the words of the contract. */
function rowOutcomeOf(outcome: number): number {
  switch (outcome) {
    case writeOutcome.refused:
    case writeOutcome.badRequest:
      return rowOutcome.badSeries;
    case writeOutcome.unavailable:
    case writeOutcome.clockAhead:
      return rowOutcome.resourceExhausted;
    default:
      return outcome;
  }
}
