/** Places in a line of JSON. */

const quote = 0x22;
const backslash = 0x5c;

/** Behind the blanks at `at`. A line feed is none: it ends the line. */
export function blanksEnd(bytes: Uint8Array, at: number, end: number): number {
  let past = at;
  for (; past < end; past++) {
    const byte = bytes[past]!;
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) break;
  }
  return past;
}

/** The closing quote of the text that begins at `at`; `end`, or one behind it, when there is none. */
export function closingQuote(bytes: Uint8Array, at: number, end: number): number {
  let past = at + 1;
  while (past < end && bytes[past] !== quote) past += bytes[past] === backslash ? 2 : 1;
  return past;
}
