/**
 * Stretches of a selector's steps, by what is read of them: samples where these go back to where a step's window begins,
 * else the finest windows that do (docs/AGGREGATION.md). No window of a step is read from two of them.
 */
import type { Resolution, Timeline } from '../../select/storage.ts';

/** Steps [from, from + count), read from samples, or from windows. */
export interface Stretch {
  readonly from: number;
  readonly count: number;
  /** Null for samples. */
  readonly of: Resolution | null;
}

/** When a step's look begins: at `startMillis + i * stepMillis`, less the range. */
export interface Looking {
  readonly startMillis: number;
  /** Not below 0. */
  readonly stepMillis: number;
  readonly stepCount: number;
}

/**
 * @param looking reference times of the steps
 * @param rangeOf how far back a step looks in windows of a resolution, or in samples (null), for a row before its range, too
 */
export function stretchesOf(
  timeline: Timeline,
  looking: Looking,
  rangeOf: (of: Resolution | null) => number,
): Stretch[] {
  const { startMillis, stepMillis, stepCount } = looking;
  const { samplesFromMillis, resolutions } = timeline;
  // The finest first; of what covers nothing, the one that goes back furthest is read all the same.
  const choices: readonly { readonly of: Resolution | null; readonly fromMillis: number }[] = [
    { of: null, fromMillis: samplesFromMillis + rangeOf(null) },
    ...resolutions.map((of) => ({ of, fromMillis: of.fromMillis + rangeOf(of) })),
  ];
  const furthest = choices.reduce((a, b) => (b.fromMillis < a.fromMillis ? b : a));
  const chosen = (reference: number): Resolution | null =>
    (choices.find(({ fromMillis }) => reference >= fromMillis) ?? furthest).of;
  if (stepMillis === 0 || stepCount <= 1) {
    return [{ from: 0, count: stepCount, of: chosen(startMillis) }];
  }
  // Steps at which another choice begins.
  const firsts = new Set([0]);
  for (const { fromMillis } of choices) {
    const first = Math.ceil((fromMillis - startMillis) / stepMillis);
    if (first > 0 && first < stepCount) firsts.add(first);
  }
  const stretches: Stretch[] = [];
  const sorted = [...firsts].sort((a, b) => a - b);
  for (const [i, from] of sorted.entries()) {
    const count = (sorted[i + 1] ?? stepCount) - from;
    const of = chosen(startMillis + from * stepMillis);
    const before = stretches.at(-1);
    if (before !== undefined && before.of === of) {
      stretches[stretches.length - 1] = { ...before, count: before.count + count };
    } else stretches.push({ from, count, of });
  }
  return stretches;
}

/** Of windows a range has four at least, or its function has nothing to tell of. */
const windowsOfRange = 4;
/** An instant selector looks back so many, where its look-back is shorter. */
const windowsOfLook = 2;

export function rangeOverWindows(
  rangeMillis: number,
  of: Pick<Resolution, 'resolutionMillis'> | null,
): number {
  return of === null ? rangeMillis : Math.max(rangeMillis, windowsOfRange * of.resolutionMillis);
}

export function lookbackOverWindows(lookbackMillis: number, of: Resolution | null): number {
  return of === null
    ? lookbackMillis
    : Math.max(lookbackMillis, windowsOfLook * of.resolutionMillis);
}
