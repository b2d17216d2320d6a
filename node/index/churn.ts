/**
 * How many series come and go: totals, and those of about the last hour from samples of the totals.
 */

export interface SeriesChurn {
  /** Since the index was made or loaded. */
  readonly created: number;
  readonly removed: number;
  /** In the last hour, or since the first sample when that is shorter ago. */
  readonly createdLastHour: number;
  readonly removedLastHour: number;
}

interface Sample {
  readonly millis: number;
  readonly created: number;
  readonly removed: number;
}

const hourMillis = 3_600_000;
/** Samples are at least this far apart, so that there are at most some sixty of them. */
const sampleMillis = 60_000;

export class Churn {
  created: number;
  removed: number;
  /** Ascending; only the first one may be older than an hour. */
  readonly #samples: Sample[];

  constructor() {
    this.created = 0;
    this.removed = 0;
    this.#samples = [];
  }

  /** @param nowMillis of a clock that never runs backwards */
  record(nowMillis: number): void {
    const samples = this.#samples;
    const last = samples[samples.length - 1];
    if (last === undefined || nowMillis - last.millis >= sampleMillis) {
      samples.push({ millis: nowMillis, created: this.created, removed: this.removed });
    }
    while (samples.length > 1 && samples[1]!.millis <= nowMillis - hourMillis) samples.shift();
  }

  /** Records, too. */
  at(nowMillis: number): SeriesChurn {
    this.record(nowMillis);
    const base = this.#samples[0]!;
    return {
      created: this.created,
      removed: this.removed,
      createdLastHour: this.created - base.created,
      removedLastHour: this.removed - base.removed,
    };
  }
}
