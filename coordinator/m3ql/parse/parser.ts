/**
 * Scripts of M3QL become trees:
 *
 *     script      = { name "=" pipeline ";" } pipeline
 *     pipeline    = expression { "|" expression }
 *     expression  = ( name | operator ) { argument } | "(" pipeline ")"
 *     operator    = "<=" | "<" | "==" | "!=" | ">=" | ">"
 *     argument    = [ name ":" ] ( boolean | number | pattern | string | "(" pipeline ")" )
 *
 * docs/M3QL.md has the words. What names mean is not known here.
 */
import { badRequest, shownText, type TsdbError } from '#lib/errors.ts';
import { Scanner } from './scanner.ts';
import { suggestionAt, type Place } from './suggestion.ts';
import type { Argument, Expression, Macro, Pipeline, Script, Value, WordValue } from './tree.ts';

/** Longest text of a script. */
export const scriptLengthMax: number = 65_536;
/** Parentheses inside of each other, at most. */
export const scriptDepthMax: number = 100;

/**
 * Parses a script in time that is linear in its length.
 * @throws {TsdbError} BAD_REQUEST with line, column, what belongs there and what stands there
 */
export function parseScript(text: string): Script {
  if (text.length > scriptLengthMax) {
    throw badRequest(
      `cannot parse script: longer than ${scriptLengthMax} characters: ${JSON.stringify(shownText(text))}`,
    );
  }
  return new Parser(text).parse();
}

class Parser {
  readonly #scanner: Scanner;
  #depth = 0;

  constructor(text: string) {
    this.#scanner = new Scanner(text);
  }

  parse(): Script {
    const macros: Macro[] = [];
    for (let macro = this.#macro(); macro !== null; macro = this.#macro()) macros.push(macro);
    const pipeline = this.#pipeline('');
    const { start } = macros[0] ?? pipeline;
    return { kind: 'script', start, end: pipeline.end, macros, pipeline };
  }

  #macro(): Macro | null {
    const start = this.#begin();
    const name = this.#scanner.takeMacroName();
    if (name === null) return null;
    const pipeline = this.#pipeline(';');
    return { kind: 'macro', start, end: this.#scanner.position, name, pipeline };
  }

  /** Takes a pipeline and its end. */
  #pipeline(end: Place['end']): Pipeline {
    const first = this.#expression(end);
    const expressions = [first];
    let last = first;
    while (this.#scanner.take('|')) {
      last = this.#expression(end);
      expressions.push(last);
    }
    if (!this.#scanner.take(end)) throw this.#errorBehind(last, end);
    return { kind: 'pipeline', start: first.start, end: last.end, expressions };
  }

  #expression(end: Place['end']): Expression {
    const start = this.#begin();
    const name = this.#scanner.takeName() ?? this.#scanner.takeOperator();
    if (name === null) {
      const pipeline = this.#nested();
      if (pipeline !== null) return pipeline;
      const place: Place = { expected: 'expression', end, hasArguments: false };
      throw this.#error('a name, a comparison or "("', place);
    }
    let last = this.#scanner.position;
    const args: Argument[] = [];
    for (let arg = this.#argument(end); arg !== null; arg = this.#argument(end)) {
      args.push(arg);
      last = arg.end;
    }
    return { kind: 'call', start, end: last, name, arguments: args };
  }

  #argument(end: Place['end']): Argument | null {
    const start = this.#begin();
    const keyword = this.#scanner.takeKeyword();
    const value = this.#value();
    if (value !== null) return { kind: 'argument', start, end: value.end, keyword, value };
    if (keyword === null) return null;
    const place: Place = { expected: 'value', end, hasArguments: true };
    throw this.#error(`a value of ${JSON.stringify(shownText(keyword))}`, place);
  }

  #value(): Value | null {
    const start = this.#begin();
    const word = this.#scanner.takeWord();
    if (word !== null) return valueOf(word, start, this.#scanner.position);
    const text = this.#scanner.takeString();
    if (text !== null) return { kind: 'string', start, end: this.#scanner.position, text };
    return this.#nested();
  }

  #nested(): Pipeline | null {
    const start = this.#begin();
    if (!this.#scanner.take('(')) return null;
    if (this.#depth === scriptDepthMax) {
      const reason = `more than ${scriptDepthMax} parentheses inside of each other`;
      throw this.#scanner.error(reason, '', start);
    }
    this.#depth += 1;
    const pipeline = this.#pipeline(')');
    this.#depth -= 1;
    return { ...pipeline, start, end: this.#scanner.position };
  }

  /** Where the next token begins. */
  #begin(): number {
    this.#scanner.skipSpaces();
    return this.#scanner.position;
  }

  #errorBehind(last: Expression, end: Place['end']): TsdbError {
    const isCall = last.kind === 'call';
    const hasArguments = isCall && last.arguments.length > 0;
    const expected = `${isCall ? 'an argument, ' : ''}"|" or ${end === '' ? 'the end' : `"${end}"`}`;
    return this.#error(expected, { expected: isCall ? 'argument' : 'pipe', end, hasArguments });
  }

  #error(expected: string, place: Place): TsdbError {
    this.#scanner.skipSpaces();
    const { text, position } = this.#scanner;
    const reason = `expected ${expected}, not ${this.#scanner.found()}`;
    return this.#scanner.error(reason, suggestionAt(text, position, place));
  }
}

const boolean = /^(?:true|false)$/i;
const number = /^-?(?:[0-9]+|[0-9]*\.[0-9]+)$/;

function valueOf(text: string, start: number, end: number): WordValue {
  if (boolean.test(text)) {
    return { kind: 'boolean', start, end, value: text.toLowerCase() === 'true', text };
  }
  if (number.test(text)) return { kind: 'number', start, end, value: Number(text), text };
  return { kind: 'pattern', start, end, text };
}
