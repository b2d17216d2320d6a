/**
 * `tagSeries`, `tagMultiSeries` and `delSeries`. There is no database of tags beside the series: what has samples has its tags, so
 * nothing is registered, and who deletes a series of it deletes the series.
 */
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { nodeTag } from '#lib/series_id/from_tags.ts';
import { metricNameTag } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import { type ApiAnswer, type ApiRequest, jsonAnswer } from '../../http/http_api.ts';
import type { Matcher, StorageFor } from '../../select/storage.ts';

export interface TagWritesSetup {
  readonly storageFor: StorageFor<ApiRequest>;
  readonly clock: Clock;
  readonly timeoutMillis: number;
  /** @param selectors of PromQL */
  readonly deleteSeries: (request: ApiRequest, selectors: readonly string[]) => Promise<ApiAnswer>;
}

export interface TagPathsSetup {
  readonly turningOf: (signal: AbortSignal) => Turning;
}

/** Of a path, as series have it: no other one is written. */
const pathLengthMax = 65_535;
const pathTagsMax = 1_024;
/** Of a character of a path, in units of work (lib/turns/turns.ts). */
const characterUnits = 20;

/** Series of one deletion. */
const deletedMax = 100;
/** Of all time. */
const range = { startNanos: 0n, endNanos: 2n ** 63n - 1n };
const limits = { seriesMax: 0, requireExhaustive: true };

interface TaggedPath {
  readonly metric: string;
  /** A path of nodes; one with tags, be it `name` alone, is a metric's name. */
  readonly isPath: boolean;
  /** By name, without that of the metric. */
  readonly tags: ReadonlyMap<string, string>;
}

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
  const selectors: string[] = [];
  for (const path of paths) {
    const matchers = matchersOf(taggedPath(path));
    const { values } = await storage.labelNames([matchers], range, limits, signal);
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

/** Names of tags are made ones as Carbon's lines have them (docs/LINES.md). */
function taggedPath(text: string): TaggedPath {
  const refused = (reason: string): Error => badRequest(`path: ${reason}: ${shownText(text)}`);
  if (text.length > pathLengthMax) {
    throw refused(`has ${text.length} characters, more than ${pathLengthMax}`);
  }
  // oxlint-disable-next-line no-control-regex -- they end paths
  if (/[\u0000-\u0020\u007f]/.test(text)) throw refused('a space or control character is in it');
  if (text.includes('{') && text.endsWith('"}')) throw refused('not in the form name;tag=value');
  const [metric = '', ...pairs] = text.split(';');
  if (metric === '') throw refused('there is no name');
  if (pairs.length > pathTagsMax) {
    throw refused(`has ${pairs.length} tags, more than ${pathTagsMax}`);
  }
  const tags = new Map<string, string>();
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const [key, value] = [pair.slice(0, at), pair.slice(at + 1)];
    if (at <= 0 || value === '') throw refused('a tag is not in the form tag=value');
    if (key === 'name') continue;
    const bytes = Buffer.from(key).toString('latin1');
    const name = bytes.replace(/[^a-zA-Z0-9_]/g, '_').replace(/^\d/, '_');
    if (tags.has(name) || name === metricNameTag) throw refused(`two tags are ${name}`);
    tags.set(name, value);
  }
  const isPath = pairs.length === 0;
  if (!isPath) return { metric, isPath, tags };
  const path = metric.replace(/\.$/, '');
  // What stands for no node would match whatever has none there.
  if (path.split('.').includes('')) throw refused('a node is empty');
  return { metric: path, isPath, tags };
}

function canonicalPath({ metric, tags }: TaggedPath): string {
  const pairs = [...tags].map(([name, value]) => `${name}=${value}`).sort(compareTexts);
  return [metric, ...pairs].join(';');
}

function matchersOf({ metric, isPath, tags }: TaggedPath): Matcher[] {
  if (isPath) {
    return metric.split('.').map((value, node) => ({ name: nodeTag(node), kind: '=', value }));
  }
  const all = [[metricNameTag, metric] as const, ...tags];
  return all.map(([name, value]) => ({ name, kind: '=', value }));
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
