/** Conditions on Graphite's tags, as storage has them. */
import { metricNameTag, type NameValidation } from '#lib/tags.ts';
import type { Matcher } from '../../select/storage.ts';
import type { TagExpression } from '../parse/tag_expression.ts';
import { carbonTagName } from '../words/tag_name.ts';

/** What a tag of Graphite is called in storage. */
export type StoredTagName = (tag: string) => string;

/**
 * Graphite's tag `name` is the metric's name here; others are called as Carbon's lines have them. Where any text may be a name,
 * as other formats write it, a tag is called what it is asked for as.
 */
export function storedTagNames(nameValidation: NameValidation): StoredTagName {
  const storedName: StoredTagName =
    nameValidation === 'legacy' ? carbonTagName : (tag: string): string => tag;
  return (tag) => (tag === 'name' ? metricNameTag : storedName(tag));
}

export function tagMatchers(
  expressions: readonly TagExpression[],
  storedName: StoredTagName,
): Matcher[] {
  return expressions.map(({ tag, operator, value }) => {
    const name = storedName(tag);
    if (operator === '=' || operator === '!=') return { name, kind: operator, value };
    // Graphite's match from the begin of a value, ours the whole of it.
    return { name, kind: operator === '=~' ? '=~' : '!~', value: `(?:${value})(?s:.*)` };
  });
}
