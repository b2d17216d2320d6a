/** Aggregated namespaces of a simulated cluster. */
import type { Namespace } from '#cluster/namespaces/namespaces.ts';
import { blockMillis, shortNamespace } from '../cluster.ts';

const nanosPerMilli = 1_000_000n;

export interface WindowsShape {
  readonly namespace: string;
  readonly windowMillis: number;
  readonly retentionMillis: number;
  /** Of all series of which no rule says something else. */
  readonly takesAll: boolean;
}

/** Kept for longer than any run. */
export const usualWindows: WindowsShape = {
  namespace: 'windows',
  windowMillis: 10_000,
  retentionMillis: 3_600_000,
  takesAll: true,
};

/** In blocks of a minute, or of two windows where these are longer. */
export function aggregatedNamespace({
  namespace,
  windowMillis,
  retentionMillis,
  takesAll,
}: WindowsShape): Namespace {
  const resolutionNanos = BigInt(windowMillis) * nanosPerMilli;
  const attributes = { resolutionNanos, downsampleOptions: { all: takesAll } };
  const more = { aggregations: [{ aggregated: true, attributes }] };
  const made = shortNamespace(namespace, more, retentionMillis);
  if (2 * windowMillis <= blockMillis) return made;
  const blockSizeNanos = 2n * resolutionNanos;
  const { retentionOptions, indexOptions } = made.options;
  return {
    ...made,
    options: {
      ...made.options,
      retentionOptions: { ...retentionOptions, blockSizeNanos },
      indexOptions: { ...indexOptions, blockSizeNanos },
    },
  };
}
