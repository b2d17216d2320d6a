/**
 * Exemplars and metadata as Prometheus answers them. Nothing is scraped here, so metadata is what senders have said, and the
 * targets of it have no labels.
 */
import type { Turning } from '#engine/aside/aside.ts';
import type { FamilyMetadata } from '#engine/typed/metadata.ts';
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { clampNanos } from '#lib/time.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Companion } from '#cluster/namespaces/companion.ts';
import {
  type CompanionSession,
  type Family,
  type ReadBounds,
  readExemplars,
  readMetadata,
  type SeriesExemplars,
  type TimedExemplar,
} from '../companions/reader.ts';
import { forcedLists, type ForcedTags } from '../forced_tags/forced_tags.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  type FormHandler,
  jsonAnswer,
  jsonContentType,
} from '../http/http_api.ts';
import { formatTime } from '../promql/evaluate/json.ts';
import type { PromqlFeatures } from '../promql/parse/features.ts';
import { parseQuery, takesNoLabels } from '../promql/parse/parser.ts';
import { selectorsOfQuery } from '../promql/parse/selectors.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import { boundParameter, checkRange, millisOfNanos, ofParameter } from '../http/parameters.ts';
import { type QuerySettings, readOptionsOf } from '../reads/options.ts';
import type { SelectLimits } from '../select/storage.ts';

export interface CompanionApiSetup {
  readonly session: CompanionSession;
  readonly forcedFor: (request: ApiRequest) => ForcedTags;
  readonly exemplars: Companion;
  readonly metadata: Companion;
  /** Families that one answer reads. */
  readonly familiesMax: number;
  readonly features: PromqlFeatures;
  readonly turningOf: (signal: AbortSignal) => Turning;
  readonly settings: QuerySettings;
  /** Rows that an answer holds. */
  readonly samplesMax: number;
  readonly clock: Clock;
}

const int64Max = 2n ** 63n - 1n;

export const queryExemplars: FormHandler<CompanionApiSetup> = async (
  setup,
  request,
  parameters,
) => {
  const { clock, features, settings } = setup;
  const now = clock.nowNanos();
  const startNanos = timeOf(parameters, 'start', now, -int64Max);
  const endNanos = timeOf(parameters, 'end', now, int64Max);
  if (endNanos < startNanos) {
    throw badRequest('end timestamp must not be before start timestamp');
  }
  const options = readOptionsOf(request, parameters, settings, ['seriesLimit']);
  const { timeoutMillis, limits, rangeMillisMax } = options;
  const isGiven = (name: string): boolean => (parameters.get(name) ?? '') !== '';
  // Without a start everything is asked for, which is no range that a limit is about.
  if (isGiven('start')) checkRange(startNanos, isGiven('end') ? endNanos : now, rangeMillisMax);
  const signal = clock.deadline(timeoutMillis, request.signal);
  const turning = setup.turningOf(signal);
  const query = parameters.get('query') ?? '';
  if (query.trim() === '') {
    throw badRequest('unknown position: parse error: no expression found in input');
  }
  const expr = await parseQuery(query, features, turning);
  const forced = setup.forcedFor(request);
  const lists = selectorsOfQuery(expr);
  // As Prometheus has it.
  if (lists.length === 0) return { status: 204, headers: {}, body: '' };
  if (setup.exemplars.namespace === undefined) return jsonAnswer({ status: 'success', data: [] });
  const range = [
    BigInt(millisOfNanos(clampNanos(startNanos))),
    BigInt(millisOfNanos(clampNanos(endNanos))),
  ] as const;
  const bounds = boundsOf(limits, setup, request);
  const restricted = forcedLists(lists, forced);
  const found = await orEmpty(
    readExemplars(setup.session, restricted, range, bounds, turning, signal),
    { series: [], warnings: [] },
  );
  const texts = (series: SeriesExemplars): Iterable<string> => seriesTexts(series, forced.hidden);
  return listAnswer(found.series, texts, found.warnings, timeoutMillis, turning.work);
};

/** @throws {TsdbError} BAD_REQUEST in Prometheus' words */
function timeOf(
  parameters: URLSearchParams,
  name: string,
  nowNanos: bigint,
  absent: bigint,
): bigint {
  try {
    return boundParameter(parameters, name, nowNanos, absent);
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    const text = JSON.stringify(shownText(parameters.get(name) ?? ''));
    throw badRequest(
      `invalid parameter ${JSON.stringify(name)}: invalid time value for '${name}': cannot parse ${text} to a valid timestamp`,
      { cause: error },
    );
  }
}

function* seriesTexts(
  { tags, exemplars }: SeriesExemplars,
  hidden: ReadonlySet<string>,
): Generator<string> {
  const shown = tags.filter(({ name }) => !hidden.has(name));
  yield `{"seriesLabels":${labelsText(shown)},"exemplars":[`;
  for (const [i, exemplar] of exemplars.entries()) {
    yield i === 0 ? exemplarText(exemplar) : `,${exemplarText(exemplar)}`;
  }
  yield ']}';
}

function exemplarText({ labels, value, timestampMillis }: TimedExemplar): string {
  return `{"labels":${labelsText(labels)},"value":"${formatNumber(value)}","timestamp":${formatTime(Number(timestampMillis))}}`;
}

