/** Names changed by a regexp, with replacements in the form of Python: `\1`, `\g<1>`, `\g<name>`. */
import { badRequest, shownText } from '#lib/errors.ts';
import { SearchRegexp } from '#lib/regexp/regexp.ts';
import type { Work } from '#lib/turns/turns.ts';

/** Longest text that a replacement becomes: no label has a longer one. */
const replacedLengthMax = 65_535;
/** References of a replacement, times the matches that a name may have. */
const referencesMax = 200_000;
/** Characters by which the names of one call become longer, all together. */
const growthMax = 16_777_216;
/** Of a reference that is put in, in units of work (lib/turns/turns.ts). */
const referenceUnits = 20;

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
  const references = replacement.split('\\').length - 1;
  const replaced: string[] = [];
  let growth = 0;
  for (const name of names) {
    // It may match before each character, and at the end.
    const putIn = references * (name.length + 1);
    if (putIn > referencesMax) {
      throw badRequest(
        `cannot replace in names: ${references} references are too many for a name of ${name.length} characters: ${shownText(replacement)}`,
      );
    }
    const units = regexp.unitsMax(name.length) + referenceUnits * putIn;
    if (work.spend(units)) await work.pause();
    const text = regexp.replaceAll(name, (group) => expand(replacement, group));
    growth += Math.max(0, text.length - name.length);
    if (growth > growthMax) {
      throw badRequest(
        `cannot replace in names: ${names.length} names become longer by more than ${growthMax} characters: ${shownText(replacement)}`,
      );
    }
    replaced.push(text);
  }
  return replaced;
}

function expand(replacement: string, group: (reference: number | string) => string | null): string {
  let putIn = 0;
  return replacement.replace(
    reference,
    (whole, digits?: string, braced?: string, other?: string) => {
      if (other !== undefined) return escapes[other] ?? whole;
      const name = digits ?? braced!;
      const text = group(/^\d+$/.test(name) ? Number(name) : name);
      if (text !== null) {
        putIn += text.length;
        if (putIn <= replacedLengthMax) return text;
        throw badRequest(
          `cannot replace in names: the text becomes longer than ${replacedLengthMax} characters: ${shownText(replacement)}`,
        );
      }
      throw badRequest(
        `cannot replace in names: the pattern has no group ${name}: ${shownText(replacement)}`,
      );
    },
  );
}
