/** What the plain twins of the kernel's readers of lines share: one line after the other of a text whose bytes are characters. */
import type { LineProblem } from './problems.ts';

/** A row of a line. */
export interface LineRow {
  /** Canonical. */
  readonly tags: Uint8Array;
  /** Its series stands for a path. */
  readonly isPath: boolean;
  readonly nanos: bigint;
  readonly value: number;
}

export interface TwinLine {
  readonly lineAt: number;
  /** Where it ends. */
  readonly endAt: number;
  /** Rows, and the bytes of tags that are counted for each; or what is wrong with the line as a whole. */
  readonly outcome: { readonly rows: readonly LineRow[]; readonly tagBytes: number } | number;
}

export interface LineTwin {
  /** What stands between lines. */
  readonly blanks: RegExp;
  /** With what a comment begins. */
  readonly comment: string | null;
  /** The line that begins there; null when it goes on behind the text. */
  line(lineAt: number): TwinLine | LineProblem | null;
}

export class LinesOfTwin {
  readonly #twin: LineTwin;
  readonly #text: string;
  readonly #isLast: boolean;
  #at = 0;

  constructor(twin: LineTwin, text: string, isLast: boolean) {
    this.#twin = twin;
    this.#text = text;
    this.#isLast = isLast;
  }

  /** Up to where lines were read. */
  get at(): number {
    return this.#at;
  }

  /** The next line; null at the end. */
  next(): TwinLine | LineProblem | null {
    const text = this.#text;
    const { blanks, comment } = this.#twin;
    while (true) {
      this.#at += blanks.exec(text.slice(this.#at))![0].length;
      if (this.#at === text.length) return null;
      if (text[this.#at] !== comment) break;
      const end = this.#lineFeed(this.#at);
      if (end === text.length && !this.#isLast) return null;
      this.#at = Math.min(end + 1, text.length);
    }
    const line = this.#twin.line(this.#at);
    if (line === null) return null;
    const end = 'reason' in line ? this.#lineFeed(line.at) : line.endAt;
    if (end === text.length && !this.#isLast) return null;
    this.#at = Math.min(end + 1, text.length);
    if ('outcome' in line && typeof line.outcome === 'number') {
      return { lineAt: line.lineAt, at: line.lineAt, reason: line.outcome };
    }
    return line;
  }

  #lineFeed(from: number): number {
    const end = this.#text.indexOf('\n', from);
    return end < 0 ? this.#text.length : end;
  }
}
