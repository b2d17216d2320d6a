/**
 * Which coordinators there are that keep series of statsd, in the key-value store: each is registered with a lease, and whoever
 * sees that others than the ones that hold are registered writes the next receivers by compare-and-set.
 */
import { type ClusterName, statsdPrefix } from '#cluster/kv/keys.ts';
import type { KeyValue, Kv } from '#cluster/kv/kv.ts';
import { followPrefix } from '#cluster/kv/follow_prefix.ts';
import { encodeJson, unchanged } from '#cluster/kv/stored_json.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { untilAborted } from '#lib/env/wait.ts';
import type { Log } from '#lib/log.ts';
import {
  heldMillis,
  isAddress,
  isSame,
  nextReceivers,
  type Receivers,
  receiversProblem,
} from './receivers.ts';

const rereadMillis = 60_000;
const retryMillis = 1_000;
/** Of a call that others wait for. */
const callMillisMax = 1_000;

export interface MembershipTimes {
  /** Of who is not heard of for so long others keep the series. */
  readonly leaseSeconds: number;
  /** As of `nextReceivers`. */
  readonly leadMillis: number;
  /** Receivers hold from a whole one of them on. */
  readonly intervalMillis: number;
}

export interface MembershipOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  /** At which others reach this one, and which tells it apart. */
  readonly address: string;
  readonly times: MembershipTimes;
}

/** As they stand in the store. */
interface StoredReceivers {
  /** Null when they cannot be read: others take their place. */
  readonly receivers: Receivers | null;
  readonly modRevision: number;
}

export class Membership {
  readonly #options: MembershipOptions;
  readonly #receiversKey: string;
  readonly #registeredPrefix: string;
  readonly #stop = new AbortController();
  readonly #leaving = new AbortController();
  readonly #done: Promise<unknown>;
  readonly #isKnown: Promise<void>;
  readonly #noteKnown: () => void;
  #known: Receivers | null = null;
  #stored: StoredReceivers | null = null;
  #registered: readonly string[] = [];
  #isProposing = false;
  /** Others may have come or left since it was looked at. */
  #isChanged = false;

