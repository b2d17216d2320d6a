/** Labels, values of a label, and series: what Grafana and promtool ask to know what there is. */
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { decodeTags } from '#lib/tags.ts';
import { selectorsMax } from './limits.ts';
import type { Route } from './server.ts';
import type {
  LabelResult,
  Matcher,
  QueryStorage,
  SelectRange,
  SelectResult,
} from '../select/storage.ts';
import { type ApiAnswer, type ApiRequest, jsonAnswer, jsonContentType } from './http_api.ts';
import {
  answerHeaders,
  boundParameter,
  checkRange,
  limitsOf,
  parametersOf,
  type QuerySettings,
  timeoutMillisOf,
} from './parameters.ts';

export interface LabelsApiSetup {
  readonly storage: QueryStorage;
  /** Of the query language: "up{job='node'}" to matchers. */
  readonly parseSelector: (text: string) => readonly Matcher[];
  readonly settings: QuerySettings;
  readonly clock: Clock;
}

interface LabelsCall {
  readonly matcherLists: readonly (readonly Matcher[])[];
  readonly range: SelectRange;
  readonly limits: ReturnType<typeof limitsOf>;
  readonly resultMax: number;
  readonly timeoutMillis: number;
  readonly signal: AbortSignal;
}

export function labelsRoutes(setup: LabelsApiSetup): Route[] {
  const { storage } = setup;
  const labels = async (
    request: ApiRequest,
    ask: (call: LabelsCall) => Promise<LabelResult>,
  ): Promise<ApiAnswer> => {
    const call = await callOf(setup, request, false);
    return labelsAnswer(await ask(call), call);
  };
  const routes: Route[] = [];
  for (const prefix of ['', '/prometheus']) {
    routes.push(
      {
        methods: ['GET', 'POST'],
        path: `${prefix}/api/v1/labels`,
        handler: (request) =>
          labels(request, ({ matcherLists, range, limits, signal }) =>
            storage.labelNames(matcherLists, range, limits, signal),
          ),
      },
      {
        methods: ['GET'],
        path: `${prefix}/api/v1/label/{name}/values`,
        handler: (request) =>
          labels(request, ({ matcherLists, range, limits, signal }) =>
            storage.labelValues(labelName(request), matcherLists, range, limits, signal),
          ),
      },
      {
        methods: ['GET', 'POST'],
        path: `${prefix}/api/v1/series`,
        handler: async (request) => {
          const call = await callOf(setup, request, true);
          const { matcherLists, range, limits, signal } = call;
          return seriesAnswer(await storage.series(matcherLists, range, limits, signal), call);
        },
      },
    );
  }
  return routes;
}

/** Names that are no identifiers come escaped ("U__" and the like) and are taken as they are. */
function labelName(request: ApiRequest): string {
  const name = request.pathParameters['name'] ?? '';
  if (name === '') throw badRequest('name: the label is empty');
  return name;
}

async function callOf(
  setup: LabelsApiSetup,
  request: ApiRequest,
  selectorRequired: boolean,
): Promise<LabelsCall> {
  const { settings, clock, parseSelector } = setup;
  const parameters = await parametersOf(request);
  const selectors = parameters.getAll('match[]');
  if (selectorRequired && selectors.length === 0) {
    throw badRequest('missing required parameter: match[]');
  }
  if (selectors.length > selectorsMax) {
    throw badRequest(`match[]: more than ${selectorsMax} selectors: ${selectors.length}`);
  }
  const now = clock.nowNanos();
  const startNanos = boundParameter(parameters, 'start', now, 0n);
  const endNanos = boundParameter(parameters, 'end', now, now);
  // Without a start everything is asked for, which is no range that a limit is about.
  if ((parameters.get('start') ?? '') !== '') {
    checkRange(request, parameters, startNanos, endNanos, settings);
  } else if (endNanos < startNanos) {
    throw badRequest('end: end timestamp must not be before start time');
  }
  const timeoutMillis = timeoutMillisOf(request, parameters, settings);
  return {
    matcherLists: selectors.map((text) => parseSelector(text)),
    // The end of such a request is inclusive.
    range: { startNanos, endNanos: endNanos + 1n },
    ...splitLimit(request, parameters, settings),
    timeoutMillis,
    signal: clock.deadline(timeoutMillis, request.signal),
  };
}

/** Here `limit` is on the entries of the answer and cuts it, as in Prometheus; 0 = none. */
function splitLimit(
  request: ApiRequest,
  parameters: URLSearchParams,
  settings: QuerySettings,
): { limits: ReturnType<typeof limitsOf>; resultMax: number } {
  const text = parameters.get('limit') ?? '';
  if (text !== '' && !/^\d{1,15}$/.test(text)) {
    throw badRequest(`limit: not a whole number: ${text}`);
  }
  const others = new URLSearchParams(parameters);
  others.delete('limit');
  return { limits: limitsOf(request, others, settings), resultMax: Number(text) };
}

function cut<Item>(items: readonly Item[], resultMax: number): readonly Item[] {
  return resultMax > 0 && items.length > resultMax ? items.slice(0, resultMax) : items;
}

function warningsOf(warnings: readonly string[], truncated: boolean): { warnings?: string[] } {
  const all = [...warnings, ...(truncated ? ['results truncated due to limit'] : [])];
  return all.length === 0 ? {} : { warnings: all };
}

function labelsAnswer(result: LabelResult, call: LabelsCall): ApiAnswer {
  const data = cut(result.values, call.resultMax);
  const truncated = data.length < result.values.length;
  return jsonAnswer(
    {
      status: 'success',
      data,
      ...warningsOf(result.warnings, truncated),
    },
    answerHeaders({
      timeoutMillis: call.timeoutMillis,
      seriesLimited: !result.exhaustive || truncated,
      warnings: result.warnings,
    }),
  );
}

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
      }),
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
  const warnings =
    rest.warnings === undefined ? '' : `,"warnings":${JSON.stringify(rest.warnings)}`;
  yield encoder.encode(`${text}]${warnings}}`);
}
