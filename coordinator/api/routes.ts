/**
 * The whole HTTP API as one table. A row has methods, the paths that serve the same, what kind of
 * endpoint it is, and its handler with the form of the body: `plain` (none), `form` (parameters of
 * the URL and of a form), `json` or `bytes`, the last two with the longest body.
 *
 *     write     found before express; its bodies count against the limit on writes in flight
 *     mapped    the same, and may want its tags written otherwise
 *     read      its asker may choose namespaces by hand, and be forced to read some series alone
 *     tagged    may be forced to some series alone
 *     delete    the same, and is made in all namespaces but where it names them
 *     all       tells of all series, and of no part of them
 *     allWrite  changes what is of all series, and tells nothing of them
 *     admin     shows or changes what all data are kept by
 *     other     everything else: it has nothing of data
 *
 * Headers that an endpoint does not know are refused where they are about data, but for `other`: a proxy sends them with all that it
 * passes on, be it the greeting of a client. Of reads a GET costs what its asker likes, so there is none for pages of other sites.
 *
 * docs/HTTP_API.md lists the same methods and paths; a test compares the two.
 */
import { badRequest } from '#lib/errors.ts';
import type { Ingest } from '../ingest/ingest.ts';
import {
  databaseCreate,
  healthGet,
  kvstore,
  namespaceAdd,
  namespaceDelete,
  namespaceGet,
  namespaceReady,
  namespaceUpdate,
  placementAdd,
  placementDelete,
  placementGet,
  placementInit,
  placementRemove,
  placementRemoveInstance,
  placementReplace,
  placementApprove,
  placementReset,
  placementSet,
  schemaDeploy,
  schemaGet,
  schemaReset,
  upgradeFinish,
  upgradeGet,
} from '../admin/admin.ts';
import {
  aggregatorsAdd,
  aggregatorsDelete,
  aggregatorsGet,
  aggregatorsInit,
  aggregatorsRemove,
  aggregatorsRemoveInstance,
  aggregatorsReplace,
  aggregatorsSet,
} from '../admin/aggregators.ts';
import {
  mappingRule,
  rollupRule,
  ruleSet,
  ruleSetAdd,
  ruleSetChange,
  ruleSetCheck,
  ruleSetPut,
  ruleSetRemove,
  ruleSets,
} from '../admin/aggregation_rules.ts';
import type { AdminApiSetup } from '../admin/call.ts';
import {
  alertmanagers,
  alerts,
  buildInfo,
  type CompatApiSetup,
  notifications,
  queryText,
  queryTree,
  rules,
  scrapePoolConfig,
  scrapePools,
  targets,
  tsdbBlocks,
} from './compat.ts';
import { type CompanionApiSetup, metadata, queryExemplars, targetsMetadata } from './companions.ts';
import {
  datadogBytesMax,
  datadogIgnored,
  datadogSeries,
  type DatadogSetup,
  datadogSketches,
  datadogValidate,
} from '../datadog/http.ts';
import { cleanTombstones, deleteSeries, type DeletionApiSetup } from './deletions.ts';
import { exportCsv, exportSeries, type ExportSetup } from './export.ts';
import { federate } from './federate.ts';
import { type ForcedTags, isForcing } from '../forced_tags/forced_tags.ts';
import { forcedTagsHeader } from '../forced_tags/header.ts';
import { frontPage, type FrontPageFacts } from '../http/front_page.ts';
import {
  type ApiHandler,
  bytes,
  type BytesHandler,
  form,
  json,
  plain,
  refuseBareHeaders,
  refuseEmptyHeader,
  refuseHeaders,
  taking,
} from '../http/http_api.ts';
import { jsonWrite } from './json/write.ts';
import { carbonWrite } from './lines/carbon.ts';
import { expositionWrite } from './lines/exposition.ts';
import { jsonLinesWrite, type JsonLinesSetup } from './lines/json_lines.ts';
import { influxPing, influxQuery, influxWrite } from './lines/influx.ts';
import { type EventsSetup, getEvents, postEvent } from '../graphite/endpoints/events.ts';
import { expand, find, type FindSetup, index } from '../graphite/endpoints/find.ts';
import { functionDescription, functionList } from '../graphite/endpoints/functions.ts';
import { render, type RenderSetup } from '../graphite/endpoints/render.ts';
import {
  completeTags,
  completeValues,
  findSeries,
  tagNames,
  type TagsSetup,
  tagValues,
} from '../graphite/endpoints/tags.ts';
import {
  delSeries,
  tagMultiSeries,
  tagSeries,
  type TagWritesSetup,
} from '../graphite/endpoints/tag_writes.ts';
import { graphiteVersion } from '../graphite/endpoints/version.ts';
import { labelNames, type LabelsApiSetup, labelValues, series } from './labels.ts';
import { type MessagesApiSetup, queryMessages } from './messages.ts';
import { jsonWriteBytesMax, readBodyBytesMax } from '../http/limits.ts';
import { health, type OpsApiSetup, ready, routeList } from './ops.ts';
import { instantQuery, type QueryApiSetup, rangeQuery } from './query.ts';
import { scriptInstant, scriptRange } from '../m3ql/endpoints/query.ts';
import { remoteRead, remoteReadByQuery, type RemoteReadSetup } from './remote_read.ts';
import { coordinatorPlacement, topics } from '../m3/not_here.ts';
import { type DescribedRoute, openApi, openApiOf } from '../m3/openapi.ts';
import { queryDag, queryThreshold } from '../m3/parse.ts';
import { searchSeries, searchTags } from '../m3/search.ts';
import type { Method, Route } from '../http/server.ts';
import { choosingHeaders } from '../reads/namespace_choice.ts';
import {
  runtimeInfo,
  serverFeatures,
  type ServerInfoSetup,
  statusConfig,
  statusFlags,
  walReplay,
} from './server_info.ts';
import { type StatusApiSetup, tsdbStatus } from './status.ts';
import { put, type PutSetup } from '../opentsdb/put.ts';
import { otlpMetrics, type OtlpSetup } from '../otlp/http.ts';
import { remoteWrite, type RemoteWriteSetup } from './write.ts';
import { checkWriteHeaders, isDirectWrite, mapTagsHeader } from '../ingest/write_headers.ts';

