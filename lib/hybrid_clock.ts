/**
 * Versions of samples and deletions: of two samples of one time the one with the higher version
 * wins, and a deletion takes what has its version or a lower one.
 *
 * A version is hybrid logical time: Unix time in 1/64 milliseconds, at least one more than the last
 * one that its maker gave. It is a whole number below 2^53 until the year 6429, so a `number` holds
 * it, and 64 versions fit into a millisecond before a maker runs ahead of its clock.
 *
 * The kernels have the unit too (engine/codec/kernel/codec.ts and rows.ts); the fuzz of the codec
 * holds them equal to a twin that uses this file.
 */

export const versionMax: number = Number.MAX_SAFE_INTEGER;

export const versionsPerMilli = 64;

/** Nanoseconds from one version to the next. */
export const versionNanos = 15_625n;

/** A node refuses versions that are further ahead of what it knows of the time. */
export const versionAheadMillisMax = 60_000;

/**
 * The same of a node that knows its own clock alone, which may be the one that is wrong: behind by up
 * to 14 hours where it shows the time of a zone, and by hours after a start without NTP.
 */
export const versionAheadAloneMillisMax = 86_400_000;

/**
 * Answers of nodes lead writers so far ahead of that time at most: well below the bound above, or
 * one writer whose clock was a minute ahead would take all others to where they are refused.
 */
export const versionLeadMillisMax = 30_000;

/**
 * A row that is written within this of its time, 16.4 s, has its time as its derived version, and
 * one that is written later, or before its time, that of its batch in steps of `versionGrain`, 4.1 s.
 */
export const liveLagMax: number = 2 ** 20;
export const versionGrain: number = 2 ** 18;

/**
 * The version of a row in a batch that derives them: not above the batch's, and such that rows which
 * are written as they come about differ from their times by the same, so that a chunk need not keep
 * a version of each (docs/ARCHITECTURE.md, 'Versions of samples').
 */
export function derivedVersion(batchVersion: number, unixNanos: bigint): number {
  const atTime = Number(versionAtNanos(unixNanos));
  const lag = batchVersion - atTime;
  if (lag >= 0 && lag < liveLagMax) return Math.max(atTime, 0);
  return Math.floor(batchVersion / versionGrain) * versionGrain;
}

/** The first version of a time. @param unixMillis may have a fraction */
export function versionAtMillis(unixMillis: number): number {
  return Math.floor(unixMillis * versionsPerMilli);
}

/** The version of a time; below 0 before 1970, where no maker of versions is. */
export function versionAtNanos(unixNanos: bigint): bigint {
  const versions = unixNanos / versionNanos;
  return unixNanos % versionNanos < 0n ? versions - 1n : versions;
}

/** The version that follows `last` at this time. @param last 0 when there is none */
export function nextVersion(unixMillis: number, last: number): number {
  return Math.max(versionAtMillis(unixMillis), last + 1);
}

/**
 * Gives versions, each higher than those before and, as far as answers tell, than those of other
 * writers.
 */
export class HybridClock {
  readonly #clock: { nowMillis(): number };
  #last = 0;
  /** The highest one that nodes have accepted: rows may have it. */
  #accepted = 0;
  /** What was given last goes on from that one, since the clock is behind it. */
  #goesOnFromAccepted = false;

  constructor(clock: { nowMillis(): number }) {
    this.#clock = clock;
  }

  next(): number {
    this.#last = nextVersion(this.#clock.nowMillis(), this.#last);
    return this.#last;
  }

  /** A node has accepted this version, of whomever: what is given from now on is higher. */
  raise(version: number): void {
    if (version >= versionMax) return;
    if (version > this.#last) this.#last = version;
    if (version <= this.#accepted) return;
    this.#accepted = version;
    this.#goesOnFromAccepted = false;
  }

  /** The highest version that was given or heard of. */
  get last(): number {
    return this.#last;
  }

  /**
   * A version that this gave was refused as too far ahead, as when the clock was set back since: to go on
   * from there would be refused too.
   * @param refused the last one when it is not said
   * @returns the next one by the clock as it stands, but after all that nodes have accepted: rows have those
   */
  nextAfterRefusal(refused: number = this.#last): number {
    // Of before it went back: what it gives now has not been refused.
    if (refused > this.#last) return this.next();
    // Nodes do not take what follows those at once any more: their own clocks were set back.
    const isNext = refused <= this.#accepted + versionsPerMilli;
    if (isNext || this.#goesOnFromAccepted) this.#accepted = 0;
    const now = versionAtMillis(this.#clock.nowMillis());
    this.#goesOnFromAccepted = this.#accepted >= now;
    this.#last = Math.min(this.#last, Math.max(now - 1, this.#accepted));
    return this.next();
  }
}
