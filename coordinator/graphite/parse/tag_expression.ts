/** Conditions on tags, as `seriesByTag` takes them: `tag=value`, `tag!=value`, `tag=~regexp`, `tag!=~regexp`. */
import { badRequest, shownText } from '#lib/errors.ts';
import { engineUnits } from '#lib/regexp/engine_units.ts';
import { SearchRegexp } from '#lib/regexp/regexp.ts';
import type { Work } from '#lib/turns/turns.ts';

export interface TagExpression {
  readonly tag: string;
  readonly operator: '=' | '!=' | '=~' | '!=~';
  /** Of the operators with `~` a regexp that has to match from the beginning of the tag's value. */
  readonly value: string;
}

/** What the regexps of one request may take to be compiled, in units of work (lib/turns/turns.ts): some tenths of a second. */
const compileUnitsMax = 50_000_000;

const form = /^([^;!=~^]+)(!?=~?)([^]*)$/;

/** Reads the conditions of one request. */
export class TagExpressions {
  readonly #work: Work;
  #compileUnits = 0;

  constructor(work: Work) {
    this.#work = work;
  }

  /**
   * A tag that a series has not counts as empty.
   * @throws {TsdbError} BAD_REQUEST when one is not of that form, or all of them let empty tags pass, or the regexps of the request
   *   take too long to compile
   */
  async parse(texts: readonly string[]): Promise<readonly TagExpression[]> {
    const expressions = texts.map(parse);
    for (const expression of expressions) {
      if (await this.#needsTag(expression)) return expressions;
    }
    throw badRequest(
      `cannot evaluate seriesByTag: tagExpressions need one that no empty tag passes: ${shownText(texts.join(', '))}`,
    );
  }

  async #needsTag({ operator, value }: TagExpression): Promise<boolean> {
    if (operator === '=') return value !== '';
    if (operator === '!=') return value === '';
    const pattern = `^(?:${value})`;
    const units = engineUnits(pattern, compileUnitsMax);
    this.#compileUnits += units;
    if (this.#compileUnits > compileUnitsMax) {
      throw badRequest(
        `cannot evaluate seriesByTag: tagExpressions have regexps that take too long to compile together: ${shownText(value)}`,
      );
    }
    if (this.#work.spend(units)) await this.#work.pause();
    const matchesEmpty = new SearchRegexp(pattern).test('');
    return operator === '=~' && !matchesEmpty;
  }
}

function parse(text: string): TagExpression {
  const found = form.exec(text);
  if (found === null) {
    throw badRequest(
      `cannot evaluate seriesByTag: tagExpressions has one that is not of the form tag=value: ${shownText(text)}`,
    );
  }
  return {
    tag: found[1]!,
    operator: found[2] as TagExpression['operator'],
    value: found[3]!,
  };
}
