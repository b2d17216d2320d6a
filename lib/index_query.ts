/** A query on the inverted index, as SPEC.txt and the node's JSON and gRPC interfaces have it. */
export type IndexQuery =
  /** Tag `field` has exactly this value. */
  | { readonly kind: 'term'; readonly field: string; readonly term: string }
  /** Tag `field` exists and its whole value matches (RE2 syntax, anchored on both ends). */
  | { readonly kind: 'regexp'; readonly field: string; readonly regexp: string }
  /** Tag `field` exists. */
  | { readonly kind: 'field'; readonly field: string }
  | { readonly kind: 'all' }
  | { readonly kind: 'conjunction'; readonly queries: readonly IndexQuery[] }
  | { readonly kind: 'disjunction'; readonly queries: readonly IndexQuery[] }
  | { readonly kind: 'negation'; readonly query: IndexQuery };
