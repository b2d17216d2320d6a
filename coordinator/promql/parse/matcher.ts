/** Regular expressions of matchers and label functions, with a bounded cache. */
import { compileAnchored } from '#lib/regexp/regexp.ts';
import type { AnchoredRegexp } from '#lib/regexp/regexp.ts';
import { messageOf } from '#lib/errors.ts';

const cacheSizeMax = 1000;
const cache = new Map<string, AnchoredRegexp>();

/**
 * @param fail called with the reason when the pattern is wrong; must throw
 */
export function compileMatcherRegexp(
  pattern: string,
  fail: (reason: string) => never,
): AnchoredRegexp {
  const cached = cache.get(pattern);
  if (cached !== undefined) return cached;
  let regexp: AnchoredRegexp;
  try {
    regexp = compileAnchored(pattern);
  } catch (error) {
    return fail(messageOf(error));
  }
  if (cache.size >= cacheSizeMax) cache.clear();
  cache.set(pattern, regexp);
  return regexp;
}
