/** The messages of lib/proto/node.proto and the contract of service.ts, both ways. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { loadProto, type ProtoCodec, type ProtoMessage, type ProtoSchema } from '#lib/env/proto.ts';
import { badRequest } from '#lib/errors.ts';
import { formatLevelFirst, formatLevelNewest } from '#lib/format_level.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { deletionsMax } from '../limits.ts';
import type { BundlePart } from './bundle_pages.ts';
import type {
  AggregateRequest,
  AggregateResponse,
  ComparedShard,
  CompareRowsRequest,
  CompareRowsResponse,
  FetchByIdRequest,
  FetchRequest,
  Introduction,
  NodeHealth,
  StatisticsCount,
  StatisticsRequest,
  StatisticsResponse,
  StreamDifferentRequest,
  NextBlocks,
  StreamShardRequest,
  WriteRequest,
  WriteResponse,
} from './service.ts';
import { heldBlocksMax } from './service.ts';

const schema: ProtoSchema = loadProto(new URL('../../lib/proto/node.proto', import.meta.url));

export const nodePaths = {
  write: '/tsdb.node.v1.Node/Write',
  fetch: '/tsdb.node.v1.Node/Fetch',
  fetchById: '/tsdb.node.v1.Node/FetchById',
  aggregate: '/tsdb.node.v1.Node/Aggregate',
  statistics: '/tsdb.node.v1.Node/Statistics',
  truncate: '/tsdb.node.v1.Node/Truncate',
  streamShard: '/tsdb.node.v1.Node/StreamShard',
  health: '/tsdb.node.v1.Node/Health',
  compareRows: '/tsdb.node.v1.Node/CompareRows',
  streamDifferent: '/tsdb.node.v1.Node/StreamDifferent',
} as const;

/** A message type of one direction: bytes on the wire, a value of the contract inside. */
export interface Wire<T> {
  encode(value: T): Uint8Array;
  /** @throws {TsdbError} BAD_REQUEST */
  decode(bytes: Uint8Array): T;
}

function wire<T>(
  name: string,
  toMessage: (value: T) => ProtoMessage,
  fromMessage: (message: ProtoMessage) => T,
  valuesMax?: number,
): Wire<T> {
  const codec: ProtoCodec = schema.codec(`tsdb.node.v1.${name}`, valuesMax);
  return {
    encode: (value) => codec.encode(toMessage(value)),
    decode: (bytes) => fromMessage(codec.decode(bytes)),
  };
}

/** Fields and items of a request: starts of as many blocks, and all that comes with them. */
const requestValuesMax: number = heldBlocksMax + 2 * deletionsMax + 1_000;

/** Of what a stranger may send to a node. */
function requestWire<T>(
  name: string,
  toMessage: (value: T) => ProtoMessage,
  fromMessage: (message: ProtoMessage) => T,
): Wire<T> {
  return wire(name, toMessage, fromMessage, requestValuesMax);
}

export const writeRequestWire: Wire<WriteRequest> = requestWire(
  'WriteRequest',
  (request) => ({ ...request, formatLevel: formatLevelNewest }),
  (message) => ({
    namespace: message['namespace'],
    namespaceNumber: Number(message['namespaceNumber']),
    placementVersion: message['placementVersion'],
    namespacesRevision: Number(message['namespacesRevision']),
    namespacesLineageId: message['namespacesLineageId'],
    formatLevel: levelOf(message),
    referenceEpoch: message['referenceEpoch'],
    batch: plain(message['batch']),
  }),
);

export const writeResponseWire: Wire<WriteResponse> = wire(
  'WriteResponse',
  (response) => ({ ...response, references: bytesOf(response.references) }),
  (message) => ({
    referenceEpoch: message['referenceEpoch'],
    outcomes: plain(message['outcomes']),
    references: wordsOf(message['references'], 'references'),
    highestVersion: Number(message['highestVersion']),
    deletionVersion: Number(message['deletionVersion']),
    formatLevelWritten: message['formatLevelWritten'],
  }),
);

