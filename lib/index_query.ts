/** A query on the inverted index, as SPEC.txt and the node's JSON and gRPC interfaces have it. */
import { badRequest, shownText } from './errors.ts';
import { shownJson } from './json_fields.ts';

export type IndexQuery =
  /** Tag `field` has exactly this value. */
  | { readonly kind: 'term'; readonly field: string; readonly term: string }
  /** Tag `field` exists and its whole value matches (RE2 syntax, anchored on both ends). */
  | { readonly kind: 'regexp'; readonly field: string; readonly regexp: string }
  /** Tag `field` exists. */
  | { readonly kind: 'field'; readonly field: string }
  | { readonly kind: 'all' }
  /** An empty one matches nothing, as in the reference system. */
  | { readonly kind: 'conjunction'; readonly queries: readonly IndexQuery[] }
  | { readonly kind: 'disjunction'; readonly queries: readonly IndexQuery[] }
  | { readonly kind: 'negation'; readonly query: IndexQuery };

/** Deeper queries are refused. */
export const queryDepthMax: number = 64;

/** Queries of more nodes are refused. */
export const queryNodesMax: number = 100_000;

/** Wire form of a query node: an object with exactly one of these keys. */
export interface QueryJson {
  readonly term?: { readonly field: string; readonly term: string };
  readonly regexp?: { readonly field: string; readonly regexp: string };
  readonly field?: { readonly field: string };
  readonly all?: Record<string, never>;
  readonly conjunction?: { readonly queries: readonly QueryJson[] };
  readonly disjunction?: { readonly queries: readonly QueryJson[] };
  readonly negation?: { readonly query: QueryJson };
}

export function queryToJson(query: IndexQuery): QueryJson {
  switch (query.kind) {
    case 'term':
      return { term: { field: query.field, term: query.term } };
    case 'regexp':
      return { regexp: { field: query.field, regexp: query.regexp } };
    case 'field':
      return { field: { field: query.field } };
    case 'all':
      return { all: {} };
    case 'conjunction':
      return { conjunction: { queries: query.queries.map(queryToJson) } };
    case 'disjunction':
      return { disjunction: { queries: query.queries.map(queryToJson) } };
    case 'negation':
      return { negation: { query: queryToJson(query.query) } };
    default:
      return query satisfies never;
  }
}

/**
 * Reads the JSON form of the node's interface. An absent query (undefined, null) is 'all'. Keys are
 * taken in any case, as everywhere in that interface.
 * @param path names the place in errors
 * @throws {TsdbError} BAD_REQUEST: 'multiple query types specified', 'no query types specified', or
 *   the field, the reason and the value
 */
export function queryFromJson(json: unknown, path: string = 'query'): IndexQuery {
  if (json === undefined || json === null) return { kind: 'all' };
  return readQuery(json, path, 0, { nodes: 0 });
}

function readQuery(
  json: unknown,
  path: string,
  depth: number,
  count: { nodes: number },
): IndexQuery {
  if (depth > queryDepthMax) {
    throw badRequest(`cannot read query: ${path} is nested more than ${queryDepthMax} deep`);
  }
  if (++count.nodes > queryNodesMax) {
    throw badRequest(`cannot read query: more than ${queryNodesMax} nodes`);
  }
  const node = readObject(json, path);
  const keys = [...node.keys()];
  const known = keys.filter((key) => queryKeys.has(key));
  if (known.length > 1) {
    throw badRequest(
      `cannot read query: ${path}: multiple query types specified: ${known.join(', ')}`,
    );
  }
  const unknownKey = keys.find((key) => !queryKeys.has(key));
  if (unknownKey !== undefined) {
    throw badRequest(`cannot read query: ${path} has an unknown key: ${shownJson(unknownKey)}`);
  }
  const kind = known[0];
  if (kind === undefined) {
    throw badRequest(`cannot read query: ${path}: no query types specified`);
  }
  const nodePath = `${path}.${kind}`;
  const body = readObject(node.get(kind), nodePath);
  const allowed = queryKeys.get(kind)!;
  for (const key of body.keys()) {
    if (!allowed.includes(key)) {
      throw badRequest(`cannot read query: ${nodePath} has an unknown key: ${shownJson(key)}`);
    }
  }
  const text = (key: string) => readText(body.get(key), `${nodePath}.${key}`);
  const queries = () => {
    const list = body.get('queries') ?? [];
    if (!Array.isArray(list)) {
      throw badRequest(`cannot read query: ${nodePath}.queries is not a list: ${shownJson(list)}`);
    }
    return list.map((item, i) => readQuery(item, `${nodePath}.queries[${i}]`, depth + 1, count));
  };
  switch (kind) {
    case 'term':
      return { kind, field: text('field'), term: text('term') };
    case 'regexp':
      return { kind, field: text('field'), regexp: text('regexp') };
    case 'field':
      return { kind, field: text('field') };
    case 'conjunction':
      return { kind, queries: queries() };
    case 'disjunction':
      return { kind, queries: queries() };
    case 'negation': {
      const query = readQuery(body.get('query'), `${nodePath}.query`, depth + 1, count);
      return { kind, query };
    }
    default:
      return { kind: 'all' };
  }
}

