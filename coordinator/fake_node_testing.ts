/**
 * A storage node in a map, for tests of the coordinator: the contract of a node without its engine.
 */
import type {
  AggregateRequest,
  AggregateResponse,
  FetchByIdRequest,
  FetchRequest,
  FetchResponse,
  NodeHealth,
  NodeService,
  StreamShardPage,
  StreamShardRequest,
  WriteRequest,
  WriteResponse,
} from '#cluster/node/service.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { readTypedBatch, rowsOfBatch } from '#engine/batch/batch.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { shardOf } from '#lib/hashing/hash.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, tagValue, type Tags } from '#lib/tags.ts';

export interface FakeSeries {
  readonly id: string;
  readonly tags: Uint8Array;
  readonly decoded: Tags;
  readonly slot: number;
  /** By time: bits of the value, or a typed value. */
  readonly rows: Map<bigint, bigint | Uint8Array>;
  /** By time, Unix nanoseconds. */
  readonly startNanos: Map<bigint, bigint>;
  /** Of its ID, `idSchemeCode`; the quoted one without it. */
  readonly idScheme?: number;
}

export class FakeNode implements NodeService {
  readonly namespaces: Map<string, FakeSeries[]> = new Map();
  /** Decides the outcome of rows before they are taken; 0 is written. */
  outcomeOf: (timestampNanos: bigint, namespace: string) => number = () => rowOutcome.written;
  /** Thrown by every call while it is set. */
  failure: TsdbError | null = null;
  /** Resolves before a fetch is answered. */
  gate: (signal: AbortSignal) => Promise<void> = async () => {};
  writeCount = 0;
  /** What its answers to writes say. */
  formatLevelWritten: number = formatLevelNewest;
  /** What its clock shows; 0 when it does not say. */
  unixNanos: () => bigint = () => 0n;
  /** What the node says of itself; its writes do not look at it. */
  writesRefused = '';
  /** The namespaces that it has adopted; 0 when it does not say. */
  namespacesRevision = 0;
  lineageId = '';
  /** What it says who it is. */
  instanceId = 'fake';
  readonly #shardCount: number;

  constructor(shardCount: number) {
    this.#shardCount = shardCount;
  }

  async write(request: WriteRequest): Promise<WriteResponse> {
    this.#failIfAsked();
    this.writeCount += 1;
    const batch = readTypedBatch(request.batch);
    const all = this.seriesOf(request.namespace);
    const references = new Uint32Array(batch.seriesCount * 2);
    for (let ordinal = 0; ordinal < batch.seriesCount; ordinal += 1) {
      const tags = new Uint8Array(batch.seriesTags(ordinal));
      const idScheme = batch.seriesIdScheme(ordinal);
      const id = seriesIdOf(idScheme, tags, batch.seriesId(ordinal));
      references[ordinal * 2] = slotOf(all, tags, Buffer.from(id!).toString(), idScheme);
      references[ordinal * 2 + 1] = 1;
    }
    const outcomes: number[] = [];
    for (const { kind, rows } of rowsOfBatch(batch)) {
      const bits =
        kind === 'float' ? new BigUint64Array(new Float64Array(rows.values).buffer) : null;
      for (let row = 0; row < rows.rowCount; row += 1) {
        const slot =
          rows.generations[row] === 0 ? references[rows.slots[row]! * 2]! : rows.slots[row]!;
        const nanos = rows.timestamps[row]! * BigInt(rows.timeUnitNanos);
        const outcome = this.outcomeOf(nanos, request.namespace);
        outcomes.push(outcome);
        if (outcome !== rowOutcome.written) continue;
        const value = kind === 'float' ? bits![row]! : typedValueOf(rows, row);
        all[slot]!.rows.set(nanos, value);
        const start = rows.startNanos?.[row] ?? 0n;
        if (start !== 0n) all[slot]!.startNanos.set(nanos, start);
      }
    }
    return {
      referenceEpoch: 'fake.1',
      outcomes: Uint8Array.from(outcomes),
      references,
      highestVersion: 0,
      formatLevelWritten: this.formatLevelWritten,
    };
  }

  async fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchResponse> {
    this.#failIfAsked();
    await this.gate(signal);
    const { shards } = request;
    const shardCount = this.#allShards().length;
    // Each is in one of them, whichever that would be by its ID.
    const isAsked = ({ tags }: { readonly tags: Uint8Array }): boolean =>
      shards === null || shards.includes(shardOf(tags, shardCount));
    const matching = this.seriesOf(request.namespace).filter(
      (one) => takes(request.query, one.decoded) && isAsked(one),
    );
    const { seriesLimit } = request;
    const cut = seriesLimit > 0 ? matching.slice(0, seriesLimit) : matching;
    return {
      bundle: bundleOf(cut, request),
      exhaustive: cut.length === matching.length,
      shards: this.#allShards(),
    };
  }

  async fetchById(_request: FetchByIdRequest): Promise<FetchResponse> {
    throw badRequest('the fake node has no series by ID');
  }

  async aggregate(request: AggregateRequest): Promise<AggregateResponse> {
    this.#failIfAsked();
    const found = new Map<string, Set<string>>();
    for (const { decoded } of this.seriesOf(request.namespace)) {
      if (!takes(request.query, decoded)) continue;
      for (const { name, value } of request.joined ? joinedTags(decoded, request) : decoded) {
        if (!request.joined && request.tagNames.length > 0 && !request.tagNames.includes(name))
          continue;
        found.set(name, (found.get(name) ?? new Set()).add(value));
      }
    }
    const tags = [...found].sort(([a], [b]) => (a < b ? -1 : 1));
    return {
      tags: tags.map(([name, values]) => ({
        name,
        values: request.namesOnly ? [] : [...values].sort(),
      })),
      exhaustive: true,
      shards: this.#allShards(),
    };
  }

