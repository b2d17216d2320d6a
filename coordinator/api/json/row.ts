/** A row of a JSON write: `{"tags":{…},"timestamp":…,"value":…}`. */
import { badRequest, shownText } from '#lib/errors.ts';
import { shownJson } from '#lib/json_fields.ts';
import { keyTwiceText } from '#lib/json/text.ts';
import { type Tag } from '#lib/tags.ts';
import { nanosPerSecond, parseTimestampNanos } from '#lib/time.ts';
import type { JsonValue } from '#engine/messages/json.ts';
import type { IngestRow } from '../../ingest/ingest.ts';
import type { IngestMessage } from '../../ingest/messages.ts';

const fieldNames: ReadonlySet<string> = new Set(['tags', 'timestamp', 'value']);

/**
 * @param keyTwice a key that stands twice in it, of which only one value is left
 * @throws {TsdbError} BAD_REQUEST
 */
export function rowOfJson(item: unknown, keyTwice: string | undefined): IngestRow | IngestMessage {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) {
    throw badRequest(`not an object with tags, timestamp and value: ${shownJson(item)}`);
  }
  if (keyTwice !== undefined) throw badRequest(keyTwiceText(keyTwice));
  const fields = item as Record<string, unknown>;
  for (const name of fieldNames) {
    if (fields[name] === undefined || fields[name] === null) {
      throw badRequest(`missing required field: ${name}`);
    }
  }
  const unknown = Object.keys(fields).find((name) => !fieldNames.has(name));
  if (unknown !== undefined) throw badRequest(`unknown field: ${shownText(unknown)}`);
  const row = {
    tags: tagsOfJson(fields['tags']),
    timestampNanos: timestampOfJson(fields['timestamp']),
  };
  const { value } = fields;
  if (typeof value === 'object' && !Array.isArray(value))
    return { ...row, json: value as JsonValue };
  return { ...row, value: valueOfJson(value) };
}

function tagsOfJson(value: unknown): Tag[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badRequest(`tags: not an object of names to values: ${shownJson(value)}`);
  }
  return Object.entries(value).map(([name, tag]) => {
    const path = `tags.${shownText(name)}`;
    if (typeof tag !== 'string') throw badRequest(`${path}: not a string: ${shownJson(tag)}`);
    // As bytes several of them would be the same tag.
    if (!name.isWellFormed() || !tag.isWellFormed()) {
      throw badRequest(`${path}: not Unicode, a half of a surrogate pair alone: ${shownJson(tag)}`);
    }
    return { name, value: tag };
  });
}

/** Unix seconds, as a number or as text; text may also be RFC 3339. */
function timestampOfJson(value: unknown): bigint {
  if (typeof value === 'string') return parseTimestampNanos(value, 'timestamp');
  if (typeof value !== 'number') {
    throw badRequest(`timestamp: not a number or text: ${shownJson(value)}`);
  }
  // The shortest decimal text of the number is what the sender wrote.
  if (Number.isInteger(value) && Number.isSafeInteger(value)) {
    return parseTimestampNanos(String(value), 'timestamp');
  }
  if (Math.abs(value) >= 1e21 || !Number.isFinite(value)) {
    throw badRequest(`timestamp: out of range (unix seconds expected): ${value}`);
  }
  if (Math.abs(value) < 1e-6) return BigInt(Math.round(value * Number(nanosPerSecond)));
  return parseTimestampNanos(String(value), 'timestamp');
}

function valueOfJson(value: unknown): number {
  if (typeof value !== 'number') {
    throw badRequest(`value: not a number, or an object: ${shownJson(value)}`);
  }
  // JSON has no infinities: it was a number such as 1e400.
  if (!Number.isFinite(value)) throw badRequest('value: out of range, beyond 1.8e308 either way');
  return value;
}
