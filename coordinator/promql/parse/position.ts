/** Positions in a query's text. */

/** Half-open range of UTF-16 offsets in the query's text. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** "line:column" as Prometheus counts: both from 1, the column in UTF-8 bytes. */
export function lineAndColumn(query: string, offset: number): string {
  const before = query.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  let line = 1;
  for (const character of before) if (character === '\n') line++;
  return `${line}:${Buffer.byteLength(before.slice(lineStart)) + 1}`;
}
