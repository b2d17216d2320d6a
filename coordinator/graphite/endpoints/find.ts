/** `metrics/find`, `metrics/expand` and `metrics/index.json`: the tree of paths. */
import type { Clock } from '#lib/env/env.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import { AnswerPieces, inPieces } from '../../http/answer_pieces.ts';
import { answerHeaders } from '../../reads/answer_headers.ts';
import { type QuerySettings, readOptionsOf } from '../../reads/options.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  jsonAnswer,
  jsonContentType,
} from '../../http/http_api.ts';
import { checkRangeMillis } from '../../http/parameters.ts';
import type { SelectLimits, SelectRange } from '../../select/storage.ts';
import { type FoundNode, lastNode, type NodeOrder } from '../storage/finder.ts';
import { parsePathPattern, type PathPattern } from '../storage/path_pattern.ts';
import { carbonapiContentType, globResponse } from './carbonapi.ts';
import { msgpackContentType, pickleContentType } from './formats.ts';
import { packedDictionary, packedList } from './msgpack.ts';
import { type Picklable, pickledDictionary, pickledList } from './pickle.ts';
import { parseTime } from '../time/attime.ts';
import { Zone } from '../time/zone.ts';

/** Where paths come from, and what was missing of them. */
export interface PathSource {
  /** @param order of the nodes: by their paths, or by their last names first */
  find(pattern: PathPattern, order: NodeOrder): Promise<readonly FoundNode[]>;
  /** Their last names in the place of paths, each once, sorted. */
  findNames(pattern: PathPattern): Promise<readonly FoundNode[]>;
  leaves(): Promise<readonly string[]>;
  readonly warnings: ReadonlySet<string>;
  readonly isExhaustive: boolean;
}

export interface FindSetup {
  readonly source: (
    request: ApiRequest,
    limits: SelectLimits,
    range: SelectRange,
    work: Work,
  ) => PathSource;
  readonly settings: QuerySettings;
  readonly clock: Clock;
  readonly turningOf: (signal: AbortSignal) => Turning;
}

/** Patterns of one request. */
const queriesMax = 1000;
/** Paths that the patterns of one request find together, be they the same. */
const expandedMax = 1_000_000;
/** Of a path in memory, beside its characters: its place in several lists. */
const pathBytes = 64;
/** About what it takes to look at a path, in units of work (lib/turns/turns.ts). */
const pathUnits = 50;
/** Paths that memory is taken for at a time. */
const pathsAtOnce = 1024;
const formats = [
  'treejson',
  'json',
  'completer',
  'nodelist',
  'pickle',
  'msgpack',
  'protobuf',
] as const;
type Format = (typeof formats)[number];
const formatsOfPaths: readonly Format[] = ['json', 'pickle', 'msgpack', 'protobuf'];

interface FindCall {
  readonly source: PathSource;
  readonly limits: SelectLimits;
  readonly timeoutMillis: number;
  readonly range: SelectRange;
  readonly work: Work;
}

export async function find(
  setup: FindSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const format = formats.find((each) => each === (parameters.get('format') || 'treejson'));
  if (format === undefined) {
    throw badRequest(
      `format: none of ${formats.join(', ')}: ${shownText(parameters.get('format')!)}`,
    );
  }
  const given = parameters.get('query') ?? '';
  if (given === '') throw badRequest('query: missing required parameter');
  const query =
    format === 'completer' ? completed(given, isSet(parameters, 'automatic_variants')) : given;
  const call = findCallOf(setup, request, parameters);
  const pattern = parsePathPattern(query);
  const position = positionOf(parameters);
  const isOfPaths = formatsOfPaths.includes(format);
  const isOfNames = format === 'treejson' || (format === 'nodelist' && position === null);
  const isWanted = ({ isLeaf }: FoundNode): boolean => isLeaf || !isSet(parameters, 'leavesOnly');
  const paths = async (): Promise<readonly FoundNode[]> =>
    (await call.source.find(pattern, isOfPaths ? 'path' : 'name')).filter(isWanted);
  const found = isOfNames ? (await call.source.findNames(pattern)).filter(isWanted) : await paths();
  const encoded = encodedPaths(format, query, found, call.range);
  if (encoded !== null) {
    const headers = { ...headersOf(call), 'Content-Type': encoded.contentType };
    return { status: 200, headers, body: encoded.body };
  }
  if (format === 'json') {
    return answer(
      call,
      found.map((node) => pathOf(node, call.range, 'object')),
    );
  }
  // One name may be that of several paths.
  const hasWildcard =
    isSet(parameters, 'wildcards') &&
    (found.length > 1 || (isOfNames && found.length === 1 && (await paths()).length > 1));
  if (format === 'treejson') return answer(call, treeOf(query, found, hasWildcard));
  if (format === 'completer') {
    const metrics = found.map(({ path, isLeaf }) => ({
      path: isLeaf ? path : `${path}.`,
      name: lastNode(path),
      is_leaf: isLeaf ? '1' : '0',
    }));
    return answer(call, { metrics: hasWildcard ? [...metrics, { name: '*' }] : metrics });
  }
  const names = found.map(({ path }) => (position === null ? path : path.split('.')[position]));
  return answer(call, { nodes: [...new Set(names.filter((name) => name !== undefined))].sort() });
}

