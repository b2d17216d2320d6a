/**
 * The level of formats (lib/format_level.ts) that is finished for a cluster, as the key-value store
 * holds it: every process reads it, and none goes back to a release that does not. It never falls.
 */
import { formatLevelFirst } from '#lib/format_level.ts';
import { Fields } from '../fields.ts';
import { encodeJson } from '../kv/stored_json.ts';

/**
 * The level that a value of the key says; that of release 0.1.0 when there is none.
 * @throws {TsdbError} BAD_REQUEST when it cannot be read
 */
export function finishedLevelOf(value: Uint8Array | null): number {
  if (value === null) return formatLevelFirst;
  const text = new TextDecoder().decode(value);
  const fields = Fields.ofStored(JSON.parse(text), '', []);
  const level = fields.uint('level', 0);
  if (level < formatLevelFirst) {
    throw fields.bad('level', `not a whole number from ${formatLevelFirst}`, level);
  }
  return level;
}

export function finishedLevelValue(level: number): Uint8Array {
  return encodeJson({ level });
}
