/**
 * The slices of a shard that there is something of: raw filesets, or notes, of which some may be of another cut, made when
 * samples were kept for another time (docs/AGGREGATION.md, Where windows are made).
 */
import type { SliceNote } from './notes.ts';
import { byStart, overlaps, type RawFile, type Slice, slicesIn, slicesOf } from './slices.ts';
import type { Target } from './state.ts';

export interface KnownSlices {
  /** Those that may be to be made, the oldest first. */
  readonly slices: readonly Slice[];
  /** Notes of another cut that nothing needs any more: the slices over them have notes of their own. */
  readonly outdated: readonly SliceNote[];
}

/**
 * A slice begins behind what is frozen, however that was cut: some of the rows of that are gone, and of a window that a
 * deletion touches, what is made of the others would stay.
 * @param notes of the shard
 * @param files raw ones of the shard
 */
export function knownSlices(
  { cut, resolutionNanos }: Pick<Target, 'cut' | 'resolutionNanos'>,
  notes: readonly SliceNote[],
  files: readonly RawFile[],
): KnownSlices {
  const frozen = notes.filter(({ isFrozen }) => isFrozen);
  const others = notes.filter(({ isFrozen }) => !isFrozen);
  const byTheirStart = Map.groupBy(others, ({ startNanos }) => startNanos);
  const hasNote = (slice: Slice): boolean => {
    return byTheirStart.get(slice.startNanos)?.some((note) => isSame(note, slice)) ?? false;
  };
  const whole = new Map<bigint, Slice>();
  for (const slice of slicesOf(files, resolutionNanos, cut)) whole.set(slice.startNanos, slice);
  // All of a fileset's rows may have been deleted.
  for (const note of others) {
    for (const slice of slicesIn(cut, note)) whole.set(slice.startNanos, slice);
  }
  const slices = [...whole.values()]
    .map((slice) => (hasNote(slice) ? slice : behind(slice, frozen)))
    .filter(({ startNanos, endNanos }) => startNanos < endNanos)
    .sort(byStart);
  const outdated = others.filter((note) => {
    const ofCut = whole.get(note.startNanos);
    if (ofCut !== undefined && isSame(ofCut, note)) return false;
    const over = slices.filter((slice) => overlaps(slice, note));
    return !over.some((slice) => isSame(slice, note)) && over.every(hasNote);
  });
  return { slices, outdated };
}

function behind(slice: Slice, frozen: readonly Slice[]): Slice {
  return frozen.reduce((rest, { startNanos, endNanos }) => {
    const isInside = startNanos < rest.endNanos && endNanos > rest.startNanos;
    return isInside ? { ...rest, startNanos: endNanos } : rest;
  }, slice);
}

function isSame(a: Slice, b: Slice): boolean {
  return a.startNanos === b.startNanos && a.endNanos === b.endNanos;
}
