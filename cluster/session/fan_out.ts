/**
 * One read over the replicas: asks every instance that may be read for the shards, until each shard
 * has as many answers as its consistency level wants, and again those that failed.
 */
import { BrokenInvariant } from '#lib/assert.ts';
import { backOff, type Backoff, ChildSignal, untilAborted } from '#lib/env/wait.ts';
import type { Clock, Env } from '#lib/env/env.ts';
import { type ErrorCode, messageOf, TsdbError } from '#lib/errors.ts';
import { ReadRefused } from '#lib/read_memory/read_memory.ts';
import { type ReadConsistency, readReplicasRequired } from './consistency.ts';
import { fetchRetriesMax, staleRetriesMax } from '../limits.ts';
import type { NamespaceRegistry } from '../namespaces/namespaces.ts';
import type { NodeService } from '../node/service.ts';
import type { Ownership } from '../topology/ownership.ts';
import type { SessionOptions } from './types.ts';
import type { TopologyView } from '../topology/topology.ts';

const fetchBackoff: Backoff = { firstMillis: 500, factor: 2 };

/**
 * Once a level that takes less than it asks for has enough, so long is it waited for the rest:
 * longer than a node that works needs, much shorter than the deadline for those that hang.
 */
const restMillisMax = 2_000;

/** Instances' errors that an error or the warnings name. */
const errorsKeptMax = 16;

/** Instance and shards of one request. */
export interface Question {
  readonly node: NodeService;
  readonly instanceIndex: number;
  readonly ownership: Ownership;
  readonly placementVersion: number;
  readonly namespaces: NamespaceRegistry;
  /** Shards to read there; null for all that the instance has. */
  readonly shards: Uint32Array | null;
}

export interface FanOut<T extends Answer> {
  readonly level: ReadConsistency;
  /** Shards that are read, given the number of shards; null for all. */
  readonly shardsOf: (numShards: number) => Uint32Array | null;
  readonly ask: (question: Question, signal: AbortSignal) => Promise<T>;
}

export interface Answer {
  /** Shards for which the answer is whole. */
  readonly shards: Uint32Array;
}

/** Of an instance. */
interface Failure {
  readonly error: unknown;
  readonly text: string;
  readonly code: ErrorCode;
}

/** What a round does when it has too few answers; null for nothing more. */
interface Remedies {
  /** Before failed ones are asked again, in a next round. */
  readonly pause: ((until: AbortSignal) => Promise<void>) | null;
  /** Whether there is a newer placement than that of the round. */
  readonly lookUp: (() => Promise<boolean>) | null;
}

export interface Gathered<T> {
  readonly answers: readonly T[];
  readonly warnings: readonly string[];
}

/**
 * @param signal bounds the whole read; a DEADLINE_EXCEEDED reason accepts what is there when the
 * level does
 * @param caller who asked, and how long it waits
 * @throws {TsdbError} UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED when the level is not
 *   reached, with the reason of each instance, or that of the caller or this process when it is no
 *   instance's; BAD_REQUEST as soon as one instance says so
 */
export async function fanOut<T extends Answer>(
  options: SessionOptions,
  plan: FanOut<T>,
  signal: AbortSignal,
  caller: AbortSignal,
): Promise<Gathered<T>> {
  const { topology, env } = options;
  let view = topology.view;
  let round = new Round(options, plan, readable(view), signal, caller);
  try {
    for (let retry = 0, staleRetry = 0; ; ) {
      const loading = options.ownNode?.isLoaded === false ? options.ownNode.whenLoaded : null;
      const pause = (until: AbortSignal): Promise<void> =>
        backOffUnless(loading, env, retry, until);
      const { placementVersion } = view;
      const isNewer = (now: TopologyView): boolean => now.placementVersion !== placementVersion;
      const lookUp = async (): Promise<boolean> => isNewer(await topology.refresh(signal));
      const next = await round.run(view, signal, {
        pause: retry < fetchRetriesMax ? pause : null,
        lookUp: staleRetry < staleRetriesMax ? lookUp : null,
      });
      if (next === 'over') break;
      if (next === 'newer') staleRetry += 1;
      else retry += 1;
      const now =
        next === 'newer'
          ? topology.view
          : await topology.refresh(signal).catch(() => topology.view);
      // Answers of one placement must not be counted in another one: owners of one replica may have
      // changed.
      if (isNewer(now)) {
        round.end();
        round = new Round(options, plan, readable(now), signal, caller);
      }
      view = now;
    }
    return { answers: [...round.answers.values()], warnings: round.warnings() };
  } finally {
    round.end();
  }
}