/**
 * Refuses queries that are nested too deep or have too many nodes; for queries that did not come as
 * JSON.
 * @throws {TsdbError} BAD_REQUEST
 */
export function checkQuerySize(query: IndexQuery): void {
  let nodes = 0;
  const walk = (node: IndexQuery, depth: number): void => {
    if (depth > queryDepthMax) {
      throw badRequest(`cannot evaluate query: nested more than ${queryDepthMax} deep`);
    }
    if (++nodes > queryNodesMax) {
      throw badRequest(`cannot evaluate query: more than ${queryNodesMax} nodes`);
    }
    if (node.kind === 'negation') walk(node.query, depth + 1);
    else if (node.kind === 'conjunction' || node.kind === 'disjunction') {
      for (const part of node.queries) walk(part, depth + 1);
    }
  };
  walk(query, 0);
}

/** Keys of a query node and of the object behind each. */
const queryKeys: ReadonlyMap<string, readonly string[]> = new Map([
  ['term', ['field', 'term']],
  ['regexp', ['field', 'regexp']],
  ['field', ['field']],
  ['all', []],
  ['conjunction', ['queries']],
  ['disjunction', ['queries']],
  ['negation', ['query']],
]);

/** Entries that are not null, by lower-case key. */
function readObject(json: unknown, path: string): Map<string, unknown> {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw badRequest(`cannot read query: ${path} is not an object: ${shownJson(json)}`);
  }
  const entries = new Map<string, unknown>();
  for (const [key, value] of Object.entries(json)) {
    if (value === null) continue;
    const lower = key.toLowerCase();
    if (entries.has(lower))
      throw badRequest(`cannot read query: ${path} has a key twice: ${shownText(lower)}`);
    entries.set(lower, value);
  }
  return entries;
}

function readText(json: unknown, path: string): string {
  if (typeof json !== 'string') {
    throw badRequest(`cannot read query: ${path} is not a string: ${shownJson(json)}`);
  }
  return json;
}

/**
 * Text that is equal for queries that are the same but for order and repetition of the parts of a
 * conjunction or disjunction; a key for caches.
 */
export function queryKey(query: IndexQuery): string {
  switch (query.kind) {
    case 'term':
      return `t${JSON.stringify(query.field)}${JSON.stringify(query.term)}`;
    case 'regexp':
      return `r${JSON.stringify(query.field)}${JSON.stringify(query.regexp)}`;
    case 'field':
      return `f${JSON.stringify(query.field)}`;
    case 'all':
      return 'a';
    case 'conjunction':
      return `c(${keysOf(query.queries)})`;
    case 'disjunction':
      return `d(${keysOf(query.queries)})`;
    case 'negation':
      return `n${queryKey(query.query)}`;
    default:
      return query satisfies never;
  }
}

function keysOf(queries: readonly IndexQuery[]): string {
  return [...new Set(queries.map(queryKey))].sort().join(',');
}
