/** `render`: targets are evaluated and answered. */
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { inPieces } from '../../http/answer_pieces.ts';
import type { ApiAnswer, ApiRequest } from '../../http/http_api.ts';
import { checkRangeMillis } from '../../http/parameters.ts';
import { Pacer } from '../../promql/rows/pacer.ts';
import type { SelectLimits } from '../../select/storage.ts';
import { answerHeaders } from '../../reads/answer_headers.ts';
import { type QuerySettings, readOptionsOf } from '../../reads/options.ts';
import type { FetchedSeries, FetchRequest, FindEvents } from '../evaluate/context.ts';
import { evaluate } from '../evaluate/evaluate.ts';
import { templateVariablesMax } from '../parse/template.ts';
import type { RowMaker } from '../series/making.ts';
import type { Series } from '../series/series.ts';
import { parseTime, type TimeContext } from '../time/attime.ts';
import { Zone } from '../time/zone.ts';
import { carbonapiContentType, fetchResponse } from './carbonapi.ts';
import {
  csvBody,
  msgpackContentType,
  packedSeries,
  pickleContentType,
  pickledSeries,
  rawBody,
  rickshawBody,
} from './formats.ts';
import { jsonBody } from './json.ts';
import { pointsOf } from './points.ts';

/** Where series come from, and what was missing of them. */
export interface GraphiteSource {
  fetch(
    requests: readonly FetchRequest[],
    signal: AbortSignal,
  ): Promise<readonly (readonly FetchedSeries[])[]>;
  readonly warnings: ReadonlySet<string>;
  readonly isExhaustive: boolean;
}

export interface RenderSetup {
  readonly source: (request: ApiRequest, limits: SelectLimits, pacer: Pacer) => GraphiteSource;
  /** Null where there are none. */
  readonly eventsFor: (request: ApiRequest) => FindEvents | null;
  readonly settings: QuerySettings;
  /** Rows that one request may hold in memory. */
  readonly samplesMax: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly turningOf: (signal: AbortSignal) => Turning;
  /** Of requests that name none: a picture as in Graphite, or JSON as in M3. */
  readonly formatDefault: 'png' | 'json';
}

/** Targets of one request. */
const targetsMax = 1000;
const formats = ['json', 'csv', 'raw', 'rickshaw', 'pickle', 'msgpack', 'protobuf'];
const pictures = ['png', 'svg', 'pdf'];

interface RenderCall {
  readonly targets: readonly string[];
  readonly time: TimeContext;
  readonly fromSeconds: number;
  readonly untilSeconds: number;
  readonly xFilesFactor: number | null;
  readonly variables: ReadonlyMap<string, string>;
}

export async function render(
  setup: RenderSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = renderCallOf(setup, parameters);
  const format = formatOf(parameters, setup.formatDefault);
  const options = readOptionsOf(request, parameters, setup.settings, ['limit']);
  const { timeoutMillis, limits, rangeMillisMax } = options;
  const { work } = setup.turningOf(setup.clock.deadline(timeoutMillis, request.signal));
  const pacer = new Pacer(work, setup.samplesMax, request.readMemory);
  const source = setup.source(request, limits, pacer);
  const seriesMax = limits.seriesMax === 0 ? Number.POSITIVE_INFINITY : limits.seriesMax;
  const lists = await evaluate(call.targets, {
    ...call,
    limits: { seriesMax, rowsMax: setup.samplesMax },
    work,
    random: () => setup.random.fraction(),
    fetch: async (requests, signal) => {
      for (const { fromSeconds, untilSeconds } of requests) {
        checkRangeMillis(1_000 * (untilSeconds - fromSeconds), rangeMillisMax);
      }
      return await source.fetch(requests, signal);
    },
    memory: pacer.rowMemory,
    findEvents: setup.eventsFor(request),
  });
  const list = lists.flat();
  const answering: Answering = {
    list,
    parameters,
    zone: call.time.zone,
    maker: {
      work,
      reserve: (rows) => pacer.rowMemory.take(rows),
      release: (rows) => pacer.rowMemory.give(rows),
    },
    // A client may take longer than the evaluation may.
    sending: setup.turningOf(request.signal).work,
  };
  const { contentType, body } = await answerOf(format, answering);
  return {
    status: 200,
    headers: {
      'Content-Type': contentType,
      ...answerHeaders({
        timeoutMillis,
        seriesLimited: !source.isExhaustive,
        warnings: [...source.warnings],
        seriesCount: list.length,
        read: limits.read,
      }),
    },
    body,
  };
}

