/** Labels, values of a label, and series: what Grafana and promtool ask to know what there is. */
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { decodeTags } from '#lib/tags.ts';
import { unescapedName } from '../exposition/names.ts';
import { withoutTags } from '../forced_tags/forced_tags.ts';
import type {
  LabelResult,
  Matcher,
  SelectLimits,
  SelectRange,
  SelectResult,
  StorageFor,
} from '../select/storage.ts';
import { type ApiAnswer, type ApiRequest, jsonAnswer, jsonContentType } from '../http/http_api.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import {
  boundParameter,
  checkOrder,
  checkRange,
  selectorsOf,
  ofParameter,
} from '../http/parameters.ts';
import { type QuerySettings, rangeMillisMaxOf, readOptionsOf, tightest } from '../reads/options.ts';
import { cutWarning, type ReturnedLimits, returnedNamesHeaders } from '../reads/returned.ts';
import { wholeNumber } from '../http/whole_number.ts';

export interface LabelsApiSetup {
  readonly storageFor: StorageFor<ApiRequest>;
  /** Of the query language: "up{job='node'}" to matchers. */
  readonly parseSelectors: ParseSelectors;
  readonly turningOf: (signal: AbortSignal) => Turning;
  readonly settings: QuerySettings;
  readonly clock: Clock;
}

export type ParseSelectors = (
  texts: readonly string[],
  turning: Turning,
) => Promise<readonly (readonly Matcher[])[]>;

interface LabelsCall {
  readonly matcherLists: readonly (readonly Matcher[])[];
  readonly range: SelectRange;
  readonly limits: SelectLimits;
  /** Longest answer; 0 = no limit. */
  readonly resultMax: number;
  readonly returned: ReturnedLimits;
  readonly timeoutMillis: number;
  readonly signal: AbortSignal;
}

export async function labelNames(
  setup: LabelsApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = await labelsCallOf(setup, request, parameters, 0);
  const { matcherLists, range, limits, signal } = call;
  return labelsAnswer(
    await setup.storageFor(request).labelNames(matcherLists, range, limits, signal),
    call,
  );
}

export async function labelValues(
  setup: LabelsApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = await labelsCallOf(setup, request, parameters, 0);
  const { matcherLists, range, limits, signal } = call;
  const name = unescapedName(request.pathParameters['name'] ?? '');
  if (name === '') throw badRequest('name: the label is empty');
  const storage = setup.storageFor(request);
  const found = await storage.labelValues(name, matcherLists, range, limits, signal);
  return labelsAnswer(found, call);
}

export async function series(
  setup: LabelsApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = await labelsCallOf(setup, request, parameters, 1);
  const { matcherLists, range, limits, signal } = call;
  const storage = setup.storageFor(request);
  const found = await storage.series(matcherLists, range, limits, signal);
  const { work } = setup.turningOf(signal);
  const bundle = await withoutTags(found.bundle, storage.hidden, work);
  return seriesAnswer({ ...found, bundle }, call);
}

/** @param selectorsLeast how many `match[]` there must be */
async function labelsCallOf(
  { settings, clock, parseSelectors, turningOf }: LabelsApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
  selectorsLeast: 0 | 1,
): Promise<LabelsCall> {
  const selectors = selectorsOf(parameters, selectorsLeast);
  const now = clock.nowNanos();
  const startNanos = boundParameter(parameters, 'start', now, 0n);
  // Who asks for what is to come without saying until when finds nothing.
  const endNanos = boundParameter(parameters, 'end', now, startNanos > now ? startNanos : now);
  checkOrder(startNanos, endNanos);
  // Without a start everything is asked for, which is no range that a limit is about.
  if ((parameters.get('start') ?? '') !== '') {
    checkRange(startNanos, endNanos, rangeMillisMaxOf(request, parameters, settings));
  }
  // Here `limit` is on the entries of the answer and cuts it, as in Prometheus.
  const options = readOptionsOf(request, parameters, settings, ['seriesLimit']);
  const { timeoutMillis, limits, returned } = options;
  const asked = wholeNumber(parameters.get('limit') || '0', 'limit');
  const signal = clock.deadline(timeoutMillis, request.signal);
  return {
    matcherLists: await ofParameter('match[]', parseSelectors(selectors, turningOf(signal))),
    // The end of such a request is inclusive.
    range: { startNanos, endNanos: endNanos + 1n },
    limits,
    resultMax: tightest([asked, returned.namesMax]),
    returned,
    timeoutMillis,
    signal,
  };
}