/** For other servers; null in formats that are texts. */
function encodedPaths(
  format: Format,
  query: string,
  found: readonly FoundNode[],
  range: SelectRange,
): { readonly contentType: string; readonly body: Iterable<Uint8Array> } | null {
  const fieldsOf = (node: FoundNode) => pathOf(node, range, 'pair');
  if (format === 'pickle') {
    const items = found.values().map((node) => pickledDictionary(fieldsOf(node)));
    return { contentType: pickleContentType, body: inPieces(pickledList(items)) };
  }
  if (format === 'msgpack') {
    const items = found.values().map((node) => packedDictionary(fieldsOf(node)));
    return { contentType: msgpackContentType, body: inPieces(packedList(found.length, items)) };
  }
  if (format !== 'protobuf') return null;
  return { contentType: carbonapiContentType, body: inPieces(globResponse(query, found)) };
}

function positionOf(parameters: URLSearchParams): number | null {
  const position = parameters.get('position');
  if (position === null || /^\d{1,6}$/.test(position)) return position === null ? null : +position;
  throw badRequest(`position: not a whole number: ${shownText(position)}`);
}

export async function expand(
  setup: FindSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const queries = parameters.getAll('query');
  if (queries.length > queriesMax)
    throw badRequest(`query: more than ${queriesMax}: ${queries.length}`);
  const call = findCallOf(setup, request, parameters);
  const isByQuery = isSet(parameters, 'groupByExpr');
  const results: Record<string, readonly string[]> = {};
  const all: string[] = [];
  const expanding: Expanding = {
    request,
    work: call.work,
    leavesOnly: isSet(parameters, 'leavesOnly'),
    count: 0,
  };
  for (const query of queries) {
    const found = await call.source.find(parsePathPattern(query), 'path');
    const paths = isByQuery ? [] : all;
    await addPaths(found, paths, expanding);
    if (isByQuery) results[query] = paths;
  }
  const headers = { ...headersOf(call), 'Content-Type': jsonContentType };
  if (isByQuery) return { status: 200, headers, body: resultsByQuery(results) };
  const sorted = await sortPaced(all, compareUnits, call.work);
  return { status: 200, headers, body: resultsOfAll(sorted) };
}

/** What is known while patterns are expanded. */
interface Expanding {
  readonly request: ApiRequest;
  readonly work: Work;
  readonly leavesOnly: boolean;
  /** Paths that were found. */
  count: number;
}

/** Adds the paths of these nodes, which are in the order of paths, each once. */
async function addPaths(
  found: readonly FoundNode[],
  paths: string[],
  expanding: Expanding,
): Promise<void> {
  const { request, work, leavesOnly } = expanding;
  let last: string | null = null;
  for (let first = 0; first < found.length; first += pathsAtOnce) {
    const part = found.slice(first, first + pathsAtOnce);
    expanding.count += part.length;
    if (expanding.count > expandedMax) {
      throw badRequest(`query: finds more than ${expandedMax} paths: ${expanding.count}`);
    }
    const bytes = part.reduce((sum, { path }) => sum + pathBytes + path.length, 0);
    await work.outside(request.readMemory.grow(bytes, work.signal));
    for (const { path, isLeaf } of part) {
      if ((leavesOnly && !isLeaf) || path === last) continue;
      paths.push(path);
      last = path;
    }
    if (work.spend(pathUnits * part.length)) await work.pause();
  }
}

/** As `sort()` has texts. */
function compareUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** @param sorted what several patterns have found is there several times */
function* resultsOfAll(sorted: readonly string[]): Iterable<Uint8Array> {
  const pieces = new AnswerPieces();
  pieces.add('{"results":');
  yield* listText(sorted, pieces);
  pieces.add('}');
  yield pieces.take();
}

function* resultsByQuery(
  results: Readonly<Record<string, readonly string[]>>,
): Iterable<Uint8Array> {
  const pieces = new AnswerPieces();
  pieces.add('{"results":{');
  for (const [index, [query, paths]] of Object.entries(results).entries()) {
    pieces.add(`${index === 0 ? '' : ','}${JSON.stringify(query)}:`);
    yield* listText(paths, pieces);
  }
  pieces.add('}}');
  yield pieces.take();
}

