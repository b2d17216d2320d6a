/** For tests of what takes its turns with others. */
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import { type Aside, onTheLoop, type Turning } from './aside.ts';

export function turningOf(
  aside: Aside = onTheLoop,
  { signal }: AbortController = new AbortController(),
): Turning {
  return { work: Turns.of(realEnv.clock).begin(signal), aside };
}

export interface Seen<T> {
  readonly answer: T;
  /** Of the loop while it was done. */
  readonly turns: number;
  /** Longest of them, in milliseconds that this thread had: other processes may have had the machine. */
  readonly longestMillis: number;
}

export async function turnsOf<T>(done: Promise<T>): Promise<Seen<T>> {
  let turns = 0;
  let longestMillis = 0;
  let lastMillis = threadMillis();
  let isOver = false;
  const turn = (): void => {
    const now = threadMillis();
    longestMillis = Math.max(longestMillis, now - lastMillis);
    lastMillis = now;
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  try {
    const answer = await done;
    longestMillis = Math.max(longestMillis, threadMillis() - lastMillis);
    return { answer, turns, longestMillis };
  } finally {
    isOver = true;
  }
}

function threadMillis(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Aside on the loop, and which kinds of jobs there were. */
export function countedAside(): { readonly aside: Aside; readonly kinds: string[] } {
  const kinds: string[] = [];
  const aside: Aside = {
    run: (job, work) => {
      kinds.push(job.kind);
      return onTheLoop.run(job, work);
    },
  };
  return { aside, kinds };
}
