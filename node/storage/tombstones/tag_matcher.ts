/**
 * Whether the tags of one series match a query on the index: for series that are at hand one by
 * one.
 */
import type { IndexQuery } from '#lib/index_query.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';

type Values = ReadonlyMap<string, string>;

/**
 * @returns takes canonical tags; a layout that is cut off matches nothing
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

const textDecoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Null when the layout is cut off. Bytes that are no text become signs that no query asks for. */
function valuesOf(tags: Uint8Array): Values | null {
  const values = new Map<string, string>();
  let at = 0;
  const text = (): string | null => {
    if (tags.length - at < 2) return null;
    const length = tags[at]! | (tags[at + 1]! << 8);
    at += 2;
    if (length > tags.length - at) return null;
    at += length;
    return textDecoder.decode(tags.subarray(at - length, at));
  };
  while (at < tags.length) {
    const name = text();
    const value = text();
    if (name === null || value === null) return null;
    values.set(name, value);
  }
  return values;
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