function cut<Item>(items: readonly Item[], resultMax: number): readonly Item[] {
  return resultMax > 0 && items.length > resultMax ? items.slice(0, resultMax) : items;
}

function warningsOf(warnings: readonly string[], truncated: boolean): { warnings?: string[] } {
  const all = [...warnings, ...(truncated ? [cutWarning] : [])];
  return all.length === 0 ? {} : { warnings: all };
}

function labelsAnswer(result: LabelResult, call: LabelsCall): ApiAnswer {
  const data = cut(result.values, call.resultMax);
  const truncated = data.length < result.values.length;
  const rest = warningsOf(result.warnings, truncated);
  const headers = answerHeaders({
    timeoutMillis: call.timeoutMillis,
    seriesLimited: !result.exhaustive || truncated,
    warnings: result.warnings,
    read: call.limits.read,
  });
  const told = returnedNamesHeaders(data.length, result.values.length, call.returned);
  if (data.length <= valuesPerPart) {
    return jsonAnswer({ status: 'success', data, ...rest }, { ...headers, ...told });
  }
  const contentType = { 'Content-Type': jsonContentType };
  return {
    status: 200,
    headers: { ...contentType, ...headers, ...told },
    body: valuesJson(data, rest),
  };
}

/** Values in one part of the answer. */
const valuesPerPart = 5_000;

function* valuesJson(
  values: readonly string[],
  rest: { warnings?: readonly string[] },
): Iterable<Uint8Array> {
  let opening = '{"status":"success","data":[';
  for (let from = 0; from < values.length; from += valuesPerPart) {
    const part = JSON.stringify(values.slice(from, from + valuesPerPart));
    yield Buffer.from(`${opening}${part.slice(1, -1)}`);
    opening = ',';
  }
  yield Buffer.from(`]${warningsJson(rest)}}`);
}

const warningsJson = ({ warnings }: { warnings?: readonly string[] }): string =>
  warnings === undefined ? '' : `,"warnings":${JSON.stringify(warnings)}`;

function seriesAnswer(result: SelectResult, call: LabelsCall): ApiAnswer {
  const { bundle, exhaustive, warnings } = result;
  const { resultMax, timeoutMillis } = call;
  const truncated = resultMax > 0 && bundle.seriesCount > resultMax;
  const count = truncated ? resultMax : bundle.seriesCount;
  const rest = warningsOf(warnings, truncated);
  return {
    status: 200,
    headers: {
      'Content-Type': jsonContentType,
      ...answerHeaders({
        timeoutMillis,
        seriesLimited: !exhaustive || truncated,
        warnings,
        seriesCount: bundle.seriesCount,
        read: call.limits.read,
      }),
      ...returnedNamesHeaders(count, bundle.seriesCount, call.returned),
    },
    body: seriesJson(result, count, rest),
  };
}

/** Series in one part of the answer. */
const seriesPerPart = 1_000;

/** The answer in parts, so that a hundred thousand series are never one text. */
function* seriesJson(
  { bundle }: SelectResult,
  count: number,
  rest: { warnings?: readonly string[] },
): Iterable<Uint8Array> {
  const encoder = new TextEncoder();
  let text = '{"status":"success","data":[';
  for (let index = 0; index < count; index += 1) {
    const { tagsData, tagsOffset } = bundle;
    const tags = decodeTags(tagsData.subarray(tagsOffset[index]!, tagsOffset[index + 1]!));
    const members = tags.map(
      ({ name, value }) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
    );
    text += `${index > 0 ? ',' : ''}{${members.join(',')}}`;
    if (index % seriesPerPart === seriesPerPart - 1) {
      yield encoder.encode(text);
      text = '';
    }
  }
  yield encoder.encode(`${text}]${warningsJson(rest)}}`);
}
