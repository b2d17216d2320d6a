/** Health, readiness and the list of routes. */
import type { Clock } from '#lib/env/env.ts';
import { formatDurationNanos } from '#lib/time.ts';
import { jsonAnswer, type PlainHandler } from '../http/http_api.ts';

/** A namespace as readiness reports it. */
export interface NamespaceReadiness {
  readonly name: string;
  readonly retentionNanos: bigint;
  readonly readyToRead: boolean;
  readonly readyToWrite: boolean;
}

export interface OpsApiSetup {
  readonly clock: Clock;
  readonly startedMillis: number;
  /** Whether placement and namespaces have been read since the start. */
  readonly knowsCluster: () => boolean;
  /** Every READY namespace, whether a quorum of its nodes can be reached. */
  readonly readiness: (signal: AbortSignal) => Promise<readonly NamespaceReadiness[]>;
}

/**
 * Whether the process runs. With `knowsCluster=true` it is 503 until placement and namespaces have been
 * read once: who was started while the key-value store is away serves nothing, and must not take the
 * place of one that goes on by what it knows.
 */
export const health: PlainHandler<OpsApiSetup> = (setup, { urlParameters }) => {
  const { clock, startedMillis, knowsCluster } = setup;
  const uptimeMillis = Math.round(clock.monotonicMillis() - startedMillis);
  const isAsked = urlParameters.get('knowsCluster') === 'true';
  return jsonAnswer(
    {
      uptime: formatDurationNanos(BigInt(uptimeMillis) * 1_000_000n),
      now: isoOfMillis(clock.nowMillis()),
      ...(isAsked ? { knowsCluster: knowsCluster() } : {}),
    },
    {},
    isAsked && !knowsCluster() ? 503 : 200,
  );
};

export const ready: PlainHandler<OpsApiSetup> = async (setup, { urlParameters, signal }) => {
  const all = await setup.readiness(signal);
  // Both kinds unless the request names one of them.
  const reads = urlParameters.get('reads') !== 'false';
  const writes = urlParameters.get('writes') !== 'false';
  const described = (namespace: NamespaceReadiness): object => ({
    id: namespace.name,
    attributes: {
      metricsType: 'unaggregated',
      retention: formatDurationNanos(namespace.retentionNanos),
      resolution: '0s',
    },
  });
  const listed = (ready: (one: NamespaceReadiness) => boolean): object[] =>
    all.filter(ready).map(described);
  const ok = all.every((one) => (one.readyToRead || !reads) && (one.readyToWrite || !writes));
  return jsonAnswer(
    {
      readyReads: listed((one) => one.readyToRead),
      notReadyReads: listed((one) => !one.readyToRead),
      readyWrites: listed((one) => one.readyToWrite),
      notReadyWrites: listed((one) => !one.readyToWrite),
    },
    {},
    ok ? 200 : 503,
  );
};

/** @param paths of all routes, sorted */
export const routeList: PlainHandler<() => readonly string[]> = (paths) =>
  jsonAnswer({ routes: paths() });

function isoOfMillis(millis: number): string {
  // The clock was read by the caller; this only prints it.
  return new Date(millis).toISOString();
}