export interface ApiSetup {
  readonly admin: AdminApiSetup;
  readonly ingest: Ingest;
  /** The same, but that no rule drops rows of it. */
  readonly undropped: Ingest;
  readonly otlp: OtlpSetup;
  readonly jsonLines: JsonLinesSetup;
  readonly datadog: DatadogSetup;
  readonly remoteWrite: RemoteWriteSetup;
  readonly put: PutSetup;
  readonly writeBodyBytesMax: number;
  readonly query: QueryApiSetup;
  readonly labels: LabelsApiSetup;
  /** On all who read. */
  readonly forced: ForcedTags;
  readonly messages: MessagesApiSetup;
  readonly graphite: {
    readonly render: Omit<RenderSetup, 'formatDefault'>;
    readonly events: EventsSetup;
    readonly find: FindSetup;
    readonly tags: TagsSetup;
    /** But for the deletion, which is made as others are. */
    readonly tagWrites: Omit<TagWritesSetup, 'deleteSeries'>;
  };
  readonly export: ExportSetup;
  readonly read: RemoteReadSetup;
  readonly status: StatusApiSetup;
  readonly deletions: DeletionApiSetup;
  readonly companions: CompanionApiSetup;
  readonly compat: CompatApiSetup;
  readonly info: ServerInfoSetup;
  readonly ops: OpsApiSetup;
  readonly page: FrontPageFacts;
}

type Kind =
  | 'write'
  | 'mapped'
  | 'read'
  | 'tagged'
  | 'delete'
  | 'all'
  | 'allWrite'
  | 'admin'
  | 'other';

/** Headers about data. */
const dataHeaders = [forcedTagsHeader, mapTagsHeader, ...choosingHeaders];

