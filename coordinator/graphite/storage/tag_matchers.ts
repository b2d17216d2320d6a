/** Conditions on Graphite's tags, as storage has them. */
import { metricNameTag } from '#lib/tags.ts';
import type { Matcher } from '../../select/storage.ts';
import type { TagExpression } from '../parse/tag_expression.ts';

/** Graphite's tag `name` is the metric's name here. */
export function tagMatchers(expressions: readonly TagExpression[]): Matcher[] {
  return expressions.map(({ tag, operator, value }) => {
    const name = tag === 'name' ? metricNameTag : tag;
    if (operator === '=' || operator === '!=') return { name, kind: operator, value };
    // Graphite's match from the begin of a value, ours the whole of it.
    return { name, kind: operator === '=~' ? '=~' : '!~', value: `(?:${value})(?s:.*)` };
  });
}
