/** Instant and range queries of the expression language. */
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { stepsMax } from './limits.ts';
import { writeResultJson } from '../promql/engine.ts';
import type { PromqlEngine, QueryOptions, QueryResult } from '../promql/engine.ts';
import type { Route } from './server.ts';
import { type ApiAnswer, type ApiRequest, bothNames, jsonContentType } from './http_api.ts';
import {
  answerHeaders,
  checkRange,
  limitsOf,
  lookbackMillisOf,
  millisOfNanos,
  parametersOf,
  type QuerySettings,
  requiredText,
  stepParameter,
  timeoutMillisOf,
  timestampParameter,
} from './parameters.ts';

export interface QueryApiSetup {
  readonly engine: Pick<PromqlEngine, 'rangeQuery' | 'instantQuery'>;
  readonly settings: QuerySettings;
  readonly samplesMax: number;
  readonly clock: Clock;
}

/** The engine of the answer; asking for one that is not there gets the default, as in M3. */
const engineName = 'prometheus';

export function queryRoutes(setup: QueryApiSetup): Route[] {
  const routes: Route[] = [];
  for (const prefix of ['', '/prometheus']) {
    routes.push(
      {
        methods: ['GET', 'POST'],
        path: `${prefix}/api/v1/query_range`,
        handler: (request) => rangeQuery(setup, request),
      },
      {
        methods: ['GET', 'POST'],
        path: `${prefix}/api/v1/query`,
        handler: (request) => instantQuery(setup, request),
      },
    );
  }
  return routes;
}

async function rangeQuery(setup: QueryApiSetup, request: ApiRequest): Promise<ApiAnswer> {
  const { engine, settings, clock } = setup;
  const parameters = await parametersOf(request);
  const query = requiredText(parameters, 'query');
  const now = clock.nowNanos();
  const startNanos = timestampParameter(parameters, 'start', now, null);
  const endNanos = timestampParameter(parameters, 'end', now, null);
  const stepMillis = stepParameter(parameters);
  checkRange(request, parameters, startNanos, endNanos, settings);
  const startMillis = millisOfNanos(startNanos);
  const endMillis = millisOfNanos(endNanos);
  checkSteps(startMillis, endMillis, stepMillis);
  const options = optionsOf(setup, request, parameters, stepMillis);
  const result = await engine.rangeQuery(
    query,
    startMillis,
    endMillis,
    stepMillis,
    options,
    request.signal,
  );
  return queryAnswer(result, options);
}

function checkSteps(startMillis: number, endMillis: number, stepMillis: number): void {
  const steps = Math.floor((endMillis - startMillis) / stepMillis) + 1;
  if (steps > stepsMax) {
    throw badRequest(
      `step: exceeded maximum resolution of ${stepsMax} points per timeseries, try a longer step: ${steps} points`,
    );
  }
}

async function instantQuery(setup: QueryApiSetup, request: ApiRequest): Promise<ApiAnswer> {
  const { engine, clock } = setup;
  const parameters = await parametersOf(request);
  const query = requiredText(parameters, 'query');
  const now = clock.nowNanos();
  const timeNanos = timestampParameter(parameters, 'time', now, now);
  const options = optionsOf(setup, request, parameters, null);
  const result = await engine.instantQuery(
    query,
    millisOfNanos(timeNanos),
    options,
    request.signal,
  );
  return queryAnswer(result, options);
}

type ApiQueryOptions = QueryOptions & { readonly timeoutMillis: number };

function optionsOf(
  { settings, samplesMax }: QueryApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
  stepMillis: number | null,
): ApiQueryOptions {
  return {
    lookbackMillis: lookbackMillisOf(parameters, stepMillis, settings),
    timeoutMillis: timeoutMillisOf(request, parameters, settings),
    samplesMax,
    limits: limitsOf(request, parameters, settings),
  };
}

function queryAnswer(result: QueryResult, options: ApiQueryOptions): ApiAnswer {
  return {
    status: 200,
    headers: {
      'Content-Type': jsonContentType,
      ...bothNames('Engine', engineName),
      ...answerHeaders({
        timeoutMillis: options.timeoutMillis,
        seriesLimited: !result.exhaustive,
        warnings: result.warnings,
        seriesCount: result.stats.selectedSeries,
      }),
    },
    body: writeResultJson(result),
  };
}