  truncate(): Promise<number> {
    return Promise.reject(new TsdbError('INTERNAL', 'sessions do not truncate'));
  }

  // oxlint-disable-next-line require-yield -- a node without files has nothing to stream
  async *streamShard(_request: StreamShardRequest): AsyncIterable<StreamShardPage> {}

  async health(): Promise<NodeHealth> {
    return {
      ok: true,
      status: 'up',
      bootstrapped: true,
      writesRefused: this.writesRefused,
      instanceId: this.instanceId,
      incarnation: 'fake',
      bootCount: 1,
      placementVersion: 1,
      namespacesRevision: this.namespacesRevision,
      lineageId: this.lineageId,
      unixNanos: this.unixNanos(),
      retires: true,
      formatLevel: formatLevelNewest,
      formatLevelWritten: formatLevelNewest,
      formatLevelOfReaders: formatLevelNewest,
      blocksLacking: 0,
      blocksLost: 0,
      shardsLacking: [],
    };
  }

  seriesOf(namespace: string): FakeSeries[] {
    const all = this.namespaces.get(namespace) ?? [];
    this.namespaces.set(namespace, all);
    return all;
  }

  #failIfAsked(): void {
    if (this.failure !== null) throw this.failure;
  }

  #allShards(): Uint32Array {
    return Uint32Array.from({ length: this.#shardCount }, (_, shard) => shard);
  }
}

function typedValueOf(
  { valueBytes, valueEnds }: { valueBytes: Uint8Array; valueEnds: Uint32Array },
  row: number,
): Uint8Array {
  return valueBytes.slice(row === 0 ? 0 : valueEnds[row - 1], valueEnds[row]);
}

function slotOf(all: FakeSeries[], tags: Uint8Array, id: string, idScheme: number): number {
  const known = all.findIndex((one) => Buffer.compare(one.tags, tags) === 0);
  if (known >= 0) return known;
  all.push({
    id,
    tags,
    decoded: decodeTags(tags),
    slot: all.length,
    rows: new Map(),
    startNanos: new Map(),
    idScheme,
  });
  return all.length - 1;
}

function takes(query: IndexQuery, tags: Tags): boolean {
  switch (query.kind) {
    case 'all':
      return true;
    case 'term':
      return tagValue(tags, query.field) === query.term;
    case 'regexp': {
      const value = tagValue(tags, query.field);
      return value !== undefined && compileAnchored(query.regexp).test(value);
    }
    case 'field':
      return tagValue(tags, query.field) !== undefined;
    case 'conjunction':
      return query.queries.length > 0 && query.queries.every((one) => takes(one, tags));
    case 'disjunction':
      return query.queries.some((one) => takes(one, tags));
    case 'negation':
      return !takes(query.query, tags);
    default:
      return query satisfies never;
  }
}

function bundleOf(
  all: readonly FakeSeries[],
  { startNanos, endNanos, fetchData }: FetchRequest,
): SeriesBundle {
  if (all.length === 0) return emptyBundle;
  const chunks = all.map(({ rows }) => {
    const ascending = [...rows]
      .filter(([nanos]) => fetchData && nanos >= startNanos && nanos < endNanos)
      .sort(([a], [b]) => (a < b ? -1 : 1));
    return Buffer.concat([floatChunk(ascending), typedChunk(ascending)]);
  });
  const [tagsData, tagsOffset] = joined(all.map(({ tags }) => tags));
  const [chunkData, chunkOffset] = joined(chunks);
  return {
    seriesCount: all.length,
    tagsData,
    tagsOffset,
    idScheme: Uint8Array.from(all, ({ idScheme = idSchemeCode.quoted }) => idScheme),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(all.length + 1),
    chunkData,
    chunkOffset,
  };
}

type TimedValue = readonly [nanos: bigint, value: bigint | Uint8Array];

function floatChunk(all: readonly TimedValue[]): Uint8Array {
  const rows = all.filter(([, value]) => typeof value === 'bigint');
  if (rows.length === 0) return new Uint8Array(0);
  return encodeRawChunk({
    timestampNanos: BigInt64Array.from(rows, ([nanos]) => nanos),
    values: new Float64Array(BigUint64Array.from(rows, ([, bits]) => bits as bigint).buffer),
    version: 1,
  });
}

function typedChunk(all: readonly TimedValue[]): Uint8Array {
  const rows = all.filter(([, value]) => typeof value !== 'bigint');
  if (rows.length === 0) return new Uint8Array(0);
  let end = 0;
  return encodeTypedRows({
    timestampNanos: BigInt64Array.from(rows, ([nanos]) => nanos),
    valueBytes: Buffer.concat(rows.map(([, value]) => value as Uint8Array)),
    valueEnds: Uint32Array.from(rows, ([, value]) => (end += (value as Uint8Array).length)),
    rowVersions: new Float64Array(rows.length).fill(1),
    startNanos: null,
  });
}

function joined(parts: readonly Uint8Array[]): [Uint8Array, Uint32Array] {
  const offsets = new Uint32Array(parts.length + 1);
  for (const [index, part] of parts.entries()) offsets[index + 1] = offsets[index]! + part.length;
  return [new Uint8Array(Buffer.concat(parts)), offsets];
}

function joinedTags(tags: Tags, { tagNames }: AggregateRequest): Tags {
  const values = tagNames.map((name) => tags.find((tag) => tag.name === name)?.value ?? '');
  return values.includes('') ? [] : [{ name: tagNames.join('.'), value: values.join('.') }];
}