interface AnswerBody {
  readonly contentType: string;
  readonly body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** What an answer is made of. */
interface Answering {
  readonly list: readonly Series[];
  readonly parameters: URLSearchParams;
  readonly zone: Zone;
  /** Of rows for the answer alone. */
  readonly maker: RowMaker;
  readonly sending: Work;
}

async function answerOf(format: string, answering: Answering): Promise<AnswerBody> {
  const { list, parameters, zone, maker } = answering;
  switch (format) {
    case 'json':
      return await jsonAnswerOf(answering);
    case 'pickle':
      return { contentType: pickleContentType, body: pickledSeries(list) };
    case 'msgpack':
      return { contentType: msgpackContentType, body: packedSeries(list) };
    case 'csv':
      return { contentType: 'text/csv', body: csvBody(list, zone) };
    case 'raw':
      return { contentType: 'text/plain', body: rawBody(list) };
    default: {
      const points = await pointsOf(list, pointsMaxOf(parameters), maker);
      if (format === 'rickshaw') {
        return { contentType: 'application/json', body: rickshawBody(list, points) };
      }
      const names = list.map(({ name }) => name);
      return { contentType: carbonapiContentType, body: inPieces(fetchResponse(names, points)) };
    }
  }
}

async function jsonAnswerOf({ list, parameters, maker, sending }: Answering): Promise<AnswerBody> {
  const callback = parameters.get('jsonp') ?? '';
  if (callback !== '' && !/^[\w$.]{1,100}$/.test(callback)) {
    throw badRequest(`jsonp: not the name of a function: ${shownText(callback)}`);
  }
  // As in Graphite, a number of points comes first.
  const leavesOutNulls = pointsMaxOf(parameters) === null && isSet(parameters, 'noNullPoints');
  const points = await pointsOf(list, pointsMaxOf(parameters), maker);
  return {
    contentType: callback === '' ? 'application/json' : 'text/javascript',
    body: jsonBody(list, points, leavesOutNulls, callback, sending),
  };
}

function isSet(parameters: URLSearchParams, name: string): boolean {
  const text = parameters.get(name);
  return text !== null && !/^(?:|0|false)$/i.test(text);
}

/** Null when it is not given, or no number. */
function pointsMaxOf(parameters: URLSearchParams): number | null {
  const text = parameters.get('maxDataPoints') ?? '';
  return /^\d+$/.test(text) && Number(text) > 0 ? Number(text) : null;
}

function formatOf(
  parameters: URLSearchParams,
  formatDefault: RenderSetup['formatDefault'],
): string {
  // As in Graphite, without the parameter a raw answer is asked for by another one.
  const format = parameters.get('format') ?? (parameters.has('rawData') ? 'raw' : formatDefault);
  if (formats.includes(format)) return format;
  if (pictures.includes(format)) {
    throw badRequest(
      `format: pictures are not drawn: ${shownText(format)}, which is the default at /render; ask for json, or for one of ${formats.slice(1).join(', ')}`,
    );
  }
  throw badRequest(`format: none of ${formats.join(', ')}: ${shownText(format)}`);
}

function renderCallOf({ clock }: RenderSetup, parameters: URLSearchParams): RenderCall {
  const given = [...parameters.getAll('target'), ...parameters.getAll('target[]')];
  // Dashboards send fields that nobody filled in.
  const targets = given.filter((target) => target.trim() !== '');
  if (targets.length > targetsMax) {
    throw badRequest(`target: more than ${targetsMax}: ${targets.length}`);
  }
  const zone = new Zone(parameters.get('tz') || 'UTC');
  const nowSeconds = Math.floor(clock.nowMillis() / 1000);
  const now = parameters.get('now') || '';
  const time = {
    zone,
    nowSeconds: now === '' ? nowSeconds : parseTime(now, { zone, nowSeconds }),
  };
  const fromSeconds = parseTime(parameters.get('from') || '-1d', time);
  const untilSeconds = parseTime(parameters.get('until') || 'now', time);
  if (fromSeconds === untilSeconds) {
    throw badRequest(`from: the range of time is empty: ${fromSeconds}`);
  }
  const factor = parameters.get('xFilesFactor') ?? '';
  if (factor !== '' && !(Number(factor) >= 0 && Number(factor) <= 1)) {
    throw badRequest(`xFilesFactor: not between 0 and 1: ${shownText(factor)}`);
  }
  return {
    targets,
    time,
    fromSeconds: Math.min(fromSeconds, untilSeconds),
    untilSeconds: Math.max(fromSeconds, untilSeconds),
    xFilesFactor: factor === '' ? null : Number(factor),
    variables: variablesOf(parameters),
  };
}

function variablesOf(parameters: URLSearchParams): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  for (const [name, value] of parameters) {
    const variable = /^template\[(.*)\]$/.exec(name)?.[1];
    if (variable !== undefined) variables.set(variable, value);
  }
  if (variables.size > templateVariablesMax) {
    throw badRequest(`template: more than ${templateVariablesMax} variables: ${variables.size}`);
  }
  return variables;
}
