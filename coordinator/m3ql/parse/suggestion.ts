/** What the author of a script most likely meant where it is wrong. */
import { operators } from './scanner.ts';

/** Where the script is wrong, by what belongs there. */
export interface Place {
  readonly expected: 'expression' | 'value' | 'argument' | 'pipe';
  /** What has to end the pipeline; '' is the end of the script. */
  readonly end: '' | ')' | ';';
  /** The call before it has arguments. */
  readonly hasArguments: boolean;
}

/** A few words for the message, '' where nothing is obvious. */
export function suggestionAt(text: string, position: number, place: Place): string {
  const next = text.charAt(position);
  if (next === '') return place.end === ';' ? 'a macro ends with ";", and a pipeline follows' : '';
  if (next === "'" || next === '`') return 'strings stand in double quotes';
  switch (place.expected) {
    case 'expression':
      return insteadOfExpression(text, position);
    case 'value':
      return insteadOfValue(text, position);
    case 'argument':
    case 'pipe':
      return insteadOfPipe(text, position, place);
    default:
      return place.expected satisfies never;
  }
}

/** The name that was likely meant, in a few words; '' when none is near. */
export function nameSuggestion(name: string, known: Iterable<string>): string {
  // A name that differs in more than a third of its letters is another one.
  let least = Math.floor(Math.min(name.length, nameLengthMax) / 3) + 1;
  let nearest = '';
  for (const each of known) {
    const distance = editDistance(name, each, least);
    if (distance >= least) continue;
    least = distance;
    nearest = each;
  }
  return nearest === '' ? '' : `did you mean "${nearest}"?`;
}

/** Longer names are compared by nothing but their length. */
const nameLengthMax = 100;

/** Letters to put in, take out or change to come from one to the other, in any case; `limit` for at least so many. */
function editDistance(from: string, to: string, limit: number): number {
  if (Math.abs(from.length - to.length) >= limit || from.length > nameLengthMax) return limit;
  const [a, b] = [from.toLowerCase(), to.toLowerCase()];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const changed = row[j]! + (a[i] === b[j] ? 0 : 1);
      next.push(Math.min(changed, row[j + 1]! + 1, next[j]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}

function insteadOfExpression(text: string, position: number): string {
  const signs = text.slice(position, position + 2);
  const before = text.charAt(position - 1);
  if (signs === '=>') return 'write ">="';
  if (signs === '=<') return 'write "<="';
  if (signs.startsWith('=')) return 'write "=="';
  if (signs.startsWith('|') && before === '|') return 'write one "|"';
  if (signs.startsWith(')') && before === '(') return 'a call without arguments has no parentheses';
  if (/^[-+.]?[0-9]/.test(signs)) return 'a number is an argument, as in "> 5"';
  if (signs.startsWith('"')) return 'a string is an argument';
  return '';
}

function insteadOfValue(text: string, position: number): string {
  const next = text.charAt(position);
  if (next === ':') return 'write one ":"';
  if (next === '!') return 'patterns have no "not"; excludeByTag leaves series out';
  return insteadOfWord(next);
}

function insteadOfPipe(text: string, position: number, place: Place): string {
  const next = text.charAt(position);
  if (next === '>' && text.charAt(position - 1) === '<') return 'write "!="';
  const operator = operators.find((each) => text.startsWith(each, position));
  if (operator !== undefined) return `write "|" before "${operator}"`;
  if (next === ';') return place.end === '' ? 'only macros, as in "name = pipeline;", end so' : '';
  if (place.expected === 'pipe') return '';
  if (next === '=') return 'write ":" behind a keyword';
  if (next === ':' && !place.hasArguments) {
    return 'a keyword stands behind the name of a call, without parentheses, as in "fetch name:foo"';
  }
  if (next === '+' && /[0-9.]/.test(text.charAt(position + 1))) return 'write no "+"';
  return insteadOfWord(next);
}

function insteadOfWord(next: string): string {
  return '|();'.includes(next) ? '' : 'a text with other characters stands in double quotes';
}
