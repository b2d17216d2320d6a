/**
 * Which versions a node takes, and what it tells writers. A version from the future would win
 * against every later write of its rows until that time has come: by the median of the clocks of
 * several nodes such a batch is refused. Without a median nobody knows who is wrong, the writer or
 * this node: the batch is taken, and the log says so, unless it is more than a day ahead. Then it is
 * refused too, or whoever writes once could make a row that nothing replaces and nothing deletes. An
 * honest writer that is refused because this node's clock is so far behind would have its rows refused
 * as from the future, for good; this way it sends them again until the clock is set.
 */
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import {
  versionAheadAloneMillisMax,
  versionAheadMillisMax,
  versionAtMillis,
  versionLeadMillisMax,
  versionsPerMilli,
} from '#lib/hybrid_clock.ts';
import type { Log } from '#lib/log.ts';
import type { PeerClocks } from '#cluster/node/peer_clocks.ts';

const saidMillisMin = 60_000;

export class VersionBound {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #peerClocks: Pick<PeerClocks, 'medianMillis' | 'voters' | 'hasten'>;
  #highest = 0;
  /** Batches since the last line of the log. */
  #unsaid = 0;
  #saidMillis = Number.NEGATIVE_INFINITY;
  /** Counts of this process, for metrics: batches. */
  readonly counts: { refused: number; unchecked: number } = { refused: 0, unchecked: 0 };

  constructor(
    clock: Clock,
    log: Log,
    peerClocks: Pick<PeerClocks, 'medianMillis' | 'voters' | 'hasten'>,
  ) {
    this.#clock = clock;
    this.#log = log;
    this.#peerClocks = peerClocks;
  }

  /** @throws {TsdbError} FAILED_PRECONDITION when the version is too far ahead */
  check(version: number): void {
    const median = this.#peerClocks.medianMillis();
    const nowMillis = median ?? this.#clock.nowMillis();
    if (version <= versionAtMillis(nowMillis + versionAheadMillisMax)) return;
    const secondsAhead = (version / versionsPerMilli - nowMillis) / 1000;
    if (median === null) {
      if (version > versionAtMillis(nowMillis + versionAheadAloneMillisMax)) {
        this.#refuseAlone(secondsAhead);
      }
      this.counts.unchecked += 1;
      const message =
        "versions are ahead of this node's clock, and too few peers say who is wrong: they are taken";
      this.#say(secondsAhead, message);
      return;
    }
    this.counts.refused += 1;
    this.#say(
      secondsAhead,
      "versions are refused: the clock of their writer is ahead of the nodes'",
    );
    this.#peerClocks.hasten();
    throw new TsdbError(
      'FAILED_PRECONDITION',
      `cannot write: the clock of the writer is ${secondsAhead.toFixed(1)} s ahead of the median of ` +
        `${this.#peerClocks.voters} clocks of storage nodes`,
    );
  }

  #refuseAlone(secondsAhead: number): never {
    this.counts.refused += 1;
    this.#say(
      secondsAhead,
      "versions are refused: they are more than a day ahead of this node's clock",
    );
    throw new TsdbError(
      'FAILED_PRECONDITION',
      `cannot write: the version of the batch is ${(secondsAhead / 3600).toFixed(1)} h ahead of the clock ` +
        `of the storage node, ${versionAheadAloneMillisMax / 3_600_000} h at most: set the clock right ` +
        'of the writer or of the node',
    );
  }

  /** Notes a version that rows were taken with, or that a deletion has. */
  accept(version: number): void {
    if (version > this.#highest) this.#highest = version;
  }

  /** What writers have to go beyond: one that was taken in error leads nobody into the future. */
  get highest(): number {
    const highest = this.#highest;
    const nowMillis = this.#peerClocks.medianMillis() ?? this.#clock.nowMillis();
    return Math.min(highest, versionAtMillis(nowMillis + versionLeadMillisMax));
  }

  #say(secondsAhead: number, message: string): void {
    this.#unsaid += 1;
    const nowMillis = this.#clock.monotonicMillis();
    if (nowMillis - this.#saidMillis < saidMillisMin) return;
    this.#log.warn({ secondsAhead: Math.round(secondsAhead), batches: this.#unsaid }, message);
    this.#unsaid = 0;
    this.#saidMillis = nowMillis;
  }
}
