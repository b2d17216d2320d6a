/** Keeps a granted lease alive, whatever store granted it, and says when it is lost. */
import type { Clock } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { KvLease } from './kv.ts';

export interface KeepLeaseOptions {
  readonly id: string;
  /** As granted, which may be more than was asked for. */
  readonly ttlSeconds: number;
  /** When the grant was sent, on the monotonic clock: the store counts from later on. */
  readonly grantedMillis: number;
  readonly clock: Clock;
  /** Aborts when the client closes; the lease is then left to expire. */
  readonly closed: AbortSignal;
  /** @returns the seconds it lives on; 0 or less when the store no longer has it */
  readonly renew: (timeoutMillis: number, signal: AbortSignal) => Promise<number>;
  /** Succeeds when the lease is already gone. */
  readonly revoke: () => Promise<void>;
}

/** Renewals in one time to live, and the shortest pause after one that failed. */
const renewalsOfTtl = 3;
/** The part of its time after which an unrenewed lease is given up, so that its holder stops before
 *  the store lets another one in. */
const usablePart = 0.9;
const retryMillisMin = 20;

/**
 * Renews three times in each time to live; after a failure sooner, until nine tenths of it are
 * over.
 */
export function keepLease(options: KeepLeaseOptions): KvLease {
  const { id, clock, closed } = options;
  const lost = new AbortController();
  const ended = new AbortController();
  const stop = AbortSignal.any([closed, ended.signal]);
  let deadlineMillis = options.grantedMillis + options.ttlSeconds * 1000 * usablePart;
  const lose = (reason: string) => {
    lost.abort(new TsdbError('UNAVAILABLE', `lease ${id} is lost: ${reason}`));
    ended.abort();
  };
  const keep = async () => {
    const pauseMillis = (options.ttlSeconds * 1000) / renewalsOfTtl;
    const retryMillis = Math.max(retryMillisMin, pauseMillis / 10);
    let nextMillis = options.grantedMillis + pauseMillis;
    let reason = 'not renewed in time';
    while (!stop.aborted) {
      const nowMillis = clock.monotonicMillis();
      if (nowMillis >= deadlineMillis) {
        lose(reason);
        return;
      }
      if (nowMillis < nextMillis) {
        const untilMillis = Math.min(nextMillis, deadlineMillis) - nowMillis;
        await clock.sleep(untilMillis, stop).catch(() => {});
        continue;
      }
      try {
        const seconds = await options.renew(
          Math.min(pauseMillis, deadlineMillis - nowMillis),
          stop,
        );
        if (stop.aborted) return;
        if (seconds <= 0) {
          lose('the store no longer has it');
          return;
        }
        deadlineMillis = nowMillis + seconds * 1000 * usablePart;
        nextMillis = nowMillis + pauseMillis;
      } catch (error) {
        reason = messageOf(error);
        nextMillis = clock.monotonicMillis() + retryMillis;
      }
    }
  };
  void keep();
  if (closed.aborted) lose('the client is closed');
  else {
    const onClosed = () => lose('the client is closed');
    closed.addEventListener('abort', onClosed, { once: true });
    ended.signal.addEventListener('abort', () => closed.removeEventListener('abort', onClosed), {
      once: true,
    });
  }
  const revoke = async () => {
    ended.abort();
    await options.revoke();
  };
  return {
    id,
    lost: lost.signal,
    revoke,
    async [Symbol.asyncDispose]() {
      if (ended.signal.aborted) return;
      // What cannot be revoked expires by itself.
      await revoke().catch(() => {});
    },
  };
}
