/** JSON writes: one object, a list of them, or one on each line. */
import { TsdbError } from '#lib/errors.ts';
import { readJsonList } from '#lib/json/list.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { IngestRow, IngestRows } from '../../ingest/ingest.ts';
import type { IngestMessage } from '../../ingest/messages.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  checkNotEmpty,
  emptyAnswer,
  mediaTypeOf,
  refuseEncoded,
} from '../../http/http_api.ts';
import { jsonRowsMax } from '../../http/limits.ts';
import { Places } from '../../http/places.ts';
import type { JsonLinesSetup } from '../lines/json_lines.ts';
import { rowOfJson } from './row.ts';
import { hasRowLines, writeRowLines } from './rows.ts';

const linesMediaTypes: ReadonlySet<string> = new Set([
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
]);

/**
 * Of lists that are worked on at the same time; others wait. What is made of them takes about ten times as much. Short ones wait for
 * nobody.
 */
const listBytesMax = 8 << 20;
const shortBytes: number = 16 << 10;

const places = new Places(listBytesMax);

export async function jsonWrite(
  setup: JsonLinesSetup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  const areLines = linesMediaTypes.has(mediaTypeOf(request));
  if (!areLines) refuseEncoded(request);
  const bytes = checkNotEmpty(await body());
  const { ingest } = setup;
  const named = request.urlParameters.get('namespace') || null;
  if (areLines || hasRowLines(bytes)) {
    const encoding = request.header('content-encoding');
    await writeRowLines(setup, bytes, encoding, named, ingest.begin(request.signal));
    return emptyAnswer;
  }
  const write = async (): Promise<void> => {
    const work = ingest.begin(request.signal);
    const { rows, problems } = await rowsOfJson(bytes, work);
    await ingest.rows(rows, problems, named, work);
  };
  if (bytes.length <= shortBytes) await write();
  else {
    // Rows of a list are objects, until all of it is written.
    await places.take(request.signal, bytes.length);
    try {
      await write();
    } finally {
      places.give(bytes.length);
    }
  }
  return emptyAnswer;
}

/**
 * Rows of a JSON write: one object, or a list of them.
 * @returns good rows, and for each bad row of a list its reason; a single bad object throws
 * @throws {TsdbError} BAD_REQUEST
 */
export async function rowsOfJson(
  body: Uint8Array,
  work: Work,
): Promise<{ readonly rows: IngestRows; readonly problems: readonly string[] }> {
  const floats: IngestRow[] = [];
  const messages: IngestMessage[] = [];
  const problems: string[] = [];
  const { isList, parts } = readJsonList(body, jsonRowsMax, work);
  for await (const { firstIndex, values, twice, refusal } of parts) {
    if (refusal !== null) {
      problems.push(`row ${firstIndex}: ${refusal}`);
      continue;
    }
    for (const [at, item] of values.entries()) {
      try {
        const row = rowOfJson(item, twice.get(at));
        if ('json' in row) messages.push(row);
        else floats.push(row);
      } catch (error) {
        if (!isList || !(error instanceof TsdbError)) throw error;
        problems.push(`row ${firstIndex + at}: ${error.message}`);
      }
      if (work.spend(rowUnits)) await work.pause();
    }
  }
  return { rows: { floats, messages }, problems };
}

/** About what it takes to check a row, in units of work (lib/turns/turns.ts). */
const rowUnits = 200;