/** Headers about data of which endpoints of a kind know nothing. */
const unknownHeaders: Readonly<Record<Kind, readonly string[]>> = {
  write: [forcedTagsHeader, mapTagsHeader, ...choosingHeaders],
  mapped: [forcedTagsHeader, ...choosingHeaders],
  read: [mapTagsHeader],
  tagged: [mapTagsHeader, ...choosingHeaders],
  delete: [mapTagsHeader, ...choosingHeaders],
  all: dataHeaders,
  allWrite: dataHeaders,
  admin: dataHeaders,
  other: [],
};

type Row = readonly [
  methods: Method | 'GET POST' | 'POST PUT' | 'GET POST DELETE' | 'GET POST PUT DELETE',
  paths: readonly string[],
  kind: Kind,
  handler: ApiHandler,
];

/** Of Prometheus: at its own path, and below the prefix that some clients put before it. */
const both = (rest: string): string[] => [`/api/v1/${rest}`, `/prometheus/api/v1/${rest}`];
/** The second ones are where Prometheus itself takes and answers. */
const writePaths = ['/api/v1/compat/remote/write', ...both('write')];
/** Of M3, and of InfluxDB 1 and 2. */
const influxWritePaths = ['/api/v1/influxdb/write', '/write', '/api/v2/write'];
/** M3's, and where Graphite itself answers. */
const graphite = (...rests: string[]): string[] =>
  rests.flatMap((rest) => [`/api/v1/graphite/${rest}`, `/${rest}`]);
/** Of Prometheus, and where exporters send to a server that is an endpoint of OTLP alone. */
const otlpPaths = ['/api/v1/otlp/v1/metrics', '/v1/metrics'];
/** Of VictoriaMetrics. */
const expositionPaths = ['/api/v1/import/prometheus'];
/** Of Datadog, and below the prefix that VictoriaMetrics has. */
const datadog = (...paths: string[]): string[] =>
  paths.flatMap((path) => [`/datadog${path}`, path]);
/** Without the prefix it is Prometheus'. */
const datadogSeriesPaths = ['/datadog/api/v1/series'];
const datadogIgnoredPaths = datadog(
  '/intake',
  '/intake/',
  '/api/v1/check_run',
  '/api/v1/metadata',
  '/api/v2/events',
  '/api/v2/service_checks',
  '/api/v2/host_metadata',
);
const readPaths = ['/api/v1/compat/remote/read', ...both('read')];
/** Of M3's own engine, whose language is PromQL, too. */
const m3query = (rest: string): string[] => [...both(rest), `/m3query/api/v1/${rest}`];
/** Names of M3 for the begins of our paths. */
const aliases = [
  ['/api/v1/compat/remote/', '/api/v1/prom/remote/'],
  ['/api/v1/services/tsdb/', '/api/v1/services/m3db/'],
  ['/api/v1/services/aggregator/', '/api/v1/services/m3aggregator/'],
  ['/api/v1/services/coordinator/', '/api/v1/services/m3coordinator/'],
] as const;
const federatePaths = ['/federate', '/prometheus/federate'];
const placement = (rest = ''): string[] => [
  `/api/v1/services/tsdb/placement${rest}`,
  `/api/v1/placement${rest}`,
];
const aggregators = (rest = ''): string[] => [`/api/v1/services/aggregator/placement${rest}`];
const coordinators = (rest = ''): string[] => [`/api/v1/services/coordinator/placement${rest}`];
const namespace = (rest = ''): string[] => [
  `/api/v1/services/tsdb/namespace${rest}`,
  `/api/v1/namespace${rest}`,
];

/** As of M3's r2. */
const rulesOf = (rest = ''): string[] => [`/r2/v1/namespaces${rest}`];
const mappingPaths = (rest = ''): string[] => rulesOf(`/{set}/mapping-rules${rest}`);
const rollupPaths = (rest = ''): string[] => rulesOf(`/{set}/rollup-rules${rest}`);

const openApiPaths = ['/api/v1/openapi', '/api/v1/openapi/', '/api/v1/openapi/static/spec.json'];
const databaseCreatePaths = ['/api/v1/database/create', '/api/v1/database/namespace/create'];

