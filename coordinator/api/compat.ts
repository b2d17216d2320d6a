/**
 * What clients of Prometheus ask beside queries: Grafana's data source, promtool, editors. Nothing
 * is scraped and no rule is evaluated here, so most answers are the empty ones that Prometheus
 * gives when it has none.
 */
import type { Turning } from '#engine/aside/aside.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { formatQuery } from '../promql/parse/format.ts';
import type { PromqlFeatures } from '../promql/parse/features.ts';
import {
  type ApiAnswer,
  type FormHandler,
  jsonAnswer,
  type PlainHandler,
} from '../http/http_api.ts';
import { requiredText, ofParameter } from './parameters.ts';

export interface CompatApiSetup {
  readonly features: PromqlFeatures;
  /** For what takes a query's text apart. */
  readonly turningOf: (signal: AbortSignal) => Turning;
  /** Of the product. */
  readonly version: string;
}

/** Clients choose the dialect of the query language by this; ours is that of Prometheus 3. */
const dialectVersion = '3.0.0';

export const buildInfo: PlainHandler<CompatApiSetup> = ({ version }) =>
  success({
    version: dialectVersion,
    application: 'tsdb',
    applicationVersion: version,
    revision: '',
    branch: '',
    buildUser: '',
    buildDate: '',
    goVersion: '',
  });

export const flags: PlainHandler<CompatApiSetup> = () => success({});

export const targets: PlainHandler<CompatApiSetup> = (_, { urlParameters }) => {
  checkWord(urlParameters, 'state', ['active', 'dropped', 'any']);
  return success({ activeTargets: [], droppedTargets: [], droppedTargetCounts: {} });
};

export const rules: PlainHandler<CompatApiSetup> = (_, { urlParameters }) => {
  checkWord(urlParameters, 'type', ['alert', 'record']);
  return success({ groups: [] });
};

export const alerts: PlainHandler<CompatApiSetup> = () => success({ alerts: [] });

export const alertmanagers: PlainHandler<CompatApiSetup> = () =>
  success({ activeAlertmanagers: [], droppedAlertmanagers: [] });

export const queryText: FormHandler<CompatApiSetup> = async (
  { features, turningOf },
  { signal },
  parameters,
) =>
  success(
    await ofParameter(
      'query',
      formatQuery(requiredText(parameters, 'query'), features, turningOf(signal)),
    ),
  );

function success(data: unknown): ApiAnswer {
  return jsonAnswer({ status: 'success', data });
}

function checkWord(parameters: URLSearchParams, name: string, words: readonly string[]): void {
  const text = parameters.get(name) ?? '';
  if (text !== '' && !words.includes(text)) {
    throw badRequest(`${name}: not one of ${words.join(', ')}: ${shownText(text)}`);
  }
}
