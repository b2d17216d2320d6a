const secondNanos = 1_000_000_000n;
const minuteNanos = 60n * secondNanos;

/** How long after its end a window is made first: rows are on their way. As M3 has it. */
export function latenessNanos(resolutionNanos: bigint): bigint {
  if (resolutionNanos < 30n * secondNanos) return 15n * secondNanos;
  if (resolutionNanos < minuteNanos) return 30n * secondNanos;
  return resolutionNanos < 2n * minuteNanos ? minuteNanos : 2n * minuteNanos;
}
