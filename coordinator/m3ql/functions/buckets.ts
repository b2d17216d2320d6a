/**
 * Buckets of histograms that are series: M3's have their ends in a tag, as `10ms-20ms` or `0.5-1`, and count what is in
 * them alone; Prometheus' have the upper end, and count what is below them, too.
 */
import { parseDurationNanos } from '#lib/time.ts';
import { TsdbError } from '#lib/errors.ts';

export interface BucketRange {
  /** Seconds where ends are durations. */
  readonly lower: number;
  readonly upper: number;
}

/** An end may have a sign. */
const form = /^(-?[^-]+)-(-?[^-]+)$/;

/** Null when it is none. */
export function bucketRange(text: string): BucketRange | null {
  const [, first, second] = form.exec(text) ?? [];
  const lower = endOf(first ?? '');
  const upper = endOf(second ?? '');
  return lower === null || upper === null || !(lower < upper) ? null : { lower, upper };
}

/** The upper one, as it is written; an upper end alone is itself. */
export function upperEnd(text: string): string {
  return form.exec(text)?.[2] ?? text;
}

/** Null when it is no number and no duration. */
export function endOf(text: string): number | null {
  const infinity = /^([-+]?)inf(?:inity)?$/i.exec(text);
  if (infinity !== null) return infinity[1] === '-' ? -Infinity : Infinity;
  if (/^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i.test(text)) return Number(text);
  try {
    return Number(parseDurationNanos(text, 'bucket')) / 1e9;
  } catch (error) {
    if (error instanceof TsdbError) return null;
    throw error;
  }
}
