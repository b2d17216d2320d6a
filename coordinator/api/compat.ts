/**
 * What clients of Prometheus ask beside queries: Grafana's data source, promtool, editors. Nothing
 * is scraped and no rule is evaluated here, so most answers are the empty ones that Prometheus
 * gives when it has none.
 */
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { formatQuery } from '../promql/parse/format.ts';
import { parseQuery } from '../promql/parse/parser.ts';
import type { Route } from './server.ts';
import { type ApiAnswer, jsonAnswer } from './http_api.ts';
import { boundParameter, parametersOf, requiredText } from './parameters.ts';

export interface CompatApiSetup {
  readonly clock: Clock;
  /** Of the product. */
  readonly version: string;
}

/** Clients choose the dialect of the query language by this; ours is that of Prometheus 3. */
const dialectVersion = '3.0.0';

/** Each at its own path and below `/prometheus`. */
export function compatRoutes(setup: CompatApiSetup): Route[] {
  return ['', '/prometheus'].flatMap((prefix) => routesBelow(prefix, setup));
}

function routesBelow(prefix: string, { clock, version }: CompatApiSetup): Route[] {
  const get = (path: string, handler: Route['handler']): Route => ({
    methods: ['GET'],
    path: `${prefix}/api/v1/${path}`,
    handler,
  });
  const getOrPost = (path: string, handler: Route['handler']): Route => ({
    ...get(path, handler),
    methods: ['GET', 'POST'],
  });
  return [
    get('status/buildinfo', () => success(buildInfo(version))),
    get('status/flags', () => success({})),
    // Kinds and help texts of metrics are not stored, so there is none to tell.
    get('metadata', ({ urlParameters }) => {
      checkWholeNumber(urlParameters, 'limit');
      checkWholeNumber(urlParameters, 'limit_per_metric');
      return success({});
    }),
    get('targets', ({ urlParameters }) => {
      checkWord(urlParameters, 'state', ['active', 'dropped', 'any']);
      return success({ activeTargets: [], droppedTargets: [], droppedTargetCounts: {} });
    }),
    get('targets/metadata', () => success([])),
    get('rules', ({ urlParameters }) => {
      checkWord(urlParameters, 'type', ['alert', 'record']);
      return success({ groups: [] });
    }),
    get('alerts', () => success({ alerts: [] })),
    get('alertmanagers', () => success({ activeAlertmanagers: [], droppedAlertmanagers: [] })),
    getOrPost('query_exemplars', async (request) => {
      const parameters = await parametersOf(request);
      const now = clock.nowNanos();
      const start = boundParameter(parameters, 'start', now, 0n);
      const end = boundParameter(parameters, 'end', now, now);
      if (end < start) throw badRequest('end: end timestamp must not be before start time');
      parseQuery(requiredText(parameters, 'query'), { experimentalFunctions: true });
      // Exemplars of writes are not stored.
      return success([]);
    }),
    getOrPost('format_query', async (request) =>
      success(formatQuery(requiredText(await parametersOf(request), 'query'))),
    ),
  ];
}

function success(data: unknown): ApiAnswer {
  return jsonAnswer({ status: 'success', data });
}

function buildInfo(version: string): object {
  return {
    version: dialectVersion,
    application: 'tsdb',
    applicationVersion: version,
    revision: '',
    branch: '',
    buildUser: '',
    buildDate: '',
    goVersion: '',
  };
}

function checkWholeNumber(parameters: URLSearchParams, name: string): void {
  const text = parameters.get(name) ?? '';
  if (text !== '' && !/^-?\d{1,15}$/.test(text)) {
    throw badRequest(`${name}: not a whole number: ${text}`);
  }
}

function checkWord(parameters: URLSearchParams, name: string, words: readonly string[]): void {
  const text = parameters.get(name) ?? '';
  if (text !== '' && !words.includes(text)) {
    throw badRequest(`${name}: not one of ${words.join(', ')}: ${text}`);
  }
}
