/**
 * Deletion of series and ranges, as Prometheus has it: the deletion stands when the answer comes.
 */
import type { DeletionRequest } from '#cluster/metadata/deletions.ts';
import { allTime } from '#cluster/metadata/deletions.ts';
import { publishDeletions, type PublishingParts } from '#cluster/metadata/publish_deletions.ts';
import { deletionCleanMillisMax } from '#cluster/limits.ts';
import { exemplarsNamespace, metadataNamespace } from '#cluster/namespaces/companions.ts';
import { isReady, type Namespace } from '#cluster/namespaces/namespaces.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { withRegexps } from '#engine/aside/regexps.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import type { AnchoredRegexp } from '#lib/regexp/regexp.ts';
import { tagsBytesMax } from '#lib/tags.ts';
import { clampNanos, nanosPerMilli } from '#lib/time.ts';
import { forcedLists, type ForcedTags, isForcing, withForced } from '../forced_tags/forced_tags.ts';
import { fieldLabel } from '../select/field_series.ts';
import { queryOfMatcherLists } from '../select/matcher_query.ts';
import { type ApiAnswer, type ApiRequest, bothNames } from '../http/http_api.ts';
import type { ParseSelectors } from './labels.ts';
import {
  boundParameter,
  checkOrder,
  headerText,
  selectorsOf,
  ofParameter,
} from '../http/parameters.ts';

export interface DeletionApiSetup extends PublishingParts {
  readonly topology: Pick<Topology, 'refresh'>;
  readonly forcedFor: (request: ApiRequest) => ForcedTags;
  readonly parseSelectors: ParseSelectors;
  readonly turningOf: (signal: AbortSignal) => Turning;
  /** Throws when our clock is known to be ahead: deletions would refuse rows until their time. */
  readonly checkClock: (what: string) => void;
}

/** How long the selectors of a deletion may take to be read. */
const selectorsMillisMax = 10_000;
/**
 * What a regexp of a deletion may take for the longest value, in units of work (lib/turns/turns.ts): a program
 * of about 1,200 instructions, or 300 globs, does.
 */
const deletionTestUnitsMax = 20_000_000;

interface DeletionCall {
  /** Empty: all that are ready. */
  readonly namespaces: readonly string[];
  readonly deletion: Omit<DeletionRequest, 'namespace'>;
}

export async function deleteSeries(
  setup: DeletionApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const { signal } = request;
  const call = await deletionCallOf(setup, request, parameters);
  setup.checkClock('delete series');
  const view = await setup.topology.refresh(signal);
  const names =
    call.namespaces.length > 0
      ? call.namespaces
      : [...view.namespaces.values()].filter(isDeletedFrom).map(({ name }) => name);
  if (names.length === 0) {
    throw new TsdbError('UNAVAILABLE', 'cannot delete series: no namespace is ready');
  }
  const requests = names.map((namespace): DeletionRequest => {
    const { deletion } = call;
    const range = isOfMillis(namespace) ? wholeMillis(deletion) : {};
    return { namespace, ...deletion, ...range };
  });
  const { unconfirmed } = await publishDeletions(setup, requests, view, signal);
  // It stands: those that are away apply it before they serve.
  return noContent(
    unconfirmed.length === 0
      ? {}
      : bothNames('Unconfirmed-Instances', headerText(unconfirmed.join(',')).slice(0, 2000)),
  );
}

/** Below its millisecond the time of a row is a hash there (docs/EXEMPLARS.md). */
function isOfMillis(namespace: string): boolean {
  return namespace === exemplarsNamespace || namespace === metadataNamespace;
}

type NanosRange = Pick<DeletionRequest, 'startNanos' | 'endNanos'>;

/** All of the milliseconds that lie in a range. */
function wholeMillis({ startNanos, endNanos }: NanosRange): NanosRange {
  const upwards = (nanos: bigint): bigint => {
    const below = nanos % nanosPerMilli;
    return below > 0n ? nanos - below + nanosPerMilli : nanos - below;
  };
  return {
    startNanos: startNanos === allTime.startNanos ? startNanos : upwards(startNanos),
    endNanos: clampNanos(upwards(endNanos)),
  };
}

/** Exemplars go with their series; metadata is not about some of them. */
function isDeletedFrom(namespace: Namespace): boolean {
  return isReady(namespace) && namespace.name !== metadataNamespace;
}

/** @throws {TsdbError} BAD_REQUEST */
async function deletionCallOf(
  { forcedFor, parseSelectors, turningOf, clock }: DeletionApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<DeletionCall> {
  const selectors = selectorsOf(parameters, 1);
  const now = clock.nowNanos();
  const startNanos = boundParameter(parameters, 'start', now, allTime.startNanos);
  const lastNanos = boundParameter(parameters, 'end', now, allTime.endNanos - 1n);
  checkOrder(startNanos, lastNanos);
  const turning = turningOf(clock.deadline(selectorsMillisMax, request.signal));
  const forced = forcedFor(request);
  const namespaces = [...new Set(parameters.getAll('namespace'))];
  if (isForcing(forced) && namespaces.includes(metadataNamespace)) {
    throw badRequest(
      `namespace: ${metadataNamespace} is about all series, and tags are forced on who asks`,
    );
  }
  const asked = await ofParameter('match[]', parseSelectors(selectors, turning));
  const lists = forcedLists(asked, forced);
  if (lists.flat().some(({ name }) => name === fieldLabel)) {
    throw badRequest(
      `match[]: a field of messages cannot be deleted by itself, only whole rows: leave out ${fieldLabel}`,
    );
  }
  const query = await withRegexps(turning, (regexps) => {
    const found = queryOfMatcherLists(lists, regexps);
    for (const { kind, value } of lists.flat()) {
      if (kind === '=~' || kind === '!~') checkRegexp(regexps.compile(value));
    }
    return found;
  });
  // The end of such a request is inclusive.
  const endNanos = clampNanos(lastNanos + 1n);
  return {
    namespaces,
    deletion: { query, startNanos, endNanos, selectors: withForced(selectors, forced) },
  };
}

/** Every series that a deletion may be about is compared with it, one by one and where nobody can wait. */
function checkRegexp(regexp: AnchoredRegexp): void {
  if (!regexp.isCompiledAside && regexp.units(tagsBytesMax) <= deletionTestUnitsMax) return;
  throw badRequest(
    `match[]: regular expression takes too long to compare for a deletion: ${shownText(regexp.pattern)}`,
  );
}

export async function cleanTombstones(
  { log, topology, clock }: DeletionApiSetup,
  { signal }: ApiRequest,
): Promise<ApiAnswer> {
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
