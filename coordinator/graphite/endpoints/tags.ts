/** Graphite's tags: which there are, with which values, on which series. Paths of Carbon have none. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { SearchRegexp } from '#lib/regexp/regexp.ts';
import { nodeTag } from '#lib/series_id/from_tags.ts';
import { decodeTags, metricNameTag } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  jsonAnswer,
  jsonContentType,
} from '../../http/http_api.ts';
import { answerHeaders } from '../../reads/answer_headers.ts';
import { type QuerySettings, readOptionsOf } from '../../reads/options.ts';
import { wholeNumber } from '../../http/whole_number.ts';
import type {
  ChosenStorage,
  Matcher,
  QueryStorage,
  SelectLimits,
  SelectRange,
} from '../../select/storage.ts';
import { type TagExpression, TagExpressions } from '../parse/tag_expression.ts';
import { namedSeries } from '../storage/series_names.ts';
import { type StoredTagName, tagMatchers } from '../storage/tag_matchers.ts';

type TagStorage = Pick<QueryStorage, 'labelNames' | 'labelValues' | 'series'> &
  Pick<ChosenStorage, 'hidden'>;

export interface TagsSetup {
  readonly storage: (request: ApiRequest) => TagStorage;
  readonly settings: QuerySettings;
  readonly storedName: StoredTagName;
  readonly clock: Clock;
  readonly turningOf: (signal: AbortSignal) => Turning;
}

interface TagsCall {
  readonly storage: TagStorage;
  readonly storedName: StoredTagName;
  readonly limits: SelectLimits;
  readonly range: SelectRange;
  readonly timeoutMillis: number;
  readonly work: Work;
  /** What was not whole in what was read. */
  readonly warnings: Set<string>;
  isExhaustive: boolean;
}

interface Whole {
  readonly exhaustive: boolean;
  readonly warnings: readonly string[];
}

/** Entries of an answer for somebody who types. */
const completionsDefault = 100;
/** About what it takes to name a series, in units of work (lib/turns/turns.ts). */
const seriesUnits = 500;
/** The same of a look at a name. */
const nameUnits = 20;
/** Items that are told in one part of an answer. */
const itemsPerPart = 5_000;
const isNodeTag = /^__g\d+__$/;
/** No path of Carbon. */
const noPath: Matcher = { name: nodeTag(0), kind: '=', value: '' };

export async function tagNames(
  setup: TagsSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = callOf(setup, request, parameters);
  const names = await filtered(call, await namesOf(call, []), (name) => name, parameters);
  return listAnswer(call, names, (tag, index) => ({ id: index + 1, tag }));
}

export async function tagValues(
  setup: TagsSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = callOf(setup, request, parameters);
  const tag = request.pathParameters['tag'] ?? '';
  const counts = new Map<string, number>();
  const stored = call.storedName(tag);
  // Names of series have all of their tags, but no list has what is left out.
  if (call.storage.hidden.has(stored)) return answer(call, { id: 1, tag, values: [] });
  const { bundle } = await seriesOf(call, [{ name: stored, kind: '!=', value: '' }, noPath]);
  for (let index = 0; index < bundle.seriesCount; index++) {
    const value = namedOf(bundle, index).tags.get(tag === 'name' ? tag : stored) ?? '';
    counts.set(value, (counts.get(value) ?? 0) + 1);
    if (call.work.spend(seriesUnits)) await call.work.pause();
  }
  const kept = await filtered(call, [...counts], ([value]) => value, parameters);
  const values = await sortPaced(kept, ([a], [b]) => compareTexts(a, b), call.work);
  const listed = ([value, count]: readonly [string, number], index: number): object => {
    return { id: index + 1, value, count };
  };
  return listAnswer(call, values, listed, [
    `{"id":1,"tag":${JSON.stringify(tag)},"values":[`,
    ']}',
  ]);
}

export async function findSeries(
  setup: TagsSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = callOf(setup, request, parameters);
  const expressions = expressionsOf(parameters);
  if (expressions.length === 0) throw badRequest('expr: missing required parameter');
  const { bundle } = await seriesOf(call, [
    ...tagMatchers(await new TagExpressions(call.work).parse(expressions), call.storedName),
    noPath,
  ]);
  const names: string[] = [];
  for (let index = 0; index < bundle.seriesCount; index++) {
    names.push(namedOf(bundle, index).name);
    if (call.work.spend(seriesUnits)) await call.work.pause();
  }
  return listAnswer(call, await sortPaced(names, compareTexts, call.work), (name) => name);
}

export async function completeTags(
  setup: TagsSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = callOf(setup, request, parameters);
  const prefix = parameters.get('tagPrefix') ?? '';
  const expressions = await tagExpressionsOf(call, parameters);
  const names = await namesOf(call, tagMatchers(expressions, call.storedName));
  // Who types has these already.
  const used = new Set(expressions.map(({ tag }) => call.storedName(tag)));
  const isOther = (name: string): boolean => !used.has(name === 'name' ? metricNameTag : name);
  return answer(call, await begun(call, names, prefix, parameters, isOther));
}

export async function completeValues(
  setup: TagsSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const call = callOf(setup, request, parameters);
  const tag = parameters.get('tag') ?? '';
  if (tag === '') throw badRequest('tag: missing required parameter');
  const { storage, limits, range, work } = call;
  const matchers = [
    ...tagMatchers(await tagExpressionsOf(call, parameters), call.storedName),
    noPath,
  ];
  const { values } = await noted(
    call,
    storage.labelValues(call.storedName(tag), [matchers], range, limits, work.signal),
  );
  const prefix = parameters.get('valuePrefix') ?? '';
  return answer(call, await begun(call, values, prefix, parameters, () => true));
}

