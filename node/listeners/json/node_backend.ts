/** The JSON methods on this node alone. */
import { type Namespace, writeRulesOf } from '#cluster/namespaces/namespaces.ts';
import { type Schemas, schemasOf } from '#cluster/namespaces/schemas.ts';
import {
  type NodeHealth,
  type NodeService,
  rowOutcome,
  type TimeRange,
  type WriteRequest,
  type WriteResponse,
} from '#cluster/node/service.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { missOfWindow, writeWindow } from '#lib/block_time.ts';
import type { Env } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { badRequest, TsdbError, shownText } from '#lib/errors.ts';
import { HybridClock } from '#lib/hybrid_clock.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { formatDurationNanos } from '#lib/time.ts';
import type {
  BootstrapState,
  JsonAggregate,
  JsonBackend,
  JsonFlushed,
  JsonQuery,
  JsonRow,
  JsonSeries,
  JsonTags,
  JsonFetched,
  NodeLimits,
} from './backend.ts';
import { atRow } from './backend.ts';
import { otherTagsError } from './other_tags.ts';

/** What a flush on demand did. */
interface Flushed
  extends Omit<JsonFlushed, 'snapshotSeries' | 'snapshotBytes' | 'segmentsDeleted'> {
  readonly snapshot: {
    readonly series: number;
    readonly bytes: number;
    readonly segmentsDeleted: number;
  };
}

/** What of the node the methods take besides its contract. */
export interface NodeParts
  extends Pick<NodeService, 'write' | 'fetch' | 'fetchById' | 'aggregate' | 'truncate' | 'health'> {
  readonly env: Pick<Env, 'clock'>;
  readonly isBootstrapped: boolean;
  readonly isServing: boolean;
  readonly shards: {
    readonly version: number;
    readonly isKnown: boolean;
    all(): readonly unknown[];
  };
  readonly namespaces: ReadonlyMap<
    string,
    Pick<Namespace, 'options'> & { readonly definition: Namespace }
  >;
  flush(namespaces: readonly string[] | null, signal: AbortSignal): Promise<Flushed>;
}

/** Longest read; until its answer is sent it may take longer. */
const readMillisMax = 60_000;

export class NodeBackend implements JsonBackend {
  readonly limits: NodeLimits;
  readonly #node: NodeParts;
  readonly #demandRepair: () => void;
  readonly #builder = new BatchBuilder();
  readonly #versions: HybridClock;

  /** @param demandRepair begins a round of comparisons with other replicas */
  constructor(node: NodeParts, demandRepair: () => void, limits: NodeLimits) {
    this.limits = limits;
    this.#node = node;
    this.#demandRepair = demandRepair;
    this.#versions = new HybridClock(node.env.clock);
  }

  async write(namespace: string, row: JsonRow, signal: AbortSignal): Promise<void> {
    const builder = this.#builder;
    const node = this.#node;
    builder.begin(this.#versions.next());
    builder.addSeries(row.tags, idSchemeCode.explicit, row.id);
    const [slots, generations] = [new Uint32Array(1), new Uint32Array(1)];
    const timestamps = BigInt64Array.of(row.nanos);
    const { value } = row;
    if (typeof value === 'number') {
      builder.setRows(1, slots, generations, timestamps, 1, Float64Array.of(value));
    } else {
      builder.setRows(0, slots, generations, timestamps, 1, new Float64Array(0));
      builder.setTypedRows({
        ...{ rowCount: 1, slots, generations, timestamps, timeUnitNanos: 1 },
        startNanos: new BigInt64Array(1),
        valueEnds: Uint32Array.of(value.length),
        valueBytes: value,
      });
    }
    const request = {
      namespace,
      placementVersion: node.shards.version,
      referenceEpoch: '',
      batch: builder.finish(),
    };
    const { outcomes, highestVersion } = await this.#send(request, signal);
    this.#versions.raise(highestVersion);
    const outcome = outcomes[0] ?? rowOutcome.written;
    if (outcome === rowOutcome.written) return;
    if (outcome === rowOutcome.otherTags) {
      const stored = () => this.fetchById(namespace, row.id, atRow(row), signal, {});
      throw await otherTagsError(row, stored);
    }
    throw this.#refusal(namespace, row, outcome);
  }

  async #send(request: WriteRequest, signal: AbortSignal): Promise<WriteResponse> {
    try {
      return await this.#node.write(request, signal);
    } catch (error) {
      // The clock may have been set back since: the next row goes by what it shows now.
      const isAhead = error instanceof TsdbError && error.code === 'FAILED_PRECONDITION';
      if (isAhead) this.#versions.nextAfterRefusal();
      throw error;
    }
  }

