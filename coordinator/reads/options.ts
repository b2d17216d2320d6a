/**
 * What requests that read data may say about how they are answered. Of limits that several say, parameters, headers under either name
 * and the configuration, the tightest one counts, so that none loosens another.
 */
import { type ReadConsistency, readConsistencies } from '#cluster/session/consistency.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { parseBoundNanos } from '#lib/time.ts';
import { type ApiRequest, booleanOf, type NamedHeader, namedHeaders } from '../http/http_api.ts';
import { timeoutMillisMax } from '../http/limits.ts';
import { durationMillis } from '../http/parameters.ts';
import { wholeNumber } from '../http/whole_number.ts';
import { ReadNotes } from '../select/read_notes.ts';
import type { SelectLimits } from '../select/storage.ts';
import { choosingHeaders } from './namespace_choice.ts';
import type { ReturnedLimits } from './returned.ts';

/** Defaults and bounds from the configuration. */
export interface QuerySettings {
  readonly timeoutMillis: number;
  readonly lookbackMillis: number;
  /** 0 = no limit. */
  readonly seriesMax: number;
  /** 0 = no limit. */
  readonly rangeMillisMax: number;
  readonly requireExhaustive: boolean;
}

/** How far an instant selector looks back: a duration, or "step" for the step of the query. */
export function lookbackMillisOf(
  parameters: URLSearchParams,
  stepMillis: number | null,
  settings: QuerySettings,
): number {
  const text = parameters.get('lookback') || parameters.get('lookback_delta') || '';
  if (text === '') return settings.lookbackMillis;
  if (text === 'step') {
    if (stepMillis === null) throw badRequest('lookback: "step" needs a query with a step');
    return stepMillis;
  }
  const millis = Math.trunc(durationMillis(text, 'lookback'));
  if (millis < 1) throw badRequest(`lookback: must be at least 1ms: ${shownText(text)}`);
  return millis;
}

const seriesLimitNames = ['seriesLimit', 'limit'];
const docsLimitNames = ['docsLimit'];

/** What every request that reads data may say about how it is answered. */
export interface ReadOptions {
  /** Until the request is given up. */
  readonly timeoutMillis: number;
  readonly limits: SelectLimits;
  /** Longest time of one read; 0 = no limit. */
  readonly rangeMillisMax: number;
  readonly returned: ReturnedLimits;
}

/**
 * @param limitNames parameters that limit the series, the first one given counts
 * @throws {TsdbError} BAD_REQUEST naming what makes no sense
 */
export function readOptionsOf(
  request: ApiRequest,
  parameters: URLSearchParams,
  settings: QuerySettings,
  limitNames: readonly string[] = seriesLimitNames,
): ReadOptions {
  const said = new Said(request, parameters);
  checkEqualTimestamps(said);
  checkRelatedQueries(request);
  const noWait = ['Limit-Require-No-Wait', 'Limit-Require-NoWait'];
  if (noWait.some((header) => said.flag(header, 'requireNoWait') === true)) {
    request.readMemory.refuseWaits();
  }
  const seriesMax = said.count('Limit-Max-Series', limitNames);
  const docsMax = said.count('Limit-Max-Docs', docsLimitNames);
  const consistency = consistencyOf(said);
  return {
    timeoutMillis: timeoutMillisOf(said, settings),
    limits: {
      // A document of the index is a series.
      seriesMax: tightest([seriesMax, docsMax, settings.seriesMax]),
      requireExhaustive:
        said.flag('Limit-Require-Exhaustive', 'requireExhaustive') ?? settings.requireExhaustive,
      memory: request.readMemory,
      read: new ReadNotes(request.readMemory),
      ...(consistency === null ? {} : { consistency }),
    },
    rangeMillisMax: rangeMillisMaxOf(request, parameters, settings),
    returned: {
      seriesMax: said.count('Limit-Max-Returned-Series', ['returnedSeriesLimit']),
      rowsMax: said.count('Limit-Max-Returned-Datapoints', ['returnedDatapointsLimit']),
      namesMax: said.count('Limit-Max-Returned-SeriesMetadata', ['returnedSeriesMetadataLimit']),
    },
  };
}

/** Whether the request itself says how many series there may be. */
export function limitsSeries(request: ApiRequest, parameters: URLSearchParams): boolean {
  const said = new Said(request, parameters);
  const bySeries = said.texts('Limit-Max-Series', seriesLimitNames);
  const byDocs = said.texts('Limit-Max-Docs', docsLimitNames);
  return bySeries.length + byDocs.length > 0;
}

/** Longest time that a read of the request may be of; 0 = no limit. */
export function rangeMillisMaxOf(
  request: ApiRequest,
  parameters: URLSearchParams,
  settings: QuerySettings,
): number {
  const said = new Said(request, parameters).texts('Limit-Max-Range', ['rangeLimit']);
  const asked = said.map(({ name, value }) => durationMillis(value, name));
  return tightest([...asked, settings.rangeMillisMax]);
}

