/**
 * What a server says of itself to clients of Prometheus: its settings in the words of Prometheus' flags and configuration, when
 * it started, and which parts of the API and the language there are. Names of files, folders and hosts are not told.
 */
import type { PromqlFeatureName } from '#lib/config/schema/promql_features.ts';
import type { Clock } from '#lib/env/env.ts';
import type { NameValidation } from '#lib/tags.ts';
import { jsonAnswer, type PlainHandler } from '../http/http_api.ts';
import { functions } from '../promql/functions/table.ts';
import { millisText } from '../promql/parse/format.ts';
import { featuresOf, type PromqlFeatures } from '../promql/parse/features.ts';

export interface ServerInfoSetup {
  readonly clock: Clock;
  /** Unix milliseconds. */
  readonly startedMillis: number;
  /** Of the namespace that queries read; null when there is none. */
  readonly retentionMillis: () => number | null;
  readonly settings: {
    readonly features: readonly PromqlFeatureName[];
    readonly nameValidation: NameValidation;
    readonly lookbackMillis: number;
    readonly queryTimeoutMillis: number;
    readonly querySamplesMax: number;
    readonly connectionsMax: number;
  };
}

/** In the form of Prometheus' configuration, with what of it has a meaning here. */
export const statusConfig: PlainHandler<ServerInfoSetup> = ({ settings, retentionMillis }) => {
  const retention = retentionMillis();
  const lines = ['global:', `  metric_name_validation_scheme: ${settings.nameValidation}`];
  if (retention !== null) {
    lines.push('storage:', '  tsdb:', '    retention:', `      time: ${millisText(retention)}`);
  }
  return jsonAnswer({ status: 'success', data: { yaml: `${lines.join('\n')}\n` } });
};

/** Those flags of Prometheus that have a meaning here. */
export const statusFlags: PlainHandler<ServerInfoSetup> = ({ settings, retentionMillis }) => {
  const { features, lookbackMillis, queryTimeoutMillis, querySamplesMax } = settings;
  const retention = retentionMillis();
  const data: Record<string, string> = {
    agent: 'false',
    'enable-feature': features.join(','),
    'query.lookback-delta': millisText(lookbackMillis),
    'query.max-samples': String(querySamplesMax),
    'query.timeout': millisText(queryTimeoutMillis),
    'storage.remote.read-sample-limit': String(querySamplesMax),
    ...(retention === null ? {} : { 'storage.tsdb.retention.time': millisText(retention) }),
    'web.enable-admin-api': 'true',
    'web.enable-lifecycle': 'false',
    'web.enable-otlp-receiver': 'true',
    'web.enable-remote-write-receiver': 'true',
    'web.max-connections': String(settings.connectionsMax),
    'web.route-prefix': '/',
  };
  return jsonAnswer({ status: 'success', data });
};

/** What is about Go's runtime is 0 or empty. */
export const runtimeInfo: PlainHandler<ServerInfoSetup> = (setup) => {
  const { clock, startedMillis, retentionMillis } = setup;
  const retention = retentionMillis();
  const started = new Date(startedMillis).toISOString();
  return jsonAnswer({
    status: 'success',
    data: {
      startTime: started,
      CWD: '',
      hostname: '',
      serverTime: new Date(clock.nowMillis()).toISOString(),
      reloadConfigSuccess: true,
      lastConfigTime: started,
      corruptionCount: 0,
      goroutineCount: 0,
      GOMAXPROCS: 0,
      GOMEMLIMIT: 0,
      GOGC: '',
      GODEBUG: '',
      storageRetention: retention === null ? '' : millisText(retention),
    },
  });
};

/** Logs of starts are not kept here: nothing is ever to be replayed. */
export const walReplay: PlainHandler<ServerInfoSetup> = () =>
  jsonAnswer({ status: 'success', data: { min: 0, max: 0, current: 0 } });

/** What there is of Prometheus' features, by its words for them. */
export const serverFeatures: PlainHandler<ServerInfoSetup> = ({ settings }) => {
  const features = featuresOf(settings.features);
  const data = {
    api: {
      admin: true,
      exclude_alerts: false,
      label_values_match: true,
      lifecycle: false,
      'openapi_3.1': false,
      'openapi_3.2': false,
      otlp_write_receiver: true,
      query_stats: true,
      query_warnings: true,
      remote_write_receiver: true,
      search: false,
      time_range_labels: true,
      time_range_series: true,
    },
    promql: languageOf(features),
    promql_functions: Object.fromEntries(
      [...functions].map(([name, { experimental }]) => [
        name,
        !experimental || features.experimentalFunctions,
      ]),
    ),
    promql_operators: operatorsOf(features),
  };
  return jsonAnswer({ status: 'success', data });
};

function languageOf(features: PromqlFeatures): Record<string, boolean> {
  return {
    anchored: features.extendedRangeSelectors,
    at_modifier: true,
    bool: true,
    by: true,
    delayed_name_removal: features.delayedNameRemoval,
    duration_expr: true,
    fill: features.fillModifiers,
    fill_left: features.fillModifiers,
    fill_right: features.fillModifiers,
    group_left: true,
    group_right: true,
    ignoring: true,
    negative_offset: true,
    offset: true,
    on: true,
    per_query_lookback_delta: true,
    per_step_stats: features.perStepStats,
    smoothed: features.extendedRangeSelectors,
    subqueries: true,
    type_and_unit_labels: features.typeAndUnitLabels,
    without: true,
  };
}

const operators =
  '!= !~ % * + - / < </ <= == =~ > >/ >= @ ^ and atan2 avg bottomk count count_values group max min or quantile stddev stdvar sum topk unless';

function operatorsOf({ experimentalFunctions }: PromqlFeatures): Record<string, boolean> {
  return {
    ...Object.fromEntries(operators.split(' ').map((name) => [name, true])),
    limit_ratio: experimentalFunctions,
    limitk: experimentalFunctions,
  };
}
