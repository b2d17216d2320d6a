/** What a coordinator knows of its own clock, which gives writes and deletions their versions. */
import { PeerClocks } from '#cluster/node/peer_clocks.ts';
import type { Session } from '#cluster/session/session.ts';
import type { Clock, Env } from '#lib/env/env.ts';
import { versionAtMillis, versionLeadMillisMax } from '#lib/hybrid_clock.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';

/**
 * Versions of rows that were written before now: those that the session heard of, as far ahead as
 * nodes lead writers, and what the time gives that they go by, should our own clock be behind.
 */
export function writtenVersionOf(
  { lastVersion }: Pick<Session, 'lastVersion'>,
  peerClocks: Pick<PeerClocks, 'medianMillis'>,
  clock: Pick<Clock, 'nowMillis'>,
): number {
  const nowMillis = peerClocks.medianMillis() ?? clock.nowMillis();
  const leadMax = versionAtMillis(nowMillis + versionLeadMillisMax);
  return Math.max(versionAtMillis(nowMillis), Math.min(lastVersion, leadMax));
}

/** The nodes' clocks, which bound the versions that ours gives. */
export function peerClocksOf(env: Env, log: Log, metrics: Metrics): PeerClocks {
  const peerClocks = new PeerClocks(env, log, '');
  metrics.gauge(
    'tsdb_coordinator_clock_ahead_seconds',
    "How far this machine's clock is ahead of the median of several nodes' clocks; 0 without one.",
    [],
    () => peerClocks.aheadMillis / 1000,
  );
  return peerClocks;
}
