/** The keys of a prefix in the key-value store, read and followed for as long as a process runs. */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import { type KeyValue, type Kv, RevisionCompacted } from './kv.ts';

export interface FollowPrefixOptions {
  readonly kv: Kv;
  readonly env: Env;
  readonly log: Log;
  /** The log names it. */
  readonly prefix: string;
  /** A watch says nothing of a store that went back: how often all is read anew. */
  readonly rereadMillis: number;
  /**
   * Called with what stands, at first, after each change, and whenever all is read anew. What it
   * throws is as a failure of the store: all is read again after a while.
   * @param knownNanos all that was written before this time by this machine's clock is in it
   */
  readonly onItems: (
    items: ReadonlyMap<string, KeyValue>,
    knownNanos: UnixNanos,
  ) => void | Promise<void>;
}

const retryMillisFirst = 100;
const retryMillisMax = 5_000;

/** Lists the keys and watches them from there, again and again; resolves when the signal aborts. */
export async function followPrefix(
  options: FollowPrefixOptions,
  signal: AbortSignal,
): Promise<void> {
  const { kv, env, log, prefix, rereadMillis, onItems } = options;
  let isFailing = false;
  for (let delay = retryMillisFirst; !signal.aborted; ) {
    try {
      const knownNanos = env.clock.nowNanos();
      const { items, revision } = await kv.list(prefix, signal);
      const standing = new Map(items.map((item) => [item.key, item]));
      await onItems(standing, knownNanos);
      delay = retryMillisFirst;
      if (isFailing) log.info({ key: prefix }, 'the key-value store is followed again');
      isFailing = false;
      const until = env.clock.deadline(rereadMillis, signal);
      for await (const { events } of kv.watch(prefix, revision + 1, until)) {
        for (const event of events) {
          if (event.kind === 'put') standing.set(event.item.key, event.item);
          else standing.delete(event.key);
        }
        await onItems(standing, knownNanos);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RevisionCompacted) continue;
      // Once for as long as it lasts: a process follows a dozen keys.
      const fields = { key: prefix, error: messageOf(error) };
      if (!isFailing) log.warn(fields, 'cannot follow the key-value store; retrying');
      isFailing = true;
      await env.clock.sleep(delay * (0.5 + env.random.fraction()), signal).catch(() => {});
      delay = Math.min(retryMillisMax, delay * 2);
    }
  }
}
