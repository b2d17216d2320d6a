/** For tests of what takes its turns with others. */
import assert from 'node:assert/strict';
import { type PerformanceEntry, PerformanceObserver, performance } from 'node:perf_hooks';
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
  /**
   * Longest of them, in milliseconds that this thread had, without those that the garbage collector stopped it: other
   * processes may have had the machine, and the heap is that of all tests of a file.
   */
  readonly longestMillis: number;
  /** Of all turns. */
  readonly totalMillis: number;
}

/** A turn may take so long before it is asked whether the work was divided at all. */
const turnMillisMax = 100;

/**
 * That nothing held the loop: no turn had half of all the time. A share, as a slow machine makes all turns longer.
 *
 * @param what was done, for the message
 */
export function assertNotHeld(
  { longestMillis, totalMillis, turns }: Seen<unknown>,
  what = '',
): void {
  const isHeld = longestMillis > turnMillisMax && longestMillis > totalMillis / 2;
  const text = `${what}: one of ${turns} turns took ${longestMillis} of ${totalMillis} ms`;
  assert.ok(!isHeld, text);
}

export async function turnsOf<T>(done: Promise<T>): Promise<Seen<T>> {
  const stretches: Stretch[] = [];
  using collections = new Collections();
  let isOver = false;
  let last = begin();
  const turn = (): void => {
    stretches.push(end(last));
    last = begin();
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  try {
    const answer = await done;
    const turns = stretches.length;
    stretches.push(end(last));
    const pauses = await collections.all();
    const millisOf = (stretch: Stretch): number =>
      stretch.threadMillis - millisWithin(pauses, stretch);
    const millis = stretches.map(millisOf);
    return {
      answer,
      turns,
      longestMillis: millis.reduce((longest, each) => Math.max(longest, each), 0),
      totalMillis: millis.reduce((sum, each) => sum + each, 0),
    };
  } finally {
    isOver = true;
  }
}

/** From one turn of the loop to the next one. */
interface Stretch {
  readonly fromMillis: number;
  readonly toMillis: number;
  readonly threadMillis: number;
}

type Begun = Pick<Stretch, 'fromMillis' | 'threadMillis'>;

function begin(): Begun {
  return { fromMillis: performance.now(), threadMillis: threadMillis() };
}

function end({ fromMillis, threadMillis: before }: Begun): Stretch {
  return { fromMillis, toMillis: performance.now(), threadMillis: threadMillis() - before };
}

function threadMillis(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

function millisWithin(
  pauses: readonly PerformanceEntry[],
  { fromMillis, toMillis }: Stretch,
): number {
  const within = pauses.filter((p) => p.startTime >= fromMillis && p.startTime < toMillis);
  return within.reduce((millis, { duration }) => millis + duration, 0);
}

/** Pauses of the garbage collector, from here on. */
class Collections implements Disposable {
  readonly #seen: PerformanceEntry[] = [];
  readonly #observer = new PerformanceObserver((list) => this.#seen.push(...list.getEntries()));

  constructor() {
    this.#observer.observe({ entryTypes: ['gc'] });
  }

  /** They are told a turn late. */
  async all(): Promise<readonly PerformanceEntry[]> {
    for (let i = 0; i < 3; i++) await new Promise(setImmediate);
    return [...this.#seen, ...this.#observer.takeRecords()];
  }

  [Symbol.dispose](): void {
    this.#observer.disconnect();
  }
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
