/** Lines of JSON that come in chunks, as rows by what is written at once. */
import type { WriteDecoderRows } from '../write_decoder/write_decoder.ts';
import { jsonLineBytesMax, Lines } from './lines.ts';
import { LineScan } from './scan.ts';
import type { LabelSeries } from './series.ts';

/** After so many rows, or so much work (lib/turns/turns.ts), no further line is begun. */
const rowsAtOnce = 16_384;
const unitsAtOnce = 1_200_000;
const rowUnits = 40;
const lineUnits = 100;
const byteUnits = 1;
const badLineUnits = 500;
/** Bad lines of a part that are told in words. */
const textsMax = 20;

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
  readonly #series: LabelSeries;
  readonly #scan = new LineScan();
  readonly #lines = new Lines();
  /** Of the line that was scanned last: the next row. */
  #row = 0;
  #badLines = 0;
  #problems: string[] = [];

  constructor(series: LabelSeries) {
    this.#series = series;
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
  read(): JsonLinePart | null {
    const series = this.#series;
    const { decoder } = series;
    series.newUnits = 0;
    this.#badLines = 0;
    this.#problems = [];
    series.begin();
    decoder.beginRows();
    let rowCount = 0;
    const { takenBytes } = this.#lines;
    let lines = 0;
    const units = (): number =>
      rowUnits * rowCount +
      lineUnits * lines +
      byteUnits * (this.#lines.takenBytes - takenBytes) +
      badLineUnits * this.#badLines +
      series.newUnits;
    try {
      while (rowCount < rowsAtOnce && units() < unitsAtOnce) {
        if (this.#row === this.#scan.rowCount) {
          if (!this.#scanNext()) break;
          lines += 1;
        }
        rowCount += this.#addRows(rowsAtOnce - rowCount);
      }
    } catch (error) {
      decoder.dropRows();
      throw error;
    }
    if (rowCount === 0 && lines === 0) {
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

  /** @returns whether there was a line */
  #scanNext(): boolean {
    const scan = this.#scan;
    const lines = this.#lines;
    scan.rowCount = 0;
    this.#row = 0;
    const next = lines.next();
    if (next === 'too long') this.#refuse(`longer than ${jsonLineBytesMax} bytes`);
    if (next !== 'line') return next !== 'none';
    const problem = scan.read(lines.bytes, lines.start, lines.end);
    if (problem !== '') {
      scan.rowCount = 0;
      this.#refuse(problem);
    }
    return true;
  }

  /** Of the line that was scanned last, as far as they go. */
  #addRows(rowsMax: number): number {
    const scan = this.#scan;
    if (this.#row === scan.rowCount) return 0;
    const slot = this.#series.slotOf(this.#lines.view, scan.metricStart, scan.metricEnd, 'metric');
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
      this.#problems.push(`line ${this.#lines.count}: ${problem}`);
    }
  }
}
