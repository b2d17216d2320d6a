/** One key of the key-value store, read and followed for as long as a process runs. */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { type Kv, RevisionCompacted } from './kv.ts';

export interface FollowKeyOptions {
  readonly kv: Kv;
  readonly env: Env;
  readonly log: Log;
  /** Key or prefix of it that the log names. */
  readonly key: string;
  /**
   * Called with each value that is seen, at first with the one that stands; null when there is none.
   * What it throws is as a failure of the store: all is read again after a while.
   */
  readonly onValue: (value: Uint8Array | null) => void | Promise<void>;
}

const retryMillisFirst = 100;
const retryMillisMax = 5_000;
/** A watch says nothing of a store that went back: how often the key is read anew. */
const rereadMillis = 10_000;

/** Lists the key and watches it from there, again and again; resolves when the signal aborts. */
export async function followKey(options: FollowKeyOptions, signal: AbortSignal): Promise<void> {
  const { kv, env, log, key, onValue } = options;
  let isFailing = false;
  for (let delay = retryMillisFirst; !signal.aborted; ) {
    try {
      const { items, revision } = await kv.list(key, signal);
      await onValue(items.find((item) => item.key === key)?.value ?? null);
      delay = retryMillisFirst;
      if (isFailing) log.info({ key }, 'the key-value store is followed again');
      isFailing = false;
      const until = env.clock.deadline(rereadMillis, signal);
      for await (const { events } of kv.watch(key, revision + 1, until)) {
        for (const event of events) {
          if (event.kind === 'put' && event.item.key === key) await onValue(event.item.value);
          else if (event.kind === 'delete' && event.key === key) await onValue(null);
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RevisionCompacted) continue;
      // Once for as long as it lasts: a process follows a dozen keys.
      const fields = { key, error: messageOf(error) };
      if (!isFailing) log.warn(fields, 'cannot follow the key-value store; retrying');
      isFailing = true;
      await env.clock.sleep(delay * (0.5 + env.random.fraction()), signal).catch(() => {});
      delay = Math.min(retryMillisMax, delay * 2);
    }
  }
}
