/** For tests of what is gone through in parts: each look at the clock says that it is time to give way. */
import { Turns, type Work } from '#lib/turns/turns.ts';
import type { RowMaker } from './making.ts';

export interface Parts {
  readonly work: Work;
  /** How often it has given way. */
  readonly pauses: () => number;
}

export function partsOf(signal: AbortSignal = new AbortController().signal): Parts {
  let nowMillis = 0;
  const clock = { monotonicMillis: () => (nowMillis += 10) };
  const work = Turns.of(clock).begin(signal);
  let pauses = 0;
  const pause = work.pause.bind(work);
  work.pause = () => {
    pauses += 1;
    return pause();
  };
  return { work, pauses: () => pauses };
}

/** Without a limit. */
export function makerOf(work: Work): RowMaker {
  return { work, reserve: async () => {}, release: () => {} };
}
