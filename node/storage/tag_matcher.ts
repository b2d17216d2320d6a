/** Whether the tags of one series match a query on the index: for series that are at hand one by one. */
import type { IndexQuery } from '#lib/index_query.ts';
import { compileAnchored } from '#lib/regexp.ts';
import { decodeTags } from '#lib/tags.ts';

type Values = ReadonlyMap<string, string>;

/**
 * @returns takes canonical tags; those that are not UTF-8 match nothing
 * @throws {TsdbError} BAD_REQUEST for a bad regexp
 */
export function tagMatcher(query: IndexQuery): (tags: Uint8Array) => boolean {
  if (query.kind === 'all') return () => true;
  const matches = compile(query);
  return (tags) => {
    const values = valuesOf(tags);
    return values !== null && matches(values);
  };
}

function valuesOf(tags: Uint8Array): Values | null {
  try {
    return new Map(decodeTags(tags).map(({ name, value }) => [name, value]));
  } catch {
    return null;
  }
}

function compile(query: IndexQuery): (values: Values) => boolean {
  switch (query.kind) {
    case 'all':
      return () => true;
    case 'term':
      return (values) => values.get(query.field) === query.term;
    case 'field':
      return (values) => values.has(query.field);
    case 'regexp': {
      const regexp = compileAnchored(query.regexp);
      return (values) => {
        const value = values.get(query.field);
        return value !== undefined && regexp.test(value);
      };
    }
    case 'negation': {
      const inner = compile(query.query);
      return (values) => !inner(values);
    }
    case 'conjunction': {
      const parts = query.queries.map(compile);
      // As in the index, an empty one matches nothing.
      return (values) => parts.length > 0 && parts.every((part) => part(values));
    }
    case 'disjunction': {
      const parts = query.queries.map(compile);
      return (values) => parts.some((part) => part(values));
    }
    default:
      return query satisfies never;
  }
}
