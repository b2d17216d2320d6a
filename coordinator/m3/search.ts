/** M3's searches: which tags there are with which values, and which series. */
import { Fields } from '#cluster/fields.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags } from '#lib/tags.ts';
import { parseBoundNanos } from '#lib/time.ts';
import type { Turning } from '#engine/aside/aside.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Clock } from '#lib/env/env.ts';
import type { Work } from '#lib/turns/turns.ts';
import { withoutTags } from '../forced_tags/forced_tags.ts';
import {
  type ApiRequest,
  type FormHandler,
  type JsonHandler,
  jsonAnswer,
  jsonContentType,
} from '../http/http_api.ts';
import { boundParameter, checkOrder, checkRange } from '../http/parameters.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import {
  limitsSeries,
  type QuerySettings,
  type ReadOptions,
  readOptionsOf,
} from '../reads/options.ts';
import { returnedNamesHeaders } from '../reads/returned.ts';
import type { Matcher, SelectRange, StorageFor } from '../select/storage.ts';

export interface SearchSetup {
  readonly storageFor: StorageFor<ApiRequest>;
  readonly turningOf: (signal: AbortSignal) => Turning;
  readonly settings: QuerySettings;
  readonly clock: Clock;
}

/** Searches of one request. */
const queriesMax = 100;
/** Series that are found when the request does not limit them, as in M3. */
const seriesDefault = 1_000;

/**
 * `query` (repeated) is `name:regexp name:regexp`, all of which have to match; `tag` (repeated) names the tags that are shown, and
 * with `result=tagNamesOnly` their values are not.
 */
export const searchTags: FormHandler<SearchSetup> = async (setup, request, parameters) => {
  const { clock, settings, storageFor, turningOf } = setup;
  const lists = parameters.getAll('query').map(matchersOf);
  if (lists.length === 0) throw badRequest('missing required parameter: query');
  if (lists.length > queriesMax)
    throw badRequest(`query: more than ${queriesMax}: ${lists.length}`);
  const result = parameters.get('result') || 'default';
  if (result !== 'default' && result !== 'tagNamesOnly') {
    throw badRequest(`result: neither default nor tagNamesOnly: ${shownText(result)}`);
  }
  const now = clock.nowNanos();
  const startNanos = boundParameter(parameters, 'start', now, 0n);
  const endNanos = boundParameter(parameters, 'end', now, now);
  const range = rangeOf(startNanos, endNanos);
  const options = readOptionsOf(request, parameters, settings);
  const { timeoutMillis, limits, rangeMillisMax, returned } = options;
  // Without a start everything is asked for, which is no range that a limit is about.
  if ((parameters.get('start') ?? '') !== '') checkRange(startNanos, endNanos, rangeMillisMax);
  const signal = clock.deadline(timeoutMillis, request.signal);
  const storage = storageFor(request);
  const found = await storage.labelNames(lists, range, limits, signal);
  const wanted = new Set(parameters.getAll('tag'));
  const names = found.values.filter((name) => wanted.size === 0 || wanted.has(name));
  const warnings = new Set(found.warnings);
  let { exhaustive } = found;
  const { namesMax } = returned;
  const most = namesMax > 0 ? namesMax : Number.POSITIVE_INFINITY;
  const { work } = turningOf(signal);
  const tags: { readonly key: string; readonly values: readonly string[] }[] = [];
  for (const key of result === 'default' ? names.slice(0, most) : []) {
    const read = storage.labelValues(key, lists, range, limits, signal);
    const { values, ...of } = await work.outside(read);
    for (const warning of of.warnings) warnings.add(warning);
    exhaustive &&= of.exhaustive;
    tags.push({ key, values });
  }
  const headers = {
    ...headersOf(options, exhaustive, [...warnings]),
    ...returnedNamesHeaders(Math.min(most, names.length), names.length, returned),
  };
  return result === 'default'
    ? jsonAnswer({ hits: names.length, tags }, headers)
    : jsonAnswer(names.slice(0, most), headers);
};

/** @throws {TsdbError} BAD_REQUEST */
function matchersOf(text: string): Matcher[] {
  return text
    .trim()
    .split(/\s+/)
    .map((pair) => {
      const at = pair.indexOf(':');
      if (at <= 0) throw badRequest(`query: not in the form name:regexp: ${shownText(text)}`);
      return { name: pair.slice(0, at), kind: '=~', value: pair.slice(at + 1) } as const;
    });
}

/** By the numbers that M3's matchers have: equal, not equal, regexp, not regexp, there is such a tag, there is none, all. */
const matcherOfType: readonly ((name: string, value: string) => Matcher | null)[] = [
  (name, value) => ({ name, kind: '=', value }),
  (name, value) => ({ name, kind: '!=', value }),
  (name, value) => ({ name, kind: '=~', value }),
  (name, value) => ({ name, kind: '!~', value }),
  (name) => ({ name, kind: '!=', value: '' }),
  (name) => ({ name, kind: '=', value: '' }),
  () => null,
];

