/** Positions in a query's text. */

/** Half-open range of UTF-16 offsets in the query's text. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Of one query, which may have a million lines, and of which a hundred things may be told. */
export class Positions {
  readonly #query: string;
  /** Offsets of the first characters of all lines. */
  #lines: readonly number[] | null = null;

  constructor(query: string) {
    this.#query = query;
  }

  /** "line:column" as Prometheus counts: both from 1, the column in UTF-8 bytes. */
  at(offset: number): string {
    this.#lines ??= linesOf(this.#query);
    let line = 0;
    let past = this.#lines.length;
    while (past - line > 1) {
      const middle = (line + past) >>> 1;
      if (this.#lines[middle]! <= offset) line = middle;
      else past = middle;
    }
    const before = this.#query.slice(this.#lines[line], offset);
    return `${line + 1}:${Buffer.byteLength(before) + 1}`;
  }
}

function linesOf(query: string): number[] {
  const lines = [0];
  for (let at = query.indexOf('\n'); at >= 0; at = query.indexOf('\n', at + 1)) lines.push(at + 1);
  return lines;
}

/** As `Positions.at`, once. */
export function lineAndColumn(query: string, offset: number): string {
  return new Positions(query.slice(0, offset)).at(offset);
}
