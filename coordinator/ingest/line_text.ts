/** Lines of text that come in chunks, as rows by what is written at once. */
import { lineBytesMax, lineTooLong } from '#engine/write_decoder/lines/layout.ts';
import { lineProblemText } from '#engine/write_decoder/lines/problems.ts';
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';
import type { BadRows } from './refusals.ts';

/** Rows after which no further line is read. */
const rowsAtOnce = 16_384;
/** Text that is read at once, but for longer lines. */
const windowBytes = 256 * 1024;
const lineFeed = 0x0a;

const noBytes = new Uint8Array(0);

export class LineText {
  readonly #decoder: WriteDecoder;
  readonly #times: { readonly unitNanos: bigint; readonly nowNanos: bigint };
  readonly #report: BadRows;
  /** What was not read yet, but for chunks. */
  #text: Uint8Array = noBytes;
  #chunks: Uint8Array[] = [];
  #chunkBytes = 0;
  #isEnd = false;
  /** The rest of a line that is too long is passed over. */
  #isPassing = false;
  #lines = 0;
  #bad = 0;

  constructor(
    decoder: WriteDecoder,
    times: { readonly unitNanos: bigint; readonly nowNanos: bigint },
    report: BadRows,
  ) {
    this.#decoder = decoder;
    this.#times = times;
    this.#report = report;
  }

  /** @param chunk kept until it was read */
  add(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#chunkBytes += chunk.length;
  }

  /** Whether there is as much as is read at once. */
  get isEnough(): boolean {
    return this.#text.length + this.#chunkBytes >= windowBytes;
  }

  /** Nothing comes any more. */
  end(): void {
    this.#isEnd = true;
  }

  /** Bad lines since this was asked last. */
  takeBadCount(): number {
    const bad = this.#bad;
    this.#bad = 0;
    return bad;
  }

  /**
   * Rows of the next lines, of which there may be none; null when more text has to come first. The columns hold until the
   * decoder reads something else.
   */
  next(): WriteDecoderRows | null {
    if (this.#chunkBytes > 0) {
      const parts = this.#text.length === 0 ? this.#chunks : [this.#text, ...this.#chunks];
      this.#text = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
      this.#chunks = [];
      this.#chunkBytes = 0;
    }
    if (this.#isPassing) this.#pass();
    for (const bytes of [windowBytes, lineBytesMax]) {
      if (this.#text.length === 0) return null;
      const window = this.#text.subarray(0, bytes);
      const isLast = this.#isEnd && window.length === this.#text.length;
      const options = { ...this.#times, isLast, rowsMax: rowsAtOnce };
      const { rows, readBytes, lineFeeds, problems } = this.#decoder.lines(window, options);
      if (readBytes === 0 && window.length === bytes) continue;
      if (readBytes === 0) return null;
      const texts: string[] = [];
      for (const problem of problems.listed) {
        if (this.#report.isNaming) texts.push(lineProblemText(problem, window, this.#lines));
      }
      this.#note(problems.count, texts);
      this.#lines += lineFeeds;
      this.#text = this.#text.subarray(readBytes);
      return rows;
    }
    const problem = { lineAt: 0, at: 0, reason: lineTooLong };
    this.#note(1, [lineProblemText(problem, this.#text.subarray(0, lineBytesMax), this.#lines)]);
    this.#isPassing = true;
    return this.next();
  }

  #note(count: number, texts: readonly string[]): void {
    this.#bad += count;
    if (count > 0) this.#report.addSamples(count, texts);
  }

  #pass(): void {
    const end = this.#text.indexOf(lineFeed);
    this.#text = end < 0 ? noBytes : this.#text.subarray(end + 1);
    this.#isPassing = end < 0;
    if (end >= 0) this.#lines += 1;
  }
}
