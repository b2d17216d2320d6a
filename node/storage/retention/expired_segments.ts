/**
 * Which segments of the commit log retention takes away: decided of what they say of themselves.
 */
import type { UnixNanos } from '#lib/time.ts';
import type { SegmentInfo } from '../../persist/commitlog/commitlog.ts';

/** What a namespace keeps. */
export interface RetentionRules {
  readonly blockSizeNanos: bigint;
  readonly retentionNanos: bigint;
}

/**
 * A closed segment goes when the block of its newest row is past retention in every namespace, and
 * all segments before it have gone: it may say what of their rows was truncated or deleted.
 * @param closed oldest first
 * @param rules by name of the namespace; nothing is kept of a namespace that is not in it
 */
export function expiredSegments<S extends Pick<SegmentInfo, 'newestMillis'>>(
  closed: readonly S[],
  rules: ReadonlyMap<string, RetentionRules>,
  nowNanos: UnixNanos,
): readonly S[] {
  const isExpired = ({ newestMillis }: S): boolean =>
    [...newestMillis].every(([name, newest]) => {
      const kept = rules.get(name);
      if (kept === undefined) return true;
      // The time is rounded in a float, so a block more is waited for.
      const newestNanos = BigInt(Math.ceil(newest)) * 1_000_000n;
      return newestNanos + 2n * kept.blockSizeNanos <= nowNanos - kept.retentionNanos;
    });
  const needed = closed.findIndex((segment) => !isExpired(segment));
  return needed === -1 ? closed : closed.slice(0, needed);
}
