/** Times of OTLP, nanoseconds in eight bytes, as milliseconds. */

const nanosPerMilli = 1_000_000;
/** A start time beyond what int64 nanoseconds can say is none. */
const startMillisMax = 9_223_372_036_854;

/** Whole, cut; exact, without a bigint. */
export function millisAt(view: DataView, at: number): number {
  const low = view.getUint32(at, true);
  const guess = Math.floor((view.getUint32(at + 4, true) * 2 ** 32 + low) / nanosPerMilli);
  // The sum was rounded: the rest, of which 32 bits are exact, shows whether the guess is one off.
  const rest = (low - Math.imul(guess, nanosPerMilli)) | 0;
  if (rest < 0) return guess - 1;
  return rest < nanosPerMilli ? guess : guess + 1;
}

export function startMillisAt(view: DataView, at: number): number {
  const millis = millisAt(view, at);
  return millis <= startMillisMax ? millis : 0;
}
