/**
 * Deletion of series and ranges, as Prometheus has it: the deletion stands when the answer comes.
 */
import type { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import type { DeletionRequest } from '#cluster/metadata/deletions.ts';
import { allTime } from '#cluster/metadata/deletions.ts';
import { deletionCleanMillisMax, deletionConfirmMillisMax } from '#cluster/limits.ts';
import { isReady } from '#cluster/namespaces/namespaces.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { clampNanos } from '#lib/time.ts';
import { selectorsMax } from './limits.ts';
import { queryOfMatcherLists } from '../select/matcher_query.ts';
import type { Route } from './server.ts';
import type { Matcher } from '../select/storage.ts';
import { type ApiAnswer, type ApiRequest, bothNames } from './http_api.ts';
import { boundParameter, headerText, parametersOf } from './parameters.ts';

export interface DeletionApiSetup {
  readonly log: DeletionLog;
  readonly topology: Pick<Topology, 'refresh'>;
  readonly parseSelector: (text: string) => readonly Matcher[];
  readonly clock: Clock;
}

export function deletionRoutes(setup: DeletionApiSetup): Route[] {
  return ['', '/prometheus'].flatMap((prefix): Route[] => [
    {
      methods: ['POST', 'PUT'],
      path: `${prefix}/api/v1/admin/tsdb/delete_series`,
      handler: (request) => deleteSeries(setup, request),
    },
    {
      methods: ['POST', 'PUT'],
      path: `${prefix}/api/v1/admin/tsdb/clean_tombstones`,
      handler: (request) => cleanTombstones(setup, request),
    },
  ]);
}

async function deleteSeries(setup: DeletionApiSetup, request: ApiRequest): Promise<ApiAnswer> {
  const { log, topology, clock } = setup;
  const parameters = await parametersOf(request);
  const wanted = deletionOf(setup, parameters);
  const { signal } = request;
  const { namespaces, placement } = await topology.refresh(signal);
  const named = parameters.getAll('namespace');
  const names =
    named.length > 0
      ? [...new Set(named)]
      : [...namespaces.values()].filter(isReady).map(({ name }) => name);
  if (names.length === 0) {
    throw new TsdbError('UNAVAILABLE', 'cannot delete series: no namespace is ready');
  }
  const requests = names.map((namespace): DeletionRequest => ({ namespace, ...wanted }));
  const deletions = await log.append(requests, namespaces, clock, signal);
  const { sequence } = deletions.at(-1)!;
  const instances = placement?.instances.map(({ id }) => id) ?? [];
  const missing = await log.whenAll(
    instances,
    ({ applied }) => applied >= sequence,
    clock.deadline(deletionConfirmMillisMax, signal),
  );
  // It stands: those that are away apply it before they serve.
  return noContent(
    missing.length === 0
      ? {}
      : bothNames('Unconfirmed-Instances', headerText(missing.join(',')).slice(0, 2000)),
  );
}

/** Series and range that the parameters name. @throws {TsdbError} BAD_REQUEST */
function deletionOf(
  { parseSelector, clock }: DeletionApiSetup,
  parameters: URLSearchParams,
): Omit<DeletionRequest, 'namespace'> {
  const selectors = parameters.getAll('match[]');
  if (selectors.length === 0) throw badRequest('missing required parameter: match[]');
  if (selectors.length > selectorsMax) {
    throw badRequest(`match[]: more than ${selectorsMax} selectors: ${selectors.length}`);
  }
  const now = clock.nowNanos();
  const startNanos = boundParameter(parameters, 'start', now, allTime.startNanos);
  const lastNanos = boundParameter(parameters, 'end', now, allTime.endNanos - 1n);
  if (lastNanos < startNanos) {
    throw badRequest('end: end timestamp must not be before start time');
  }
  const query = queryOfMatcherLists(selectors.map((text) => parseSelector(text)));
  // The end of such a request is inclusive.
  return { query, startNanos, endNanos: clampNanos(lastNanos + 1n), selectors };
}

async function cleanTombstones(setup: DeletionApiSetup, request: ApiRequest): Promise<ApiAnswer> {
  const { log, topology, clock } = setup;
  const { signal } = request;
  const sequence = await log.clean(signal);
  const { placement } = await topology.refresh(signal);
  const instances = placement?.instances.map(({ id }) => id) ?? [];
  const missing =
    sequence === 0
      ? []
      : await log.whenAll(
          instances,
          ({ cleaned }) => cleaned >= sequence,
          clock.deadline(deletionCleanMillisMax, signal),
        );
  if (missing.length === 0) return noContent();
  throw new TsdbError(
    'UNAVAILABLE',
    `files are still being rewritten, or their node is away: ${missing.join(', ')}; ask again later`,
  );
}

function noContent(headers: Readonly<Record<string, string>> = {}): ApiAnswer {
  return { status: 204, headers, body: '' };
}