/** `{matchers: [{type, name, value}], start, end}`, names and values in base64, and so they are in the answer. */
export const searchSeries: JsonHandler<SearchSetup> = async (setup, request, body) => {
  const { clock, settings, storageFor, turningOf } = setup;
  const fields = Fields.of(body, '');
  const matchers = fields.list('matchers', matcherOfJson).filter((each) => each !== null);
  const now = clock.nowNanos();
  const startNanos = boundOf(fields, 'start');
  const endNanos = boundOf(fields, 'end') ?? now;
  const range = rangeOf(startNanos ?? 0n, endNanos);
  fields.ignore('raw');
  fields.end();
  const parameters = new URLSearchParams(request.urlParameters);
  if (!limitsSeries(request, parameters)) {
    parameters.set('limit', `${seriesDefault}`);
    if (!parameters.has('requireExhaustive')) parameters.set('requireExhaustive', 'false');
  }
  const options = readOptionsOf(request, parameters, settings);
  if (startNanos !== null) checkRange(startNanos, endNanos, options.rangeMillisMax);
  const signal = clock.deadline(options.timeoutMillis, request.signal);
  const storage = storageFor(request);
  const found = await storage.series([matchers], range, options.limits, signal);
  const { work } = turningOf(signal);
  const bundle = await withoutTags(found.bundle, storage.hidden, work);
  const { exhaustive, warnings } = found;
  return {
    status: 200,
    headers: { 'Content-Type': jsonContentType, ...headersOf(options, exhaustive, warnings) },
    body: metricsText(bundle, { Exhaustive: exhaustive, Warnings: warnings }, work),
  };
};

/** Text that is handed to the connection at once. */
const partLength = 64 << 10;

/** `{"Metrics":[{ID, Tags}],"Metadata":…}`, in parts. */
async function* metricsText(
  bundle: SeriesBundle,
  metadata: object,
  work: Work,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { seriesCount, tagsData, tagsOffset } = bundle;
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  let text = '{"Metrics":[';
  for (let i = 0; i < seriesCount; i++) {
    const tags = tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!);
    const id = Buffer.from(idAt(bundle, i, tags)).toString('base64');
    const shown = decodeTags(tags).map(({ name, value }) => ({
      Name: base64(name),
      Value: base64(value),
    }));
    text += `${i === 0 ? '' : ','}{"ID":"${id}","Tags":{"Tags":${JSON.stringify(shown)}}}`;
    if (work.spend(seriesUnits)) await work.pause();
    if (text.length >= partLength) {
      yield Buffer.from(text);
      text = '';
    }
  }
  yield Buffer.from(`${text}],"Metadata":${JSON.stringify(metadata)}}`);
}

/** As storage has it, but of the tags that are shown. @param tags canonical */
function idAt(
  { idScheme, idData, idOffset }: SeriesBundle,
  index: number,
  tags: Uint8Array,
): Uint8Array {
  const explicit = idData.subarray(idOffset[index]!, idOffset[index + 1]!);
  const scheme = idScheme[index]!;
  // A field of messages is a series of answers alone, which has no ID in storage.
  const isWithout = scheme === idSchemeCode.explicit && explicit.length === 0;
  return seriesIdOf(isWithout ? idSchemeCode.quoted : scheme, tags, explicit) ?? explicit;
}

/** About what it takes to tell of a series, in units of work (lib/turns/turns.ts). */
const seriesUnits = 1000;

function matcherOfJson(fields: Fields): Matcher | null {
  const type = fields.uint('type', 0);
  const [name, value] = [textOf(fields, 'name'), textOf(fields, 'value')];
  fields.end();
  const matcher = matcherOfType[type];
  if (matcher === undefined) {
    throw fields.bad('type', `not a number from 0 to ${matcherOfType.length - 1}`, type);
  }
  return matcher(name, value);
}

function textOf(fields: Fields, key: string): string {
  const text = fields.string(key, '');
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw fields.bad(key, 'not base64', text);
  return Buffer.from(text, 'base64').toString();
}

/** Null when it is not given. */
function boundOf(fields: Fields, key: string): bigint | null {
  const value = fields.any(key);
  if (value === undefined || value === '') return null;
  if (typeof value === 'number' || typeof value === 'string') {
    return parseBoundNanos(String(value), key);
  }
  throw fields.bad(key, 'not a time', value);
}

/** The end of a search is inclusive. */
function rangeOf(startNanos: bigint, endNanos: bigint): SelectRange {
  checkOrder(startNanos, endNanos);
  return { startNanos, endNanos: endNanos + 1n };
}

function headersOf(
  { timeoutMillis, limits }: ReadOptions,
  exhaustive: boolean,
  warnings: readonly string[],
): Record<string, string> {
  const outcome = { timeoutMillis, seriesLimited: !exhaustive, warnings, read: limits.read };
  return answerHeaders(outcome);
}
