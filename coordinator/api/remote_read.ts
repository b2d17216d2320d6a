/**
 * Remote read: the protocol by which Prometheus takes us as storage, in both of its answer forms.
 */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import type { ReadColumn } from '#engine/aggregation/floats.ts';
import { decodeSnappyInTurns, encodeSnappyParts } from '#engine/write_decoder/snappy.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, TsdbError, shownText } from '#lib/errors.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import { readBodyBytesMax } from '../http/limits.ts';
import { encodeChunkedFrames, encodeReadResult, type ReadRange } from '../remote/answer.ts';
import { decodeReadRequest, type ReadQuery } from '../remote/messages.ts';
import { withoutTags } from '../forced_tags/forced_tags.ts';
import { functions } from '../promql/functions/table.ts';
import { Pacer } from '../promql/rows/pacer.ts';
import type { ChosenStorage, SelectLimits, SelectResult, StorageFor } from '../select/storage.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  type FormHandler,
  jsonContentType,
} from '../http/http_api.ts';
import {
  checkOrder,
  checkRangeMillis,
  millisOfNanos,
  ofParameter,
  requiredText,
  timestampParameter,
} from '../http/parameters.ts';
import type { PromqlFeatures } from '../promql/parse/features.ts';
import { parseQuery } from '../promql/parse/parser.ts';
import { readsOfQuery, timeOfRead } from '../promql/parse/selectors.ts';
import { type ReadFound, readJson } from '../m3/read_json.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import { type QuerySettings, type ReadOptions, readOptionsOf } from '../reads/options.ts';

export interface RemoteReadSetup {
  readonly storageFor: StorageFor<ApiRequest>;
  readonly settings: QuerySettings;
  /** Of an answer that is made in memory. */
  readonly samplesMax: number;
  readonly clock: Clock;
  readonly features: PromqlFeatures;
  readonly turningOf: (signal: AbortSignal) => Turning;
}

interface ReadCall {
  readonly queries: readonly ReadQuery[];
  /** The answer in frames of XOR chunks, else whole with samples. */
  readonly streamed: boolean;
  readonly limits: SelectLimits;
  readonly timeoutMillis: number;
  readonly signal: AbortSignal;
}