/** Every endpoint of the coordinator. */
export function routesOf(setup: ApiSetup): readonly Route[] {
  const { admin, companions, compat, deletions, info, labels, messages, ops, page } = setup;
  const { query, read, status } = setup;
  const tagWrites: TagWritesSetup = {
    ...setup.graphite.tagWrites,
    deleteSeries: (request, selectors) =>
      deleteSeries(
        deletions,
        request,
        new URLSearchParams(selectors.map((selector) => ['match[]', selector])),
      ),
  };
  const writeBytesMax = setup.writeBodyBytesMax;
  const jsonBytesMax = Math.min(writeBytesMax, jsonWriteBytesMax);
  // Setups are made once: which of the two it is, each request says.
  const write = <Setup>(
    handler: BytesHandler<Setup>,
    setupOf: (ingest: Ingest) => Setup,
    bytesMax: number,
  ): ApiHandler => {
    const usual = bytes(handler, setupOf(setup.ingest), bytesMax);
    const unaggregated = bytes(handler, setupOf(setup.undropped), bytesMax);
    return taking('bytes', (call) => (isDirectWrite(call) ? unaggregated(call) : usual(call)));
  };
  const withIngest =
    <Parts extends object>(parts: Parts) =>
    (ingest: Ingest): Parts & { readonly ingest: Ingest } => ({ ...parts, ingest });
  const table: readonly Row[] = [
    [
      'POST',
      writePaths,
      'mapped',
      write(remoteWrite, withIngest(setup.remoteWrite), writeBytesMax),
    ],
    [
      'POST',
      ['/api/v1/json/write'],
      'write',
      write(jsonWrite, withIngest(setup.jsonLines), jsonBytesMax),
    ],
    ['POST', influxWritePaths, 'mapped', write(influxWrite, (ingest) => ingest, writeBytesMax)],
    ['POST', expositionPaths, 'write', write(expositionWrite, (ingest) => ingest, writeBytesMax)],
    [
      'POST',
      ['/api/v1/carbon/write'],
      'write',
      write(carbonWrite, (ingest) => ingest, writeBytesMax),
    ],
    [
      'POST',
      ['/api/v1/import'],
      'write',
      write(jsonLinesWrite, withIngest(setup.jsonLines), writeBytesMax),
    ],
    [
      'POST',
      datadogSeriesPaths,
      'write',
      write(datadogSeries(1), withIngest(setup.datadog), datadogBytesMax),
    ],
    [
      'POST',
      datadog('/api/v2/series'),
      'write',
      write(datadogSeries(2), withIngest(setup.datadog), datadogBytesMax),
    ],
    ['GET', datadog('/api/v1/validate'), 'other', plain(datadogValidate, null)],
    ['POST', datadogIgnoredPaths, 'other', bytes(datadogIgnored, null, datadogBytesMax)],
    ['POST', datadog('/api/beta/sketches'), 'other', bytes(datadogSketches, null, datadogBytesMax)],
    ['POST', ['/api/put', '/api/put/'], 'write', write(put, withIngest(setup.put), jsonBytesMax)],
    ['POST', otlpPaths, 'write', write(otlpMetrics, withIngest(setup.otlp), writeBytesMax)],
    ['GET', ['/ping'], 'other', plain(influxPing, null)],
    ['GET POST', ['/query'], 'other', form(influxQuery, null)],
    ['GET POST', ['/api/v1/json/query'], 'tagged', form(queryMessages, messages)],

    [
      'GET POST',
      ['/api/v1/graphite/render', '/api/v1/graphite/render/'],
      'read',
      form(render, { ...setup.graphite.render, formatDefault: 'json' }),
    ],
    [
      'GET POST',
      ['/render', '/render/'],
      'read',
      form(render, { ...setup.graphite.render, formatDefault: 'png' }),
    ],
    [
      'GET POST',
      graphite('metrics/find', 'metrics/find/'),
      'read',
      form(find, setup.graphite.find),
    ],
    [
      'GET POST',
      graphite('metrics/expand', 'metrics/expand/'),
      'read',
      form(expand, setup.graphite.find),
    ],
    ['GET', graphite('metrics/index.json'), 'read', form(index, setup.graphite.find)],
    ['GET', graphite('tags'), 'read', form(tagNames, setup.graphite.tags)],
    ['GET POST', graphite('tags/findSeries'), 'read', form(findSeries, setup.graphite.tags)],
    [
      'GET POST',
      graphite('tags/autoComplete/tags'),
      'read',
      form(completeTags, setup.graphite.tags),
    ],
    [
      'GET POST',
      graphite('tags/autoComplete/values'),
      'read',
      form(completeValues, setup.graphite.tags),
    ],
    ['POST', graphite('tags/tagSeries'), 'other', form(tagSeries, null)],
    ['POST', graphite('tags/tagMultiSeries'), 'other', form(tagMultiSeries, setup.graphite.tags)],
    ['POST', graphite('tags/delSeries'), 'delete', form(delSeries, tagWrites)],
    ['GET', graphite('tags/{tag}'), 'read', form(tagValues, setup.graphite.tags)],
    ['GET', graphite('events', 'events/'), 'all', form(getEvents, setup.graphite.events)],
    ['POST', graphite('events', 'events/'), 'allWrite', json(postEvent, setup.graphite.events)],
    [
      'GET POST',
      graphite('events/get_data', 'events/get_data/'),
      'all',
      form(getEvents, setup.graphite.events),
    ],
    ['GET', graphite('functions', 'functions/'), 'other', plain(functionList, null)],
    ['GET', graphite('functions/{name}'), 'other', plain(functionDescription, null)],
    // Grafana asks for the last one.
    ['GET', graphite('version', 'version/', 'version/_'), 'other', plain(graphiteVersion, null)],

    ['GET POST', m3query('query_range'), 'read', form(rangeQuery, query)],
    ['GET POST', m3query('query'), 'read', form(instantQuery, query)],
    ['GET POST', ['/m3ql/api/v1/query_range'], 'read', form(scriptRange, query.m3ql)],
    ['GET POST', ['/m3ql/api/v1/query'], 'read', form(scriptInstant, query.m3ql)],
    ['GET POST', both('labels'), 'read', form(labelNames, labels)],
    ['GET', both('label/{name}/values'), 'read', form(labelValues, labels)],
    ['GET POST', both('series'), 'read', form(series, labels)],
    ['GET', federatePaths, 'tagged', form(federate, labels)],
    ['GET POST', ['/api/v1/export'], 'tagged', form(exportSeries, setup.export)],
    ['GET POST', ['/api/v1/export/csv'], 'tagged', form(exportCsv, setup.export)],
    ['GET', ['/api/v1/search'], 'read', form(searchTags, labels)],
    ['POST', ['/search'], 'read', json(searchSeries, labels)],
    ['GET', ['/api/v1/parse'], 'other', form(queryDag, compat)],
    ['GET', ['/api/v1/threshold'], 'other', form(queryThreshold, compat)],
    ['GET', readPaths, 'read', form(remoteReadByQuery, read)],
    ['POST', readPaths, 'read', bytes(remoteRead, read, readBodyBytesMax)],
    ['GET POST', both('query_exemplars'), 'tagged', form(queryExemplars, companions)],
    ['GET', both('metadata'), 'all', form(metadata, companions)],
    ['GET', both('targets/metadata'), 'all', form(targetsMetadata, companions)],
    ['GET', both('status/tsdb'), 'all', plain(tsdbStatus, status)],
    ['POST PUT', both('admin/tsdb/delete_series'), 'delete', form(deleteSeries, deletions)],
    [
      'POST PUT',
      both('admin/tsdb/clean_tombstones'),
      'allWrite',
      plain(cleanTombstones, deletions),
    ],

    ['GET', both('status/buildinfo'), 'other', plain(buildInfo, compat)],
    ['GET', both('status/config'), 'other', plain(statusConfig, info)],
    ['GET', both('status/flags'), 'other', plain(statusFlags, info)],
    ['GET', both('status/runtimeinfo'), 'other', plain(runtimeInfo, info)],
    ['GET', both('status/walreplay'), 'other', plain(walReplay, info)],
    ['GET', both('status/tsdb/blocks'), 'other', plain(tsdbBlocks, compat)],
    ['GET', both('features'), 'other', plain(serverFeatures, info)],
    ['GET', both('notifications'), 'other', plain(notifications, compat)],
    ['GET', both('scrape_pools'), 'other', plain(scrapePools, compat)],
    ['GET', both('scrape_pools/config'), 'other', plain(scrapePoolConfig, compat)],
    ['GET', both('targets/relabel_steps'), 'other', plain(scrapePoolConfig, compat)],
    ['GET', both('targets'), 'other', plain(targets, compat)],
    ['GET', both('rules'), 'other', plain(rules, compat)],
    ['GET', both('alerts'), 'other', plain(alerts, compat)],
    ['GET', both('alertmanagers'), 'other', plain(alertmanagers, compat)],
    ['GET POST', both('format_query'), 'other', form(queryText, compat)],
    ['GET POST', both('parse_query'), 'other', form(queryTree, compat)],

    ['POST', databaseCreatePaths, 'admin', json(databaseCreate, admin)],
    ['POST', ['/api/v1/kvstore'], 'admin', json(kvstore, admin)],
    ['GET', placement(), 'admin', plain(placementGet, admin)],
    ['POST', placement(), 'admin', json(placementAdd, admin)],
    ['DELETE', placement(), 'admin', plain(placementDelete, admin)],
    ['POST', placement('/approve'), 'admin', json(placementApprove, admin)],
    ['POST', placement('/init'), 'admin', json(placementInit, admin)],
    ['POST', placement('/remove'), 'admin', json(placementRemove, admin)],
    ['POST', placement('/replace'), 'admin', json(placementReplace, admin)],
    ['POST', placement('/reset'), 'admin', json(placementReset, admin)],
    ['POST', placement('/set'), 'admin', json(placementSet, admin)],
    ['DELETE', placement('/{id}'), 'admin', plain(placementRemoveInstance, admin)],
    ['GET', aggregators(), 'admin', plain(aggregatorsGet, admin)],
    ['POST', aggregators(), 'admin', json(aggregatorsAdd, admin)],
    ['DELETE', aggregators(), 'admin', plain(aggregatorsDelete, admin)],
    ['POST', aggregators('/init'), 'admin', json(aggregatorsInit, admin)],
    ['POST', aggregators('/remove'), 'admin', json(aggregatorsRemove, admin)],
    ['POST', aggregators('/replace'), 'admin', json(aggregatorsReplace, admin)],
    ['POST', aggregators('/set'), 'admin', json(aggregatorsSet, admin)],
    ['DELETE', aggregators('/{id}'), 'admin', plain(aggregatorsRemoveInstance, admin)],
    ['GET POST DELETE', coordinators(), 'admin', plain(coordinatorPlacement, null)],
    ['POST', coordinators('/init'), 'admin', plain(coordinatorPlacement, null)],
    ['GET POST PUT DELETE', ['/api/v1/topic'], 'admin', plain(topics, null)],
    ['POST', ['/api/v1/topic/init'], 'admin', plain(topics, null)],
    ['GET', namespace(), 'admin', plain(namespaceGet, admin)],
    ['POST', namespace(), 'admin', json(namespaceAdd, admin)],
    ['PUT', namespace(), 'admin', json(namespaceUpdate, admin)],
    ['POST', namespace('/ready'), 'admin', json(namespaceReady, admin)],
    ['DELETE', namespace('/{id}'), 'admin', plain(namespaceDelete, admin)],
    ['GET', ['/api/v1/services/tsdb/schema'], 'admin', plain(schemaGet, admin)],
    ['POST', ['/api/v1/services/tsdb/schema'], 'admin', json(schemaDeploy, admin)],
    ['DELETE', ['/api/v1/services/tsdb/schema'], 'admin', json(schemaReset, admin)],
    ['GET', ['/api/v1/services/tsdb/health'], 'admin', plain(healthGet, admin)],
    ['GET', ['/api/v1/services/tsdb/upgrade'], 'admin', plain(upgradeGet, admin)],
    ['POST', ['/api/v1/services/tsdb/upgrade/finish'], 'admin', plain(upgradeFinish, admin)],

    ['GET', rulesOf(), 'admin', plain(ruleSets, admin)],
    ['POST', rulesOf(), 'admin', json(ruleSetAdd, admin)],
    ['GET', rulesOf('/{set}'), 'admin', plain(ruleSet, admin)],
    ['DELETE', rulesOf('/{set}'), 'admin', plain(ruleSetRemove, admin)],
    ['PUT', rulesOf('/{set}/ruleset'), 'admin', json(ruleSetPut, admin)],
    ['POST', rulesOf('/{set}/ruleset/validate'), 'admin', json(ruleSetCheck, admin)],
    ['POST', rulesOf('/{set}/ruleset/update'), 'admin', json(ruleSetChange, admin)],
    ['POST', mappingPaths(), 'admin', json(mappingRule.add, admin)],
    ['GET', mappingPaths('/{rule}'), 'admin', plain(mappingRule.get, admin)],
    ['PUT', mappingPaths('/{rule}'), 'admin', json(mappingRule.update, admin)],
    ['DELETE', mappingPaths('/{rule}'), 'admin', plain(mappingRule.remove, admin)],
    ['GET', mappingPaths('/{rule}/history'), 'admin', plain(mappingRule.history, admin)],
    ['POST', rollupPaths(), 'admin', json(rollupRule.add, admin)],
    ['GET', rollupPaths('/{rule}'), 'admin', plain(rollupRule.get, admin)],
    ['PUT', rollupPaths('/{rule}'), 'admin', json(rollupRule.update, admin)],
    ['DELETE', rollupPaths('/{rule}'), 'admin', plain(rollupRule.remove, admin)],
    ['GET', rollupPaths('/{rule}/history'), 'admin', plain(rollupRule.history, admin)],

    ['GET', ['/'], 'other', plain(frontPage, page)],
    ['GET', ['/health', '/-/healthy'], 'other', plain(health, ops)],
    ['GET', ['/ready', '/-/ready'], 'other', plain(ready, ops)],
    ['GET', openApiPaths, 'other', plain(openApi, () => openApiOf(described, page.version))],
    ['GET', ['/routes'], 'other', plain(routeList, () => pathsOf(routes))],
  ];
  const described = table.flatMap(describedRows);
  const routes = table.flatMap((row) => routesOfRow(setup, row));
  return routes;
}

