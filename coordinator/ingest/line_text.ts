/** Lines of text that come in chunks, as rows by what is written at once. */
import type { LineOptions, LineProblems } from '#engine/write_decoder/core.ts';
import { lineBytesMax, lineTooLong } from '#engine/write_decoder/lines/layout.ts';
import { lineFeedsIn, lineProblemText } from '#engine/write_decoder/lines/problems.ts';
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';
import { TextPieces } from './text_pieces.ts';

/** Rows after which no further line is read. */
const rowsAtOnce = 16_384;
/** Text that comes in chunks is read when there is so much. */
const enoughBytes = 512 * 1024;
/** Bad lines of a part that are told in words. */
const textsMax = 20;
const lineFeed = 0x0a;

/** Format of lines/layout.ts, the unit of times, and the time of a line without one. */
export type LineReading = Pick<LineOptions, 'format' | 'unitNanos' | 'nowNanos'>;

/** What was read at once. */
export interface LinePart {
  /** Null where there is none. They hold until the decoder reads something else. */
  readonly rows: WriteDecoderRows | null;
  readonly badLines: number;
  /** The first ones of them. */
  readonly problems: readonly string[];
}

interface ReadPart extends LinePart {
  readonly readBytes: number;
  readonly lineFeeds: number;
}

export class LineText {
  readonly #decoder: WriteDecoder;
  readonly #unfinishedBytesMax: number;
  /** What was not read yet. */
  readonly #pieces = new TextPieces();
  #hasLineFeed = false;
  #isEnd = false;
  /** The rest of a line that is too long is passed over. */
  #isPassing = false;
  /** Line feeds before the text. */
  #lines = 0;
  #part: ReadPart | null = null;

  /** @param unfinishedBytesMax of a line whose end has not come: a longer one is bad */
  constructor(decoder: WriteDecoder, unfinishedBytesMax: number = lineBytesMax) {
    this.#decoder = decoder;
    this.#unfinishedBytesMax = unfinishedBytesMax;
  }

  /** @param chunk nobody else's any more: its memory is freed when it was read */
  add(chunk: Uint8Array): void {
    this.#hasLineFeed ||= chunk.includes(lineFeed);
    this.#pieces.add(chunk);
  }

  /** Nothing comes any more. */
  end(): void {
    this.#isEnd = true;
  }

  /** Bytes that were not read yet. */
  get length(): number {
    return this.#pieces.length;
  }

  /** Whether there is as much as is read at once. */
  get isEnough(): boolean {
    return this.length >= enoughBytes;
  }

  /** Reads the next lines, again until `advance`; null when more text has to come first. */
  read(reading: LineReading): LinePart | null {
    if (this.#isPassing) this.#pass();
    this.#part = this.#isWaiting ? null : this.#read(reading);
    return this.#part;
  }

  /** What was read last is done with. */
  advance(): void {
    const { readBytes, lineFeeds } = this.#part!;
    this.#take(readBytes);
    this.#lines += lineFeeds;
    this.#part = null;
  }

  /** The rest of a text that broke off: no line, for its end may be missing. @returns whether there is one */
  drop(): boolean {
    const isOne = this.length > 0 && !this.#isPassing;
    this.#take(this.length);
    return isOne;
  }

  /** For a line's end: what comes in pieces of a byte is not read again with each of them. */
  get #isWaiting(): boolean {
    return !this.#hasLineFeed && !this.#isEnd && this.length <= this.#unfinishedBytesMax;
  }

  #read(reading: LineReading): ReadPart | null {
    const { length } = this;
    if (length === 0) return null;
    const pieces = this.#pieces.first(lineBytesMax);
    const isLast = this.#isEnd && length <= lineBytesMax;
    const options = { ...reading, isLast, rowsMax: rowsAtOnce };
    const { rows, readBytes, lineFeeds, problems } = this.#decoder.lines(pieces, options);
    if (readBytes > 0) {
      return {
        rows: rows.rowCount === 0 ? null : rows,
        badLines: problems.count,
        problems: this.#textsOf(problems, pieces),
        readBytes,
        lineFeeds,
      };
    }
    if (length < lineBytesMax) {
      // All that is there is one line without its end.
      this.#hasLineFeed = false;
      if (this.#isWaiting) return null;
    }
    const problem = { lineAt: 0, at: 0, reason: lineTooLong };
    const line = Buffer.concat(pieces);
    this.#isPassing = true;
    return {
      rows: null,
      badLines: 1,
      problems: [lineProblemText(problem, line, this.#lines + 1, this.#unfinishedBytesMax)],
      readBytes: line.length,
      lineFeeds: 0,
    };
  }

  #textsOf({ count, listed }: LineProblems, pieces: readonly Uint8Array[]): readonly string[] {
    if (count === 0) return [];
    const text = Buffer.concat(pieces);
    let line = this.#lines + 1;
    let from = 0;
    // In their order: each line feed is counted once.
    return listed.slice(0, textsMax).map((problem) => {
      line += lineFeedsIn(text, from, problem.lineAt);
      from = problem.lineAt;
      return lineProblemText(problem, text, line);
    });
  }

  #take(bytes: number): void {
    this.#pieces.drop(bytes);
    if (this.length === 0) this.#hasLineFeed = false;
  }

  #pass(): void {
    const end = this.#pieces.indexOf(lineFeed);
    this.#isPassing = end < 0;
    if (end >= 0) this.#lines += 1;
    this.#take(end < 0 ? this.length : end + 1);
  }
}
