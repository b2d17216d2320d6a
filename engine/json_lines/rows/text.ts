/** Lines of JSON, each a row of a write, that come in chunks, as rows by what is written at once. */
import { TsdbError } from '#lib/errors.ts';
import { encodeTags, type Tag } from '#lib/tags.ts';
import { nanosPerSecond, parseTimestampNanos } from '#lib/time.ts';
import type { WriteDecoderRows } from '../../write_decoder/write_decoder.ts';
import { jsonLineBytesMax, Lines } from '../lines.ts';
import type { LabelSeries } from '../series.ts';
import { RowScan } from './scan.ts';

/** After so many rows, or so much work (lib/turns/turns.ts), no further line is begun. */
const rowsAtOnce = 16_384;
const unitsAtOnce = 1_200_000;
const rowUnits = 140;
const byteUnits = 1;
/** Of a line that is read as JSON, and a byte of it. */
const parsedUnits = 3_000;
const parsedByteUnits = 20;
/** Bad lines of a part that are told in words. */
const textsMax = 20;

/** A row that is no object. */
export interface ParsedFloat {
  /** Checked, in any order. */
  readonly tags: readonly Tag[];
  readonly timestampNanos: bigint;
  readonly value: number;
}

/** What was read at once. @template Message a row whose value is an object */
export interface JsonRowPart<Message> {
  /** Null where there is none. They hold until the decoder reads something else. */
  readonly rows: WriteDecoderRows | null;
  readonly messages: readonly Message[];
  readonly badLines: number;
  /** The first ones of them. */
  readonly problems: readonly string[];
  /** About what it took. */
  readonly units: number;
}

/** Reads a line as JSON. @returns why it is bad, as a text */
export type ReadRow<Message> = (line: Uint8Array) => ParsedFloat | Message | string;

export class JsonRowText<Message extends object> {
  readonly #series: LabelSeries;
  readonly #readRow: ReadRow<Message>;
  readonly #scan = new RowScan();
  readonly #lines = new Lines();
  #messages: Message[] = [];
  #badLines = 0;
  #problems: string[] = [];
  #parsedUnits = 0;

  /** @param readRow of lines that the scan leaves to it */
  constructor(series: LabelSeries, readRow: ReadRow<Message>) {
    this.#series = series;
    this.#readRow = readRow;
  }

  /** @param chunk not changed any more: it may be kept. What came before has been read. */
  add(chunk: Uint8Array): void {
    this.#lines.add(chunk);
  }

  /** Nothing comes any more. */
  end(): void {
    this.#lines.finish();
  }

  /**
   * The next rows; null when more text has to come first.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when there is no room for series
   */
  read(): JsonRowPart<Message> | null {
    const series = this.#series;
    const { decoder } = series;
    const { takenBytes } = this.#lines;
    series.newUnits = 0;
    this.#messages = [];
    this.#badLines = 0;
    this.#problems = [];
    this.#parsedUnits = 0;
    series.begin();
    decoder.beginRows();
    let lineCount = 0;
    let rowCount = 0;
    const units = (): number =>
      rowUnits * lineCount +
      byteUnits * (this.#lines.takenBytes - takenBytes) +
      this.#parsedUnits +
      series.newUnits;
    try {
      for (; lineCount < rowsAtOnce && units() < unitsAtOnce; lineCount++) {
        const next = this.#lines.next();
        if (next === 'none') break;
        if (next === 'too long') this.#refuse(`longer than ${jsonLineBytesMax} bytes`);
        else if (next === 'line' && (this.#addScanned() || this.#addParsed())) rowCount += 1;
      }
    } catch (error) {
      decoder.dropRows();
      throw error;
    }
    if (lineCount === 0) {
      decoder.dropRows();
      return null;
    }
    const rows = decoder.endRowsInNanos();
    return {
      rows: rowCount === 0 ? null : rows,
      messages: this.#messages,
      badLines: this.#badLines,
      problems: this.#problems,
      units: units(),
    };
  }

  /** @returns false when the line has to be read as JSON */
  #addScanned(): boolean {
    const scan = this.#scan;
    const { bytes, view, start, end } = this.#lines;
    if (!scan.read(bytes, start, end)) return false;
    let { seconds, nanos } = scan;
    if (scan.timeText !== '') {
      const at = nanosOfText(scan.timeText);
      if (at === null) return false;
      [seconds, nanos] = partsOf(at);
    }
    const slot = this.#series.slotOf(view, scan.tagsStart, scan.tagsEnd, 'tags');
    if (typeof slot === 'string') return false;
    this.#series.decoder.addSampleAt(slot, seconds, nanos, scan.value);
    return true;
  }

  /** @returns whether it is a row */
  #addParsed(): boolean {
    const { bytes, start, end } = this.#lines;
    this.#parsedUnits += parsedUnits + parsedByteUnits * (end - start);
    const row = this.#readRow(bytes.subarray(start, end));
    if (typeof row === 'string') this.#refuse(row);
    else if (!('value' in row)) this.#messages.push(row);
    else {
      const { decoder } = this.#series;
      decoder.addSampleAt(
        decoder.slotOf(encodeTags(row.tags)),
        ...partsOf(row.timestampNanos),
        row.value,
      );
      return true;
    }
    return false;
  }

  #refuse(problem: string): void {
    this.#badLines += 1;
    if (this.#problems.length < textsMax) {
      this.#problems.push(`line ${this.#lines.count}: ${problem}`);
    }
  }
}

/** Null where it is no time. */
function nanosOfText(text: string): bigint | null {
  try {
    return parseTimestampNanos(text, 'timestamp');
  } catch (error) {
    if (error instanceof TsdbError) return null;
    throw error;
  }
}

/** Whole seconds, and what comes on top. */
function partsOf(unixNanos: bigint): [seconds: number, nanos: number] {
  const rest = unixNanos % nanosPerSecond;
  const nanos = rest < 0n ? rest + nanosPerSecond : rest;
  return [Number((unixNanos - nanos) / nanosPerSecond), Number(nanos)];
}