/** The first ones that begin so and are wanted. */
async function begun(
  { work }: TagsCall,
  all: readonly string[],
  prefix: string,
  parameters: URLSearchParams,
  isWanted: (text: string) => boolean,
): Promise<string[]> {
  const limit = wholeNumber(parameters.get('limit') || String(completionsDefault), 'limit');
  const found: string[] = [];
  for (const text of all) {
    if (found.length >= limit) break;
    if (text.startsWith(prefix) && isWanted(text)) found.push(text);
    if (work.spend(nameUnits)) await work.pause();
  }
  return found;
}

async function namesOf(call: TagsCall, matchers: readonly Matcher[]): Promise<string[]> {
  const { storage, limits, range, work } = call;
  const lists = matchers.length === 0 ? [] : [[...matchers, noPath]];
  const { values } = await noted(call, storage.labelNames(lists, range, limits, work.signal));
  const names: string[] = [];
  for (const name of values) {
    if (!isNodeTag.test(name)) names.push(name === metricNameTag ? 'name' : name);
    if (work.spend(nameUnits)) await work.pause();
  }
  return await sortPaced(names, compareTexts, work);
}

async function seriesOf(
  call: TagsCall,
  matchers: readonly Matcher[],
): Promise<{ readonly bundle: SeriesBundle }> {
  const { storage, limits, range, work } = call;
  return await noted(call, storage.series([matchers], range, limits, work.signal));
}

/** Waits for what is read, and notes whether it is whole. */
async function noted<T extends Whole>(call: TagsCall, reading: Promise<T>): Promise<T> {
  const found = await call.work.outside(reading);
  call.isExhaustive &&= found.exhaustive;
  for (const warning of found.warnings) call.warnings.add(warning);
  return found;
}

function namedOf(
  { tagsData, tagsOffset }: SeriesBundle,
  index: number,
): ReturnType<typeof namedSeries> {
  return namedSeries(decodeTags(tagsData.subarray(tagsOffset[index]!, tagsOffset[index + 1]!)));
}

async function tagExpressionsOf(
  { work }: TagsCall,
  parameters: URLSearchParams,
): Promise<readonly TagExpression[]> {
  const expressions = expressionsOf(parameters);
  return expressions.length === 0 ? [] : await new TagExpressions(work).parse(expressions);
}

function expressionsOf(parameters: URLSearchParams): string[] {
  return [...parameters.getAll('expr'), ...parameters.getAll('expr[]')];
}

/** Those that the parameter `filter` takes: a regexp that has to match from the begin. */
async function filtered<Item>(
  { work }: TagsCall,
  items: readonly Item[],
  textOf: (item: Item) => string,
  parameters: URLSearchParams,
): Promise<readonly Item[]> {
  const filter = parameters.get('filter') ?? '';
  if (filter === '') return items;
  const regexp = new SearchRegexp(`^(?:${filter})`);
  const kept: Item[] = [];
  for (const item of items) {
    const text = textOf(item);
    if (work.spend(regexp.unitsMax(text.length))) await work.pause();
    if (regexp.test(text)) kept.push(item);
  }
  return kept;
}

function callOf(setup: TagsSetup, request: ApiRequest, parameters: URLSearchParams): TagsCall {
  const { settings, clock, storedName } = setup;
  const { timeoutMillis, limits } = readOptionsOf(request, parameters, settings, ['seriesLimit']);
  const { work } = setup.turningOf(clock.deadline(timeoutMillis, request.signal));
  const range = { startNanos: 0n, endNanos: clock.nowNanos() + 1n };
  const storage = setup.storage(request);
  return {
    storage,
    storedName,
    limits,
    range,
    timeoutMillis,
    work,
    warnings: new Set(),
    isExhaustive: true,
  };
}

function answer(call: TagsCall, value: unknown): ApiAnswer {
  return jsonAnswer(value, headersOf(call));
}

/** A list of any length, told in parts. @param around what is before it and behind it */
function listAnswer<Item>(
  call: TagsCall,
  items: readonly Item[],
  shown: (item: Item, index: number) => unknown,
  [opening, end]: readonly [string, string] = ['[', ']'],
): ApiAnswer {
  function* parts(): Iterable<Uint8Array> {
    let before = opening;
    for (let from = 0; from < items.length; from += itemsPerPart) {
      const some = items.slice(from, from + itemsPerPart);
      const text = JSON.stringify(some.map((item, i) => shown(item, from + i)));
      yield Buffer.from(before + text.slice(1, -1));
      before = ',';
    }
    yield Buffer.from(items.length === 0 ? opening + end : end);
  }
  const headers = { 'Content-Type': jsonContentType, ...headersOf(call) };
  const isShort = items.length <= itemsPerPart;
  return { status: 200, headers, body: isShort ? Buffer.concat([...parts()]) : parts() };
}

function headersOf(call: TagsCall): Record<string, string> {
  const { limits, timeoutMillis, warnings, isExhaustive } = call;
  const outcome = {
    timeoutMillis,
    seriesLimited: !isExhaustive,
    warnings: [...warnings],
    read: limits.read,
  };
  return answerHeaders(outcome);
}
