/**
 * Rows that are taken over as bodies of writes: remote write, whose times are milliseconds, and for rows between them lines of JSON,
 * which have nanoseconds. So a row is what it was, to the last bit and the last nanosecond. Rows of paths are lines of Carbon, whose
 * tags no other format may bring.
 */
import { HistogramMessages } from '#engine/prometheus_messages/histogram_message.ts';
import { MessageWriter, writeLabels } from '#engine/prometheus_messages/message_writer.ts';
import { encodeSnappy } from '#engine/write_decoder/snappy.ts';
import type { Tag } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import {
  carbonPathOf,
  type ImportHistogram,
  type ImportSeries,
  tagsWithValues,
} from '../sources/source.ts';

/** Rows of one body, about. */
export const bodyRowsMax = 20_000;
/** A body is whole before it is that long, but for one series of so many rows. */
const bodyBytesMax = 4 << 20;

/** One request, and what it brings. */
export interface WriteBody {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly rows: number;
  /**
   * Series of the part that are whole when it is written, counted from its begin. Where it is more than that of the body before,
   * all rows up to here are of whole ones.
   */
  readonly seriesDone: number;
}

export class WriteBodies {
  readonly #request = new MessageWriter(1 << 14);
  readonly #series = new MessageWriter(1 << 12);
  readonly #sample = new MessageWriter(32);
  readonly #histograms = new HistogramMessages();
  #lines: string[] = [];
  /** Of Carbon. */
  #paths: string[] = [];
  #linesLength = 0;
  #rows = 0;
  #seriesDone: number;
  /** Of bodies that were given. */
  #seriesBefore: number;

  /** @param seriesDone of the part, before the first one that comes */
  constructor(seriesDone: number) {
    this.#seriesDone = seriesDone;
    this.#seriesBefore = seriesDone;
  }

  /** Takes a series; gives bodies that have become full. */
  *add(series: ImportSeries): Generator<WriteBody> {
    const { timestampNanos, values, histograms = [] } = series;
    const tags = tagsWithValues(series.tags);
    const path = carbonPathOf(series.tags);
    const histogramsMax = bodyRowsMax / 20;
    let pieces =
      Math.ceil(timestampNanos.length / bodyRowsMax) + Math.ceil(histograms.length / histogramsMax);
    // Nothing but itself is in bodies that end within it.
    if (pieces > 1) yield* this.#take();
    if (pieces === 0) this.#seriesDone += 1;
    for (let first = 0; first < timestampNanos.length; first += bodyRowsMax) {
      const past = Math.min(first + bodyRowsMax, timestampNanos.length);
      const times = timestampNanos.subarray(first, past);
      if (path === null) this.#addSamples(tags, times, values.subarray(first, past));
      else this.#addPath(path, times, values.subarray(first, past));
      if (--pieces === 0) this.#seriesDone += 1;
      yield* this.#full();
    }
    for (let first = 0; first < histograms.length; first += histogramsMax) {
      this.#addHistograms(tags, histograms.slice(first, first + histogramsMax));
      if (--pieces === 0) this.#seriesDone += 1;
      yield* this.#full();
    }
  }

  /** What is left. */
  *end(): Generator<WriteBody> {
    yield* this.#take();
  }

