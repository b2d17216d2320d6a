/**
 * What clients of Prometheus ask beside queries: Grafana's data source, promtool, editors. Nothing
 * is scraped and no rule is evaluated here, so most answers are the empty ones that Prometheus
 * gives when it has none.
 */
import type { Turning } from '#engine/aside/aside.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { formatQuery } from '../promql/parse/format.ts';
import type { PromqlFeatures } from '../promql/parse/features.ts';
import { treeJson } from '../promql/parse/tree_json.ts';
import {
  type ApiAnswer,
  booleanOf,
  type FormHandler,
  jsonAnswer,
  jsonContentType,
  type PlainHandler,
} from '../http/http_api.ts';
import { requiredText, ofParameter } from '../http/parameters.ts';

export interface CompatApiSetup {
  readonly features: PromqlFeatures;
  /** For what takes a query's text apart. */
  readonly turningOf: (signal: AbortSignal) => Turning;
  /** Of the product. */
  readonly version: string;
}

/** Clients choose the dialect of the query language by this. */
const dialectVersion = '3.15.0';

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

export const targets: PlainHandler<CompatApiSetup> = (_, { urlParameters }) => {
  checkWord(urlParameters, 'state', ['active', 'dropped', 'any']);
  return success({ activeTargets: [], droppedTargets: [], droppedTargetCounts: {} });
};

export const scrapePools: PlainHandler<CompatApiSetup> = () => success({ scrapePools: [] });

/** Of a pool, of which there is none. */
export const scrapePoolConfig: PlainHandler<CompatApiSetup> = (_, { urlParameters }) => {
  const name = requiredText(urlParameters, 'scrapePool');
  throw badRequest(`scrapePool: there is no such scrape pool: ${shownText(name)}`);
};

export const notifications: PlainHandler<CompatApiSetup> = () => success([]);

/** Blocks are those of namespaces on the nodes, and none of Prometheus' kind. */
export const tsdbBlocks: PlainHandler<CompatApiSetup> = () => success({ blocks: [] });

export const rules: PlainHandler<CompatApiSetup> = (_, { urlParameters }) => {
  checkWord(urlParameters, 'type', ['alert', 'record']);
  checkWholeNumber(urlParameters, 'group_limit');
  const excludesAlerts = urlParameters.get('exclude_alerts') ?? '';
  if (excludesAlerts !== '') booleanOf(excludesAlerts, 'exclude_alerts');
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

/** The tree of a query. */
export const queryTree: FormHandler<CompatApiSetup> = async (
  { features, turningOf },
  { signal },
  parameters,
) => {
  const query = requiredText(parameters, 'query');
  const tree = await ofParameter('query', treeJson(query, features, turningOf(signal)));
  return {
    status: 200,
    headers: { 'Content-Type': jsonContentType },
    body: `{"status":"success","data":${tree}}`,
  };
};

function success(data: unknown): ApiAnswer {
  return jsonAnswer({ status: 'success', data });
}

function checkWholeNumber(parameters: URLSearchParams, name: string): void {
  const text = parameters.get(name) ?? '';
  if (text !== '' && !/^-?\d{1,15}$/.test(text)) {
    throw badRequest(`${name}: not a whole number: ${shownText(text)}`);
  }
}

function checkWord(parameters: URLSearchParams, name: string, words: readonly string[]): void {
  const text = parameters.get(name) ?? '';
  if (text !== '' && !words.includes(text)) {
    throw badRequest(`${name}: not one of ${words.join(', ')}: ${shownText(text)}`);
  }
}
