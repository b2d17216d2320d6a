/** Writes of OpenTSDB over HTTP: points as JSON, one or a list. */
import { answerTextOf, shownText, TsdbError } from '#lib/errors.ts';
import { readJsonList } from '#lib/json/list.ts';
import { keyTwiceText } from '#lib/json/text.ts';
import { shownJson } from '#lib/json_fields.ts';
import { encodeTags, metricNameTag, type Tag, type TagRules, tagsProblem } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { decodedChunks, wholeBody } from '../http/decoding.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  checkNotEmpty,
  emptyAnswer,
  errorAnswer,
  jsonAnswer,
} from '../http/http_api.ts';
import { jsonRowsMax, jsonWriteBytesMax } from '../http/limits.ts';
import { Places } from '../http/places.ts';
import { asUnavailable } from '../http/unavailable.ts';
import type { Ingest } from '../ingest/ingest.ts';
import { plainMetricName, plainTagName } from '../ingest/plain_names.ts';
import type { PointSeries } from '../ingest/point_series.ts';
import { RowsRefused, seriesText } from '../ingest/writing/refusals.ts';
import { millisOf, millisOfText, valueOfText } from './point.ts';

export interface PutSetup {
  readonly ingest: Pick<Ingest, 'begin' | 'points'>;
  readonly tagRules: TagRules;
}

/** About what it takes to check a point, in units of work (lib/turns/turns.ts). */
const pointUnits = 1_000;
/** Bad points that `details` lists, and about the bytes of all of them. */
const listedMax = 1_000;
const listedBytesMax: number = 1 << 20;
/** Bodies that are held decoded at the same time; others wait. */
const decodedMax = 8;

const places = new Places(decodedMax);

interface Refused {
  readonly datapoint: unknown;
  readonly error: string;
}

interface Points {
  readonly series: readonly PointSeries[];
  /** As they came, by their places in `series`; null when nobody asks for details. */
  readonly good: readonly unknown[] | null;
  /** What `details` lists of them. */
  readonly listed: Listed;
  /** Why each bad point is none. */
  readonly problems: readonly string[];
}

/** Bad points of an answer, the first ones. */
class Listed {
  readonly all: Refused[] = [];
  #bytes = 0;