  *#full(): Generator<WriteBody> {
    const bytes = Math.max(this.#request.byteLength, this.#linesLength);
    if (this.#rows >= bodyRowsMax || bytes >= bodyBytesMax) yield* this.#take();
  }

  *#take(): Generator<WriteBody> {
    const bodies: Omit<WriteBody, 'seriesDone'>[] = [];
    const lines = this.#lines.length;
    const paths = this.#paths.length;
    if (lines > 0) {
      bodies.push({
        path: '/api/v1/json/write',
        headers: { 'content-type': 'application/x-ndjson' },
        bytes: Buffer.from(this.#lines.join('')),
        rows: lines,
      });
    }
    if (paths > 0) {
      bodies.push({
        path: '/api/v1/carbon/write',
        headers: { 'content-type': 'text/plain' },
        bytes: Buffer.from(this.#paths.join('')),
        rows: paths,
      });
    }
    const rows = this.#rows - lines - paths;
    if (rows > 0) {
      bodies.push({
        path: '/api/v1/compat/remote/write',
        headers: { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy' },
        bytes: encodeSnappy(this.#request.finish()),
        rows,
      });
    }
    const [before, done] = [this.#seriesBefore, this.#seriesDone];
    this.#request.clear();
    this.#lines = [];
    this.#paths = [];
    this.#linesLength = 0;
    this.#rows = 0;
    this.#seriesBefore = done;
    for (const [i, body] of bodies.entries()) {
      // Each of them has rows of these series.
      yield { ...body, seriesDone: i === bodies.length - 1 ? done : before };
    }
  }

  #addPath(path: string, timestampNanos: BigInt64Array, values: Float64Array): void {
    for (const [row, nanos] of timestampNanos.entries()) {
      const line = `${path} ${valueText(values[row]!)} ${secondsText(nanos)}\n`;
      this.#paths.push(line);
      this.#linesLength += line.length;
    }
    this.#rows += timestampNanos.length;
  }

  #addSamples(tags: readonly Tag[], timestampNanos: BigInt64Array, values: Float64Array): void {
    const series = this.#series;
    series.clear();
    writeLabels(series, tags);
    const words = new Uint32Array(values.slice().buffer);
    let count = 0;
    const between: number[] = [];
    for (let row = 0; row < timestampNanos.length; row++) {
      const nanos = timestampNanos[row]!;
      // Lines of JSON have no NaN: such a row comes at the begin of its millisecond.
      if (nanos % nanosPerMilli !== 0n && Number.isFinite(values[row]!)) {
        between.push(row);
        continue;
      }
      const sample = this.#sample;
      sample.clear();
      sample.doubleField(1, words[2 * row]!, words[2 * row + 1]!);
      sample.int64Field(2, Number(nanos / nanosPerMilli));
      series.bytesField(2, sample.finish());
      count += 1;
    }
    if (count > 0) this.#request.bytesField(1, series.finish());
    this.#rows += count;
    if (between.length === 0) return;
    const places = Uint32Array.from(between);
    this.#addLines(
      tags,
      BigInt64Array.from(places, (row) => timestampNanos[row]!),
      Float64Array.from(places, (row) => values[row]!),
    );
  }

  #addLines(tags: readonly Tag[], timestampNanos: BigInt64Array, values: Float64Array): void {
    const members = tags.map(
      ({ name, value }) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
    );
    const begin = `{"tags":{${members.join(',')}},"timestamp":`;
    for (const [row, nanos] of timestampNanos.entries()) {
      const line = `${begin}"${secondsText(nanos)}","value":${valueText(values[row]!)}}\n`;
      this.#lines.push(line);
      this.#linesLength += line.length;
    }
    this.#rows += timestampNanos.length;
  }

  #addHistograms(tags: readonly Tag[], histograms: readonly ImportHistogram[]): void {
    const series = this.#series;
    series.clear();
    writeLabels(series, tags);
    for (const { timestampNanos, histogram } of histograms) {
      series.bytesField(4, this.#histograms.of(histogram, Number(timestampNanos / nanosPerMilli)));
    }
    this.#request.bytesField(1, series.finish());
    this.#rows += histograms.length;
  }
}

/** Unix seconds with all nine digits: as a number of JSON some would be lost. */
function secondsText(nanos: bigint): string {
  const sign = nanos < 0n ? '-' : '';
  const digits = String(nanos < 0n ? -nanos : nanos).padStart(10, '0');
  return `${sign}${digits.slice(0, -9)}.${digits.slice(-9)}`;
}

function valueText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
