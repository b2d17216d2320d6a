/**
 * Walks over all series of the store by jobs of the background: a million take a tenth of a second, so others have
 * their turns on the way. Series come, go and are written to meanwhile.
 */
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { StoredBlock } from '#engine/store/store.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Pace } from './pace.ts';

/** Slots that are looked at in one stretch, unless it is said: a millisecond or two. */
export const slotsOfStretchDefault = 16_384;

/** What it takes to walk. */
export interface StoreWalkParts {
  readonly store: SampleStore;
  readonly slotsOfStretch: number;
}

/** Series with rows in memory. */
export interface FoundSeries {
  readonly slots: Uint32Array;
  /** Of the slots when they were found: one may be another series' by now. */
  readonly generations: Uint32Array;
}

/**
 * What the blocks of a namespace hold in memory, by ascending start; null when all of it went meanwhile. The namespace is
 * in the store when it begins.
 * @throws the signal's reason
 */
export async function sumsOfBlocks(
  { store, slotsOfStretch }: StoreWalkParts,
  namespace: NamespaceState,
  pace: Pace,
  signal: AbortSignal,
): Promise<readonly StoredBlock[] | null> {
  const { ordinal, truncations } = namespace;
  if (store.blocks(ordinal).length === 0) return [];
  const steps = store.sumsInSteps(ordinal, slotsOfStretch);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await pace.rest(signal);
    // Its number in the store may be nobody's by now, or another one's.
    if (namespace.truncations !== truncations) return null;
  }
}

/**
 * Finds the series that have rows now, and have them still when their turn comes; ends early when all of the namespace
 * goes meanwhile, which its `truncations` tell. It is in the store when it begins.
 * @param blockStartNanos in this block; null for any
 * @throws the signal's reason
 */
export async function* seriesWithRows(
  { store, slotsOfStretch }: StoreWalkParts,
  namespace: NamespaceState,
  blockStartNanos: bigint | null,
  pace: Pace,
  signal: AbortSignal,
): AsyncGenerator<FoundSeries, void, undefined> {
  const { ordinal, truncations } = namespace;
  const starts = store.blocks(ordinal).map((block) => block.blockStartNanos);
  if (blockStartNanos === null ? starts.length === 0 : !starts.includes(blockStartNanos)) return;
  for (const slots of store.slotsInSteps(ordinal, blockStartNanos, slotsOfStretch)) {
    const { generation } = store;
    if (slots.length > 0) yield { slots, generations: slots.map((slot) => generation[slot]!) };
    await pace.rest(signal);
    if (namespace.truncations !== truncations) return;
  }
}
