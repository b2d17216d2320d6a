/** Messages as they were written: series of a namespace with a schema, their values as JSON. */
import type { Turning } from '#engine/aside/aside.ts';
import { floatJson } from '#engine/messages/json.ts';
import { type ShownSchemas, typedValueJson, withFields } from '#engine/messages/value_json.ts';
import { valueKind, valueLayout } from '#engine/typed/typed_value.ts';
import { mixedSlices } from '#engine/store/read/mixed_slices.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { decodeTags } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { secondsText } from '../ingest/writing/refusals.ts';
import { type ApiAnswer, type ApiRequest, jsonContentType } from '../http/http_api.ts';
import { laterSchemaWarning } from '../select/message_source.ts';
import { fieldLabel } from '../select/field_series.ts';
import { withoutTags } from '../forced_tags/forced_tags.ts';
import type {
  MessagesOfNamespace,
  SelectRange,
  SelectResult,
  StorageFor,
} from '../select/storage.ts';
import type { ParseSelectors } from './labels.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import {
  boundParameter,
  checkOrder,
  checkRange,
  ofParameter,
  selectorsOf,
} from '../http/parameters.ts';
import { type QuerySettings, rangeMillisMaxOf, readOptionsOf } from '../reads/options.ts';

export interface MessagesApiSetup {
  /** The READY ones of the moment. */
  readonly storageFor: StorageFor<ApiRequest>;
  readonly parseSelectors: ParseSelectors;
  readonly turningOf: (signal: AbortSignal) => Turning;
  readonly settings: QuerySettings;
  readonly clock: Clock;
}

/** @throws {TsdbError} BAD_REQUEST naming the parameter; as `QueryStorage.select` */
export async function queryMessages(
  { storageFor, parseSelectors, turningOf, settings, clock }: MessagesApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const storage = storageFor(request);
  const { source, schemas } = namespaceOf(storage.messages(), parameters.get('namespace') ?? '');
  const selectors = selectorsOf(parameters, 1);
  if (selectors.length > 1) throw badRequest(`match[]: one selector, not ${selectors.length}`);
  const now = clock.nowNanos();
  const startNanos = boundParameter(parameters, 'start', now, 0n);
  const lastNanos = boundParameter(parameters, 'end', now, now);
  checkOrder(startNanos, lastNanos);
  if ((parameters.get('start') ?? '') !== '') {
    checkRange(startNanos, lastNanos, rangeMillisMaxOf(request, parameters, settings));
  }
  const paths = fieldPathsOf(parameters);
  const shown: ShownSchemas = {
    has: (layout) => schemas.has(layout),
    shown: paths.length === 0 ? schemas.shown : withFields(schemas.shown, paths),
  };
  const { timeoutMillis, limits } = readOptionsOf(request, parameters, settings);
  const signal = clock.deadline(timeoutMillis, request.signal);
  const [matchers = []] = await ofParameter(
    'match[]',
    parseSelectors(selectors, turningOf(signal)),
  );
  if (matchers.some(({ name }) => name === fieldLabel)) {
    throw badRequest(`match[]: fields are named by the parameter fields: leave out ${fieldLabel}`);
  }
  // The end of such a request is inclusive.
  const range = { startNanos, endNanos: lastNanos + 1n };
  const found = await source.select(matchers, range, limits, signal);
  const { exhaustive, warnings } = found;
  const { work } = turningOf(signal);
  const bundle = await withoutTags(found.bundle, storage.hidden, work);
  return {
    status: 200,
    headers: {
      'Content-Type': jsonContentType,
      ...answerHeaders({
        timeoutMillis,
        seriesLimited: !exhaustive,
        warnings,
        seriesCount: bundle.seriesCount,
      }),
    },
    body: messagesJson(
      { ...found, bundle },
      range,
      shown,
      (layout) => schemas.isLater(layout),
      work,
    ),
  };
}

/** Of one request: no schema has more fields, nor a name as long. */
const fieldPathsMax = 4096;
const fieldPathLengthMax = 1024;

/** @throws {TsdbError} BAD_REQUEST naming the parameter */
function fieldPathsOf(parameters: URLSearchParams): string[] {
  const paths: string[] = [];
  for (const each of parameters.getAll('fields')) {
    paths.push(...each.split(',', fieldPathsMax + 1));
    if (paths.length > fieldPathsMax) throw badRequest(`fields: more than ${fieldPathsMax}`);
  }
  const long = paths.find(({ length }) => length > fieldPathLengthMax);
  if (long === undefined) return paths.filter(Boolean);
  throw badRequest(
    `fields: one has more than ${fieldPathLengthMax} characters: ${shownText(long)}`,
  );
}

function namespaceOf(all: readonly MessagesOfNamespace[], named: string): MessagesOfNamespace {
  const names = all.map(({ name }) => name).join(', ');
  if (named !== '') {
    const found = all.find(({ name }) => name === named);
    if (found !== undefined) return found;
    const others = names === '' ? 'none has' : `of these: ${names}`;
    throw badRequest(
      `namespace: none of this name is ready and has a schema (${others}): ${named}`,
    );
  }
  const [only, ...others] = all;
  if (only === undefined) {
    throw new TsdbError('NOT_FOUND', 'no ready namespace has a schema');
  }
  if (others.length > 0)
    throw badRequest(`namespace: missing, and several have a schema: ${names}`);
  return only;
}

/** Text that is handed to the connection at once. */
const partLength = 64 * 1024;
/** About what it takes to decode a row and tell it, in units of work. */
const rowUnits = 500;
/** The same of a series. */
const seriesUnits = 200;

/** Series with a row at least; times in seconds, as in answers of queries. */
async function* messagesJson(
  { bundle, warnings }: SelectResult,
  range: SelectRange,
  shown: ShownSchemas,
  isLater: (layout: number) => boolean,
  work: Work,
): AsyncIterable<Uint8Array> {
  let isBehind = false;
  let text = '{"status":"success","data":[';
  let isFirst = true;
  const { tagsData, tagsOffset, chunkData, chunkOffset } = bundle;
  for (let i = 0; i < bundle.seriesCount; i++) {
    let isOpen = false;
    const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
    if (work.spend(seriesUnits)) await work.pause();
    for (const { timestampNanos, values, typed } of mixedSlices(chunks, range)) {
      for (const [row, nanos] of timestampNanos.entries()) {
        // Rows that are not shown take their time, too.
        if (work.spend(rowUnits)) await work.pause();
        const value = typed[row] ?? null;
        const json = value === null ? floatJson(values[row]!) : typedValueJson(value, shown);
        if (json === null) {
          if (value?.[0] === valueKind.message && isLater(valueLayout(value, 0, value.length))) {
            isBehind = true;
          }
          continue;
        }
        if (!isOpen) {
          const tags = decodeTags(tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!));
          const metric = Object.fromEntries(tags.map((tag) => [tag.name, tag.value]));
          text += `${isFirst ? '' : ','}{"metric":${JSON.stringify(metric)},"values":[`;
          isFirst = false;
        }
        text += `${isOpen ? ',' : ''}[${secondsText(nanos)},${JSON.stringify(json)}]`;
        isOpen = true;
        if (text.length < partLength) continue;
        yield Buffer.from(text);
        text = '';
      }
    }
    if (isOpen) text += ']}';
  }
  const all = isBehind ? [...warnings, laterSchemaWarning] : warnings;
  const rest = all.length === 0 ? '' : `,"warnings":${JSON.stringify(all)}`;
  yield Buffer.from(`${text}]${rest}}`);
}
