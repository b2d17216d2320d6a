/** Attempts at what log, disk or the key-value store let fail for a while. */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';

export interface RetryingOptions {
  readonly env: Env;
  readonly log: Log;
  /** Ends the attempts. */
  readonly signal: AbortSignal;
}

const retryMillisFirst = 100;
const retryMillisMax = 5_000;

/**
 * Until it succeeds, with longer and longer pauses.
 * @param what failed, for the log
 * @throws what the signal aborted with, and whatever is not a `TsdbError`
 */
export async function retrying<T>(
  { env, log, signal }: RetryingOptions,
  what: string,
  action: () => Promise<T>,
): Promise<T> {
  for (let delay = retryMillisFirst; ; delay = Math.min(retryMillisMax, delay * 2)) {
    try {
      return await action();
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TsdbError)) throw error;
      log.warn({ error: messageOf(error) }, what);
      await env.clock.sleep(delay * (0.5 + env.random.fraction()), signal);
    }
  }
}
