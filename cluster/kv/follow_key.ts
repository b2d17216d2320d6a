/** One key of the key-value store, read and followed for as long as a process runs. */
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { followPrefix } from './follow_prefix.ts';
import type { Kv } from './kv.ts';

export interface FollowKeyOptions {
  readonly kv: Kv;
  readonly env: Env;
  readonly log: Log;
  readonly key: string;
  /**
   * Called with each value that is seen, at first with the one that stands, and now and then with
   * the same once more; null when there is none. What it throws is as a failure of the store: all
   * is read again after a while.
   */
  readonly onValue: (value: Uint8Array | null) => void | Promise<void>;
}

const rereadMillis = 10_000;

/** Reads the key and watches it from there, again and again; resolves when the signal aborts. */
export function followKey(options: FollowKeyOptions, signal: AbortSignal): Promise<void> {
  const { kv, env, log, key, onValue } = options;
  const onItems = (items: ReadonlyMap<string, { readonly value: Uint8Array }>) =>
    onValue(items.get(key)?.value ?? null);
  return followPrefix({ kv, env, log, prefix: key, rereadMillis, onItems }, signal);
}