/**
 * Waits for the next try, or until the node in this process is loaded, which was not when it was
 * asked.
 */
async function backOffUnless(
  loading: Promise<void> | null,
  env: Env,
  retry: number,
  signal: AbortSignal,
): Promise<void> {
  if (loading === null) return backOff(env, fetchBackoff, retry, signal);
  const until = new ChildSignal(signal);
  try {
    await Promise.race([backOff(env, fetchBackoff, retry, until.signal), loading]);
  } finally {
    until.end();
  }
}

function readable(view: TopologyView): Ownership {
  if (view.ownership !== null) return view.ownership;
  const reason = view.isLoaded ? 'there is no placement' : 'the topology is not yet loaded';
  throw new TsdbError('UNAVAILABLE', `cannot read: ${reason}`);
}

/**
 * Answers under one placement, over as many rounds of asking as it takes. What a round does not wait
 * for any more may still answer in the next ones.
 */
class Round<T extends Answer> {
  readonly answers = new Map<number, T>();
  readonly #options: SessionOptions;
  readonly #plan: FanOut<T>;
  readonly #ownership: Ownership;
  readonly #wanted: number;
  readonly #accepted: number;
  /** Shards that are read. */
  readonly #shards: Uint32Array | null;
  readonly #isRead: Uint8Array;
  /** Answers by shard. */
  #counts: Uint8Array;
  readonly #errors = new Map<string, Failure>();
  readonly #caller: AbortSignal;
  /** Instances that have not answered. */
  readonly #asked = new Set<number>();
  /** Aborts with the read, or when nobody waits for the answers any more. */
  readonly #asking: ChildSignal;
  #isOver = false;
  /** What must not be asked again: a bad request, or a broken invariant. */
  #refusal: { readonly error: unknown } | null = null;
  #onChange: () => void = () => {};

