/** Which block size suits a retention. */

const minuteNanos = 60_000_000_000n;
const hourNanos = 60n * minuteNanos;
const dayNanos = 24n * hourNanos;

/** Block size by retention: up to the first, the second. Longer retentions take the last. */
const blockSizes: readonly (readonly [retentionNanosMax: bigint, blockSizeNanos: bigint])[] = [
  [12n * hourNanos, 30n * minuteNanos],
  [24n * hourNanos, hourNanos],
  [7n * dayNanos, 2n * hourNanos],
  [30n * dayNanos, 12n * hourNanos],
  [365n * dayNanos, 24n * hourNanos],
];

/**
 * Block size of an aggregated namespace when the request names none: as of its retention, and of whole windows.
 * @returns nanoseconds
 */
export function blockSizeForWindows(resolutionNanos: bigint, retentionNanos: bigint): bigint {
  const blockSizeNanos = blockSizeForRetention(retentionNanos);
  if (resolutionNanos >= blockSizeNanos) {
    return resolutionNanos % blockSizeNanos === 0n ? blockSizeNanos : resolutionNanos;
  }
  const rest = blockSizeNanos % resolutionNanos;
  return rest === 0n ? blockSizeNanos : blockSizeNanos - rest + resolutionNanos;
}

/**
 * Block size for a retention when the request names none.
 * @returns nanoseconds
 */
export function blockSizeForRetention(retentionNanos: bigint): bigint {
  for (const [retentionNanosMax, blockSizeNanos] of blockSizes) {
    if (retentionNanos <= retentionNanosMax) return blockSizeNanos;
  }
  return blockSizes.at(-1)![1];
}