/** A list of sorted texts, each once. */
function* listText(sorted: readonly string[], pieces: AnswerPieces): Iterable<Uint8Array> {
  pieces.add('[');
  let last: string | null = null;
  for (const text of sorted) {
    if (text === last) continue;
    pieces.add(`${last === null ? '' : ','}${JSON.stringify(text)}`);
    last = text;
    if (pieces.isFull) yield pieces.take();
  }
  pieces.add(']');
}

export async function index(
  setup: FindSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = findCallOf(setup, request, parameters);
  return answer(call, await call.source.leaves());
}

function findCallOf(setup: FindSetup, request: ApiRequest, parameters: URLSearchParams): FindCall {
  const { settings, clock } = setup;
  const options = readOptionsOf(request, parameters, settings, ['limit']);
  const { timeoutMillis, limits, rangeMillisMax } = options;
  const { work } = setup.turningOf(clock.deadline(timeoutMillis, request.signal));
  const time = {
    nowSeconds: Math.floor(clock.nowMillis() / 1000),
    zone: new Zone(parameters.get('tz') || 'UTC'),
  };
  const bound = (name: string): number | null => {
    const text = parameters.get(name) || '';
    // As some clients say that there is no bound.
    return text === '' || text === '0' || text === '-1' ? null : parseTime(text, time);
  };
  const [from, until] = [bound('from'), bound('until')];
  // Without a begin everything is asked for, which is no range that a limit is about.
  if (from !== null) {
    checkRangeMillis(1_000 * Math.abs((until ?? time.nowSeconds) - from), rangeMillisMax);
  }
  const startSeconds = from ?? 0;
  const endSeconds = until ?? time.nowSeconds + 1;
  const range = {
    startNanos: BigInt(Math.min(startSeconds, endSeconds)) * 1_000_000_000n,
    endNanos: BigInt(Math.max(startSeconds, endSeconds)) * 1_000_000_000n + 1n,
  };
  const source = setup.source(request, limits, range, work);
  return { source, limits, timeoutMillis, range, work };
}

function answer(call: FindCall, value: unknown): ApiAnswer {
  return jsonAnswer(value, headersOf(call));
}

function headersOf({ source, limits, timeoutMillis }: FindCall): Record<string, string> {
  return answerHeaders({
    timeoutMillis,
    seriesLimited: !source.isExhaustive,
    warnings: [...source.warnings],
    read: limits.read,
  });
}

/** A leaf has the time that was asked for: nobody looks into it. Servers take it as a pair. */
function pathOf(
  { path, isLeaf }: FoundNode,
  { startNanos, endNanos }: SelectRange,
  interval: 'object' | 'pair',
): { readonly [key: string]: Picklable } {
  const [start, end] = [startNanos, endNanos].map((nanos) => Number(nanos / 1_000_000_000n));
  const time = interval === 'object' ? { start: start!, end: end! } : [start!, end!];
  return { path, is_leaf: isLeaf, ...(isLeaf ? { intervals: [time] } : {}) };
}

function isSet(parameters: URLSearchParams, name: string): boolean {
  return !/^(?:|0|false)$/i.test(parameters.get(name) ?? '');
}

/** What somebody has typed so far, as a pattern of what it may become. */
function completed(text: string, hasVariants: boolean): string {
  let query = text.replaceAll('..', '*.');
  if (!query.endsWith('*')) query += '*';
  if (!hasVariants) return query;
  return query
    .split('.')
    .map((node) => (node.includes(',') && !node.includes('{') ? `{${node}}` : node))
    .join('.');
}

/** Names under the pattern's own base, as a tree shows them: branches, then leaves, each name once. */
function treeOf(query: string, names: readonly FoundNode[], hasWildcard: boolean): object[] {
  const base = query.slice(0, query.lastIndexOf('.') + 1);
  const entry = (text: string, isLeaf: boolean): object => {
    const inner = isLeaf ? 0 : 1;
    return {
      text,
      id: `${base}${text}`,
      allowChildren: inner,
      expandable: inner,
      leaf: isLeaf ? 1 : 0,
    };
  };
  const wildcard = hasWildcard
    ? [
        entry(
          '*',
          names.every(({ isLeaf }) => isLeaf),
        ),
      ]
    : [];
  const ofKind = (isLeaf: boolean): object[] =>
    names.filter((node) => node.isLeaf === isLeaf).map(({ path }) => entry(path, isLeaf));
  return [...wildcard, ...ofKind(false), ...ofKind(true)];
}
