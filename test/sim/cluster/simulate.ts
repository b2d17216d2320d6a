/** Plays what happens on a simulated cluster to its end, and counts what came of it. */
import { count } from '../counts.ts';
import { anySignal } from './any_signal.ts';
import type { SimulatedCluster } from './cluster.ts';

/** @throws {Error} that tells what was wrong */
export async function simulate(
  cluster: SimulatedCluster,
  onTrace: ((line: string) => void) | null,
  play: () => Promise<void>,
): Promise<void> {
  const { time, logged } = cluster.world;
  const { stackTraceLimit } = Error;
  const any = AbortSignal.any.bind(AbortSignal);
  AbortSignal.any = anySignal;
  // A tenth of a run's time goes into stacks of errors that a cluster lives with.
  if (onTrace === null) Error.stackTraceLimit = 0;
  try {
    await time.runUntil(play());
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    AbortSignal.any = any;
    for (const [what, times] of cluster.counts) count(what, times);
    count('simulated seconds', Math.round(time.nowMillis / 1000));
    for (const [message, times] of logged) count(`logged: ${message}`, times);
  }
}
