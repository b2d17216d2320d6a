/**
 * How series that hold nothing leave index and store while writes and queries go on: in steps of
 * some milliseconds.
 *
 *     in the index ── taken out, alone ──→ leaving: its references are refused ── lists swept ──→ slot is free
 */
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import { Pace } from '../flush/pace.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Sequencer } from '../write/sequencer.ts';

/** What it takes to remove series. */
export interface SeriesRemovalParts {
  readonly env: Env;
  readonly store: SampleStore;
  readonly sequencer: Sequencer;
}

/** Series that leave in one step of the sequencer. */
const takenOutAtOnce = 2048;
/** Slots that are given back in one stretch. */
const releasedAtOnce = 4096;
/** Of the main loop's time, while writes and queries wait. */
const removalShare = 0.5;

/**
 * Drops what is past retention in steps of the sequencer, and takes away the series that hold
 * nothing any more.
 * @returns how many series and filesets went
 */
export async function expireNamespace(
  parts: SeriesRemovalParts,
  namespace: NamespaceState,
  nowNanos: bigint,
): Promise<{ series: number; filesets: number }> {
  const { truncations } = namespace;
  const steps = namespace.expireInSteps(nowNanos);
  const pace = new Pace(parts.env.clock, () => removalShare);
  for (;;) {
    const step = await parts.sequencer.exclusive(() =>
      namespace.truncations === truncations ? steps.next() : null,
    );
    if (step === null) return { series: 0, filesets: 0 };
    if (step.done === true) {
      const { empty, filesets } = step.value;
      return { series: await removeEmptySeries(parts, namespace, empty), filesets };
    }
    await pace.rest(null);
  }
}

/**
 * Takes away those of the series that still hold nothing when it is their turn.
 * @returns how many went
 */
export async function removeEmptySeries(
  parts: SeriesRemovalParts,
  namespace: NamespaceState,
  slots: Uint32Array,
): Promise<number> {
  if (slots.length === 0) return 0;
  const { sequencer, store, env } = parts;
  const { truncations, leaving } = namespace;
  const gone: number[] = [];
  const steps = namespace.index.removeInSteps(slots, takenOutAtOnce, (slot) => {
    // It may have gone with its shard since the last step, and its slot may be another namespace's.
    if (!namespace.index.has(slot) || !namespace.isEmpty(slot)) return false;
    leaving.add(slot);
    gone.push(slot);
    return true;
  });
  const isOver = () => namespace.truncations !== truncations;
  const pace = new Pace(env.clock, () => removalShare);
  // Alone, so that no row of them is on its way through the log. Writes that wait have their turn
  // in between, and so have sockets.
  for (let more = true; more; ) {
    more = await sequencer.exclusive(() => !isOver() && steps.next().value === true);
    await pace.rest(null);
  }
  // After a truncation the index is another one, and whoever truncated has released what was
  // leaving.
  while (!isOver() && steps.next().done !== true) await pace.rest(null);
  for (let first = 0; first < gone.length && !isOver(); first += releasedAtOnce) {
    for (const slot of gone.slice(first, first + releasedAtOnce)) {
      store.releaseSeries(slot);
      leaving.delete(slot);
    }
    await pace.rest(null);
  }
  return gone.length;
}