export const fetchRequestWire: Wire<FetchRequest> = requestWire(
  'FetchRequest',
  (request) => ({
    ...request,
    formatLevel: formatLevelNewest,
    query: queryToMessage(request.query),
    shards: request.shards === null ? null : bytesOf(request.shards),
    allShards: request.shards === null,
  }),
  (message) => ({
    namespace: message['namespace'],
    formatLevel: levelOf(message),
    namespaceNumber: Number(message['namespaceNumber']),
    placementVersion: message['placementVersion'],
    query: queryOf(message['query']),
    startNanos: message['startNanos'],
    endNanos: message['endNanos'],
    shards: message['allShards'] ? null : wordsOf(message['shards'], 'shards'),
    seriesLimit: message['seriesLimit'],
    fetchData: message['fetchData'],
  }),
);

export const fetchByIdRequestWire: Wire<FetchByIdRequest> = requestWire(
  'FetchByIdRequest',
  (request) => ({ ...request, formatLevel: formatLevelNewest }),
  (message) => ({
    namespace: message['namespace'],
    formatLevel: levelOf(message),
    namespaceNumber: Number(message['namespaceNumber']),
    placementVersion: message['placementVersion'],
    ids: (message['ids'] as Uint8Array[]).map(plain),
    startNanos: message['startNanos'],
    endNanos: message['endNanos'],
  }),
);

/** One message of a fetch's answer. */
export interface FetchPage {
  readonly part: BundlePart;
  /** In the last page only. */
  readonly last: { readonly exhaustive: boolean; readonly shards: Uint32Array } | null;
}

export const fetchPageWire: Wire<FetchPage> = wire(
  'FetchPage',
  ({ part, last }) => ({ bundle: partToMessage(part), ...lastToMessage(last) }),
  (message) => ({ part: partOf(message['bundle']), last: lastOf(message) }),
);

export const aggregateRequestWire: Wire<AggregateRequest> = requestWire(
  'AggregateRequest',
  (request) => ({ ...request, query: queryToMessage(request.query) }),
  (message) => ({
    namespace: message['namespace'],
    namespaceNumber: Number(message['namespaceNumber']),
    placementVersion: message['placementVersion'],
    query: queryOf(message['query']),
    startNanos: message['startNanos'],
    endNanos: message['endNanos'],
    tagNames: message['tagNames'],
    namesOnly: message['namesOnly'],
    joined: message['joined'],
    limit: message['limit'],
  }),
);

/**
 * One message of an aggregation's answer; the first tag may continue the last one of the page
 * before.
 */
export interface AggregatePage {
  readonly tags: AggregateResponse['tags'];
  readonly last: { readonly exhaustive: boolean; readonly shards: Uint32Array } | null;
}

export const aggregatePageWire: Wire<AggregatePage> = wire(
  'AggregatePage',
  ({ tags, last }) => ({ tags, ...lastToMessage(last) }),
  (message) => ({ tags: message['tags'], last: lastOf(message) }),
);

export const statisticsRequestWire: Wire<StatisticsRequest> = requestWire(
  'StatisticsRequest',
  (request) => ({
    ...request,
    shards: request.shards === null ? null : bytesOf(request.shards),
    allShards: request.shards === null,
  }),
  (message) => ({
    namespace: message['namespace'],
    namespaceNumber: Number(message['namespaceNumber']),
    placementVersion: message['placementVersion'],
    shards: message['allShards'] ? null : wordsOf(message['shards'], 'shards'),
    limit: message['limit'],
    metricName: message['metricName'],
    withSketches: message['withSketches'],
  }),
);

const statisticsLists = [
  'valuesByName',
  'seriesByName',
  'seriesByPair',
  'seriesByMetric',
  'bytesByName',
] as const;

