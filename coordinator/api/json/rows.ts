/** JSON writes of many rows, an object on each line. */
import { TsdbError } from '#lib/errors.ts';
import { elementValuesMax } from '#lib/json/list.ts';
import { readJson } from '#lib/json/text.ts';
import { tagsProblem, type TagRules } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { decodedChunks } from '../../http/decoding.ts';
import type { IngestRow } from '../../ingest/ingest.ts';
import type { IngestMessage } from '../../ingest/messages.ts';
import { seriesText } from '../../ingest/writing/refusals.ts';
import type { JsonLinesSetup } from '../lines/json_lines.ts';
import { rowOfJson } from './row.ts';

const lineFeed = 0x0a;
const openObject = 0x7b;
const closeObject = 0x7d;

/** Whether a line ends behind an object where the next one begins, as in no JSON. */
export function hasRowLines(body: Uint8Array): boolean {
  if (body[nextInk(body, 0)] !== openObject) return false;
  const feed = body.indexOf(lineFeed, nextInk(body, 0));
  if (feed < 0 || body[nextInk(body, feed)] !== openObject) return false;
  let last = feed;
  while (isBlank(body[last]!)) last -= 1;
  return body[last] === closeObject;
}

/** Where the next byte stands that is no blank. */
function nextInk(body: Uint8Array, from: number): number {
  let at = from;
  while (at < body.length && isBlank(body[at]!)) at += 1;
  return at;
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === lineFeed || byte === 0x0d || byte === 0x09;
}

/** @throws {TsdbError} as `Ingest.jsonRows` */
export async function writeRowLines(
  { ingest, series, tagRules }: JsonLinesSetup,
  body: Uint8Array,
  encoding: string,
  named: string | null,
  work: Work,
): Promise<void> {
  const chunks = decodedChunks(body, encoding, work.signal);
  await ingest.jsonRows(series, (line) => rowOfLine(line, tagRules), chunks, named, work);
}

/** A row whose tags are checked, or why it is none. */
function rowOfLine(line: Uint8Array, tagRules: TagRules): IngestRow | IngestMessage | string {
  try {
    const { value, twice } = readJson(line, { valuesMax: elementValuesMax });
    const row = rowOfJson(value, twice.get(0));
    const problem = tagsProblem(row.tags, tagRules);
    return problem === null ? row : `${seriesText(row.tags)}: ${problem}`;
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    return error.message.replace('the request body', 'it');
  }
}
