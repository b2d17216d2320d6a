/** Headers by which a request chooses namespaces by hand, under M3's names and ours. */
import { badRequest, messageOf, shownText } from '#lib/errors.ts';
import { parseDurationNanos } from '#lib/time.ts';
import { type ApiRequest, eitherHeader } from '../http/http_api.ts';
import type { NamespaceChoice, StoragePolicy } from '../select/storage.ts';

/** Headers by which a request chooses. */
export const choosingHeaders: readonly string[] = [
  'Restrict-By-Storage-Policies',
  'Storage-Policy',
  'Metrics-Type',
];

/** Policies of one request; more are refused. */
const policiesMax = 64;

/**
 * `Metrics-Type: unaggregated`, or `aggregated` with one `Storage-Policy`, or `Restrict-By-Storage-Policies` with several.
 * @returns null where a request leaves it to us
 * @throws {TsdbError} BAD_REQUEST for a header that makes no sense
 */
export function choiceOf(request: ApiRequest): NamespaceChoice | null {
  const type = eitherHeader(request, 'Metrics-Type').trim().toLowerCase();
  const policy = eitherHeader(request, 'Storage-Policy').trim();
  const several = eitherHeader(request, 'Restrict-By-Storage-Policies').trim();
  if (several !== '') {
    if (type !== '' || policy !== '') {
      throw badRequest(
        'header TSDB-Restrict-By-Storage-Policies: TSDB-Metrics-Type or TSDB-Storage-Policy is given, too',
      );
    }
    const texts = several.split(';');
    if (texts.length > policiesMax) {
      throw badRequest(
        `header TSDB-Restrict-By-Storage-Policies: more than ${policiesMax} policies: ${texts.length}`,
      );
    }
    const policies = texts.map((text) => policyOf(text, 'TSDB-Restrict-By-Storage-Policies'));
    return { kind: 'windows', policies };
  }
  if (type === 'aggregated') {
    if (policy === '')
      throw badRequest('header TSDB-Storage-Policy: missing, with TSDB-Metrics-Type: aggregated');
    return { kind: 'windows', policies: [policyOf(policy, 'TSDB-Storage-Policy')] };
  }
  if (type !== '' && type !== 'unaggregated') {
    throw badRequest(
      `header TSDB-Metrics-Type: neither unaggregated nor aggregated: ${shownText(type)}`,
    );
  }
  if (policy !== '') {
    throw badRequest(
      `header TSDB-Storage-Policy: of TSDB-Metrics-Type: aggregated alone: ${shownText(policy)}`,
    );
  }
  return type === '' ? null : { kind: 'samples' };
}

/** "5m:60d"; a precision, as in "10s@1s:2d", is passed over. */
function policyOf(text: string, header: string): StoragePolicy {
  const [window, retention, ...more] = text.trim().split(':');
  if (retention === undefined || more.length > 0) {
    throw badRequest(
      `header ${header}: no resolution:retention such as 5m:60d: ${shownText(text)}`,
    );
  }
  try {
    return {
      resolutionNanos: parseDurationNanos(window!.split('@')[0]!, 'resolution'),
      retentionNanos: parseDurationNanos(retention, 'retention'),
    };
  } catch (error) {
    throw badRequest(`header ${header}: ${messageOf(error)}`, { cause: error });
  }
}
