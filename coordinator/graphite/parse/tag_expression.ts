/** Conditions on tags, as `seriesByTag` takes them: `tag=value`, `tag!=value`, `tag=~regexp`, `tag!=~regexp`. */
import { badRequest, shownText } from '#lib/errors.ts';
import { SearchRegexp } from '#lib/regexp/regexp.ts';

export interface TagExpression {
  readonly tag: string;
  readonly operator: '=' | '!=' | '=~' | '!=~';
  /** Of the operators with `~` a regexp that has to match from the beginning of the tag's value. */
  readonly value: string;
}

const form = /^([^;!=~^]+)(!?=~?)([^]*)$/;

/**
 * A tag that a series has not counts as empty.
 * @throws {TsdbError} BAD_REQUEST when one is not of that form, or all of them let empty tags pass
 */
export function parseTagExpressions(texts: readonly string[]): readonly TagExpression[] {
  const expressions = texts.map(parse);
  if (!expressions.some(needsTag)) {
    throw badRequest(
      `cannot evaluate seriesByTag: tagExpressions need one that no empty tag passes: ${shownText(texts.join(', '))}`,
    );
  }
  return expressions;
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

function needsTag({ operator, value }: TagExpression): boolean {
  if (operator === '=') return value !== '';
  if (operator === '!=') return value === '';
  const matchesEmpty = new SearchRegexp(`^(?:${value})`).test('');
  return operator === '=~' ? !matchesEmpty : false;
}
