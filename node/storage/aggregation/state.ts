/** What a node has of the namespaces of which windows are made, and of those that have them, at one moment. */
import {
  aggregationOf,
  isReady,
  type RowsSince,
  rowsSinceOf,
} from '#cluster/namespaces/namespaces.ts';
import { droppedNamespace } from '#cluster/namespaces/companions.ts';
import { completeSince, isOfSamples, isOfWindows } from '#cluster/namespaces/samples.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import { beforeAllTime, type NamespaceState } from '../namespace/namespace.ts';
import type { KeptTarget } from '#cluster/aggregation_rules/sets/kept_windows.ts';
import { type Cut, cutOf } from './slices.ts';

export interface StateParts {
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly store: SampleStore;
}

/** A namespace of samples, as slices are made of it. */
export interface Raw extends RowsSince {
  readonly namespace: NamespaceState;
  readonly retentionNanos: bigint;
  readonly blockSizeNanos: bigint;
  readonly bufferPastNanos: bigint;
  readonly expiredBeforeNanos: UnixNanos;
  /** In use, by shard, by ascending block. */
  readonly files: ReadonlyMap<number, readonly BlockFile[]>;
  readonly inMemory: ReadonlySet<bigint>;
}

/** A namespace of windows. */
export interface Target extends KeptTarget {
  readonly namespace: NamespaceState;
  readonly cut: Cut;
}

export function targetsOf({ namespaces }: Pick<StateParts, 'namespaces'>): Target[] {
  const all = [...namespaces.values()];
  const rawRetentionNanos = all.filter(isRaw).reduce<bigint>((most, { retentionNanos }) => {
    return retentionNanos > most ? retentionNanos : most;
  }, 0n);
  return all.flatMap((namespace) => {
    const { definition, options, blockSizeNanos } = namespace;
    if (!isOfWindows(definition) || !options.flushEnabled || !knowsExpiry(namespace)) return [];
    const { resolutionNanos, downsampleAll: takesAll } = aggregationOf(definition)!;
    const cut = cutOf(resolutionNanos, blockSizeNanos, rawRetentionNanos);
    const policy = { resolutionNanos, retentionNanos: namespace.retentionNanos };
    return [{ namespace, resolutionNanos, policy, takesAll, cut }];
  });
}

const isRaw = ({ definition }: NamespaceState): boolean =>
  // Of those that write no filesets no windows can be made.
  isReady(definition) && isOfSamples(definition) && definition.options.flushEnabled;

/** Whether it was looked for what is past retention since the start. */
const knowsExpiry = ({ expiredBeforeNanos }: NamespaceState): boolean =>
  expiredBeforeNanos !== beforeAllTime;

/**
 * In the order in which they were made ready, as reads have it.
 * @returns none as long as it is not known what of them is past retention
 */
export function rawsOf({ namespaces, store }: StateParts): Raw[] {
  const all = [...namespaces.values()].filter(isRaw);
  const dropped = namespaces.get(droppedNamespace);
  if (![...all, ...(dropped === undefined ? [] : [dropped])].every(knowsExpiry)) return [];
  return all.map((namespace) => rawOf(namespace, store));
}

/** Rows that rules drop, which are in no namespace of samples; null where there are none. */
export function droppedOf({ namespaces, store }: StateParts): Raw | null {
  const namespace = namespaces.get(droppedNamespace);
  return namespace === undefined || !isReady(namespace.definition) ? null : rawOf(namespace, store);
}

function rawOf(namespace: NamespaceState, store: SampleStore): Raw {
  return {
    namespace,
    retentionNanos: namespace.retentionNanos,
    ...rowsSinceOf(namespace.definition),
    blockSizeNanos: namespace.blockSizeNanos,
    bufferPastNanos: namespace.options.retentionOptions.bufferPastNanos,
    expiredBeforeNanos: namespace.expiredBeforeNanos,
    files: byShard(namespace.files.all(null)),
    inMemory: new Set(
      store.blocks(namespace.ordinal).map(({ blockStartNanos }) => blockStartNanos),
    ),
  };
}

/** From which time on there is every row that ever was; null where there is no namespace of samples. */
export function completeFrom(raws: readonly Raw[]): bigint | null {
  if (raws.length === 0) return null;
  const all = raws.map((raw) => ({ ...rowsSinceOf(raw), keepsFromNanos: raw.expiredBeforeNanos }));
  return completeSince(all, 0n);
}

/** As it is once it was looked at that time for what is past retention. */
export function expiredBy(raw: Raw, nowNanos: UnixNanos): Raw {
  const expiredNanos = raw.namespace.blockStartOf(nowNanos - raw.retentionNanos);
  if (expiredNanos <= raw.expiredBeforeNanos) return raw;
  return { ...raw, expiredBeforeNanos: expiredNanos };
}

function byShard(files: readonly BlockFile[]): Map<number, BlockFile[]> {
  const all = new Map<number, BlockFile[]>();
  for (const file of files) {
    const some = all.get(file.shard);
    if (some === undefined) all.set(file.shard, [file]);
    else some.push(file);
  }
  return all;
}
