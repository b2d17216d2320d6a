/** Names changed by a regexp, with replacements in the form of Python: `\1`, `\g<1>`, `\g<name>`. */
import { badRequest, shownText } from '#lib/errors.ts';
import { SearchRegexp } from '#lib/regexp/regexp.ts';
import type { Work } from '#lib/turns/turns.ts';

const reference = /\\(?:(\d{1,2})|g<([^<>]*)>|([^]))/g;
const escapes: Readonly<Record<string, string>> = { '\\': '\\', n: '\n', t: '\t', r: '\r' };

/**
 * Each name with every match of the pattern replaced.
 * @throws {TsdbError} BAD_REQUEST when the pattern or the replacement is wrong
 */
export async function replaceInNames(
  names: readonly string[],
  pattern: string,
  replacement: string,
  work: Work,
): Promise<string[]> {
  const regexp = new SearchRegexp(pattern);
  const replaced: string[] = [];
  for (const name of names) {
    if (work.spend(regexp.unitsMax(name.length))) await work.pause();
    replaced.push(regexp.replaceAll(name, (group) => expand(replacement, group)));
  }
  return replaced;
}

function expand(replacement: string, group: (reference: number | string) => string | null): string {
  return replacement.replace(
    reference,
    (whole, digits?: string, braced?: string, other?: string) => {
      if (other !== undefined) return escapes[other] ?? whole;
      const name = digits ?? braced!;
      const text = group(/^\d+$/.test(name) ? Number(name) : name);
      if (text !== null) return text;
      throw badRequest(
        `cannot replace in names: the pattern has no group ${name}: ${shownText(replacement)}`,
      );
    },
  );
}
