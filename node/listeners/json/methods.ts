/**
 * The methods of the JSON listeners, on one page: the path is the method's name in lower case;
 * those with a request take POST, the others GET. docs/… of the reference system has the shapes.
 */
import { type ReadConsistency, readConsistencies } from '#cluster/session/consistency.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import { aggregateAnswer, fetchAnswer, fetchTaggedAnswer, queryAnswer } from './answers.ts';
import { type JsonBackend, namespaceOf } from './backend.ts';
import { fetchBatch, writeBatch } from './batches.ts';
import type { JsonFields } from './fields.ts';
import type { JsonAnswer, JsonMethod } from './method.ts';
import { datapointOf, queryOf, rangeOf, tagsOf } from './requests.ts';
import { runtimeMethods } from './runtime_options.ts';
import { valueOf } from './values.ts';

/** Series that one JSON answer may hold when the request names no limit. */
const jsonSeriesMax = 1_000_000;

const empty = '{}\n';

/** Methods of both listeners. */
export const clusterMethods: ReadonlyMap<string, JsonMethod> = new Map<string, JsonMethod>([
  ['/health', { verb: 'GET', call: health }],
  ['/write', { verb: 'POST', call: write }],
  ['/writetagged', { verb: 'POST', call: writeTagged }],
  ['/fetch', { verb: 'POST', call: fetchOne }],
  ['/query', { verb: 'POST', call: query }],
  ['/fetchtagged', { verb: 'POST', call: fetchTagged }],
  ['/aggregate', { verb: 'POST', call: aggregate }],
  ['/truncate', { verb: 'POST', call: truncate }],
]);

/** Calls of M3 that are not here, and what is in their place. */
const elsewhere: Readonly<Record<string, string>> = {
  '/aggregatetiles': 'aggregated namespaces are filled from their samples by themselves',
  '/aggregateraw': 'its queries have an encoding of M3; POST /aggregate',
  '/fetchblocksraw': 'peers take blocks by gRPC; POST /fetchbatchraw',
  '/fetchblocksmetadatarawv2': 'peers compare blocks by gRPC; GET /repair begins it',
  '/debugprofilestart': 'GET /debug/pprof/profile?seconds=5 of the debug listener, 9004',
  '/debugprofilestop': 'GET /debug/pprof/profile?seconds=5 of the debug listener, 9004',
  '/debugindexmemorysegments': 'GET /debug/dump of the debug listener, 9004',
};

export const nodeMethods: ReadonlyMap<string, JsonMethod> = new Map<string, JsonMethod>([
  ...clusterMethods,
  ['/flush', { verb: 'POST', takesQuery: true, call: flush }],
  ['/repair', { verb: 'GET', isCostly: true, call: repair }],
  ['/bootstrapped', { verb: 'GET', call: bootstrapped }],
  [
    '/bootstrappedinplacementornoplacement',
    { verb: 'GET', call: bootstrappedInPlacementOrNoPlacement },
  ],
  ['/writebatchraw', batchWrite({ hasMany: false, isTagged: false })],
  ['/writebatchrawv2', batchWrite({ hasMany: true, isTagged: false })],
  ['/writetaggedbatchraw', batchWrite({ hasMany: false, isTagged: true })],
  ['/writetaggedbatchrawv2', batchWrite({ hasMany: true, isTagged: true })],
  ['/fetchbatchraw', batchFetch({ hasMany: false })],
  ['/fetchbatchrawv2', batchFetch({ hasMany: true })],
  ...runtimeMethods,
  ...Object.entries(elsewhere).map(([path, where]) => [path, refused(path, where)] as const),
]);

function batchWrite(form: { readonly hasMany: boolean; readonly isTagged: boolean }): JsonMethod {
  return {
    verb: 'POST',
    call: (backend, fields, signal) => writeBatch(backend, fields, signal, form),
  };
}