export const statisticsResponseWire: Wire<StatisticsResponse> = wire(
  'StatisticsResponse',
  (response) => ({
    ...response,
    ...Object.fromEntries(
      statisticsLists.map((list) => [
        list,
        response[list].map((row) => ({ ...row, sketch: bytesOf(row.sketch) })),
      ]),
    ),
    nameSketch: bytesOf(response.nameSketch),
    pairSketch: bytesOf(response.pairSketch),
    shardsWhole: bytesOf(response.shards),
  }),
  (message) => {
    const list = (name: (typeof statisticsLists)[number]): StatisticsCount[] =>
      (message[name] as ProtoMessage[]).map((row) => ({
        name: row['name'],
        value: row['value'],
        count: Number(row['count']),
        sketch: wordsOf(row['sketch'], `${name}.sketch`),
      }));
    return {
      seriesCount: Number(message['seriesCount']),
      nameCount: Number(message['nameCount']),
      pairCount: Number(message['pairCount']),
      valuesByName: list('valuesByName'),
      seriesByName: list('seriesByName'),
      seriesByPair: list('seriesByPair'),
      seriesByMetric: list('seriesByMetric'),
      bytesByName: list('bytesByName'),
      nameSketch: wordsOf(message['nameSketch'], 'name_sketch'),
      pairSketch: wordsOf(message['pairSketch'], 'pair_sketch'),
      openBlocks: Number(message['openBlocks']),
      startNanos: message['startNanos'],
      endNanos: message['endNanos'],
      created: Number(message['created']),
      removed: Number(message['removed']),
      createdLastHour: Number(message['createdLastHour']),
      removedLastHour: Number(message['removedLastHour']),
      shards: wordsOf(message['shardsWhole'], 'shards_whole'),
    };
  },
);

export const truncateRequestWire: Wire<string> = requestWire(
  'TruncateRequest',
  (namespace) => ({ namespace }),
  (message) => message['namespace'],
);

export const truncateResponseWire: Wire<number> = wire(
  'TruncateResponse',
  (seriesCount) => ({ seriesCount }),
  (message) => Number(message['seriesCount']),
);

export const streamShardRequestWire: Wire<StreamShardRequest> = requestWire(
  'StreamShardRequest',
  (request) => ({ ...request }),
  (message) => ({
    namespace: message['namespace'],
    namespaceNumber: Number(message['namespaceNumber']),
    shard: message['shard'],
    placementVersion: message['placementVersion'],
    deletionSequence: Number(message['deletionSequence']),
    deletionVersions: message['deletionVersions'].map(Number),
    blockStartsNanos: message['blockStartsNanos'],
    damagedToo: message['damagedToo'],
    ...(message['next'] === null ? {} : { next: nextBlocksOf(message['next']) }),
  }),
);

function nextBlocksOf(message: ProtoMessage): NextBlocks {
  return {
    fromNanos: message['fromNanos'],
    heldStartsNanos: message['heldStartsNanos'],
    blocksMax: message['blocksMax'],
  };
}

/** A part of a page; `more` says that the page goes on in the next message. */
export const streamShardPageWire: Wire<{ readonly part: BundlePart; readonly more: boolean }> =
  wire(
    'StreamShardPage',
    ({ part, more }) => ({ bundle: partToMessage(part), more }),
    (message) => ({ part: partOf(message['bundle']), more: message['more'] }),
  );

export const healthRequestWire: Wire<Introduction | null> = requestWire(
  'HealthRequest',
  (of) => ({ of }),
  (message) => introductionOf(message['of']),
);

function introductionOf(message: ProtoMessage | null): Introduction | null {
  if (message === null) return null;
  return {
    instanceId: message['instanceId'],
    incarnation: message['incarnation'],
    bootCount: Number(message['bootCount']),
    mark: message['mark'],
    markBefore: message['markBefore'],
    placementVersion: message['placementVersion'],
    lineageId: message['lineageId'],
    asks: message['asks'],
    deletionSequence: Number(message['deletionSequence']),
  };
}

