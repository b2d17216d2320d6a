/** Filters as questions to an index, which may find more than they match. */
import type { IndexQuery } from '#lib/index_query.ts';
import { metricNameTag } from '#lib/tags.ts';
import type { Filter } from './filter.ts';

/** Series that a filter may match, and others. */
export function queryOfFilter(filter: Filter): IndexQuery {
  const queries = filter.flatMap(({ name, pattern }): IndexQuery[] => {
    // Tags for rules alone are in no index, and the pattern of a metric's name may match one that is not there.
    if (name.startsWith('__m3') || (name === metricNameTag && pattern.matches(''))) return [];
    const { values, widerRegexp } = pattern;
    if (values !== null) {
      const terms = values.map((term): IndexQuery => ({ kind: 'term', field: name, term }));
      return terms.length === 1 ? terms : [{ kind: 'disjunction', queries: terms }];
    }
    const some: IndexQuery =
      widerRegexp === null
        ? { kind: 'field', field: name }
        : { kind: 'regexp', field: name, regexp: widerRegexp };
    return [some];
  });
  if (queries.length === 0) return { kind: 'all' };
  return queries.length === 1 ? queries[0]! : { kind: 'conjunction', queries };
}