function batchFetch(form: { readonly hasMany: boolean }): JsonMethod {
  return {
    verb: 'POST',
    call: (backend, fields, signal) => fetchBatch(backend, fields, signal, form),
  };
}

function refused(path: string, where: string): JsonMethod {
  return {
    verb: 'POST',
    takesQuery: true,
    call: () => Promise.reject(badRequest(`${path} is not served: ${where}`)),
  };
}

async function health(backend: JsonBackend, signal: AbortSignal): Promise<string> {
  const node = await backend.health(signal);
  const status = { ok: true, status: 'up' };
  if (node === null) return `${JSON.stringify(status)}\n`;
  const { bootstrapped: whole, instanceId, incarnation, bootCount, placementVersion } = node;
  const metadata = {
    instanceId,
    incarnation,
    bootCount: String(bootCount),
    placementVersion: String(placementVersion),
  };
  return `${JSON.stringify({ ...status, bootstrapped: whole, metadata })}\n`;
}

async function bootstrapped(backend: JsonBackend): Promise<string> {
  if (backend.bootstrapState()?.bootstrapped === true) return empty;
  throw new TsdbError('UNAVAILABLE', 'node is not bootstrapped');
}

async function bootstrappedInPlacementOrNoPlacement(backend: JsonBackend): Promise<string> {
  const state = backend.bootstrapState();
  if (state?.mayOwnShards === false || state?.serves === true) return empty;
  throw new TsdbError('UNAVAILABLE', 'node is not bootstrapped');
}

async function write(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
): Promise<string> {
  const namespace = fields.text('nameSpace');
  const id = idOf(fields);
  const datapoint = datapointOf(fields);
  fields.end();
  const value = await valueOf(backend, namespace, datapoint.value, signal);
  const { nanos } = datapoint;
  await backend.write(namespace, { tags: new Uint8Array(0), id, nanos, value }, signal);
  return empty;
}

async function writeTagged(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
): Promise<string> {
  const namespace = fields.text('nameSpace');
  const id = idOf(fields);
  const tags = tagsOf(fields);
  const datapoint = datapointOf(fields);
  fields.end();
  const value = await valueOf(backend, namespace, datapoint.value, signal);
  await backend.write(namespace, { tags, id, nanos: datapoint.nanos, value }, signal);
  return empty;
}

async function fetchOne(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
  delivery: Delivery,
): Promise<JsonAnswer> {
  const namespace = fields.text('nameSpace');
  const id = idOf(fields);
  const range = rangeOf(fields);
  fields.textOr('source', '');
  fields.end();
  const { startNanos, endNanos } = range;
  const fetched = await backend.fetchById(
    namespace,
    id,
    { startNanos, endNanos },
    signal,
    delivery,
  );
  return fetchAnswer(fetched, range, range.resultTimeType, backend.schemas(namespace));
}

async function query(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
  delivery: Delivery,
): Promise<JsonAnswer> {
  const namespace = fields.text('nameSpace');
  const matching = queryOf(fields.objectOr('query'));
  const { resultTimeType, startNanos, endNanos } = rangeOf(fields);
  const seriesLimit = fields.limitOr('limit', 0);
  const withData = !fields.booleanOr('noData', false);
  const consistency = consistencyOf(fields.objectOr('clusterOptions'));
  fields.textOr('source', '');
  fields.end();
  const range = { startNanos, endNanos };
  const { bundle, exhaustive } = await backend.query(
    {
      namespace,
      query: matching,
      seriesLimit: seriesLimit === 0 ? jsonSeriesMax : seriesLimit,
      requireExhaustive: false,
      fetchData: withData,
      consistency,
      ...range,
    },
    signal,
    delivery,
  );
  const schemas = backend.schemas(namespace);
  return queryAnswer(bundle, exhaustive, range, { resultTimeType, withData, schemas });
}