export const healthResponseWire: Wire<NodeHealth> = wire(
  'HealthResponse',
  (health) => ({ ...health }),
  (message) => ({
    ok: message['ok'],
    status: message['status'],
    bootstrapped: message['bootstrapped'],
    writesRefused: message['writesRefused'],
    instanceId: message['instanceId'],
    incarnation: message['incarnation'],
    bootCount: Number(message['bootCount']),
    placementVersion: message['placementVersion'],
    namespacesRevision: Number(message['namespacesRevision']),
    lineageId: message['lineageId'],
    unixNanos: message['unixNanos'],
    retires: message['retires'],
    formatLevel: levelOf(message),
    formatLevelWritten: message['formatLevelWritten'] || formatLevelFirst,
    formatLevelOfReaders: message['formatLevelOfReaders'] || formatLevelFirst,
    blocksLacking: message['blocksLacking'],
    shardsLacking: message['shardsLacking'],
    blocksLost: message['blocksLost'],
    vouches: message['vouches'],
  }),
);

/** Release 0.1.0 does not say it. */
function levelOf(message: ProtoMessage): number {
  return message['formatLevel'] || formatLevelFirst;
}

function comparedOf(message: ProtoMessage | null): ComparedShard {
  if (message === null) throw badRequest('cannot compare rows: of is missing');
  return {
    namespace: message['namespace'],
    namespaceNumber: Number(message['namespaceNumber']),
    shard: message['shard'],
    placementVersion: message['placementVersion'],
    deletionSequence: Number(message['deletionSequence']),
    retentionNanos: message['retentionNanos'],
    deletionVersions: message['deletionVersions'].map(Number),
  };
}

export const compareRowsRequestWire: Wire<CompareRowsRequest> = requestWire(
  'CompareRowsRequest',
  ({ blockStartsNanos, rangeBits, ...of }) => ({
    of,
    blockStartsNanos,
    withRanges: rangeBits !== null,
    rangeBits: rangeBits ?? 0,
  }),
  (message) => ({
    ...comparedOf(message['of']),
    blockStartsNanos: message['blockStartsNanos'],
    rangeBits: message['withRanges'] === true ? message['rangeBits'] : null,
  }),
);

export const compareRowsResponseWire: Wire<CompareRowsResponse> = wire(
  'CompareRowsResponse',
  (response) => ({
    ...response,
    roots: bytesOf(response.roots),
    ranges: bytesOf(response.ranges),
  }),
  (message) => ({
    states: plain(message['states']),
    roots: longsOf(message['roots'], 'roots'),
    rangeBits: message['rangeBits'],
    ranges: longsOf(message['ranges'], 'ranges'),
  }),
);

export const streamDifferentRequestWire: Wire<StreamDifferentRequest> = requestWire(
  'StreamDifferentRequest',
  ({ blockStartNanos, rangeBits, ranges, known, salt, namesOnly, ...of }) => ({
    of,
    blockStartNanos,
    rangeBits,
    ranges: bytesOf(ranges),
    knownSteps: stepsOf(known),
    salt,
    namesOnly,
  }),
  (message) => ({
    ...comparedOf(message['of']),
    blockStartNanos: message['blockStartNanos'],
    rangeBits: message['rangeBits'],
    ranges: wordsOf(message['ranges'], 'ranges'),
    known: ascendingOf(message['knownSteps']),
    salt: BigInt(message['salt']),
    namesOnly: message['namesOnly'],
  }),
);

/** Of ascending numbers, as varints: small ones, which take few bytes each. */
function stepsOf(ascending: Uint32Array): Uint8Array {
  const bytes = new Uint8Array(5 * ascending.length);
  let end = 0;
  let before = 0;
  for (const number of ascending) {
    let step = number - before;
    before = number;
    for (; step >= 0x80; step >>>= 7) bytes[end++] = (step & 0x7f) | 0x80;
    bytes[end++] = step;
  }
  return bytes.subarray(0, end);
}

/** @throws {TsdbError} BAD_REQUEST when their sum has more than 32 bits, or one has no end */
function ascendingOf(steps: Uint8Array): Uint32Array {
  let count = 0;
  for (const byte of steps) if (byte < 0x80) count++;
  const ascending = new Uint32Array(count);
  let sum = 0;
  let at = 0;
  for (let i = 0; i < count; i++) {
    let place = 1;
    for (; steps[at]! >= 0x80; at++, place *= 0x80) sum += (steps[at]! & 0x7f) * place;
    sum += steps[at++]! * place;
    if (sum > 0xffff_ffff) {
      throw badRequest(`known_steps: their sum has more than 32 bits: ${sum}`);
    }
    ascending[i] = sum;
  }
  if (at !== steps.length) throw badRequest(`known_steps: the last has no end: ${steps.length}`);
  return ascending;
}

