/** What a coordinator knows of its own clock, which gives writes and deletions their versions. */
import { PeerClocks } from '#cluster/node/peer_clocks.ts';
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';

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
