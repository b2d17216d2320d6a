/** What a row is, by JSON.parse: the definition of scan.ts, which may leave rows to who calls it, and reads none otherwise. */
import { parseTimestampNanos } from '#lib/time.ts';

export interface TwinRow {
  readonly tags: string;
  readonly timestampNanos: bigint;
  readonly value: number;
}

/** So small a number is not printed as it was written. */
const printedMin = 1e-6;

/** @returns null when it is none, or one whose value is no number */
export function rowOf(text: string): TwinRow | null {
  let row: unknown;
  try {
    row = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof row !== 'object' || row === null || Array.isArray(row)) return null;
  const { tags, timestamp, value, ...others } = row as Record<string, unknown>;
  if (Object.keys(others).length > 0 || typeof value !== 'number' || !Number.isFinite(value)) {
    return null;
  }
  if (typeof tags !== 'object' || tags === null || Array.isArray(tags)) return null;
  if (typeof timestamp !== 'string' && typeof timestamp !== 'number') return null;
  try {
    return { tags: JSON.stringify(tags), timestampNanos: nanosOf(timestamp), value };
  } catch {
    return null;
  }
}

function nanosOf(timestamp: string | number): bigint {
  if (typeof timestamp === 'number' && Math.abs(timestamp) < printedMin) {
    return BigInt(Math.round(timestamp * 1e9));
  }
  return parseTimestampNanos(String(timestamp), 'timestamp');
}
