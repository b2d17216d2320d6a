/**
 * `tagSeries`, `tagMultiSeries` and `delSeries`. There is no database of tags beside the series: what has samples has its tags, so
 * nothing is registered, and who deletes a series of it deletes the series.
 */
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { Turns } from '#lib/turns/turns.ts';
import { type ApiAnswer, type ApiRequest, jsonAnswer } from '../../http/http_api.ts';
import type { Matcher, QueryStorage } from '../../select/storage.ts';
import { canonicalPath, matchersOfPath, taggedPath } from '../storage/tagged_path.ts';

export interface TagWritesSetup {
  /** The series that a request may delete, with all of their tags, also those that answers leave out. */
  readonly storageFor: (request: ApiRequest) => Pick<QueryStorage, 'labelNames'>;
  readonly clock: Clock;
  readonly timeoutMillis: number;
  /** @param selectors of PromQL */
  readonly deleteSeries: (request: ApiRequest, selectors: readonly string[]) => Promise<ApiAnswer>;
}

export interface TagPathsSetup {
  readonly turningOf: (signal: AbortSignal) => Turning;
}

/** Of a character of a path, in units of work (lib/turns/turns.ts). */
const characterUnits = 20;

/** Series of one deletion. */
const deletedMax = 100;
/** Of all time. */
const range = { startNanos: 0n, endNanos: 2n ** 63n - 1n };
/** Of a majority, whatever queries are content with: a tag that is not known of would not keep its series from being deleted. */
const limits = { seriesMax: 0, requireExhaustive: true, consistency: 'majority' } as const;

export function tagSeries(
  _setup: null,
  _request: ApiRequest,
  parameters: URLSearchParams,
): ApiAnswer {
  return jsonAnswer(canonicalPath(taggedPath(pathsOf(parameters)[0]!)));
}

export async function tagMultiSeries(
  { turningOf }: TagPathsSetup,
  { signal }: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const { work } = turningOf(signal);
  const paths: string[] = [];
  for (const path of pathsOf(parameters)) {
    paths.push(canonicalPath(taggedPath(path)));
    if (work.spend(characterUnits * path.length)) await work.pause();
  }
  return jsonAnswer(paths);
}

/** Answers true also where there was no such series, as Graphite does. */
export async function delSeries(
  setup: TagWritesSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const paths = pathsOf(parameters);
  if (paths.length > deletedMax) {
    throw badRequest(`path: more than ${deletedMax}: ${paths.length}`);
  }
  const signal = setup.clock.deadline(setup.timeoutMillis, request.signal);
  const storage = setup.storageFor(request);
  const work = Turns.of(setup.clock).begin(signal);
  const selectors: string[] = [];
  for (const path of paths) {
    const matchers = matchersOfPath(taggedPath(path));
    const names = storage.labelNames([matchers], range, limits, signal);
    const { values } = await work.outside(names);
    if (values.length > 0) selectors.push(selectorOf(matchers, values));
  }
  if (selectors.length === 0) return jsonAnswer(true);
  const { headers } = await setup.deleteSeries(request, selectors);
  return jsonAnswer(true, headers);
}

function pathsOf(parameters: URLSearchParams): string[] {
  const paths = parameters.getAll('path');
  if (paths.length === 0 || paths.includes('')) throw badRequest('path: no path specified');
  return paths;
}

/** Of the series that has these tags alone. @param names of the series that have them, maybe among others */
function selectorOf(matchers: readonly Matcher[], names: readonly string[]): string {
  const own = new Set(matchers.map(({ name }) => name));
  const absent = names
    .filter((name) => !own.has(name))
    .map((name): Matcher => ({ name, kind: '=', value: '' }));
  const texts = [...matchers, ...absent].map(
    ({ name, value }) => `${JSON.stringify(name)}=${JSON.stringify(value)}`,
  );
  return `{${texts.join(',')}}`;
}
