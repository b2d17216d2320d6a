/**
 * What time it is by the clocks of several nodes. A node asks some of its peers every ten seconds
 * what their wall clocks show, and takes the median of these and its own when there are three at
 * least: one wrong clock of three, its own too, then moves nothing. With fewer nobody knows who is
 * right, and there is no median. A coordinator does the same.
 *
 * Clocks are kept as their distance to this process' monotonic clock, so that the median goes on
 * between two rounds whatever this machine's wall clock does meanwhile.
 */
import type { Clock, Env } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { nanosPerMilli, type UnixNanos } from '#lib/time.ts';
import type { Instance, Placement } from '../placement/placement.ts';
import type { NodeService } from './service.ts';

/** Between two rounds, with a median and without one. */
const roundMillis = 10_000;
const firstRoundMillis = 2_000;
const lookMillis = 1_000;
/** An answer tells the clock to half of the time that it took. A start waits so long at most. */
const answerMillisMax = 1_000;
/**
 * Peers that are asked in one round, the same ones as long as they answer: requests and connections
 * of a cluster are linear in its nodes.
 */
const askedMax = 5;
/** An answer counts for three rounds, also of who does not answer any more. */
const voteMillisMax = 35_000;
const votersMin = 3;
/** A clock that is further from the median is wrong. */
const deviationMillisMax = 60_000;

export interface ClockPeers {
  readonly placement: () => Pick<Placement, 'instances'> | null;
  readonly nodeServiceOf: (instance: Instance) => Pick<NodeService, 'health'>;
}

interface Vote {
  /** Wall clock of the peer less our monotonic clock. */
  readonly offsetMillis: number;
  /** Monotonic. */
  readonly atMillis: number;
}

export class PeerClocks {
  readonly #clock: Clock;
  readonly #random: Env['random'];
  readonly #log: Log;
  readonly #instanceId: string;
  readonly #votes = new Map<string, Vote>();
  #peers: ClockPeers | null = null;
  /** The peers, in the order in which they are asked: those that did not answer come last. */
  #order: string[] = [];
  #lastRoundMillis = Number.NEGATIVE_INFINITY;
  #isHastened = false;
  /** Median less the monotonic clock; null without a median. */
  #offsetMillis: number | null = null;
  #voters = 0;
  /** What the last round found of this machine's clock. */
  #isOff = false;

  /** @param instanceId that is not asked; '' for a process that is no instance */
  constructor({ clock, random }: Pick<Env, 'clock' | 'random'>, log: Log, instanceId: string) {
    this.#clock = clock;
    this.#random = random;
    this.#log = log;
    this.#instanceId = instanceId;
  }