/** Names may come twice, and then do so here. */
function labelsText(labels: readonly { readonly name: string; readonly value: string }[]): string {
  const pairs = labels.map(({ name, value }) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${pairs.join(',')}}`;
}

export const metadata: FormHandler<CompanionApiSetup> = async (setup, request, parameters) => {
  const limit = numberOf(parameters, 'limit');
  const perMetric = numberOf(parameters, 'limit_per_metric');
  const call = await familiesOf(setup, request, parameters.get('metric') ?? '');
  const families = limit >= 0 ? call.families.slice(0, limit) : call.families;
  const familyTexts = ({ name, entries }: Family): string[] => {
    const shown = perMetric > 0 ? entries.slice(0, perMetric) : entries;
    return [`${JSON.stringify(name)}:${JSON.stringify(shown.map(metadataJson))}`];
  };
  return listAnswer(
    families,
    familyTexts,
    call.warnings,
    setup.settings.timeoutMillis,
    call.work,
    '{}',
  );
};

function metadataJson({ type, unit, help }: FamilyMetadata): object {
  return { type, unit, help };
}

export const targetsMetadata: FormHandler<CompanionApiSetup> = async (
  setup,
  request,
  parameters,
) => {
  const limit = numberOf(parameters, 'limit');
  const metric = parameters.get('metric') ?? '';
  const asked = parameters.get('match_target') ?? '';
  const { work, ...call } = await familiesOf(setup, request, metric);
  let { families } = call;
  if (asked !== '') {
    // Targets have no labels here.
    const takesAll = await ofParameter(
      'match_target',
      takesNoLabels(asked, setup.turningOf(request.signal)),
    );
    if (!takesAll) families = [];
  }
  const all = families.flatMap(({ name, entries }) =>
    entries.map(({ type, help, unit }) => ({
      target: {},
      ...(metric === '' ? { metric: name } : {}),
      type,
      help,
      unit,
    })),
  );
  const items = limit >= 0 ? all.slice(0, limit) : all;
  const { timeoutMillis } = setup.settings;
  return listAnswer(items, (item) => [JSON.stringify(item)], call.warnings, timeoutMillis, work);
};

async function familiesOf(
  setup: CompanionApiSetup,
  request: ApiRequest,
  metric: string,
): Promise<{
  readonly families: readonly Family[];
  readonly warnings: readonly string[];
  readonly work: Work;
}> {
  const { clock, familiesMax, settings } = setup;
  const { timeoutMillis, limits } = readOptionsOf(request, request.urlParameters, settings, []);
  const signal = clock.deadline(timeoutMillis, request.signal);
  const { work } = setup.turningOf(signal);
  const none = { families: [], warnings: [] };
  const { namespace } = setup.metadata;
  if (namespace === undefined) return { ...none, work };
  const { retentionPeriodNanos, bufferFutureNanos } = namespace.options.retentionOptions;
  const now = clock.nowNanos();
  const range = [now - retentionPeriodNanos, now + bufferFutureNanos] as const;
  const bounds = { ...boundsOf(limits, setup, request), seriesMax: familiesMax };
  const found = await orEmpty(
    readMetadata(setup.session, metric, range, bounds, work, signal),
    none,
  );
  return { ...found, work };
}

function boundsOf(
  { seriesMax, consistency }: SelectLimits,
  { samplesMax }: CompanionApiSetup,
  { readMemory }: ApiRequest,
): ReadBounds {
  const bounds = { seriesMax, samplesMax, memory: readMemory };
  return consistency === undefined ? bounds : { ...bounds, consistency };
}

/** A namespace that goes while it is read has nothing. */
async function orEmpty<Found>(reading: Promise<Found>, empty: Found): Promise<Found> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof TsdbError && error.code === 'NOT_FOUND') return empty;
    throw error;
  }
}

/** As Go reads a whole number; -1 when there is none. @throws {TsdbError} BAD_REQUEST in Prometheus' words */
function numberOf(parameters: URLSearchParams, name: string): number {
  const text = parameters.get(name) ?? '';
  if (text === '') return -1;
  if (!/^[+-]?\d{1,18}$/.test(text)) throw badRequest(`${name} must be a number`);
  return Number(text);
}

/** Texts are sent some at a time. */
const pieceCharacters = 65_536;
/** About what it takes to print a character, in units of work. */
const characterUnits = 10;

function listAnswer<Item>(
  items: readonly Item[],
  textsOf: (item: Item) => Iterable<string>,
  warnings: readonly string[],
  timeoutMillis: number,
  work: Work,
  brackets: '[]' | '{}' = '[]',
): ApiAnswer {
  async function* pieces(): AsyncGenerator<Uint8Array> {
    let text = `{"status":"success","data":${brackets[0]}`;
    for (const [index, item] of items.entries()) {
      if (index > 0) text += ',';
      for (const part of textsOf(item)) {
        text += part;
        if (work.spend(part.length * characterUnits)) await work.pause();
        if (text.length < pieceCharacters) continue;
        yield Buffer.from(text);
        text = '';
      }
    }
    const said = warnings.length === 0 ? '' : `,"warnings":${JSON.stringify(warnings)}`;
    yield Buffer.from(`${text}${brackets[1]}${said}}`);
  }
  return {
    status: 200,
    headers: {
      'Content-Type': jsonContentType,
      ...answerHeaders({ timeoutMillis, seriesLimited: false, warnings }),
    },
    body: pieces(),
  };
}
