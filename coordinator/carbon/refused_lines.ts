/** Bad lines of senders that nobody answers: whoever runs the database sees that there are some, and what the first one was. */
import type { Clock } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';

const tellMillisMin = 10_000;
/** Longest text of bad lines in the log. */
const textMax = 1000;

export class RefusedLines {
  readonly #format: string;
  readonly #clock: Pick<Clock, 'monotonicMillis'>;
  readonly #log: Log;
  #count = 0;
  #toldMillis = -Infinity;

  constructor(format: string, clock: Pick<Clock, 'monotonicMillis'>, log: Log) {
    this.#format = format;
    this.#clock = clock;
    this.#log = log;
  }

  /** Counts them, and tells of them at most every ten seconds. @param problems the first ones, in words */
  note(count: number, problems: string): void {
    this.#count += count;
    const nowMillis = this.#clock.monotonicMillis();
    if (nowMillis - this.#toldMillis < tellMillisMin) return;
    const reason = problems.length > textMax ? `${problems.slice(0, textMax)}…` : problems;
    this.#log.warn({ format: this.#format, refused: this.#count, reason }, 'lines are refused');
    this.#count = 0;
    this.#toldMillis = nowMillis;
  }
}
