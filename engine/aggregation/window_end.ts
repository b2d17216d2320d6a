/** @returns the end of the window that a time is in, both in Unix nanoseconds: windows are open to the left */
export function windowEndOf(nanos: bigint, resolutionNanos: bigint): bigint {
  const rest = ((nanos % resolutionNanos) + resolutionNanos) % resolutionNanos;
  return rest === 0n ? nanos : nanos - rest + resolutionNanos;
}