async function fetchTagged(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
  delivery: Delivery,
): Promise<JsonAnswer> {
  const namespace = namespaceOf(backend, fields.text('nameSpace'));
  const matching = queryOf(fields.objectOr('query'));
  const { startNanos, endNanos } = rangeOf(fields);
  const limits = limitsOf(fields);
  const fetchData = fields.booleanOr('fetchData', true);
  fields.textOr('source', '');
  fields.end();
  const { bundle, exhaustive } = await backend.query(
    {
      namespace,
      query: matching,
      seriesLimit: limits.limit === 0 ? jsonSeriesMax : limits.limit,
      requireExhaustive: limits.requireExhaustive,
      fetchData,
      consistency: null,
      startNanos,
      endNanos,
    },
    signal,
    delivery,
  );
  return fetchTaggedAnswer(namespace, bundle, exhaustive);
}

const aggregateTypes = ['AGGREGATE_BY_TAG_NAME', 'AGGREGATE_BY_TAG_NAME_VALUE'] as const;

async function aggregate(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
  delivery: Delivery,
): Promise<JsonAnswer> {
  const namespace = fields.text('nameSpace');
  const matching = queryOf(fields.objectOr('query'));
  const { startNanos, endNanos } = rangeOf(fields);
  const tagNames = fields.texts('tagNameFilter');
  const type = fields.wordOr('aggregateQueryType', aggregateTypes, 'AGGREGATE_BY_TAG_NAME');
  const { limit, requireExhaustive } = limitsOf(fields);
  fields.textOr('source', '');
  fields.end();
  const namesOnly = type === 'AGGREGATE_BY_TAG_NAME';
  const { tags, exhaustive } = await backend.aggregate(
    {
      namespace,
      query: matching,
      tagNames,
      namesOnly,
      limit,
      requireExhaustive,
      startNanos,
      endNanos,
    },
    signal,
    delivery,
  );
  return aggregateAnswer(tags, namesOnly, exhaustive);
}

async function truncate(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
): Promise<string> {
  const namespace = namespaceOf(backend, fields.text('nameSpace'));
  fields.end();
  return `${JSON.stringify({ numSeries: await backend.truncate(namespace, signal) })}\n`;
}

/** Ends when the rows are in filesets and the commit log that held them is gone. */
async function flush(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
): Promise<string> {
  const name = fields.textOr('nameSpace', '');
  fields.end();
  return `${JSON.stringify(await backend.flush(name === '' ? null : [name], signal))}\n`;
}

/** Ends when the round is begun; metrics tell what it does. */
async function repair(backend: JsonBackend): Promise<string> {
  backend.repair();
  return empty;
}

function idOf(fields: JsonFields): Uint8Array {
  const id = fields.text('id');
  if (id === '') throw badRequest('cannot read request: id is empty');
  return new TextEncoder().encode(id);
}

function limitsOf(fields: JsonFields): { limit: number; requireExhaustive: boolean } {
  const seriesLimit = fields.limitOr('seriesLimit', 0);
  const docsLimit = fields.limitOr('docsLimit', 0);
  const limits = [seriesLimit, docsLimit].filter((limit) => limit > 0);
  return {
    limit: limits.length === 0 ? 0 : Math.min(...limits),
    requireExhaustive: fields.booleanOr('requireExhaustive', false),
  };
}

function consistencyOf(options: JsonFields | null): ReadConsistency | null {
  if (options === null) return null;
  const level = options.has('readConsistency')
    ? options.wordOr('readConsistency', readConsistencies, 'unstrict_majority')
    : null;
  const strategy = options.textOr('conflictResolutionStrategy', 'LAST_PUSHED');
  if (strategy.toUpperCase() !== 'LAST_PUSHED') {
    throw badRequest(
      'cannot read request: clusterOptions.conflictResolutionStrategy must be LAST_PUSHED, ' +
        `since samples have one total order: ${strategy}`,
    );
  }
  options.end();
  return level;
}