  add(datapoint: unknown, error: string): void {
    if (this.all.length === listedMax || this.#bytes > listedBytesMax) return;
    this.#bytes += (JSON.stringify(datapoint) ?? '').length + error.length;
    if (this.#bytes <= listedBytesMax) this.all.push({ datapoint, error });
  }
}

export async function put(
  { ingest, tagRules }: PutSetup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  try {
    const bytes = checkNotEmpty(await body());
    await places.take(request.signal);
    const work = ingest.begin(request.signal);
    try {
      const chunks = decodedChunks(bytes, request.header('content-encoding'), request.signal);
      const json = await wholeBody(chunks, jsonWriteBytesMax);
      const hasDetails = request.urlParameters.has('details');
      const points = await pointsOf(json, hasDetails, tagRules, work);
      return await write(ingest, points, request, work);
    } finally {
      places.give();
    }
  } catch (error) {
    const known = asUnavailable(error);
    if (!(known instanceof TsdbError)) throw known;
    const { status, headers } = errorAnswer(known);
    return failure(status, answerTextOf(known), '', headers);
  }
}

async function write(
  ingest: PutSetup['ingest'],
  { series, good, listed, problems }: Points,
  request: ApiRequest,
  work: Work,
): Promise<ApiAnswer> {
  let details = '';
  let written = series.length;
  try {
    await ingest.points('opentsdb', { series, problems }, work, (row, text) => {
      if (good !== null) listed.add(good[row], text());
    });
  } catch (error) {
    if (!(error instanceof RowsRefused)) throw error;
    details = error.message;
    written = error.written.samples;
  }
  const failed = series.length + problems.length - written;
  const status = failed === 0 ? 200 : 400;
  const counts = { success: written, failed };
  if (good !== null) return jsonAnswer({ ...counts, errors: listed.all }, {}, status);
  if (request.urlParameters.has('summary')) return jsonAnswer(counts, {}, status);
  if (failed === 0) return { ...emptyAnswer, status: 204 };
  return failure(400, 'One or more points had errors', details);
}

/** As clients of OpenTSDB read it. */
function failure(
  code: number,
  message: string,
  details: string,
  headers: Readonly<Record<string, string>> = {},
): ApiAnswer {
  const { 'Content-Type': _type, ...others } = headers;
  const error = details === '' ? { code, message } : { code, message, details };
  return jsonAnswer({ error }, others, code);
}

async function pointsOf(
  body: Uint8Array,
  hasDetails: boolean,
  rules: TagRules,
  work: Work,
): Promise<Points> {
  const series: PointSeries[] = [];
  const good: unknown[] | null = hasDetails ? [] : null;
  const listed = new Listed();
  const problems: string[] = [];
  const { isList, parts } = readJsonList(body, jsonRowsMax, work);
  for await (const { firstIndex, values, twice, refusal } of parts) {
    for (const [at, datapoint] of values.entries()) {
      const key = twice.get(at);
      const point = refusal ?? (key === undefined ? pointOf(datapoint, rules) : keyTwiceText(key));
      if (typeof point === 'string') {
        const place = isList ? `row ${firstIndex + at}: ` : '';
        const problem = `${place}${point}`;
        problems.push(problem);
        if (hasDetails) listed.add(datapoint, problem);
      } else {
        series.push(point);
        good?.push(datapoint);
      }
      if (work.spend(pointUnits)) await work.pause();
    }
  }
  return { series, good, listed, problems };
}

/** Or why it is none. */
function pointOf(datapoint: unknown, rules: TagRules): PointSeries | string {
  if (typeof datapoint !== 'object' || datapoint === null || Array.isArray(datapoint)) {
    return `not an object with metric, timestamp, value and tags: ${shownJson(datapoint)}`;
  }
  const { metric, timestamp, value, tags = {} } = datapoint as Readonly<Record<string, unknown>>;
  if (typeof metric !== 'string' || metric === '') {
    return `metric: not a text, or empty: ${shownJson(metric)}`;
  }
  const millis = millisOfJson(timestamp);
  if (millis === null) {
    return `timestamp: not seconds or milliseconds: ${shownJson(timestamp)}`;
  }
  const number = typeof value === 'string' ? valueOfText(value) : value;
  if (typeof number !== 'number' || !Number.isFinite(number)) {
    return `value: not a finite number, or a text of one: ${shownJson(value)}`;
  }
  const labels = labelsOf(metric, tags);
  if (typeof labels === 'string') return labels;
  const problem = tagsProblem(labels, rules);
  if (problem !== null) return `${seriesText(labels)}: ${problem}`;
  const seconds = Math.floor(millis / 1000);
  const nanos = (millis - seconds * 1000) * 1_000_000;
  return { tags: encodeTags(labels), points: [{ seconds, nanos, value: number }] };
}

function millisOfJson(timestamp: unknown): number | null {
  if (typeof timestamp === 'string') return millisOfText(timestamp);
  return typeof timestamp === 'number' ? millisOf(timestamp) : null;
}

function labelsOf(metric: string, tags: unknown): Tag[] | string {
  if (typeof tags !== 'object' || tags === null || Array.isArray(tags)) {
    return `tags: not an object of names to values: ${shownJson(tags)}`;
  }
  const labels: Tag[] = [{ name: metricNameTag, value: plainMetricName(metric) }];
  for (const [name, value] of Object.entries(tags as Readonly<Record<string, unknown>>)) {
    if (typeof value !== 'string') {
      return `tags.${shownText(name)}: not a text: ${shownJson(value)}`;
    }
    if (!value.isWellFormed()) {
      return `tags.${shownText(name)}: not Unicode, a half of a surrogate pair alone: ${shownJson(value)}`;
    }
    labels.push({ name: plainTagName(name), value });
  }
  return labels;
}
