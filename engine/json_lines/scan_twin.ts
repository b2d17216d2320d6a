/** What a line is, by JSON.parse: the definition of scan.ts. */
import { bitsOfText, nanBits } from './values.ts';

export interface TwinLine {
  readonly metric: string;
  readonly millis: readonly number[];
  readonly valueBits: readonly bigint[];
}

/** @returns null when it is none, or the last line of an export */
export function lineOf(text: string): TwinLine | null {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof line !== 'object' || line === null || Array.isArray(line)) return null;
  const { metric, values, timestamps, ...others } = line as Record<string, unknown>;
  if (Object.keys(others).length > 0 || !isObjectOfNoLists(metric)) return null;
  if (!Array.isArray(values) || !Array.isArray(timestamps)) return null;
  if (values.length !== timestamps.length) return null;
  if (!timestamps.every((millis) => Number.isSafeInteger(millis))) return null;
  const valueBits = values.map(bitsOfValue);
  if (valueBits.includes(null)) return null;
  return { metric: JSON.stringify(metric), millis: timestamps, valueBits: valueBits as bigint[] };
}

function isObjectOfNoLists(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((each) => typeof each !== 'object' || each === null);
}

function bitsOfValue(value: unknown): bigint | null {
  if (value === null) return nanBits;
  if (typeof value === 'string') return bitsOfText(value);
  if (typeof value !== 'number' || !Number.isFinite(value)) return null;
  return new BigUint64Array(Float64Array.of(value).buffer)[0]!;
}
