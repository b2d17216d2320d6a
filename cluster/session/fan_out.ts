/**
 * One read over the replicas: asks every instance that may be read for the shards, until each shard
 * has as many answers as its consistency level wants, and again those that failed.
 */
import { BrokenInvariant } from '#lib/assert.ts';
import { backOff, type Backoff, untilAborted } from '#lib/env/wait.ts';
import type { Env } from '#lib/env/env.ts';
import { type ErrorCode, messageOf, TsdbError } from '#lib/errors.ts';
import { type ReadConsistency, readReplicasRequired } from './consistency.ts';
import { fetchRetriesMax } from '../limits.ts';
import type { NodeService } from '../node/service.ts';
import type { Ownership } from '../topology/ownership.ts';
import type { SessionOptions } from './types.ts';
import type { TopologyView } from '../topology/topology.ts';

const fetchBackoff: Backoff = { firstMillis: 500, factor: 2 };

/** Instances' errors that an error or the warnings name. */
const errorsKeptMax = 16;

/** Instance and shards of one request. */
export interface Question {
  readonly node: NodeService;
  readonly instanceIndex: number;
  readonly ownership: Ownership;
  readonly placementVersion: number;
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

export interface Gathered<T> {
  readonly answers: readonly T[];
  readonly warnings: readonly string[];
}

/**
 * @param signal bounds the whole read; a DEADLINE_EXCEEDED reason accepts what is there when the
 * level does
 * @throws {TsdbError} UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED when the level is not
 *   reached, with the reason of each instance; BAD_REQUEST as soon as one instance says so
 */
export async function fanOut<T extends Answer>(
  options: SessionOptions,
  plan: FanOut<T>,
  signal: AbortSignal,
): Promise<Gathered<T>> {
  const { topology, env } = options;
  let view = topology.view;
  let round = new Round(options, plan, readable(view));
  for (let retry = 0; ; retry++) {
    const loading = options.ownNode?.isLoaded === false ? options.ownNode.whenLoaded : null;
    await round.run(view, signal);
    if (round.shortCount('wanted') === 0) break;
    if (round.shortCount('accepted') === 0) break;
    // A node that is over a limit is not asked at once again, but by the client, later.
    const failure = round.failure(signal);
    const isOver = failure instanceof TsdbError && failure.code === 'RESOURCE_EXHAUSTED';
    if (signal.aborted || isOver || retry === fetchRetriesMax) throw failure;
    try {
      await backOffUnless(loading, env, retry, signal);
    } catch {
      throw round.failure(signal);
    }
    const next = await topology.refresh(signal).catch(() => topology.view);
    // Answers of one placement must not be counted in another one: owners of one replica may have
    // changed.
    if (next.placementVersion !== view.placementVersion) {
      round = new Round(options, plan, readable(next));
    }
    view = next;
  }
  return { answers: [...round.answers.values()], warnings: round.warnings() };
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
  const over = new AbortController();
  const until = AbortSignal.any([signal, over.signal]);
  try {
    await Promise.race([backOff(env, fetchBackoff, retry, until), loading]);
  } finally {
    over.abort();
  }
}

function readable(view: TopologyView): Ownership {
  if (view.ownership !== null) return view.ownership;
  const reason = view.isLoaded ? 'there is no placement' : 'the topology is not yet loaded';
  throw new TsdbError('UNAVAILABLE', `cannot read: ${reason}`);
}

/** Answers under one placement, over as many rounds of asking as it takes. */
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
  readonly #errors = new Map<string, { readonly text: string; readonly code: ErrorCode }>();

  constructor(options: SessionOptions, plan: FanOut<T>, ownership: Ownership) {
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
   * Asks the instances that can still help; returns when all shards are satisfied or all have
   * answered.
   */
  async run(view: TopologyView, signal: AbortSignal): Promise<void> {
    const enough = new AbortController();
    const until = AbortSignal.any([signal, enough.signal]);
    const asked: Promise<void>[] = [];
    for (const index of this.#helpful()) asked.push(this.#ask(index, view, until, enough));
    try {
      await Promise.all(asked);
    } finally {
      enough.abort(new TsdbError('CANCELLED', 'the read is over'));
    }
    if (signal.aborted && !isDeadline(signal.reason)) throw signal.reason;
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

  async #ask(
    index: number,
    view: TopologyView,
    until: AbortSignal,
    enough: AbortController,
  ): Promise<void> {
    const ownership = this.#ownership;
    const options = this.#options;
    const plan = this.#plan;
    const instance = ownership.instances[index]!;
    try {
      const question: Question = {
        node: options.nodeOf(instance),
        instanceIndex: index,
        ownership,
        placementVersion: view.placementVersion,
        shards: this.#shardsAsked(index),
      };
      const answer = await untilAborted(plan.ask(question, until), until);
      this.#errors.delete(instance.id);
      this.answers.set(index, answer);
      this.#recount();
      if (this.shortCount('wanted') === 0) {
        enough.abort(new TsdbError('CANCELLED', 'enough replicas have answered'));
      }
    } catch (error) {
      if (error instanceof BrokenInvariant) throw error;
      if (enough.signal.aborted) return;
      if (error instanceof TsdbError && error.code === 'BAD_REQUEST') throw error;
      const code = error instanceof TsdbError ? error.code : 'INTERNAL';
      this.#errors.set(instance.id, { text: `${instance.id}: ${messageOf(error)}`, code });
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
    for (const [index, { shards }] of this.answers) {
      const missing = this.#ownership.readableShards[index]!.length - shards.length;
      if (missing > 0) {
        const { id } = this.#ownership.instances[index]!;
        texts.push(`${id}: ${missing} shards are not yet bootstrapped to read`);
      }
    }
    return texts.length === 0 ? '' : `: ${texts.slice(0, errorsKeptMax).join('; ')}`;
  }
}

function isDeadline(reason: unknown): boolean {
  return reason instanceof TsdbError && reason.code === 'DEADLINE_EXCEEDED';
}
