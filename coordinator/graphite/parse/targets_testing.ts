/** Trees of targets, and texts that mean them, for the campaign. */
import type { Pick } from '#test/sim/mutate.ts';
import type { CallNode, LiteralNode, NamedArgument, Node } from './tree.ts';

const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

const symbols = '(){},.\'"\\|=';
const literal = /^(?:true|false|none|inf|-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)$/i;

/** Calls have no text yet: what is printed has. */
export function targetOf(pick: Pick, depth: number): Node {
  if (depth === 0 || pick(3) === 0) return { kind: 'path', path: pathOf(pick) };
  return callOf(pick, depth);
}

function pathOf(pick: Pick): string {
  const parts = [
    'a',
    'servers',
    '*',
    '[0-9]',
    'web01',
    '{a,b}',
    '$x',
    'é',
    '\u{1f600}',
    '-',
    'true',
    '~',
    '%',
    ...symbols.split(''),
  ];
  for (;;) {
    const path = Array.from({ length: 1 + pick(5) }, () => some(pick, parts)).join(
      some(pick, ['.', '']),
    );
    // Words that are literals where arguments stand.
    if (!literal.test(path)) return path;
  }
}

function callOf(pick: Pick, depth: number): CallNode {
  const value = (): Node => (pick(3) === 0 ? literalOf(pick) : targetOf(pick, depth - 1));
  const positional = Array.from({ length: pick(4) }, value);
  const named: NamedArgument[] = [];
  for (let count = pick(3) === 0 ? pick(3) : 0; count > 0; count -= 1) {
    named.push({ name: some(pick, ['interval', 'func', '_x', 'A9', 'true']), value: value() });
  }
  const name = some(pick, ['sumSeries', 'alias', 'f', 'true', 'inf', '_9']);
  return { kind: 'call', name, text: '', positional, named };
}

function literalOf(pick: Pick): LiteralNode {
  switch (pick(5)) {
    case 0: {
      const number = some(pick, ['0', '-0', '17', '-5', '007', '123456789012345678901234567890']);
      return { kind: 'number', value: Number(number), isInteger: true };
    }
    case 1: {
      const value = some(pick, [0.5, -1.25, 1e21, 1e-7, Infinity, 3]);
      return { kind: 'number', value, isInteger: false };
    }
    case 2:
      return { kind: 'boolean', value: pick(2) === 0 };
    case 3:
      return { kind: 'none' };
    default: {
      const parts = ['a', ' ', '"', "'", '\\.', ',', ')', '\n', 'é', '$x', '\\\\', '1'];
      const text = Array.from({ length: pick(6) }, () => some(pick, parts)).join('');
      return { kind: 'string', value: text };
    }
  }
}

/** The text, and the tree with the texts of its calls; null for a string that no quotes can hold. */
export function printed(
  pick: Pick,
  node: Node,
): { readonly text: string; readonly node: Node } | null {
  const printer = new Printer(pick);
  const result = printer.target(node, false);
  return printer.fails ? null : result;
}

interface Printed {
  readonly text: string;
  readonly node: Node;
}

class Printer {
  readonly #pick: Pick;
  fails = false;

  constructor(pick: Pick) {
    this.#pick = pick;
  }

  target(node: Node, isArgument: boolean): Printed {
    const space = this.#space();
    if (node.kind === 'path') return { text: `${space}${this.#path(node.path, isArgument)}`, node };
    if (node.kind !== 'call') return { text: `${space}${this.#literal(node)}`, node };
    const [first] = node.positional;
    const isPiped = first !== undefined && (first.kind === 'path' || first.kind === 'call');
    // As an argument it would be a literal.
    const hasToBe = first?.kind === 'path' && literal.test(first.path);
    if (!isPiped || (!hasToBe && this.#pick(3) > 0)) {
      const call = this.#call(node, node.positional);
      return { text: `${space}${call.text}`, node: call };
    }
    const piped = this.target(first, isArgument);
    const call = this.#call(node, node.positional.slice(1));
    const made = { ...call, positional: [piped.node, ...call.positional] };
    return { text: `${piped.text}${this.#space()}|${this.#space()}${call.text}`, node: made };
  }

  #call({ kind, name, named }: CallNode, positional: readonly Node[]): CallNode {
    const values = positional.map((each) => this.target(each, true));
    const others = named.map((each) => ({ name: each.name, made: this.target(each.value, true) }));
    const parts = [
      ...values.map((each) => each.text),
      ...others.map((each) => `${this.#space()}${each.name}${this.#space()}=${each.made.text}`),
    ];
    const inner = parts.join(`${this.#space()},`);
    return {
      kind,
      name,
      text: `${name}${this.#space()}(${inner}${this.#space()})`,
      positional: values.map((each) => each.node),
      named: others.map((each) => ({ name: each.name, value: each.made.node })),
    };
  }

  #space(): string {
    return this.#pick(8) === 0 ? some(this.#pick, [' ', '\t', '\r\n', '  ']) : '';
  }

  /** Braces that are alternatives may stand as they are, with their commas. */
  #path(path: string, isArgument: boolean): string {
    const hasAlternatives = /^[^{},]*\{[^{}]*\}[^{},]*$/.test(path) && this.#pick(4) > 0;
    return Array.from(path, (character) => {
      const isPlain = character === '.' || (character === '=' && !isArgument);
      if (isPlain ? this.#pick(8) > 0 : !symbols.includes(character)) return character;
      return hasAlternatives && '{},'.includes(character) ? character : `\\${character}`;
    }).join('');
  }

  #literal(node: Node): string {
    switch (node.kind) {
      case 'none':
        return some(this.#pick, ['None', 'none', 'NONE']);
      case 'boolean':
        return node.value
          ? some(this.#pick, ['true', 'True'])
          : some(this.#pick, ['false', 'FALSE']);
      case 'number': {
        if (node.value === Infinity && !node.isInteger) return some(this.#pick, ['inf', 'Inf']);
        if (node.isInteger) return Object.is(node.value, -0) ? '-0' : wholeText(node.value);
        if (node.value === -Infinity) return '-1e999';
        return /[.e]/.test(`${node.value}`) ? `${node.value}` : `${node.value}.0`;
      }
      case 'string':
        return this.#string(node.value);
      default:
        throw new Error(`${node.kind} has no text`);
    }
  }

  #string(value: string): string {
    const quotes = this.#pick(2) === 0 ? ['"', "'"] : ["'", '"'];
    for (const quote of quotes) {
      const text = `${quote}${value.replaceAll(quote, `\\${quote}`)}${quote}`;
      if (holds(text, quote)) return text;
    }
    this.fails = true;
    return '""';
  }
}

/** Whether a quote ends it there, and not before: backslashes come in pairs with what they stand before. */
function holds(text: string, quote: string): boolean {
  for (let at = 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === quote) return at === text.length - 1;
  }
  return false;
}

/** Of some 309 digits it is an infinity. */
function wholeText(value: number): string {
  if (Number.isFinite(value)) return String(BigInt(value));
  return `${value < 0 ? '-' : ''}${'9'.repeat(310)}`;
}
