/** Remote read: the protocol by which Prometheus takes us as storage, in both of its answer forms. */
import { decodeSnappy, encodeSnappy } from '#engine/snappy.ts';
import type { SeriesBundle } from '#engine/series_bundle.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { readBodyBytesMax } from '../limits.ts';
import { encodeChunkedFrames, encodeReadResponse, type ReadRange } from '../remote/answer.ts';
import { decodeReadRequest, type ReadQuery } from '../remote/messages.ts';
import type { Route } from '../server.ts';
import type { QueryStorage, SelectLimits } from '../storage.ts';
import type { ApiAnswer, ApiRequest } from './http_api.ts';
import { answerHeaders, limitsOf, type QuerySettings, timeoutMillisOf } from './parameters.ts';

export interface RemoteReadSetup {
  readonly storage: QueryStorage;
  readonly settings: QuerySettings;
  readonly clock: Clock;
}

export function remoteReadRoutes(setup: RemoteReadSetup): Route[] {
  return [
    {
      methods: ['POST'],
      path: '/api/v1/compat/remote/read',
      handler: (request) => remoteRead(setup, request),
    },
  ];
}

async function remoteRead(setup: RemoteReadSetup, request: ApiRequest): Promise<ApiAnswer> {
  const { storage, settings, clock } = setup;
  const encoding = request.header('content-encoding').toLowerCase();
  if (encoding !== '' && encoding !== 'snappy') {
    throw badRequest(`Content-Encoding: only snappy is served: ${encoding}`);
  }
  const body = await request.body(readBodyBytesMax);
  const message = decodeReadRequest(decodeSnappy(body, readBodyBytesMax));
  const limits = limitsOf(request, request.urlParameters, settings);
  const timeoutMillis = timeoutMillisOf(request, request.urlParameters, settings);
  const signal = clock.deadline(timeoutMillis, request.signal);
  const streamed = message.acceptedResponseTypes.find(
    (type) => type === 'samples' || type === 'streamedXorChunks',
  );
  if (streamed === 'streamedXorChunks') {
    return {
      status: 200,
      headers: {
        'Content-Type': 'application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse',
        ...answerHeaders({ timeoutMillis, seriesLimited: false, warnings: [] }),
      },
      body: streamedAnswer(storage, message.queries, limits, signal),
    };
  }
  const answers: { bundle: SeriesBundle; range: ReadRange }[] = [];
  const warnings = new Set<string>();
  let exhaustive = true;
  for (const query of message.queries) {
    const range = rangeOf(query);
    const found = await storage.select(query.matchers, range, limits, signal);
    answers.push({ bundle: found.bundle, range });
    exhaustive &&= found.exhaustive;
    for (const warning of found.warnings) warnings.add(warning);
  }
  return {
    status: 200,
    headers: {
      'Content-Type': 'application/x-protobuf',
      'Content-Encoding': 'snappy',
      ...answerHeaders({ timeoutMillis, seriesLimited: !exhaustive, warnings: [...warnings] }),
    },
    body: encodeSnappy(encodeReadResponse(answers).message),
  };
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

/** Queries one after the other, for their answers must come in this order. */
async function* streamedAnswer(
  storage: QueryStorage,
  queries: readonly ReadQuery[],
  limits: SelectLimits,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  for (const [index, query] of queries.entries()) {
    const range = rangeOf(query);
    const { bundle } = await storage.select(query.matchers, range, limits, signal);
    for (const frame of encodeChunkedFrames(bundle, range, index)) {
      signal.throwIfAborted();
      yield frame;
    }
  }
}