  #refusal(namespace: string, row: JsonRow, outcome: number): TsdbError {
    const id = shownText(new TextDecoder().decode(row.id));
    const { options } = this.#node.namespaces.get(namespace) ?? {};
    const now = this.#node.env.clock.nowNanos();
    const window =
      options === undefined
        ? { startNanos: now, endNanos: now }
        : writeWindow(writeRulesOf(options), now);
    const missed = (side: 'tooFarPast' | 'tooFarFuture', name: string): TsdbError => {
      const { limitNanos, offByNanos } = missOfWindow(window, row.nanos, side);
      return badRequest(
        `datapoint too far in ${name}: id=${id}, off_by=${formatDurationNanos(offByNanos)}, ` +
          `timestamp=${row.nanos}, ${name}_limit=${limitNanos}`,
      );
    };
    switch (outcome) {
      case rowOutcome.tooFarPast:
        return missed('tooFarPast', 'past');
      case rowOutcome.tooFarFuture:
        return missed('tooFarFuture', 'future');
      case rowOutcome.shardNotOwned:
        return badRequest(`cannot write: the shard of the series is not of this node: id=${id}`);
      case rowOutcome.resourceExhausted:
        return new TsdbError('RESOURCE_EXHAUSTED', 'cannot write: memory or series limit reached');
      case rowOutcome.otherSchema:
        return new TsdbError('UNAVAILABLE', `cannot write: the schema is changing: id=${id}`);
      case rowOutcome.badValue:
        return badRequest(`cannot write: the value is no message of its schema: id=${id}`);
      case rowOutcome.badSeries:
        return badRequest(`cannot write: the series is malformed: id=${id}`);
      default:
        return new TsdbError('UNAVAILABLE', 'cannot write: the placement is changing');
    }
  }

  async fetchById(
    namespace: string,
    id: Uint8Array,
    range: TimeRange,
    signal: AbortSignal,
    delivery: Delivery,
  ): Promise<JsonFetched> {
    const request = { namespace, placementVersion: 0, ids: [id], ...range };
    const { bundle } = await this.#inTime(signal, (until) =>
      this.#node.fetchById(request, until, delivery),
    );
    return { bundle, warnings: [] };
  }

  /** Nobody names a deadline here. */
  async #inTime<T>(signal: AbortSignal, read: (until: AbortSignal) => Promise<T>): Promise<T> {
    const child = new ChildSignal(signal);
    try {
      return await read(this.#node.env.clock.deadline(readMillisMax, child.signal));
    } finally {
      child.end();
    }
  }

  async query(query: JsonQuery, signal: AbortSignal, delivery: Delivery): Promise<JsonSeries> {
    const request = {
      namespace: query.namespace,
      placementVersion: 0,
      query: query.query,
      shards: null,
      seriesLimit: query.seriesLimit,
      fetchData: query.fetchData,
      startNanos: query.startNanos,
      endNanos: query.endNanos,
    };
    const answer = await this.#inTime(signal, (until) =>
      this.#node.fetch(request, until, delivery),
    );
    if (query.requireExhaustive && !answer.exhaustive) throw overLimit(query.seriesLimit);
    return this.#wholeOrNot(answer, query);
  }

  async aggregate(
    query: JsonAggregate,
    signal: AbortSignal,
    delivery: Delivery,
  ): Promise<JsonTags> {
    const request = { ...query, placementVersion: 0 };
    const answer = await this.#inTime(signal, (until) =>
      this.#node.aggregate(request, until, delivery),
    );
    if (query.requireExhaustive && !answer.exhaustive) throw overLimit(query.limit);
    return this.#wholeOrNot(answer, query);
  }

  /**
   * An answer without some of this node's shards, which it is still fetching, is not exhaustive.
   * @throws {TsdbError} UNAVAILABLE when it has to be
   */
  #wholeOrNot<Answer extends { exhaustive: boolean; shards: Uint32Array }>(
    answer: Answer,
    { requireExhaustive }: { readonly requireExhaustive: boolean },
  ): Answer {
    const missing = this.#node.shards.all().length - answer.shards.length;
    if (missing <= 0) return answer;
    if (requireExhaustive) {
      throw new TsdbError(
        'UNAVAILABLE',
        `the answer is not exhaustive: ${missing} shards are not yet bootstrapped to read`,
      );
    }
    return { ...answer, exhaustive: false };
  }

  truncate(namespace: string, signal: AbortSignal): Promise<number> {
    return this.#node.truncate(namespace, signal);
  }

  async flush(namespaces: readonly string[] | null, signal: AbortSignal): Promise<JsonFlushed> {
    const { snapshot, ...flushed } = await this.#node.flush(namespaces, signal);
    return {
      ...flushed,
      snapshotSeries: snapshot.series,
      snapshotBytes: snapshot.bytes,
      segmentsDeleted: snapshot.segmentsDeleted,
    };
  }

  repair(): void {
    this.#demandRepair();
  }

  schemas(namespace: string): Schemas | null {
    return schemasOf(this.#node.namespaces.get(namespace)?.definition ?? {});
  }

  /** A node hears of them by its watch alone. */
  async renewSchemas(): Promise<void> {}

  hasNamespace(name: string): boolean {
    return this.#node.namespaces.has(name);
  }

  health(signal: AbortSignal): Promise<NodeHealth> {
    return this.#node.health(signal);
  }

  bootstrapState(): BootstrapState {
    const { shards } = this.#node;
    return {
      mayOwnShards: !shards.isKnown || shards.all().length > 0,
      bootstrapped: this.#node.isBootstrapped,
      serves: this.#node.isServing,
    };
  }
}

function overLimit(limit: number): TsdbError {
  return badRequest(`query exceeded limit: require_exhaustive=true, limit=${limit}`);
}
