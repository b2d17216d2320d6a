/** The JSON methods on the whole cluster, through a session with its consistency levels. */
import type { Truncations } from '#cluster/metadata/truncations.ts';
import { type Schemas, schemasOf } from '#cluster/namespaces/schemas.ts';
import type { TimeRange } from '#cluster/node/service.ts';
import type { SeriesTable, Session } from '#cluster/session/session.ts';
import type { TopologySource } from '#cluster/topology/topology.ts';
import {
  describeOutcome,
  isRetryable,
  writeOutcome,
} from '#cluster/session/outcomes/write_result.ts';
import { badRequest, TsdbError, shownText } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { type Delivery, readHeld } from '#lib/read_memory/delivery.ts';
import type { ReadMemory } from '#lib/read_memory/read_memory.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import type {
  JsonAggregate,
  JsonBackend,
  JsonQuery,
  JsonRow,
  JsonSeries,
  JsonTags,
  JsonFetched,
} from './backend.ts';
import { atRow } from './backend.ts';
import { otherTagsError } from './other_tags.ts';

export class ClusterBackend implements JsonBackend {
  readonly limits = null;
  readonly #session: Session;
  readonly #memory: ReadMemory;
  readonly #topology: TopologySource;
  readonly #truncations: Pick<Truncations, 'truncate'>;

  constructor(
    session: Session,
    memory: ReadMemory,
    topology: TopologySource,
    truncations: Pick<Truncations, 'truncate'>,
  ) {
    this.#session = session;
    this.#memory = memory;
    this.#topology = topology;
    this.#truncations = truncations;
  }

  async write(namespace: string, row: JsonRow, signal: AbortSignal): Promise<void> {
    const columns = {
      rowCount: 1,
      slots: new Uint32Array(1),
      generations: Uint32Array.of(1),
      mayBeRefused: false,
      timestamps: BigInt64Array.of(row.nanos),
      timeUnitNanos: 1 as const,
    };
    const { value } = row;
    const rows =
      typeof value === 'number'
        ? { ...columns, values: Float64Array.of(value) }
        : { ...columns, valueEnds: Uint32Array.of(value.length), valueBytes: value };
    const { outcomes, errors } = await this.#session.write(
      namespace,
      rows,
      new OneSeries(row),
      signal,
    );
    const outcome = outcomes?.[0] ?? writeOutcome.written;
    if (outcome === writeOutcome.written) return;
    if (outcome === writeOutcome.otherTags) {
      const stored = () => this.fetchById(namespace, row.id, atRow(row), signal, {});
      throw await otherTagsError(row, stored);
    }
    const id = shownText(new TextDecoder().decode(row.id));
    const detail = errors.length === 0 ? '' : ` (${errors.join('; ')})`;
    const message = `${describeOutcome(outcome)}: id=${id}, timestamp=${row.nanos}${detail}`;
    if (outcome === writeOutcome.resourceExhausted) {
      throw new TsdbError('RESOURCE_EXHAUSTED', message);
    }
    throw isRetryable(outcome) ? new TsdbError('UNAVAILABLE', message) : badRequest(message);
  }

  fetchById(
    namespace: string,
    id: Uint8Array,
    range: TimeRange,
    signal: AbortSignal,
    delivery: Delivery,
  ): Promise<JsonFetched> {
    return readHeld(this.#memory, delivery, signal, (memory) =>
      this.#session.fetchById({ namespace, ids: [id], ...range, memory }, signal),
    );
  }

  query(query: JsonQuery, signal: AbortSignal, delivery: Delivery): Promise<JsonSeries> {
    const { consistency, ...rest } = query;
    const options = consistency === null ? rest : { ...rest, consistency };
    return readHeld(this.#memory, delivery, signal, async (memory) =>
      wholeOrNot(await this.#session.fetch({ ...options, memory }, signal), query),
    );
  }

  aggregate(query: JsonAggregate, signal: AbortSignal, delivery: Delivery): Promise<JsonTags> {
    return readHeld(this.#memory, delivery, signal, async (memory) =>
      wholeOrNot(await this.#session.aggregate({ ...query, memory }, signal), query),
    );
  }

  truncate(namespace: string, signal: AbortSignal): Promise<number> {
    return this.#truncations.truncate(namespace, signal);
  }

  schemas(namespace: string): Schemas | null {
    return schemasOf(this.#topology.view.namespaces.get(namespace) ?? {});
  }

  async renewSchemas(signal: AbortSignal): Promise<void> {
    await this.#topology.refresh(signal);
  }

  hasNamespace(name: string): boolean {
    return this.#topology.view.namespaces.has(name);
  }

  async health(): Promise<null> {
    return null;
  }

  flush(): Promise<never> {
    return Promise.reject(badRequest('cannot flush: ask each node, at its own address'));
  }

  repair(): never {
    throw badRequest('cannot repair: ask each node, at its own address');
  }

  bootstrapState(): null {
    return null;
  }
}

/**
 * An answer of fewer replicas than its level asks for is not exhaustive.
 * @throws {TsdbError} UNAVAILABLE when it has to be
 */
function wholeOrNot<Answer extends { exhaustive: boolean; warnings: readonly string[] }>(
  answer: Answer,
  { requireExhaustive }: { readonly requireExhaustive: boolean },
): Answer {
  const { warnings } = answer;
  if (warnings.length === 0) return answer;
  if (requireExhaustive) {
    throw new TsdbError('UNAVAILABLE', `the answer is not exhaustive: ${warnings.join('; ')}`);
  }
  return { ...answer, exhaustive: false };
}

/** A series table of one series, for one write. */
class OneSeries implements SeriesTable {
  readonly isOfOneWrite = true;
  readonly idHash: Uint32Array;
  readonly generation: Uint32Array = Uint32Array.of(1);
  readonly refused: Uint8Array = new Uint8Array(1);
  readonly #row: JsonRow;

  constructor(row: JsonRow) {
    this.#row = row;
    this.idHash = Uint32Array.of(murmur3(row.id));
  }

  problem(): string {
    return '';
  }

  tags(): Uint8Array {
    return this.#row.tags;
  }

  idScheme(): number {
    return idSchemeCode.explicit;
  }

  explicitId(): Uint8Array {
    return this.#row.id;
  }
}
