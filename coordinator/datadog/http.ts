/**
 * What Datadog's agent and clients call: series of both versions, and what else they send to the same server, which is taken and
 * not kept, so that they go on.
 */
import { badRequest, TsdbError } from '#lib/errors.ts';
import { parseJson } from '#lib/json/text.ts';
import type { TagRules } from '#lib/tags.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import { decodedChunks, wholeBody } from '../http/decoding.ts';
import {
  type ApiAnswer,
  type BytesHandler,
  checkNotEmpty,
  errorAnswer,
  jsonAnswer,
  mediaTypeOf,
  type PlainHandler,
} from '../http/http_api.ts';
import { Places } from '../http/places.ts';
import { asUnavailable } from '../http/unavailable.ts';
import type { Ingest } from '../ingest/ingest.ts';
import { type DatadogVersion, takeJson } from './json.ts';
import { takeProtobuf } from './protobuf.ts';
import { DatadogBody } from './series.ts';

export interface DatadogSetup {
  readonly ingest: Pick<Ingest, 'begin' | 'points'>;
  readonly tagRules: TagRules;
}

const protobufContentType = 'application/x-protobuf';
/** A body, as it comes and when it is decoded, as at Datadog's version 2; agents send no more. */
export const datadogBytesMax: number = 5 << 20;
/** Of JSON, which is parsed at once. */
const valuesMax = 250_000;
/** Bodies that are held decoded at the same time; others wait. */
const decodedMax = 8;

const places = new Places(decodedMax);

/** What clients look for. */
const okOf: Readonly<Record<DatadogVersion, object>> = { 1: { status: 'ok' }, 2: { errors: [] } };

export function datadogSeries(version: DatadogVersion): BytesHandler<DatadogSetup> {
  return async ({ ingest, tagRules }, request, body) => {
    try {
      const bytes = checkNotEmpty(await body());
      const taken = new DatadogBody(tagRules);
      await places.take(request.signal);
      const work = ingest.begin(request.signal);
      try {
        const encoding = request.header('content-encoding');
        const chunks = decodedChunks(bytes, encoding, request.signal);
        const message = await wholeBody(chunks, datadogBytesMax);
        if (mediaTypeOf(request) === protobufContentType && version === 2) {
          await takeProtobuf(message, taken, work);
        } else {
          await ownTurn();
          await takeJson(parseJson(message, { valuesMax }), version, taken, work);
        }
        await ingest.points('datadog', taken.body, work);
      } finally {
        places.give();
      }
      return jsonAnswer(okOf[version], {}, 202);
    } catch (error) {
      return datadogError(error);
    }
  };
}

/** Agents send again what is answered by 5xx, and drop what is answered by 400. */
function datadogError(error: unknown): ApiAnswer {
  const known = asUnavailable(error);
  if (!(known instanceof TsdbError)) throw known;
  const { status, headers, body } = errorAnswer(known);
  const { error: reason } = JSON.parse(body as string) as { readonly error: string };
  return jsonAnswer({ errors: [reason] }, headers, status);
}

export const datadogValidate: PlainHandler<null> = () => jsonAnswer({ valid: true });

/** Metadata of hosts, events and checks: read, and not kept. */
export const datadogIgnored: BytesHandler<null> = async (_setup, _request, body) => {
  await body();
  return jsonAnswer({ status: 'ok' }, {}, 202);
};

/** An agent drops what is answered so. */
export const datadogSketches: BytesHandler<null> = async (_setup, _request, body) => {
  await body();
  return datadogError(
    badRequest('sketches are not taken: distributions have no place here; send histograms'),
  );
};
