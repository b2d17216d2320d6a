/**
 * Writes of what applications expose: Prometheus' text format and OpenMetrics. Text of OpenMetrics is checked as a whole before
 * anything of it is written; lines of the other one are each good or bad for themselves.
 */
import type { ToldExemplar } from '#engine/write_decoder/told_exemplars.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { metricNameTag, sortTags } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Ingest } from '../../ingest/ingest.ts';
import { decodedChunks } from '../../http/decoding.ts';
import { type ApiAnswer, type ApiRequest, emptyAnswer, mediaTypeOf } from '../../http/http_api.ts';
import { Places } from '../../http/places.ts';
import { wholeNumber } from '../../http/whole_number.ts';
import { Comments } from './comments.ts';
import { OpenMetricsCheck } from './openmetrics/check.ts';

/** As far as nanoseconds of 64 bits reach. */
const timestampMillisMax = 9_223_372_036_854;
/** About what it takes to check a line, and a byte of it, in units of work (lib/turns/turns.ts). */
const checkedLineUnits = 1000;
const checkedByteUnits = 10;
/** The same of a comment. */
const commentUnits = 1000;
/** Texts of OpenMetrics that are checked at the same time: what is remembered of one may take five times its bytes. */
const checksMax = 4;

const places = new Places(checksMax);

/** Lines without a time have the one that the parameter `timestamp` says, in milliseconds, or now. */
export async function expositionWrite(
  ingest: Ingest,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  const { urlParameters, signal } = request;
  // Without them rows would be of other series than the sender means.
  if (urlParameters.has('extra_label')) {
    throw badRequest('extra_label: no labels are added here; they have to be in the lines');
  }
  const defaultNanos = timestampNanosOf(urlParameters.get('timestamp') ?? '');
  const bytes = await body();
  if (bytes.length === 0) throw badRequest('the request body is empty: lines are expected');
  const work = ingest.begin(signal);
  const encoding = request.header('content-encoding');
  const isOpenMetrics = mediaTypeOf(request) === 'application/openmetrics-text';
  const chunks = (): AsyncIterable<Uint8Array> => decodedChunks(bytes, encoding, signal);
  const times = { unitNanos: nanosPerMilli, defaultNanos };
  if (isOpenMetrics) {
    const check = await checkWhole(chunks(), work);
    try {
      await ingest.lines('openmetrics', chunks(), times, work);
    } finally {
      ingest.note(check.families, exemplarsOf(check, defaultNanos ?? ingest.nowNanos));
    }
  } else {
    const comments = new Comments();
    try {
      await ingest.lines('prometheus_text', withComments(chunks(), comments, work), times, work);
    } finally {
      ingest.note(comments.families(), []);
    }
  }
  return { ...emptyAnswer, status: 204 };
}

/** Chunks, of which each has been looked at for comments. */
async function* withComments(
  chunks: AsyncIterable<Uint8Array>,
  comments: Comments,
  work: Work,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    if (work.spend(commentUnits * comments.add(chunk))) await work.pause();
    yield chunk;
  }
}

/** @param nowNanos of samples without a time */
function exemplarsOf({ exemplars }: OpenMetricsCheck, nowNanos: bigint): ToldExemplar[] {
  return exemplars.map(({ name, labels, time, exemplar }) => {
    const given = labels.filter(({ value }) => value !== '');
    const seconds = exemplar!.time ?? time;
    return {
      tags: sortTags([{ name: metricNameTag, value: name }, ...given]),
      labels: exemplar!.labels,
      value: exemplar!.value,
      timestampMillis:
        seconds === null ? nowNanos / nanosPerMilli : BigInt(Math.floor(seconds * 1000)),
    };
  });
}

/** Null where there is none. @throws {TsdbError} BAD_REQUEST */
function timestampNanosOf(text: string): bigint | null {
  if (text === '') return null;
  const millis = wholeNumber(text, 'timestamp');
  if (millis > timestampMillisMax) {
    throw badRequest(`timestamp: more than ${timestampMillisMax} milliseconds: ${shownText(text)}`);
  }
  return BigInt(millis) * nanosPerMilli;
}

/** @throws {TsdbError} BAD_REQUEST that names line and reason */
async function checkWhole(
  chunks: AsyncIterable<Uint8Array>,
  work: Work,
): Promise<OpenMetricsCheck> {
  await places.take(work.signal);
  try {
    const check = new OpenMetricsCheck();
    for await (const chunk of chunks) {
      for (const bytes of check.add(chunk)) {
        if (work.spend(checkedLineUnits + checkedByteUnits * bytes)) await work.pause();
      }
    }
    check.end();
    return check;
  } finally {
    places.give();
  }
}
