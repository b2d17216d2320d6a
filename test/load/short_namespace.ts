/** Namespaces of loads: any, and one of short blocks, so that a load sees every background job in minutes. */
import {
  call,
  createLocalDatabase,
  namespaceReady,
  type NodeServer,
} from '../integration/process.ts';

export interface LoadedNamespace {
  readonly retention: string;
  readonly blockSize: string;
  readonly bufferFuture: string;
  readonly bufferPast: string;
  /** As the API has them. */
  readonly aggregation: object;
}

/** Makes a namespace with all that nodes do, and waits until it is ready. */
export async function createNamespace(
  server: NodeServer,
  name: string,
  { retention, blockSize, bufferFuture, bufferPast, aggregation }: LoadedNamespace,
): Promise<void> {
  const options = {
    bootstrapEnabled: true,
    flushEnabled: true,
    writesToCommitLog: true,
    cleanupEnabled: true,
    snapshotEnabled: true,
    retentionOptions: {
      retentionPeriodDuration: retention,
      blockSizeDuration: blockSize,
      bufferFutureDuration: bufferFuture,
      bufferPastDuration: bufferPast,
    },
    indexOptions: { enabled: true, blockSizeDuration: blockSize },
    aggregationOptions: { aggregations: [aggregation] },
  };
  const made = await call('POST', `${server.url}${namespacesPath}`, { name, options });
  if (made.status !== 200) throw new Error(`namespace ${name}: ${made.status} ${made.text}`);
  await namespaceReady(server.url, name);
}

const namespacesPath = '/api/v1/services/tsdb/namespace';

/** Makes a namespace ready, alone: the server's first one comes with its placement, and goes when this one is there. */
export async function createOnlyNamespace(
  server: NodeServer,
  name: string,
  options: LoadedNamespace,
): Promise<void> {
  await createLocalDatabase(server, 'first');
  await createNamespace(server, name, options);
  await call('DELETE', `${server.url}${namespacesPath}/first`);
}

/** Makes one of short blocks ready, alone. */
export async function createShortNamespace(
  server: NodeServer,
  name: string,
  { blockSeconds, retentionSeconds }: { blockSeconds: number; retentionSeconds: number },
): Promise<void> {
  const buffer = `${Math.floor(blockSeconds / 4)}s`;
  await createOnlyNamespace(server, name, {
    retention: `${retentionSeconds}s`,
    blockSize: `${blockSeconds}s`,
    bufferFuture: buffer,
    bufferPast: buffer,
    aggregation: { aggregated: false },
  });
}
