/** What the index knows of itself: cardinality, in the form in which Prometheus answers it. */
import type { ClusterStatistics } from '#cluster/session/statistics.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { statisticsRowsDefault, statisticsRowsMax } from '../http/limits.ts';
import { type ApiAnswer, type ApiRequest, jsonAnswer } from '../http/http_api.ts';
import { millisOfNanos } from '../http/parameters.ts';

export interface StatusApiSetup {
  readonly clock: Clock;
  /** READY ones, also those that no query reads. @throws {TsdbError} UNAVAILABLE while they are not known */
  readonly namespaces: () => readonly string[];
  /** @param namespace null for that of the samples that are kept for longest @param limit most rows of each list */
  readonly statistics: (
    namespace: string | null,
    limit: number,
    signal: AbortSignal,
  ) => Promise<ClusterStatistics>;
}

export async function tsdbStatus(
  { namespaces, statistics, clock }: StatusApiSetup,
  { urlParameters, signal }: ApiRequest,
): Promise<ApiAnswer> {
  const limit = limitOf(urlParameters);
  const namespace = urlParameters.get('namespace') ?? '';
  if (namespace !== '') checkReady(namespace, namespaces());
  const found = await statistics(namespace === '' ? null : namespace, limit, signal);
  return jsonAnswer({ status: 'success', data: dataOf(found, clock.nowMillis()) });
}

/** @throws {TsdbError} BAD_REQUEST naming those that there are */
function checkReady(namespace: string, ready: readonly string[]): void {
  if (ready.includes(namespace)) return;
  throw badRequest(
    `namespace: none of those that are READY (${ready.toSorted().join(', ')}): ${shownText(namespace)}`,
  );
}

function limitOf(parameters: URLSearchParams): number {
  const text = parameters.get('limit') ?? '';
  if (text === '') return statisticsRowsDefault;
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= statisticsRowsMax) return limit;
  throw badRequest(`limit: not a whole number from 1 to ${statisticsRowsMax}: ${shownText(text)}`);
}

function dataOf(found: ClusterStatistics, nowMillis: number): object {
  const rowsOf = (rows: ClusterStatistics['seriesByPair']) =>
    rows.map(({ name, value, count }) => ({
      name: value === '' ? name : `${name}=${value}`,
      value: count,
    }));
  return {
    headStats: {
      numSeries: found.seriesCount,
      numLabelPairs: found.pairCount,
      chunkCount: found.openBlocks,
      minTime: millisOfNanos(found.startNanos),
      maxTime: Math.min(millisOfNanos(found.endNanos), nowMillis),
    },
    seriesCountByMetricName: rowsOf(found.seriesByMetric),
    labelValueCountByLabelName: rowsOf(found.valuesByName),
    memoryInBytesByLabelName: rowsOf(found.bytesByName),
    seriesCountByLabelValuePair: rowsOf(found.seriesByPair),
    // Beyond what Prometheus tells.
    numLabelNames: found.nameCount,
    seriesCountByLabelName: rowsOf(found.seriesByName),
    churn: {
      seriesCreated: found.created,
      seriesRemoved: found.removed,
      seriesCreatedLastHour: found.createdLastHour,
      seriesRemovedLastHour: found.removedLastHour,
    },
  };
}
