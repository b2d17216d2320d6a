/**
 * What all readers of JSON fields share: each key once, whatever its spelling, and errors that name
 * a field by its path and show its value.
 */
import { badRequest, shownText } from '#lib/errors.ts';

const shownMax = 200;

/** `shards[0].id` for the key `id` inside `shards[0]`; the path of the body is ''. */
export function fieldPath(path: string, key: string): string {
  const shown = shownText(key);
  return path === '' ? shown : `${path}.${shown}`;
}

/** A value as JSON for an error, cut after some 200 characters. */
export function shownJson(value: unknown): string {
  if (typeof value === 'bigint') return `${value}`;
  const text = JSON.stringify(value, bigintsAsText) ?? 'nothing';
  return text.length > shownMax ? `${text.slice(0, shownMax)}…` : text;
}

function bigintsAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value;
}

/**
 * The fields of an object by the one spelling that its reader knows.
 * @param path of the value, '' for the body of a request
 * @throws {TsdbError} BAD_REQUEST when it is no object, or has a key in two spellings
 */
export function fieldsBySpelling<T>(
  value: T,
  path: string,
  spellingOf: (key: string) => string,
): Map<string, T> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badRequest(
      `${path === '' ? 'request body' : path}: not a JSON object: ${shownJson(value)}`,
    );
  }
  const fields = new Map<string, T>();
  for (const [key, field] of Object.entries(value) as [string, T][]) {
    const spelling = spellingOf(key);
    if (fields.has(spelling)) throw badRequest(`${fieldPath(path, key)}: field is given twice`);
    fields.set(spelling, field);
  }
  return fields;
}