const withAliases = (path: string): string[] => [
  path,
  ...aliases.flatMap(([begin, other]) =>
    path.startsWith(begin) ? [other + path.slice(begin.length)] : [],
  ),
];

function describedRows([methods, paths, kind, { takes }]: Row): DescribedRoute[] {
  return paths.flatMap(withAliases).map((path) => ({
    methods: methods.split(' ') as Method[],
    path,
    body: takes,
    headers: dataHeaders.filter((name) => kind !== 'other' && !unknownHeaders[kind].includes(name)),
  }));
}

function routesOfRow(setup: ApiSetup, [methods, paths, kind, handler]: Row): Route[] {
  const checked = kind === 'other' ? handler : withCheckedHeaders(handler, kind, setup.forced);
  return paths.flatMap(withAliases).map((path) => ({
    methods: methods.split(' ') as Method[],
    path,
    handler: checked,
    isWrite: isWrite(kind),
    isCostly: !isWrite(kind) && kind !== 'admin' && kind !== 'other',
  }));
}

const isWrite = (kind: Kind): boolean => kind === 'write' || kind === 'mapped';

function withCheckedHeaders(handler: ApiHandler, kind: Kind, ofAll: ForcedTags): ApiHandler {
  return taking(handler.takes, (call) => {
    refuseBareHeaders(call, dataHeaders);
    refuseEmptyHeader(call, forcedTagsHeader);
    refuseHeaders(call, unknownHeaders[kind], kind !== 'delete');
    if (isWrite(kind)) checkWriteHeaders(call);
    if (kind === 'all' && isForcing(ofAll)) {
      throw badRequest(
        'this tells of all series, and query.restrictTags of the coordinator forces some alone on who reads',
      );
    }
    return handler(call);
  });
}

function pathsOf(routes: readonly Route[]): string[] {
  return [...new Set(routes.map((route) => route.path))].sort();
}
