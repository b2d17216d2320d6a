/**
 * Targets become trees:
 *
 *     target    = primary { "|" call }
 *     primary   = template | call | path
 *     call      = name "(" [ argument { "," argument } ] ")"
 *     argument  = name "=" value | value
 *     value     = number | string | true | false | none | inf | target
 *     template  = "template" "(" target { "," [ name "=" ] ( number | string ) } ")"
 *
 * What is piped into a call is its first argument. Templates are filled in here, so trees have none.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { Scanner } from './scanner.ts';
import { TemplateFiller, templateVariablesMax, type TemplateValues } from './template.ts';
import type { CallNode, LiteralNode, NamedArgument, Node } from './tree.ts';

/** Longest text of a target. */
export const targetLengthMax: number = 65_536;
/** Calls inside of each other, and calls of one pipe, at most. */
export const targetDepthMax: number = 100;

/**
 * Parses a target in time that is linear in its length.
 * @param variables of the request's `template[name]`, which win over those of the target
 * @throws {TsdbError} BAD_REQUEST with reason and position
 */
export function parseTarget(text: string, variables: TemplateValues = new Map()): Node {
  if (text.length > targetLengthMax) {
    throw badRequest(
      `cannot parse target: longer than ${targetLengthMax} characters: ${shownText(text)}`,
    );
  }
  const parser = new Parser(text, variables);
  return parser.parse();
}

class Parser {
  readonly #scanner: Scanner;
  readonly #variables: TemplateValues;
  readonly #templates = new TemplateFiller();
  #depth = 0;

  constructor(text: string, variables: TemplateValues) {
    this.#scanner = new Scanner(text);
    this.#variables = variables;
  }

  parse(): Node {
    const node = this.#target();
    this.#scanner.skipSpaces();
    if (!this.#scanner.isAtEnd) {
      throw this.#scanner.error(`expected the end, not ${this.#scanner.found()}`);
    }
    return node;
  }

  #target(): Node {
    const start = this.#depth;
    this.#deeper();
    let node = this.#primary();
    while (this.#scanner.take('|')) {
      this.#deeper();
      this.#scanner.skipSpaces();
      const begin = this.#scanner.position;
      const name = this.#scanner.takeNameBefore('(');
      if (name === null) {
        throw this.#scanner.error(`expected a function behind "|", not ${this.#scanner.found()}`);
      }
      const call = this.#call(name, begin);
      node = { ...call, positional: [node, ...call.positional] };
    }
    this.#depth = start;
    return node;
  }

  #deeper(): void {
    this.#depth += 1;
    if (this.#depth <= targetDepthMax) return;
    throw this.#scanner.error(`more than ${targetDepthMax} functions inside of each other`);
  }

  #primary(): Node {
    this.#scanner.skipSpaces();
    const start = this.#scanner.position;
    const name = this.#scanner.takeNameBefore('(');
    if (name === null) return { kind: 'path', path: this.#scanner.takePath() };
    return name === 'template' ? this.#template() : this.#call(name, start);
  }

  /** @param start where its text begins */
  #call(name: string, start: number): CallNode {
    const positional: Node[] = [];
    const named: NamedArgument[] = [];
    if (!this.#scanner.take(')')) {
      do {
        const argument = this.#scanner.takeNameBefore('=');
        if (argument !== null) named.push({ name: argument, value: this.#value() });
        else if (named.length === 0) positional.push(this.#value());
        else throw this.#scanner.error(`an argument of ${name} without a name is behind one with`);
      } while (this.#scanner.take(','));
      this.#scanner.expect(')', `"," or ")" in ${name}(…)`);
    }
    const text = this.#scanner.text.slice(start, this.#scanner.position);
    return { kind: 'call', name, text, positional, named };
  }

  #value(): Node {
    this.#scanner.skipSpaces();
    if (this.#scanner.next === '"' || this.#scanner.next === "'") {
      return { kind: 'string', value: this.#scanner.takeString() };
    }
    const start = this.#scanner.position;
    const literal = this.#takeLiteral();
    if (literal !== null) return literal;
    this.#scanner.position = start;
    return this.#target();
  }

  #takeLiteral(): LiteralNode | null {
    if (!/[-+0-9tfniTFNI]/.test(this.#scanner.next)) return null;
    const literal = literalOf(this.#scanner.takePath());
    this.#scanner.skipSpaces();
    return /^[,)]?$/.test(this.#scanner.next) ? literal : null;
  }

  #template(): Node {
    const body = this.#target();
    const values = new Map<string, string | number>();
    while (this.#scanner.take(',')) {
      const name = this.#scanner.takeNameBefore('=') ?? `${values.size + 1}`;
      this.#scanner.skipSpaces();
      const start = this.#scanner.position;
      const value = this.#value();
      if (value.kind !== 'string' && value.kind !== 'number') {
        throw this.#scanner.error(
          'an argument of template is neither a string nor a number',
          start,
        );
      }
      values.set(name, value.value);
      if (values.size > templateVariablesMax) {
        throw this.#scanner.error(
          `template has more than ${templateVariablesMax} variables`,
          start,
        );
      }
    }
    this.#scanner.expect(')', '"," or ")" in template(…)');
    for (const [name, value] of this.#variables) values.set(name, value);
    return this.#templates.fill(body, values);
  }
}

const integer = /^-?\d+$/;
const decimal = /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

function literalOf(word: string): LiteralNode | null {
  switch (word.toLowerCase()) {
    case 'true':
      return { kind: 'boolean', value: true };
    case 'false':
      return { kind: 'boolean', value: false };
    case 'none':
      return { kind: 'none' };
    case 'inf':
      return { kind: 'number', value: Infinity, isInteger: false };
    default:
      if (!decimal.test(word)) return null;
      return { kind: 'number', value: Number(word), isInteger: integer.test(word) };
  }
}
