/** Up to which version rows were written before now, for deletions that are to come after them. */
import type { Clock } from '#lib/env/env.ts';
import { versionAtMillis, versionLeadMillisMax } from '#lib/hybrid_clock.ts';
import type { PeerClocks } from '../node/peer_clocks.ts';

/**
 * Versions of rows that were written before now: those that a session heard of, as far ahead as
 * nodes lead writers, and what the time gives that they go by, should our own clock be behind.
 */
export function writtenVersionOf(
  { lastVersion }: { readonly lastVersion: number },
  peerClocks: Pick<PeerClocks, 'medianMillis'>,
  clock: Pick<Clock, 'nowMillis'>,
): number {
  const nowMillis = peerClocks.medianMillis() ?? clock.nowMillis();
  const leadMax = versionAtMillis(nowMillis + versionLeadMillisMax);
  return Math.max(versionAtMillis(nowMillis), Math.min(lastVersion, leadMax));
}