  constructor(options: MembershipOptions) {
    this.#options = options;
    const prefix = statsdPrefix(options.cluster);
    this.#receiversKey = `${prefix}receivers`;
    this.#registeredPrefix = `${prefix}registered/`;
    ({ promise: this.#isKnown, resolve: this.#noteKnown } = Promise.withResolvers<void>());
    this.#done = Promise.all([this.#stayRegistered(), this.#follow(prefix)]);
  }

  /** Newest receivers that were heard of, from whomever; null before the first. */
  get known(): Receivers | null {
    return this.#known;
  }

  /** Resolves when there are any. @throws {unknown} the signal's reason */
  whenKnown(signal: AbortSignal): Promise<void> {
    return untilAborted(this.#isKnown, signal);
  }

  /** Others say who holds. */
  learn(receivers: Receivers | null): void {
    if (receivers === null || receivers.version <= (this.#known?.version ?? 0)) return;
    this.#known = receivers;
    this.#noteKnown();
  }

  /** Reads who holds. @returns false where the store does not answer in time */
  async refresh(signal: AbortSignal): Promise<boolean> {
    const { kv, env } = this.#options;
    const until = env.clock.deadline(callMillisMax, signal);
    try {
      this.#note(await kv.get(this.#receiversKey, until));
      return true;
    } catch (error) {
      if (!(error instanceof TsdbError) && !until.aborted) throw error;
      return false;
    }
  }

  /** It is registered no more: others will keep its series. */
  async leave(): Promise<void> {
    this.#leaving.abort();
    const { kv, env, log, address } = this.#options;
    const until = env.clock.deadline(callMillisMax, this.#stop.signal);
    const key = this.#keyOf(address);
    try {
      await kv.transact([], [{ kind: 'delete', key }], until);
    } catch (error) {
      // When the lease ends, they do.
      log.warn({ error: messageOf(error) }, 'statsd: others learn late that this one leaves');
    }
    this.#stop.abort();
    await untilAborted(this.#done, until).catch(() => {});
  }

  #keyOf(address: string): string {
    return this.#registeredPrefix + encodeURIComponent(address);
  }

  async #stayRegistered(): Promise<void> {
    const { kv, env, log, address, times } = this.#options;
    const signal = AbortSignal.any([this.#leaving.signal, this.#stop.signal]);
    let isFailing = false;
    while (!signal.aborted) {
      try {
        await using lease = await kv.lease(times.leaseSeconds, signal);
        const put = {
          kind: 'put',
          key: this.#keyOf(address),
          value: encodeJson({ address }),
        } as const;
        await kv.transact([], [{ ...put, leaseId: lease.id }], signal);
        isFailing = false;
        const { promise: forEver } = Promise.withResolvers<never>();
        await untilAborted(forEver, AbortSignal.any([lease.lost, signal])).catch(() => {});
      } catch (error) {
        if (signal.aborted) return;
        if (!isFailing)
          log.warn({ error: messageOf(error) }, 'statsd: cannot be registered; retrying');
        isFailing = true;
        await env.clock.sleep(retryMillis, signal).catch(() => {});
      }
    }
  }

  #follow(prefix: string): Promise<void> {
    const { kv, env, log } = this.#options;
    const onItems = (items: ReadonlyMap<string, KeyValue>): void => {
      this.#registered = [...items.keys()]
        .filter((key) => key.startsWith(this.#registeredPrefix))
        .map((key) => decodeURIComponent(key.slice(this.#registeredPrefix.length)))
        .filter(isAddress);
      this.#note(items.get(this.#receiversKey) ?? null);
      void this.#propose();
    };
    return followPrefix({ kv, env, log, prefix, rereadMillis, onItems }, this.#stop.signal);
  }

  #note(item: KeyValue | null): void {
    if (item === null) {
      this.#stored = null;
      return;
    }
    const receivers = this.#read(item);
    this.#stored = { receivers, modRevision: item.modRevision };
    this.learn(receivers);
  }

  #read({ key, value }: KeyValue): Receivers | null {
    let read: unknown = null;
    try {
      read = JSON.parse(Buffer.from(value).toString());
    } catch {}
    const problem = receiversProblem(read);
    if (problem === null) return read as Receivers;
    this.#options.log.warn({ key, problem }, 'statsd: the store does not say who keeps series');
    return null;
  }

  /** Writes the next receivers, now or when those that are about to hold do. */
  async #propose(): Promise<void> {
    this.#isChanged = true;
    if (this.#isProposing) return;
    this.#isProposing = true;
    const { env, log } = this.#options;
    const { signal } = this.#stop;
    let isFailing = false;
    while (this.#isChanged && !signal.aborted) {
      this.#isChanged = false;
      try {
        for (let millis = this.#heldMillis; millis > 0; millis = this.#heldMillis) {
          await env.clock.sleep(millis, signal);
        }
        if (await this.#proposeOnce(signal)) this.#isChanged = true;
        isFailing = false;
      } catch (error) {
        if (signal.aborted) break;
        if (!isFailing) {
          log.warn({ error: messageOf(error) }, 'statsd: cannot say who keeps series; retrying');
        }
        isFailing = true;
        this.#isChanged = true;
        await env.clock.sleep(retryMillis, signal).catch(() => {});
      }
    }
    this.#isProposing = false;
  }

  /** Until the known ones hold, no others are chosen. */
  get #heldMillis(): number {
    const { env, times } = this.#options;
    const nowMillis = env.clock.nowMillis();
    return heldMillis(this.#known, nowMillis, times.leadMillis, times.intervalMillis);
  }

  /** @returns whether something was tried, so that it has to be looked at once more */
  async #proposeOnce(signal: AbortSignal): Promise<boolean> {
    const { kv, env, log, address, times } = this.#options;
    const stored = this.#stored;
    const next = this.#registered.includes(address)
      ? nextReceivers(
          stored?.receivers ?? null,
          this.#known,
          this.#registered,
          env.clock.nowMillis(),
          times.leadMillis,
          times.intervalMillis,
        )
      : null;
    if (next === null) return false;
    const key = this.#receiversKey;
    const compare = unchanged(key, { modRevision: stored?.modRevision ?? 0 });
    const put = { kind: 'put', key, value: encodeJson(next) } as const;
    const until = env.clock.deadline(callMillisMax, signal);
    const { succeeded, revision } = await kv.transact([compare], [put], until);
    if (succeeded) {
      this.#stored = { receivers: next, modRevision: revision };
      const { members, before, fromMillis } = next;
      if (!isSame(members, before)) log.info({ members, fromMillis }, 'statsd: who keeps series');
      this.learn(next);
    } else this.#note(await kv.get(key, until));
    return true;
  }
}
