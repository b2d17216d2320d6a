/** Answers of remote read with samples, as series. */
import { Fields, Malformed, type Range, wireBytes } from '#engine/write_decoder/wire_fields.ts';
import {
  histogramProblem,
  readHistogram,
  valueOrNull,
} from '#engine/write_decoder/wire_histogram.ts';
import { histogramOfValue } from '#engine/typed/histogram.ts';
import { badRequest } from '#lib/errors.ts';
import type { Tag } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import type { ImportHistogram, ImportSeries, NanosRange } from '../source.ts';

/** Keeps a byte order mark at the start of a text, so that texts with and without one stay apart. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export interface Answer {
  /** A ReadResponse. */
  readonly message: Uint8Array;
  /** Rows of other times are left out. */
  readonly within: NanosRange;
  /** Is told of each histogram that is left out, and why. */
  readonly onBroken: (problem: string) => void;
}

/**
 * Its series one by one; some may be without rows.
 * @throws {TsdbError} BAD_REQUEST when the message is malformed
 */
export function* seriesOfResponse(answer: Answer, url: string): Generator<ImportSeries> {
  const { message } = answer;
  try {
    const results = new Fields(message, 0, message.length);
    while (results.next()) {
      if (results.number !== 1) results.skip();
      else yield* seriesOfResult(answer, rangeOf(results));
    }
  } catch (error) {
    if (!(error instanceof Malformed || error instanceof TypeError)) throw error;
    throw badRequest(`${url}: the answer is no message of remote read: ${error.message}`, {
      cause: error,
    });
  }
}

function* seriesOfResult(answer: Answer, [start, end]: Range): Generator<ImportSeries> {
  const all = new Fields(answer.message, start, end);
  while (all.next()) {
    if (all.number !== 1) all.skip();
    else yield seriesOf(answer, rangeOf(all));
  }
}

function rangeOf(fields: Fields): Range {
  fields.expect(wireBytes);
  return fields.range();
}

function seriesOf(
  { message, within: { startNanos, endNanos }, onBroken }: Answer,
  [start, end]: Range,
): ImportSeries {
  const isWithin = (time: bigint): boolean => time >= startNanos && time < endNanos;
  const tags: Tag[] = [];
  const rows: Row[] = [];
  const histograms: ImportHistogram[] = [];
  const fields = new Fields(message, start, end);
  while (fields.next()) {
    if (fields.number === 1) tags.push(tagOf(message, rangeOf(fields)));
    else if (fields.number === 2) {
      const sample = sampleOf(message, rangeOf(fields));
      if (!isWithin(sample.nanos)) continue;
      rows.push(sample);
    } else if (fields.number === 4) {
      const range = rangeOf(fields);
      const wire = readHistogram(message, range, false);
      const timestampNanos = BigInt.asIntN(64, wire.timestampMillis) * nanosPerMilli;
      if (!isWithin(timestampNanos)) continue;
      const value = valueOrNull(wire);
      if (value === null) onBroken(histogramProblem(message, range) ?? 'histogram breaks a rule');
      else histograms.push({ timestampNanos, histogram: histogramOfValue(value) });
    } else fields.skip();
  }
  const ascending = inOrder(rows, ({ nanos }) => nanos);
  return {
    tags,
    timestampNanos: BigInt64Array.from(ascending, ({ nanos }) => nanos),
    values: new Float64Array(BigUint64Array.from(ascending, ({ bits }) => bits).buffer),
    histograms: inOrder(histograms, ({ timestampNanos }) => timestampNanos),
  };
}

interface Row {
  readonly nanos: bigint;
  readonly bits: bigint;
}

/** Whatever puts answers together may have them in another order. Of several of one time the last one is taken. */
function inOrder<T>(rows: readonly T[], timeOf: (row: T) => bigint): readonly T[] {
  if (rows.every((row, i) => i === 0 || timeOf(rows[i - 1]!) < timeOf(row))) return rows;
  const byTime = new Map(rows.map((row) => [timeOf(row), row]));
  return [...byTime.values()].sort((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1));
}

function tagOf(message: Uint8Array, [start, end]: Range): Tag {
  let [name, value] = ['', ''];
  const fields = new Fields(message, start, end);
  while (fields.next()) {
    if (fields.number > 2) fields.skip();
    else {
      const text = decoder.decode(message.subarray(...rangeOf(fields)));
      if (fields.number === 1) name = text;
      else value = text;
    }
  }
  return { name, value };
}

function sampleOf(message: Uint8Array, [start, end]: Range): Row {
  let [nanos, bits] = [0n, 0n];
  const fields = new Fields(message, start, end);
  while (fields.next()) {
    if (fields.number === 1) bits = fields.fixed64();
    else if (fields.number === 2) nanos = BigInt.asIntN(64, fields.varint()) * nanosPerMilli;
    else fields.skip();
  }
  return { nanos, bits };
}
