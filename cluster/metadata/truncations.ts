/**
 * Truncations: all rows of a namespace that were written before are deleted, on every node. One is a
 * deletion in the key-value store (docs/STORAGE.md), so that whoever is away, or comes to the
 * placement later, applies it before it serves.
 */
import { BrokenInvariant } from '#lib/assert.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { TsdbError } from '#lib/errors.ts';
import { namespaceNumberIn } from '../namespaces/numbers.ts';
import type { NodeService } from '../node/service.ts';
import type { Instance } from '../placement/placement.ts';
import type { Topology, TopologyView } from '../topology/topology.ts';
import { allTime } from './deletions.ts';
import {
  type PublishedDeletions,
  publishDeletions,
  type PublishingParts,
} from './publish_deletions.ts';

/** What it takes to truncate namespaces. */
export interface TruncationParts extends PublishingParts {
  readonly topology: Pick<Topology, 'refresh'>;
  /** Throws when our clock is known to be ahead: rows would be refused until its time. */
  readonly checkClock: (what: string) => void;
  readonly nodeOf: (instance: Instance) => Pick<NodeService, 'statistics'>;
}

/** Who does not say by then how many series it has is not counted, and is taken to be away. */
const countMillisMax = 2_000;
/** One that answers is waited for so much longer: a million series take some twenty seconds. */
const slowMillisMax = 55_000;

/** What an instance has before a truncation; null when it did not say. */
type SeriesCounts = ReadonlyMap<string, number | null>;

export class Truncations {
  readonly #parts: TruncationParts;

  constructor(parts: TruncationParts) {
    this.#parts = parts;
  }

  /**
   * Truncates a namespace. It stands when this resolves, some seconds later at most.
   * @throws {TsdbError} NOT_FOUND for an unknown namespace, FAILED_PRECONDITION when our clock is
   *   ahead, RESOURCE_EXHAUSTED when too many deletions stand, UNAVAILABLE without the key-value
   *   store
   */
  async publish(namespace: string, signal: AbortSignal): Promise<PublishedDeletions> {
    return this.#publish(namespace, await this.#view(signal), signal);
  }

  /**
   * Truncates a namespace on all instances, and waits a minute at most for those that answer.
   * @returns how many series they had, of all replicas; of those instances that say so
   * @throws {TsdbError} as `publish`; UNAVAILABLE also when some instances have not confirmed it:
   *   it stands all the same
   */
  async truncate(namespace: string, signal: AbortSignal): Promise<number> {
    const { log, clock } = this.#parts;
    const view = await this.#view(signal);
    const counts = await this.#seriesCounts(namespace, view, signal);
    const { sequence, unconfirmed } = await this.#publish(namespace, view, signal);
    const slow = unconfirmed.filter((id) => counts.get(id) !== null);
    const hasApplied = ({ applied }: { readonly applied: number }): boolean => applied >= sequence;
    const missing = unconfirmed.filter((id) => !slow.includes(id));
    if (slow.length > 0) {
      const until = clock.deadline(slowMillisMax, signal);
      missing.push(...(await log.whenAll(slow, hasApplied, until)));
    }
    signal.throwIfAborted();
    if (missing.length > 0) {
      throw new TsdbError(
        'UNAVAILABLE',
        `namespace ${namespace} is truncated, but these instances have not confirmed that yet, and do it before they serve: ${missing.join(', ')}`,
      );
    }
    return [...counts.values()].reduce((sum: number, count) => sum + (count ?? 0), 0);
  }

  async #view(signal: AbortSignal): Promise<TopologyView> {
    this.#parts.checkClock('truncate');
    return this.#parts.topology.refresh(signal);
  }

  #publish(
    namespace: string,
    view: TopologyView,
    signal: AbortSignal,
  ): Promise<PublishedDeletions> {
    const request = { namespace, query: { kind: 'all' }, ...allTime, selectors: [] } as const;
    return publishDeletions(this.#parts, [request], view, signal);
  }

  async #seriesCounts(
    namespace: string,
    { placement, placementVersion, namespaces }: TopologyView,
    signal: AbortSignal,
  ): Promise<SeriesCounts> {
    const { nodeOf, clock } = this.#parts;
    const until = clock.deadline(countMillisMax, signal);
    const request = {
      namespace,
      namespaceNumber: namespaceNumberIn(namespaces, namespace),
      placementVersion,
      shards: null,
      limit: 0,
      metricName: '',
      withSketches: false,
    };
    const countOf = async (instance: Instance): Promise<number | null> => {
      try {
        const answer = nodeOf(instance).statistics?.(request, until);
        return answer === undefined ? null : (await untilAborted(answer, until)).seriesCount;
      } catch (error) {
        if (error instanceof BrokenInvariant || signal.aborted) throw error;
        return null;
      }
    };
    const instances = placement?.instances ?? [];
    const counts = await Promise.all(instances.map(countOf));
    return new Map(instances.map(({ id }, i) => [id, counts[i]!]));
  }
}