  constructor(
    options: SessionOptions,
    plan: FanOut<T>,
    ownership: Ownership,
    signal: AbortSignal,
    caller: AbortSignal,
  ) {
    this.#caller = caller;
    this.#asking = new ChildSignal(signal);
    this.#options = options;
    this.#plan = plan;
    this.#ownership = ownership;
    const required = readReplicasRequired(plan.level, ownership.replicaFactor);
    this.#wanted = required.wanted;
    this.#accepted = required.accepted;
    this.#shards = plan.shardsOf(ownership.numShards);
    this.#isRead = new Uint8Array(ownership.numShards);
    if (this.#shards === null) this.#isRead.fill(1);
    else for (const shard of this.#shards) this.#isRead[shard] = 1;
    this.#counts = new Uint8Array(ownership.numShards);
  }

  /**
   * Asks the instances that can still help, but for those that are asked already.
   * Nodes leave out shards of which the reader may not know all owners, so when all have answered,
   * and answers lack shards, the placement is looked up before anything else.
   * @returns over when the level has what it takes; else what the next round is for: to ask again, or
   * a newer placement
   * @throws {TsdbError} when it has not, and no further round could help
   */
  async run(
    view: TopologyView,
    signal: AbortSignal,
    { pause, lookUp }: Remedies,
  ): Promise<'over' | 'again' | 'newer'> {
    const { clock } = this.#options.env;
    const round = new ChildSignal(signal);
    const until = round.signal;
    for (const index of this.#helpful()) if (!this.#asked.has(index)) this.#ask(index, view);
    // Each ends by itself, or with this round.
    let pauseIsOver = false;
    let isPausing = false;
    let restIsOver = false;
    let isResting = false;
    const look = new Look(lookUp);
    try {
      for (;;) {
        if (this.#refusal !== null) throw this.#refusal.error;
        if (this.shortCount('wanted') === 0) return 'over';
        if (look.isNewer) return 'newer';
        const isEnough = this.shortCount('accepted') === 0;
        if (signal.aborted) {
          if (isEnough && isDeadline(signal.reason)) return 'over';
          throw this.failure(signal);
        }
        const isAnswered = this.#asked.size === 0;
        const mayBeStale = isAnswered && !look.isOver && this.#lacksShards();
        if (isEnough && ((isAnswered && !mayBeStale) || restIsOver)) return 'over';
        if (isAnswered && !mayBeStale && (pause === null || this.#isOverLimit())) {
          throw this.failure(signal);
        }
        if (pauseIsOver) return 'again';
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#onChange = resolve;
        if (mayBeStale) look.begin(clock, until, () => this.#onChange());
        if (isEnough && !isResting) {
          isResting = true;
          const over = (): void => {
            restIsOver = true;
            this.#onChange();
          };
          clock.sleep(restMillisMax, until).then(over, over);
        }
        const isStuck = this.#asked.size === 0 || this.#hasFailed();
        if (!isEnough && isStuck && !isPausing && pause !== null) {
          isPausing = true;
          const over = (): void => {
            pauseIsOver = true;
            this.#onChange();
          };
          pause(until).then(over, over);
        }
        await untilAborted(promise, signal).catch(() => {});
      }
    } finally {
      this.#onChange = () => {};
      round.end();
    }
  }

  /** Nobody waits for what has not answered. */
  end(): void {
    this.#isOver = true;
    this.#asking.end();
  }

  /** An instance has answered, and not for all shards that it may be read for. */
  #lacksShards(): boolean {
    for (const [index, { shards }] of this.answers) {
      const whole = new Set(shards);
      const isLacking = (shard: number): boolean => this.#isRead[shard] === 1 && !whole.has(shard);
      if (this.#ownership.readableShards[index]!.some(isLacking)) return true;
    }
    return false;
  }

  /** An instance that may be asked again has failed, or answered for less than was asked. */
  #hasFailed(): boolean {
    return !this.#isOverLimit() && this.#helpful().some((index) => !this.#asked.has(index));
  }

  /** A node that is over a limit is not asked at once again, but by the client, later. */
  #isOverLimit(): boolean {
    return [...this.#errors.values()].some(({ code }) => code === 'RESOURCE_EXHAUSTED');
  }

  /** Shards that are read and have fewer answers than the level wants or accepts. */
  shortCount(level: 'wanted' | 'accepted'): number {
    const needed = level === 'wanted' ? this.#wanted : this.#accepted;
    let count = 0;
    for (let shard = 0; shard < this.#counts.length; shard++) {
      if (this.#isRead[shard] === 1 && this.#counts[shard]! < needed) count++;
    }
    return count;
  }

  warnings(): string[] {
    const short = this.shortCount('wanted');
    if (short === 0) return [];
    const reasons = this.#reasons();
    return [
      `fewer replicas than asked for answered: shards=${short}, consistency=${this.#plan.level}${reasons}`,
    ];
  }

  failure(signal: AbortSignal): Error {
    if (signal.aborted && !isDeadline(signal.reason)) return signal.reason as Error;
    const own = this.#ownReason();
    if (own !== null) return own;
    const codes = [...this.#errors.values()].map(({ code }) => code);
    let code: ErrorCode = 'UNAVAILABLE';
    if (codes.includes('RESOURCE_EXHAUSTED')) code = 'RESOURCE_EXHAUSTED';
    else if (signal.aborted || codes.includes('DEADLINE_EXCEEDED')) code = 'DEADLINE_EXCEEDED';
    const short = this.shortCount('accepted');
    return new TsdbError(
      code,
      `unable to satisfy consistency requirements, shards=${short}${this.#reasons()}`,
    );
  }

  /** Why it fails, when no instance has: its caller's time is over, or this process has no memory. */
  #ownReason(): Error | null {
    if (this.#lacksShards()) return null;
    const isOver = this.#caller.aborted;
    let refused: ReadRefused | null = null;
    for (const { error, code } of this.#errors.values()) {
      if (error instanceof ReadRefused) refused ??= error;
      else if (!isOver || code !== 'DEADLINE_EXCEEDED') return null;
    }
    if (refused !== null) return refused;
    // Where others have answered it matters who has not.
    return isOver && this.answers.size === 0 ? (this.#caller.reason as Error) : null;
  }

  /**
   * Instances that may be read for a shard that needs an answer, and that have not given theirs.
   */
  #helpful(): number[] {
    const { answers } = this;
    const ownership = this.#ownership;
    const counts = this.#counts;
    const isRead = this.#isRead;
    const wanted = this.#wanted;
    return ownership.instances.flatMap((_, index) => {
      const answered = answers.get(index)?.shards;
      const has = answered === undefined ? null : new Set(answered);
      const helps = ownership.readableShards[index]!.some(
        (shard) => isRead[shard] === 1 && counts[shard]! < wanted && has?.has(shard) !== true,
      );
      return helps ? [index] : [];
    });
  }

  #ask(index: number, view: TopologyView): void {
    this.#asked.add(index);
    void this.#answerOf(index, view, this.#asking.signal).finally(() => {
      this.#asked.delete(index);
      this.#onChange();
    });
  }

  async #answerOf(index: number, view: TopologyView, until: AbortSignal): Promise<void> {
    const ownership = this.#ownership;
    const instance = ownership.instances[index]!;
    try {
      const question: Question = {
        node: this.#options.nodeOf(instance),
        instanceIndex: index,
        ownership,
        placementVersion: view.placementVersion,
        namespaces: view.namespaces,
        shards: this.#shardsAsked(index),
      };
      const answer = await untilAborted(this.#plan.ask(question, until), until);
      this.#errors.delete(instance.id);
      this.answers.set(index, answer);
      this.#recount();
    } catch (error) {
      if (this.#isOver) return;
      const isRefusal = error instanceof TsdbError && error.code === 'BAD_REQUEST';
      if (isRefusal || error instanceof BrokenInvariant) this.#refusal ??= { error };
      const code = error instanceof TsdbError ? error.code : 'INTERNAL';
      this.#errors.set(instance.id, { error, text: `${instance.id}: ${messageOf(error)}`, code });
    }
  }

  #shardsAsked(index: number): Uint32Array | null {
    const mine = this.#ownership.readableShards[index]!;
    if (this.#shards === null) return this.#ownership.readsWhole[index]! ? null : mine;
    return mine.filter((shard) => this.#isRead[shard] === 1);
  }

  /** Only answers of instances that the placement lets read count, each once a shard. */
  #recount(): void {
    const ownership = this.#ownership;
    this.#counts = new Uint8Array(ownership.numShards);
    for (const [index, { shards }] of this.answers) {
      const whole = new Uint8Array(ownership.numShards);
      for (const shard of shards) whole[shard] = 1;
      for (const shard of ownership.readableShards[index]!) {
        if (whole[shard] === 1) this.#counts[shard]!++;
      }
    }
  }

  #reasons(): string {
    const texts = [...this.#errors.values()].map(({ text }) => text);
    for (const index of this.#asked) {
      const { id } = this.#ownership.instances[index]!;
      if (!this.#errors.has(id)) texts.push(`${id}: has not answered`);
    }
    for (const [index, { shards }] of this.answers) {
      const missing = this.#ownership.readableShards[index]!.length - shards.length;
      if (missing > 0) {
        const { id } = this.#ownership.instances[index]!;
        texts.push(`${id}: ${missing} shards are not yet bootstrapped to read, or moved since`);
      }
    }
    return texts.length === 0 ? '' : `: ${texts.slice(0, errorsKeptMax).join('; ')}`;
  }
}

/** One look at the placement that stands, as long as it does not take too long. */
class Look {
  /** Nothing is to be expected of it any more, or ever was. */
  isOver: boolean;
  isNewer = false;
  readonly #lookUp: Remedies['lookUp'];
  #isBegun = false;

  constructor(lookUp: Remedies['lookUp']) {
    this.#lookUp = lookUp;
    this.isOver = lookUp === null;
  }

  begin(clock: Clock, until: AbortSignal, onChange: () => void): void {
    if (this.#isBegun || this.#lookUp === null) return;
    this.#isBegun = true;
    const found = (isNewer: boolean): void => {
      this.isOver = true;
      this.isNewer ||= isNewer;
      onChange();
    };
    const notFound = (): void => found(false);
    this.#lookUp().then(found, notFound);
    clock.sleep(restMillisMax, until).then(notFound, () => {});
  }
}

function isDeadline(reason: unknown): boolean {
  return reason instanceof TsdbError && reason.code === 'DEADLINE_EXCEEDED';
}
