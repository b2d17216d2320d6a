/** Regular expressions whose compilation holds up nobody. */
import { NeedsRegexps, QueryRegexps } from '#lib/regexp/regexps.ts';
import type { Turning } from './aside.ts';

/** Compiles the regexps that an attempt did not find. @throws as `Aside.run` */
export function learnRegexps(regexps: QueryRegexps, { work, aside }: Turning): Promise<void> {
  return regexps.learn(work, (pattern) => aside.run({ kind: 'compile', pattern }, work));
}

/**
 * Makes an attempt; when that needs regexps that it takes long to compile, these come first, and it is made
 * again.
 * @throws what the attempt throws; as `Aside.run`
 */
export async function withRegexps<Answer>(
  turning: Turning,
  attempt: (regexps: QueryRegexps) => Answer,
): Promise<Answer> {
  const regexps = new QueryRegexps();
  for (;;) {
    try {
      return attempt(regexps);
    } catch (error) {
      if (!(error instanceof NeedsRegexps)) throw error;
    }
    await learnRegexps(regexps, turning);
  }
}
