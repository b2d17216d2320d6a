/** Instant and range queries of the expression language. */
import type { Clock } from '#lib/env/env.ts';
import { shownText } from '#lib/errors.ts';
import { writeResultJson } from '../promql/engine.ts';
import type { PromqlEngine, QueryOptions, QueryResult, StatsDetail } from '../promql/engine.ts';
import { type ApiAnswer, type ApiRequest, bothNames, jsonContentType } from '../http/http_api.ts';
import type { ChosenStorage, StorageFor } from '../select/storage.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import { lookbackMillisOf, type QuerySettings, readOptionsOf } from '../reads/options.ts';
import { type ReturnedLimits, returnedPart, toldOfPart } from '../reads/returned.ts';
import { requiredText, ofParameter } from '../http/parameters.ts';
import { type RangeTimes, rangeTimesOf, timeMillisOf } from '../reads/query_times.ts';
import { asksForM3ql } from '../m3ql/endpoints/engine_choice.ts';
import { type ScriptSetup, scriptInstant, scriptRange } from '../m3ql/endpoints/query.ts';

export interface QueryApiSetup {
  readonly engine: Pick<PromqlEngine, 'rangeQuery' | 'instantQuery'>;
  readonly storageFor: StorageFor<ApiRequest>;
  readonly settings: QuerySettings;
  readonly samplesMax: number;
  /** Of steps, with the feature for that. */
  readonly perStepStats: boolean;
  readonly clock: Clock;
  /** For requests that ask for the other language. */
  readonly m3ql: ScriptSetup;
}

/** The engine of the answer; asking for one that is not there gets the default, as in M3. */
const engineName = 'prometheus';

interface ApiQueryOptions extends QueryOptions {
  readonly storage: ChosenStorage;
  readonly timeoutMillis: number;
  readonly returned: ReturnedLimits;
  /** Null: nothing is told. */
  readonly stats: StatsDetail | null;
  readonly warnings: readonly string[];
}

interface RangeCall extends RangeTimes {
  readonly query: string;
  readonly options: ApiQueryOptions;
}

interface InstantCall {
  readonly query: string;
  readonly timeMillis: number;
  readonly options: ApiQueryOptions;
}

export async function rangeQuery(
  setup: QueryApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  if (asksForM3ql(request, parameters)) return await scriptRange(setup.m3ql, request, parameters);
  const call = rangeCallOf(setup, request, parameters);
  const { query, startMillis, endMillis, stepMillis, options } = call;
  const { signal } = request;
  const result = await ofParameter(
    'query',
    setup.engine.rangeQuery(query, startMillis, endMillis, stepMillis, options, signal),
  );
  return queryAnswer(result, options);
}

export async function instantQuery(
  setup: QueryApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  if (asksForM3ql(request, parameters)) return await scriptInstant(setup.m3ql, request, parameters);
  const { query, timeMillis, options } = instantCallOf(setup, request, parameters);
  const result = await ofParameter(
    'query',
    setup.engine.instantQuery(query, timeMillis, options, request.signal),
  );
  return queryAnswer(result, options);
}

function rangeCallOf(
  setup: QueryApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): RangeCall {
  const query = requiredText(parameters, 'query');
  const times = rangeTimesOf(setup, request, parameters);
  const options = optionsOf(setup, request, parameters, times.stepMillis);
  return { query, ...times, options };
}

function instantCallOf(
  setup: QueryApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): InstantCall {
  const query = requiredText(parameters, 'query');
  return {
    query,
    timeMillis: timeMillisOf(setup.clock, parameters),
    options: optionsOf(setup, request, parameters, null),
  };
}

function optionsOf(
  { storageFor, settings, samplesMax, perStepStats }: QueryApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
  stepMillis: number | null,
): ApiQueryOptions {
  const stats = parameters.get('stats') ?? '';
  const isKnown = stats === '' || stats === 'true' || stats === 'all';
  return {
    storage: storageFor(request),
    stats: stats === '' ? null : stats === 'all' && perStepStats ? 'steps' : 'sums',
    countsSamples: stats !== '',
    warnings: isKnown ? [] : [unknownStats(stats)],
    lookbackMillis: lookbackMillisOf(parameters, stepMillis, settings),
    samplesMax,
    ...readOptionsOf(request, parameters, settings),
  };
}

/** In Prometheus' words. */
function unknownStats(text: string): string {
  return `value ${JSON.stringify(shownText(text))} for parameter "stats" is deprecated and will be rejected in the next major release, use "true" or "all"`;
}

function queryAnswer(result: QueryResult, options: ApiQueryOptions): ApiAnswer {
  const { headers, warnings, seriesMax } = toldOfPart(returnedPart(result, options.returned));
  const { hidden } = options.storage;
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
        read: options.limits.read,
      }),
      ...headers,
    },
    body: writeResultJson(result, {
      ...options,
      warnings: [...options.warnings, ...warnings],
      hidden,
      seriesMax,
    }),
  };
}