function lastToMessage(last: FetchPage['last']): ProtoMessage {
  if (last === null) return { last: false };
  return { last: true, exhaustive: last.exhaustive, shards: bytesOf(last.shards) };
}

function lastOf(message: ProtoMessage): FetchPage['last'] {
  if (message['last'] !== true) return null;
  return { exhaustive: message['exhaustive'], shards: wordsOf(message['shards'], 'shards') };
}

function partToMessage({ bundle, continues }: BundlePart): ProtoMessage {
  return {
    ...bundle,
    tagsOffset: bytesOf(bundle.tagsOffset),
    idOffset: bytesOf(bundle.idOffset),
    chunkOffset: bytesOf(bundle.chunkOffset),
    continues,
  };
}

function partOf(message: ProtoMessage | null): BundlePart {
  if (message === null) throw badRequest('cannot read page: bundle is missing');
  const bundle: SeriesBundle = {
    seriesCount: message['seriesCount'],
    tagsData: plain(message['tagsData']),
    tagsOffset: wordsOf(message['tagsOffset'], 'tags_offset'),
    idScheme: plain(message['idScheme']),
    idData: plain(message['idData']),
    idOffset: wordsOf(message['idOffset'], 'id_offset'),
    chunkData: plain(message['chunkData']),
    chunkOffset: wordsOf(message['chunkOffset'], 'chunk_offset'),
  };
  return { bundle, continues: message['continues'] };
}

function queryToMessage(query: IndexQuery): ProtoMessage {
  switch (query.kind) {
    case 'term':
      return { term: { field: query.field, term: query.term } };
    case 'regexp':
      return { regexp: { field: query.field, regexp: query.regexp } };
    case 'field':
      return { field: { field: query.field } };
    case 'all':
      return { all: {} };
    case 'conjunction':
    case 'disjunction':
      return { [query.kind]: { queries: query.queries.map(queryToMessage) } };
    case 'negation':
      return { negation: queryToMessage(query.query) };
    default:
      return query satisfies never;
  }
}

function queryOf(message: ProtoMessage | null): IndexQuery {
  const kind = message?.['kind'] as IndexQuery['kind'] | undefined;
  if (message === null || kind === undefined) throw badRequest('query: no query type specified');
  const body = message[kind] as ProtoMessage;
  switch (kind) {
    case 'term':
      return { kind, field: body['field'], term: body['term'] };
    case 'regexp':
      return { kind, field: body['field'], regexp: body['regexp'] };
    case 'field':
      return { kind, field: body['field'] };
    case 'all':
      return { kind };
    case 'conjunction':
    case 'disjunction':
      return { kind, queries: (body['queries'] as ProtoMessage[]).map(queryOf) };
    case 'negation':
      return { kind, query: queryOf(body) };
    default:
      return kind satisfies never;
  }
}

/** A view that is no Buffer: `slice` of a Buffer does not copy, which nobody expects of bytes. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}

function bytesOf(words: Uint32Array | BigUint64Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

function wordsOf(bytes: Uint8Array, field: string): Uint32Array {
  if (bytes.length % 4 !== 0) {
    throw badRequest(`${field}: length is not a multiple of 4 bytes: ${bytes.length}`);
  }
  // A message begins anywhere; a column of words has to be aligned.
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length >>> 2);
}

function longsOf(bytes: Uint8Array, field: string): BigUint64Array {
  if (bytes.length % 8 !== 0) {
    throw badRequest(`${field}: length is not a multiple of 8 bytes: ${bytes.length}`);
  }
  const aligned = bytes.byteOffset % 8 === 0 ? bytes : new Uint8Array(bytes);
  return new BigUint64Array(aligned.buffer, aligned.byteOffset, aligned.length >>> 3);
}
