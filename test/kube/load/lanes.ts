/**
 * What writer and checker agree on: each tick is one sample in every lane, its value the tick's
 * number.
 */
export const metric = 'load_ticks';
export const laneCount = 20;

/** Number and timestamp in Unix milliseconds. */
export type Tick = readonly [number: number, millis: number];

/** With its cause: what fetch throws says only "fetch failed". */
export function problemOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}
