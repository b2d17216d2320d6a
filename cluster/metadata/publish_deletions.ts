/** Deletions on their way from who asks for them to all nodes. */
import type { Clock } from '#lib/env/env.ts';
import { deletionConfirmMillisMax } from '../limits.ts';
import type { TopologyView } from '../topology/topology.ts';
import type { DeletionLog } from './deletion_log.ts';
import type { DeletionRequest } from './deletions.ts';

/** What it takes to publish deletions. */
export interface PublishingParts {
  readonly log: DeletionLog;
  readonly clock: Clock;
  /** As of the session. */
  readonly noteDeletion: (version: number) => void;
}

export interface PublishedDeletions {
  /** Of the last one. */
  readonly sequence: number;
  /** Instances that have not confirmed it within some seconds: they apply it before they serve. */
  readonly unconfirmed: readonly string[];
}

/**
 * Appends deletions, all or none, and waits for the instances of the placement, five seconds at
 * most. They stand when this resolves.
 * @param requests one at least
 * @param view as the key-value store has it now
 * @throws {TsdbError} as `DeletionLog.append`
 */
export async function publishDeletions(
  { log, clock, noteDeletion }: PublishingParts,
  requests: readonly DeletionRequest[],
  { namespaces, placement }: Pick<TopologyView, 'namespaces' | 'placement'>,
  signal: AbortSignal,
): Promise<PublishedDeletions> {
  const deletions = await log.append(requests, namespaces, clock, signal);
  const { sequence, version } = deletions.at(-1)!;
  noteDeletion(version);
  const unconfirmed = await log.whenAll(
    placement?.instances.map(({ id }) => id) ?? [],
    ({ applied }) => applied >= sequence,
    clock.deadline(deletionConfirmMillisMax, signal),
  );
  return { sequence, unconfirmed };
}
