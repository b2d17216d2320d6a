/** What the characters of a script are to its words. All of them are ASCII. */

const nameFirst = 1;
const inName = 2;
const inPattern = 4;

const classes = new Uint8Array(128);

function add(characters: string, bits: number): void {
  for (let i = 0; i < characters.length; i++) classes[characters.charCodeAt(i)]! |= bits;
}

const letters = 'abcdefghijklmnopqrstuvwxyz';
add(`${letters}${letters.toUpperCase()}_`, nameFirst | inName | inPattern);
add('0123456789.-/\\', inName | inPattern);
add('{}[]*?,^$', inPattern);

/** The class bits of a character; none of what is no ASCII, and at the end of a text (NaN). */
function classOf(text: string, position: number): number {
  return classes[text.charCodeAt(position)] ?? 0;
}

/** Where the name that begins at `position` ends; `position` itself when none does. */
export function nameEnd(text: string, position: number): number {
  if ((classOf(text, position) & nameFirst) === 0) return position;
  let end = position + 1;
  while ((classOf(text, end) & inName) !== 0) end += 1;
  return end;
}

/** Where the word, of which patterns are made, ends; `position` itself when none begins there. */
export function wordEnd(text: string, position: number): number {
  let end = position;
  while ((classOf(text, end) & inPattern) !== 0) end += 1;
  return end;
}

/** Where spaces, ends of lines and comments that begin at `position` end. */
export function spacesEnd(text: string, position: number): number {
  let end = position;
  for (; end < text.length; end++) {
    const character = text[end]!;
    if (character === '#') end = commentEnd(text, end) - 1;
    else if (!' \t\r\n'.includes(character)) break;
  }
  return end;
}

function commentEnd(text: string, position: number): number {
  let end = position;
  while (end < text.length && text[end] !== '\n' && text[end] !== '\r') end += 1;
  return end;
}
