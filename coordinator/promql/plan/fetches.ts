/** The reads of a query, each once, and which rows they are of. */
import type { WindowExtension } from '#engine/histograms/windows/extended_windows.ts';
import { nanosPerMilli } from '#lib/time.ts';
import type { Matcher, Restriction, SelectRange, SelectWindows } from '../../select/storage.ts';
import type { Look } from './looks.ts';
import type { Fetch, Grid, Reference } from './plan.ts';

export class Fetches {
  readonly #all: Fetch[] = [];
  readonly #byKey = new Map<string, number>();

  get all(): readonly Fetch[] {
    return this.#all;
  }

  /**
   * @param windows in the place of samples
   * @param restriction to some of the series
   * @param isThroughout as of `Fetch`
   * @returns its index
   */
  add(
    matchers: readonly Matcher[],
    range: SelectRange,
    windows: SelectWindows | null,
    restriction: Restriction | null,
    isThroughout: boolean = false,
  ): number {
    const key = JSON.stringify([
      matchers.map(({ name, kind, value }) => [name, kind, value]),
      String(range.startNanos),
      String(range.endNanos),
      windows,
      restriction?.key ?? null,
      isThroughout,
    ]);
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    this.#byKey.set(key, this.#all.length);
    return this.#all.push({ matchers, range, windows, restriction, isThroughout }) - 1;
  }
}

/** Reference time of the first step, and the distance of two. */
export function referenceOf(
  { pinnedMillis, offsetMillis }: Look,
  { startMillis, stepMillis }: Grid,
): { readonly startMillis: number; readonly stepMillis: number } {
  if (pinnedMillis !== null) return { startMillis: pinnedMillis - offsetMillis, stepMillis: 0 };
  return { startMillis: startMillis - offsetMillis, stepMillis };
}

/** The rows that so many steps look at. */
export function selectRangeOf(
  { referenceStartMillis, referenceStepMillis, rangeMillis }: Reference,
  stepCount: number,
  extension: WindowExtension | null = null,
): SelectRange {
  const endMillis = referenceStartMillis + referenceStepMillis * Math.max(0, stepCount - 1);
  // Rows count by whole milliseconds, rounded down.
  return {
    startNanos: nanosOf(referenceStartMillis - rangeMillis - (extension?.beforeMillis ?? 0) + 1),
    endNanos: nanosOf(endMillis + (extension?.afterMillis ?? 0) + 1),
  };
}

const nanosLimit = 2n ** 63n - 1n;

/** Held inside of 64 bits, where all data lie. */
function nanosOf(millis: number): bigint {
  const nanos = BigInt(millis) * nanosPerMilli;
  return nanos > nanosLimit ? nanosLimit : nanos < -nanosLimit ? -nanosLimit : nanos;
}
