/** Lines of JSON that come in chunks, as rows by what is written at once. */
import type { WriteDecoderRows } from '../write_decoder/write_decoder.ts';
import { LineScan } from './scan.ts';
import type { MetricSeries } from './series.ts';

/** Longest line. */
export const jsonLineBytesMax: number = 1 << 20;
/** After so many rows, or so much work (lib/turns/turns.ts), no further line is begun. */
const rowsAtOnce = 16_384;
const unitsAtOnce = 1_200_000;
const rowUnits = 40;
const lineUnits = 100;
const byteUnits = 1;
const badLineUnits = 500;
/** Bad lines of a part that are told in words. */
const textsMax = 20;
const lineFeed = 0x0a;

const noBytes = new Uint8Array(0);

/** What was read at once. */
export interface JsonLinePart {
  /** Null where there is none. They hold until the decoder reads something else. */
  readonly rows: WriteDecoderRows | null;
  readonly badLines: number;
  /** The first ones of them. */
  readonly problems: readonly string[];
  /** About what it took. */
  readonly units: number;
}

export class JsonLineText {
  readonly #series: MetricSeries;
  readonly #scan = new LineScan();
  #bytes: Uint8Array = noBytes;
  #view: DataView = new DataView(noBytes.buffer);
  #at = 0;
  #isEnd = false;
  /** The rest of a line that is too long is passed over. */
  #isPassing = false;
  /** That were begun. */
  #lines = 0;
  /** Of the line that was scanned last: the next row. */
  #row = 0;
  #badLines = 0;
  #problems: string[] = [];

  constructor(series: MetricSeries) {
    this.#series = series;
  }

  /** @param chunk not changed any more: it may be kept. What came before has been read. */
  add(chunk: Uint8Array): void {
    const rest = this.#bytes.subarray(this.#at);
    this.#bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const { buffer, byteOffset, length } = this.#bytes;
    this.#view = new DataView(buffer, byteOffset, length);
    this.#at = 0;
  }

  /** Nothing comes any more. */
  end(): void {
    this.#isEnd = true;
  }

  /**
   * The next rows; null when more text has to come first.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when there is no room for series
   */
  read(): JsonLinePart | null {
    const series = this.#series;
    const { decoder } = series;
    series.newUnits = 0;
    this.#badLines = 0;
    this.#problems = [];
    series.begin();
    decoder.beginRows();
    let rowCount = 0;
    let readBytes = 0;
    let lines = 0;
    const units = (): number =>
      rowUnits * rowCount +
      lineUnits * lines +
      byteUnits * readBytes +
      badLineUnits * this.#badLines +
      series.newUnits;
    try {
      while (rowCount < rowsAtOnce && units() < unitsAtOnce) {
        if (this.#row === this.#scan.rowCount) {
          const bytes = this.#scanNext();
          if (bytes === 0) break;
          readBytes += bytes;
          lines += 1;
        }
        rowCount += this.#addRows(rowsAtOnce - rowCount);
      }
    } catch (error) {
      decoder.dropRows();
      throw error;
    }
    if (rowCount === 0 && readBytes === 0) {
      decoder.dropRows();
      return null;
    }
    const rows = decoder.endRows();
    return {
      rows: rowCount === 0 ? null : rows,
      badLines: this.#badLines,
      problems: this.#problems,
      units: units(),
    };
  }

  /** @returns bytes that were read of the text; 0 when more has to come first */
  #scanNext(): number {
    const start = this.#at;
    const bytes = this.#bytes;
    const scan = this.#scan;
    scan.rowCount = 0;
    this.#row = 0;
    if (start === bytes.length) return 0;
    const found = bytes.indexOf(lineFeed, start);
    const isWhole = found >= 0 || this.#isEnd;
    const end = found >= 0 ? found : bytes.length;
    if (!this.#isPassing) {
      if (!isWhole && end - start <= jsonLineBytesMax) return 0;
      this.#lines += 1;
    }
    if (this.#isPassing || end - start > jsonLineBytesMax) {
      if (!this.#isPassing) this.#refuse(`longer than ${jsonLineBytesMax} bytes`);
      this.#isPassing = !isWhole;
    } else if (!isBlank(bytes, start, end)) {
      const problem = scan.read(bytes, start, end);
      if (problem !== '') {
        scan.rowCount = 0;
        this.#refuse(problem);
      }
    }
    this.#at = found >= 0 ? found + 1 : bytes.length;
    return this.#at - start;
  }

  /** Of the line that was scanned last, as far as they go. */
  #addRows(rowsMax: number): number {
    const scan = this.#scan;
    if (this.#row === scan.rowCount) return 0;
    const slot = this.#series.slotOf(this.#view, scan.metricStart, scan.metricEnd);
    if (typeof slot === 'string') {
      this.#refuse(slot);
      this.#row = scan.rowCount;
      return 0;
    }
    const { decoder } = this.#series;
    const { timestampMillis, valueWords } = scan;
    const past = Math.min(scan.rowCount, this.#row + rowsMax);
    const added = past - this.#row;
    for (let row = this.#row; row < past; row++) {
      const [low, high] = [valueWords[2 * row]!, valueWords[2 * row + 1]!];
      decoder.addSample(slot, timestampMillis[row]!, low, high, 0);
    }
    this.#row = past;
    return added;
  }

  #refuse(problem: string): void {
    this.#badLines += 1;
    if (this.#problems.length < textsMax) {
      this.#problems.push(`line ${this.#lines}: ${problem}`);
    }
  }
}

function isBlank(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (bytes[at]! > 0x20) return false;
  return true;
}
