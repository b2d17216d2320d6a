/** M3's headers of writes. */
import { badRequest, messageOf, shownText, TsdbError } from '#lib/errors.ts';
import { type ApiRequest, namedHeaders } from '../http/http_api.ts';
import type { Ingest } from './ingest.ts';
import type { TagMapping } from './tag_mapping.ts';

export const mapTagsHeader = 'Map-Tags-JSON';
/** Of writes `unaggregated`: another value is refused. */
export const metricsTypeHeader = 'Metrics-Type';

/**
 * What a request makes of its tags; null for nothing.
 * @throws {TsdbError} BAD_REQUEST for a header that makes no sense
 */
export function tagMappingOf(ingest: Ingest, request: ApiRequest): TagMapping | null {
  const [first, second] = namedHeaders(request, mapTagsHeader);
  if (first === undefined) return null;
  if (second !== undefined && second.value !== first.value) {
    throw badRequest(`headers ${first.name} and ${second.name} differ: ${shownText(second.value)}`);
  }
  try {
    return ingest.tagMappings.of(first.value);
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    throw badRequest(`header ${first.name}: ${messageOf(error)}`, { cause: error });
  }
}

/** Of Prometheus, as M3 takes them. */
const metricTypes = [
  'counter',
  'gauge',
  'gauge_histogram',
  'histogram',
  'info',
  'stateset',
  'summary',
];

/** Rows are samples alone, whatever rules say of their series: M3's direct writes, to which no rule is applied. */
export function isDirectWrite(request: ApiRequest): boolean {
  return namedHeaders(request, metricsTypeHeader).length > 0;
}

/**
 * Headers that say where rows go. What they are of is decided by rules, for each series and whoever sends it
 * (docs/AGGREGATION.md), so that reads know where it is.
 * @throws {TsdbError} BAD_REQUEST for one that asks for something else
 */
export function checkWriteHeaders(request: ApiRequest): void {
  for (const { name, value } of namedHeaders(request, 'Write-Type')) {
    if (value === 'default') continue;
    const reason =
      value === 'aggregate'
        ? 'not supported: a mapping rule with drop keeps windows of series alone'
        : 'neither default nor aggregate';
    throw badRequest(`header ${name}: ${reason}: ${shownText(value)}`);
  }
  const type = request.header('prometheus-metric-type');
  if (type !== '' && !metricTypes.includes(type)) {
    throw badRequest(
      `header Prometheus-Metric-Type: none of ${metricTypes.join(', ')}: ${shownText(type)}`,
    );
  }
}
