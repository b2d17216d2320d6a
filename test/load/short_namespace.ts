/** A namespace of short blocks, so that a load sees every background job in minutes. */
import {
  call,
  createLocalDatabase,
  namespaceReady,
  type NodeServer,
} from '../integration/process.ts';

/**
 * Makes it ready, alone: the server's first namespace comes with its placement, and goes when this
 * one is there.
 */
export async function createShortNamespace(
  server: NodeServer,
  name: string,
  { blockSeconds, retentionSeconds }: { blockSeconds: number; retentionSeconds: number },
): Promise<void> {
  await createLocalDatabase(server, 'first');
  const buffer = `${Math.floor(blockSeconds / 4)}s`;
  const options = {
    bootstrapEnabled: true,
    flushEnabled: true,
    writesToCommitLog: true,
    cleanupEnabled: true,
    snapshotEnabled: true,
    retentionOptions: {
      retentionPeriodDuration: `${retentionSeconds}s`,
      blockSizeDuration: `${blockSeconds}s`,
      bufferFutureDuration: buffer,
      bufferPastDuration: buffer,
    },
    indexOptions: { enabled: true, blockSizeDuration: `${blockSeconds}s` },
    aggregationOptions: { aggregations: [{ aggregated: false }] },
  };
  const url = `${server.url}/api/v1/services/tsdb/namespace`;
  const made = await call('POST', url, { name, options });
  if (made.status !== 200) throw new Error(`namespace: ${made.status} ${made.text}`);
  await namespaceReady(server.url, name);
  await call('DELETE', `${url}/first`);
}
