/** Whether nodes have a namespace. */
import type { Session } from './session.ts';

/**
 * Reads from a majority of the replicas of every shard; the nodes refuse a namespace they do not
 * have.
 */
export async function proveNamespace(
  session: Pick<Session, 'fetch'>,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  await session.fetch(
    {
      namespace,
      query: { kind: 'all' },
      startNanos: 0n,
      endNanos: 2n ** 63n - 1n,
      seriesLimit: 1,
      requireExhaustive: false,
      fetchData: false,
      consistency: 'majority',
    },
    signal,
  );
}
