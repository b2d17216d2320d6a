/** Lines of text that come in chunks, as rows by what is written at once. */
import type { LineOptions } from '#engine/write_decoder/core.ts';
import { lineBytesMax, lineTooLong } from '#engine/write_decoder/lines/layout.ts';
import { lineProblemText } from '#engine/write_decoder/lines/problems.ts';
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';

/** Rows after which no further line is read. */
const rowsAtOnce = 16_384;
/** Text that is read at once, but for longer lines. */
const windowBytes = 256 * 1024;
/** Bad lines of a part that are told in words. */
const textsMax = 20;
const lineFeed = 0x0a;

const noBytes = new Uint8Array(0);

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
  /** What was not read yet, but for chunks. */
  #text: Uint8Array = noBytes;
  #chunks: Uint8Array[] = [];
  #chunkBytes = 0;
  #isEnd = false;
  /** The rest of a line that is too long is passed over. */
  #isPassing = false;
  /** Line feeds before the text. */
  #lines = 0;
  #part: ReadPart | null = null;

  constructor(decoder: WriteDecoder) {
    this.#decoder = decoder;
  }

  /** @param chunk kept until it was read */
  add(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#chunkBytes += chunk.length;
  }

  /** Nothing comes any more. */
  end(): void {
    this.#isEnd = true;
  }

  /** Whether there is as much as is read at once. */
  get isEnough(): boolean {
    return this.#text.length + this.#chunkBytes >= windowBytes;
  }

  /** Reads the next lines, again until `advance`; null when more text has to come first. */
  read(reading: LineReading): LinePart | null {
    this.#join();
    if (this.#isPassing) this.#pass();
    this.#part = this.#read(reading);
    return this.#part;
  }

  /** What was read last is done with. */
  advance(): void {
    const { readBytes, lineFeeds } = this.#part!;
    this.#text = this.#text.subarray(readBytes);
    this.#lines += lineFeeds;
    this.#part = null;
  }

  #read(reading: LineReading): ReadPart | null {
    for (const bytes of [windowBytes, lineBytesMax]) {
      if (this.#text.length === 0) return null;
      const window = this.#text.subarray(0, bytes);
      const isLast = this.#isEnd && window.length === this.#text.length;
      const options = { ...reading, isLast, rowsMax: rowsAtOnce };
      const { rows, readBytes, lineFeeds, problems } = this.#decoder.lines(window, options);
      if (readBytes === 0 && window.length === bytes) continue;
      if (readBytes === 0) return null;
      return {
        rows: rows.rowCount === 0 ? null : rows,
        badLines: problems.count,
        problems: problems.listed
          .slice(0, textsMax)
          .map((problem) => lineProblemText(problem, window, this.#lines)),
        readBytes,
        lineFeeds,
      };
    }
    const window = this.#text.subarray(0, lineBytesMax);
    const problem = { lineAt: 0, at: 0, reason: lineTooLong };
    this.#isPassing = true;
    return {
      rows: null,
      badLines: 1,
      problems: [lineProblemText(problem, window, this.#lines)],
      readBytes: window.length,
      lineFeeds: 0,
    };
  }

  #join(): void {
    if (this.#chunkBytes === 0) return;
    const parts = this.#text.length === 0 ? this.#chunks : [this.#text, ...this.#chunks];
    this.#text = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    this.#chunks = [];
    this.#chunkBytes = 0;
  }

  #pass(): void {
    const end = this.#text.indexOf(lineFeed);
    this.#text = end < 0 ? noBytes : this.#text.subarray(end + 1);
    this.#isPassing = end < 0;
    if (end >= 0) this.#lines += 1;
  }
}
