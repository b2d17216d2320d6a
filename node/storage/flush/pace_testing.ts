/** A pace for tests of what happens while others have their turns. */
import { realEnv } from '#lib/env/real.ts';
import { Pace } from './pace.ts';

/** Rests between any two stretches, and does something then. @param act told how many rests there were */
export function paceThat(act: (rest: number) => void | Promise<void>): Pace {
  let rests = 0;
  let moved = 0;
  const clock = {
    ...realEnv.clock,
    monotonicMillis: () => (moved += 10),
    sleep: async () => await act(rests++),
  };
  return new Pace(clock, () => 1);
}