/** What the headers and parameters of a request say. */
class Said {
  readonly #request: ApiRequest;
  readonly #parameters: URLSearchParams;

  constructor(request: ApiRequest, parameters: URLSearchParams) {
    this.#request = request;
    this.#parameters = parameters;
  }

  /** @param names of parameters, of which the first one given counts */
  texts(header: string, names: readonly string[]): readonly NamedHeader[] {
    const parameter = names.find((name) => (this.#parameters.get(name) ?? '') !== '');
    const byHeaders = namedHeaders(this.#request, header).map(({ name, value }) => ({
      name: `header ${name}`,
      value,
    }));
    return parameter === undefined
      ? byHeaders
      : [...byHeaders, { name: parameter, value: this.#parameters.get(parameter)! }];
  }

  /** As `texts`, but without the parameter where a header is given. */
  words(header: string, names: readonly string[]): readonly NamedHeader[] {
    const all = this.texts(header, names);
    const byHeaders = namedHeaders(this.#request, header).length;
    return byHeaders === 0 ? all : all.slice(0, byHeaders);
  }

  /** 0 when nothing is said. */
  count(header: string, names: readonly string[]): number {
    return tightest(this.texts(header, names).map(({ name, value }) => wholeNumber(value, name)));
  }

  /** A header comes before the parameter, as in M3; true where headers differ. Null when nothing is said. */
  flag(header: string, parameter: string): boolean | null {
    const all = this.texts(header, [parameter]).map(({ name, value }) => booleanOf(value, name));
    if (all.length === 0) return null;
    const byHeaders = namedHeaders(this.#request, header).length;
    return byHeaders === 0 ? all[0]! : all.slice(0, byHeaders).includes(true);
  }
}

/** The smallest one of those that are limits: 0 and less is none. */
export function tightest(all: readonly number[]): number {
  const limits = all.filter((each) => each > 0);
  return limits.length === 0 ? 0 : Math.min(...limits);
}

function timeoutMillisOf(said: Said, settings: QuerySettings): number {
  const asked = said.texts('Timeout', ['timeout']).map(({ name, value }) => {
    const millis = Math.trunc(durationMillis(value, name));
    if (millis < 1) throw badRequest(`${name}: must be at least 1ms: ${shownText(value)}`);
    if (millis > timeoutMillisMax) {
      throw badRequest(`${name}: more than ${timeoutMillisMax / 1000}s: ${shownText(value)}`);
    }
    return millis;
  });
  return asked.length === 0 ? settings.timeoutMillis : Math.min(...asked);
}

/** Null where the configuration says it. Headers come before the parameter, as in M3. */
function consistencyOf(said: Said): ReadConsistency | null {
  const [first, second] = said.words('Read-Consistency-Level', ['readConsistencyLevel']);
  if (first === undefined) return null;
  if (second !== undefined && second.value !== first.value) {
    throw badRequest(`${first.name} and ${second.name} differ: ${shownText(second.value)}`);
  }
  const level = readConsistencies.find((each) => each === first.value);
  if (level !== undefined) return level;
  throw badRequest(
    `${first.name}: none of ${readConsistencies.join(', ')}: ${shownText(first.value)}`,
  );
}

/** M3 takes the parameter by the second of these names. */
const strategyNames = ['iterateEqualTimestampStrategy', 'iterateEqualTimestampStrategyHeader'];

/** Rows of one time are one by an order that all replicas have (docs/STORAGE.md), whoever asks. */
function checkEqualTimestamps(said: Said): void {
  for (const { name, value } of said.texts('Iterate-Equal-Timestamp-Strategy', strategyNames)) {
    if (value === 'iterate_last_pushed') continue;
    throw badRequest(
      `${name}: not supported but iterate_last_pushed: of rows of one time the one that was written last counts: ${shownText(value)}`,
    );
  }
}

/**
 * Ranges of the other queries of a page, `start:end;start:end` in Unix seconds, by which M3 takes one resolution for all of them. Here
 * each selector reads the finest that covers it, so that they change nothing; what makes no sense is refused as there.
 */
function checkRelatedQueries(request: ApiRequest): void {
  for (const { name, value } of namedHeaders(request, 'Related-Queries')) {
    const bad = (reason: string, what: string): Error =>
      badRequest(`header ${name}: ${reason}: ${shownText(what)}`);
    for (const pair of value.split(';')) {
      const times = pair.split(':');
      if (times.length !== 2) throw bad('not start:end in Unix seconds', pair);
      const [start, end] = times.map((text) => parseBoundNanos(text.trim(), `header ${name}`));
      if (start! > end!) throw bad('its start is after its end', pair);
    }
    const [other] = choosingHeaders.flatMap((each) => namedHeaders(request, each));
    if (other !== undefined) throw bad(`${other.name} is given, too`, value);
  }
}