  /** Asks the peers until the signal aborts. Resolves after the first round. */
  async follow(peers: ClockPeers, signal: AbortSignal): Promise<void> {
    this.#peers = peers;
    await this.#round(signal);
    const onError = (error: unknown): void => {
      this.#log.error({ error: messageOf(error) }, 'cannot compare the clock with those of peers');
    };
    const look = async (): Promise<void> => {
      if (this.#isDue()) await this.#round(signal);
    };
    this.#clock.every(lookMillis, look, onError, signal);
  }

  /** Unix milliseconds by the median; null without one. */
  medianMillis(): number | null {
    return this.#offsetMillis === null ? null : this.#clock.monotonicMillis() + this.#offsetMillis;
  }

  /**
   * This machine's time, or the median where the last round found that this machine is wrong. A
   * jump since then may be that of all clocks, as when machines wake up: it is asked about first.
   */
  nowNanos(): UnixNanos {
    const median = this.medianMillis();
    if (median !== null && Math.abs(this.#clock.nowMillis() - median) > deviationMillisMax) {
      if (this.#isOff) return nanosOf(median);
      this.hasten();
    }
    return this.#clock.nowNanos();
  }

  /** This machine's time, or the median where that says that it is ahead. */
  earliestNanos(): UnixNanos {
    const median = this.medianMillis();
    if (median !== null && this.#clock.nowMillis() - median > deviationMillisMax) {
      return nanosOf(median);
    }
    return this.#clock.nowNanos();
  }

  /** Clocks of which the median was made, our own too; 0 without one. */
  get voters(): number {
    return this.#voters;
  }

  /** How far this machine's clock is ahead of the median; 0 without one. */
  get aheadMillis(): number {
    const median = this.medianMillis();
    return median === null ? 0 : this.#clock.nowMillis() - median;
  }

  /**
   * @param what that would have a version from the future, in words
   * @throws {TsdbError} FAILED_PRECONDITION when this machine's clock is ahead
   */
  checkNotAhead(what: string): void {
    const { aheadMillis } = this;
    if (aheadMillis <= deviationMillisMax) return;
    this.hasten();
    throw new TsdbError(
      'FAILED_PRECONDITION',
      `cannot ${what}: the clock of this coordinator is ${(aheadMillis / 1000).toFixed(1)} s ahead ` +
        `of the median of ${this.#voters} clocks of storage nodes`,
    );
  }

  /** All clocks may have been set since the last round: the next one comes at once. */
  hasten(): void {
    this.#isHastened = true;
  }

  #isDue(): boolean {
    const passedMillis = this.#clock.monotonicMillis() - this.#lastRoundMillis;
    const waitMillis = this.#offsetMillis === null ? firstRoundMillis : roundMillis;
    return this.#isHastened || passedMillis >= waitMillis;
  }

  async #round(signal: AbortSignal): Promise<void> {
    this.#isHastened = false;
    const peers = this.#others();
    const asked = this.#order.slice(0, askedMax);
    const answers = await Promise.all(asked.map((id) => this.#ask(peers.get(id)!, signal)));
    const silent = asked.filter((_, i) => answers[i] === false);
    this.#order = [...this.#order.filter((id) => !silent.includes(id)), ...silent];
    this.#lastRoundMillis = this.#clock.monotonicMillis();
    this.#count();
    this.#sayWhenOff();
  }

  /** The peers of now; `#order` has each of them once. New ones come in any order. */
  #others(): ReadonlyMap<string, Instance> {
    const peers = new Map<string, Instance>();
    for (const instance of this.#peers?.placement()?.instances ?? []) {
      if (instance.id !== this.#instanceId) peers.set(instance.id, instance);
    }
    const known = new Set(this.#order);
    this.#order = this.#order.filter((id) => peers.has(id));
    const added = [...peers.keys()].filter((id) => !known.has(id));
    const dice = new Map(added.map((id) => [id, this.#random.u32()]));
    added.sort((a, b) => dice.get(a)! - dice.get(b)!);
    this.#order.push(...added);
    for (const id of this.#votes.keys()) if (!peers.has(id)) this.#votes.delete(id);
    return peers;
  }

  /** @returns whether it said what its clock shows */
  async #ask(peer: Instance, signal: AbortSignal): Promise<boolean> {
    const stop = new ChildSignal(signal);
    const startMillis = this.#clock.monotonicMillis();
    try {
      const service = this.#peers!.nodeServiceOf(peer);
      const { instanceId, unixNanos } = await service.health(
        this.#clock.deadline(answerMillisMax, stop.signal),
      );
      const atMillis = this.#clock.monotonicMillis();
      // A release before this one does not say; an address may have been given to another node.
      if (unixNanos === 0n || instanceId !== peer.id) return false;
      const wallMillis = Number(unixNanos) / Number(nanosPerMilli);
      const offsetMillis = wallMillis - (startMillis + atMillis) / 2;
      this.#votes.set(peer.id, { offsetMillis, atMillis });
      return true;
    } catch {
      return false;
    } finally {
      stop.end();
    }
  }

  #count(): void {
    const nowMillis = this.#clock.monotonicMillis();
    const offsets: number[] = [];
    for (const [id, { offsetMillis, atMillis }] of this.#votes) {
      if (nowMillis - atMillis > voteMillisMax) this.#votes.delete(id);
      else offsets.push(offsetMillis);
    }
    // Of an even number two would be in the middle, and neither right when they differ: our own
    // clock, which is one of those in question, is left out then.
    if (offsets.length % 2 === 0) offsets.push(this.#clock.nowMillis() - nowMillis);
    offsets.sort((a, b) => a - b);
    const isKnown = offsets.length >= votersMin;
    this.#voters = isKnown ? offsets.length : 0;
    this.#offsetMillis = isKnown ? offsets[offsets.length >>> 1]! : null;
  }

  #sayWhenOff(): void {
    const { aheadMillis } = this;
    const isOff = Math.abs(aheadMillis) > deviationMillisMax;
    if (isOff === this.#isOff) return;
    this.#isOff = isOff;
    const fields = { secondsAhead: Math.round(aheadMillis / 1000), clocks: this.#voters };
    if (isOff) {
      this.#log.error(
        fields,
        'the clock of this machine is wrong by those of storage nodes: set it right',
      );
    } else this.#log.info(fields, 'the clock of this machine is no longer known to be wrong');
  }
}

function nanosOf(millis: number): UnixNanos {
  return BigInt(Math.round(millis)) * nanosPerMilli;
}