async function readCallOf(
  { settings, clock }: RemoteReadSetup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ReadCall> {
  const encoding = request.header('content-encoding').toLowerCase();
  if (encoding !== '' && encoding !== 'snappy') {
    throw badRequest(`Content-Encoding: only snappy is served: ${shownText(encoding)}`);
  }
  const compressed = await body();
  const work = Turns.of(clock).begin(request.signal);
  const bytes = await decodeSnappyInTurns(compressed, readBodyBytesMax, work);
  const message = decodeReadRequest(bytes);
  const { queries, acceptedResponseTypes } = message;
  const options = readOptionsOf(request, request.urlParameters, settings);
  const { limits, timeoutMillis } = options;
  checkRanges(queries, options);
  const chosen = acceptedResponseTypes.find(
    (type) => type === 'samples' || type === 'streamedXorChunks',
  );
  return {
    queries,
    streamed: chosen === 'streamedXorChunks',
    limits,
    timeoutMillis,
    signal: clock.deadline(timeoutMillis, request.signal),
  };
}

export async function remoteRead(
  setup: RemoteReadSetup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  const { samplesMax, clock } = setup;
  const storage = setup.storageFor(request);
  const call = await readCallOf(setup, request, body);
  const format = request.urlParameters.get('format') ?? '';
  if (format === 'json') return await jsonOf(setup, request, storage, call);
  const { queries, streamed, limits, timeoutMillis, signal } = call;
  const work = Turns.of(clock).begin(signal);
  if (streamed) {
    const first =
      queries.length === 0 ? nothing : await selected(storage, queries[0]!, limits, work);
    const { exhaustive, warnings } = first;
    return {
      status: 200,
      headers: {
        'Content-Type': 'application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse',
        ...answerHeaders({
          timeoutMillis,
          seriesLimited: !exhaustive,
          warnings,
          read: limits.read,
        }),
      },
      body: streamedAnswer(
        storage,
        queries,
        first,
        limits,
        // No more of it is in memory than is on its way.
        new Pacer(work, Number.POSITIVE_INFINITY, request.readMemory),
      ),
    };
  }
  return await samplesOf(storage, call, request, new Pacer(work, samplesMax, request.readMemory));
}

/** All samples in one message. */
async function samplesOf(
  storage: ChosenStorage,
  { queries, limits, timeoutMillis }: ReadCall,
  { readMemory }: ApiRequest,
  pacer: Pacer,
): Promise<ApiAnswer> {
  const pieces: Uint8Array[] = [];
  const warnings = new Set<string>();
  let exhaustive = true;
  for (const query of queries) {
    const found = await selected(storage, query, limits, pacer.work);
    for (const piece of await encodeReadResult(found.bundle, rangeOf(query), pacer)) {
      pieces.push(piece);
    }
    readMemory.give(bundleBytes(found.bundle));
    exhaustive &&= found.exhaustive;
    for (const warning of found.warnings) warnings.add(warning);
  }
  return {
    status: 200,
    headers: {
      'Content-Type': 'application/x-protobuf',
      'Content-Encoding': 'snappy',
      ...answerHeaders({
        timeoutMillis,
        seriesLimited: !exhaustive,
        warnings: [...warnings],
        read: limits.read,
      }),
    },
    body: encodeSnappyParts(pieces),
  };
}

/** The same by GET: what the selectors of a query read between `start` and `end`, for people and tools. */
export const remoteReadByQuery: FormHandler<RemoteReadSetup> = async (
  setup,
  request,
  parameters,
) => {
  const { clock, features, settings, turningOf, samplesMax } = setup;
  const storage = setup.storageFor(request);
  const options = readOptionsOf(request, parameters, settings);
  const { limits, timeoutMillis } = options;
  const signal = clock.deadline(timeoutMillis, request.signal);
  const text = requiredText(parameters, 'query');
  const now = clock.nowNanos();
  const startNanos = timestampParameter(parameters, 'start', now, null);
  const endNanos = timestampParameter(parameters, 'end', now, null);
  checkOrder(startNanos, endNanos);
  const times = {
    startMillis: millisOfNanos(startNanos),
    endMillis: millisOfNanos(endNanos),
    stepMillis: 0,
  };
  const expr = await ofParameter('query', parseQuery(text, features, turningOf(signal)));
  // Rows before the start that only the look-back of a query finds are not asked for.
  const queries = readsOfQuery(expr).map((read) => ({
    ...timeOfRead(read, times, 0),
    matchers: read.selector.matchers,
    function: read.function,
  }));
  checkRanges(queries, options);
  const call = { queries, streamed: false, limits, timeoutMillis, signal };
  if (parameters.get('format') === 'json') return await jsonOf(setup, request, storage, call);
  return await samplesOf(
    storage,
    call,
    request,
    new Pacer(Turns.of(clock).begin(signal), samplesMax, request.readMemory),
  );
};

/** Everything is read before the headers are made, which say whether it is whole. */
async function jsonOf(
  { clock, samplesMax }: RemoteReadSetup,
  { readMemory }: ApiRequest,
  storage: ChosenStorage,
  { queries, limits, timeoutMillis, signal }: ReadCall,
): Promise<ApiAnswer> {
  const work = Turns.of(clock).begin(signal);
  const all: ReadFound[] = [];
  const warnings = new Set<string>();
  let exhaustive = true;
  for (const query of queries) {
    const found = await selected(storage, query, limits, work);
    all.push({ query, range: rangeOf(query), bundle: found.bundle });
    exhaustive &&= found.exhaustive;
    for (const warning of found.warnings) warnings.add(warning);
  }
  async function* given(): AsyncGenerator<ReadFound> {
    for (let found = all.shift(); found !== undefined; found = all.shift()) {
      yield found;
      readMemory.give(bundleBytes(found.bundle));
    }
  }
  return {
    status: 200,
    headers: {
      'Content-Type': jsonContentType,
      ...answerHeaders({
        timeoutMillis,
        seriesLimited: !exhaustive,
        warnings: [...warnings],
        read: limits.read,
      }),
    },
    body: readJson(given(), [...warnings], new Pacer(work, samplesMax, readMemory)),
  };
}

/** @throws {TsdbError} BAD_REQUEST when one is of a longer time than it may be */
function checkRanges(queries: readonly ReadQuery[], { rangeMillisMax }: ReadOptions): void {
  for (const { startMillis, endMillis } of queries) {
    checkRangeMillis(endMillis - startMillis, rangeMillisMax);
  }
}

/** The protocol's range is inclusive on both ends. */
function rangeOf({ startMillis, endMillis }: ReadQuery): ReadRange {
  if (endMillis < startMillis) {
    throw badRequest(`end of a query is before its start: ${endMillis} < ${startMillis}`);
  }
  return {
    startNanos: BigInt(startMillis) * 1_000_000n,
    endNanos: BigInt(endMillis + 1) * 1_000_000n,
  };
}

/**
 * Whoever asks says in a hint which function comes next. Of other functions over ranges the last numbers of windows are samples
 * of the time in which they end, and without one their values.
 */
const columnOfFunction: ReadonlyMap<string, ReadColumn> = new Map([
  ['max_over_time', 'max'],
  ['min_over_time', 'min'],
  ['sum_over_time', 'sum'],
  ['rate', 'counter'],
  ['increase', 'counter'],
  ['resets', 'counter'],
]);

async function selected(
  storage: ChosenStorage,
  query: ReadQuery,
  limits: SelectLimits,
  work: Work,
): Promise<SelectResult> {
  const isOfRange = (functions.get(query.function)?.window ?? null) !== null;
  const column = columnOfFunction.get(query.function) ?? (isOfRange ? 'number' : 'value');
  const found = await work.outside(
    storage.selectThroughout(query.matchers, rangeOf(query), column, limits, work.signal),
  );
  return { ...found, bundle: await withoutTags(found.bundle, storage.hidden, work) };
}

/** What a request without queries finds. */
const nothing: SelectResult = { bundle: emptyBundle, exhaustive: true, warnings: [] };

/**
 * Queries one after the other, for their answers must come in this order.
 * @param first what the first query found, of which the headers tell
 */
async function* streamedAnswer(
  storage: ChosenStorage,
  queries: readonly ReadQuery[],
  first: SelectResult,
  limits: SelectLimits,
  pacer: Pacer,
): AsyncIterable<Uint8Array> {
  for (const [index, query] of queries.entries()) {
    const found = index === 0 ? first : await selected(storage, query, limits, pacer.work);
    if (isWorse(found, first)) {
      // The headers are gone, and an answer in part must not look whole.
      throw new TsdbError(
        found.exhaustive ? 'UNAVAILABLE' : 'BAD_REQUEST',
        `queries[${index}]: partial after a whole one, send it by itself: ${found.warnings.join('; ')}`,
      );
    }
    yield* encodeChunkedFrames(found.bundle, rangeOf(query), index, pacer);
    pacer.give(bundleBytes(found.bundle));
  }
}

/** Whether an answer is partial in a way in which the first one was not. */
function isWorse(found: SelectResult, first: SelectResult): boolean {
  return (
    (first.exhaustive && !found.exhaustive) ||
    (first.warnings.length === 0 && found.warnings.length > 0)
  );
}
