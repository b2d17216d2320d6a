/** Queries that a seed decides, with what they mean in brackets, by rules of precedence that are written here once more. */
import type { Pick } from '#test/sim/mutate.ts';
import { functions, type ValueType } from '../functions/table.ts';

export const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

export interface GeneratedQuery {
  readonly text: string;
  /** As `shapeOf` of query_shapes_testing.ts tells the tree. */
  readonly shape: string;
  /** How much its last operator binds; what none has binds most. */
  readonly level: number;
  /** Of a number alone, which takes the signs before it. */
  readonly number?: number;
}

const levels: Readonly<Record<string, number>> = {
  or: 1,
  and: 2,
  unless: 2,
  '==': 3,
  '!=': 3,
  '<': 3,
  '>': 3,
  '<=': 3,
  '>=': 3,
  '</': 3,
  '>/': 3,
  '+': 4,
  '-': 4,
  '*': 5,
  '/': 5,
  '%': 5,
  atan2: 5,
  '^': 7,
};
/** Of a sign: what it stands before is a factor. */
const signLevel = 6;
const powerLevel = 7;
const primary = 9;
const sets = new Set(['or', 'and', 'unless']);
const comparisons = new Set(['==', '!=', '<', '>', '<=', '>=']);

const names = ['up', 'a:b', 'http_requests_total', 'sum', 'on', 'offset', 'nan_x', 'bool'];
const labels = ['job', 'le', 'by', 'a.b', 'ü'];
const durations = [
  ['5m', 300_000],
  ['1h30m', 5_400_000],
  ['90s', 90_000],
  ['1d', 86_400_000],
  ['15ms', 15],
  ['300', 300_000],
  ['0.5', 500],
] as const;

export class QueryMaker {
  readonly #pick: Pick;

  constructor(pick: Pick) {
    this.#pick = pick;
  }

  query(type: ValueType, depth: number): GeneratedQuery {
    const made = this.#of(type, depth);
    // Brackets that say nothing.
    return type !== 'string' && this.#pick(15) === 0 ? bracketed(made) : made;
  }

  #of(type: ValueType, depth: number): GeneratedQuery {
    const pick = this.#pick;
    if (type === 'string') return this.#string();
    if (type === 'matrix') return this.#matrix(depth);
    if (depth === 0) return type === 'scalar' ? this.#number() : this.#selector('');
    switch (pick(7)) {
      case 0:
        return type === 'scalar' ? this.#number() : this.#selector('');
      case 1:
        return this.#sign(type, depth);
      case 2:
      case 3:
        return this.#binary(type, depth);
      case 4:
        return type === 'vector' ? this.#aggregate(depth) : this.#call(type, depth);
      default:
        return this.#call(type, depth);
    }
  }

  #space(): string {
    return this.#pick(6) > 0 ? ' ' : some(this.#pick, ['  ', '\n', '\t', ' # c "\n ']);
  }

  #string(): GeneratedQuery {
    const text = some(this.#pick, ['', 'a', '$1', 'ü\u{1f600}', '(.*)', 'a b', '}']);
    return { text: quotedIn(this.#pick, text), shape: JSON.stringify(text), level: primary };
  }

  #number(): GeneratedQuery {
    const [text, value] = some(this.#pick, [
      ['0', 0],
      ['1.5', 1.5],
      ['1e3', 1000],
      ['.25', 0.25],
      ['0x1F', 31],
      ['1_000', 1000],
      ['2.', 2],
      ['1e-7', 1e-7],
      ['NaN', Number.NaN],
      ['inf', Infinity],
      ['5m', 300],
      ['1h30m', 5400],
      ['18446744073709551616', 2 ** 64],
    ] as const);
    return { text, shape: String(value), level: primary, number: value };
  }

  #matcher(): readonly [text: string, shape: string] {
    const pick = this.#pick;
    const name = some(pick, labels);
    const kind = some(pick, ['=', '!=', '=~', '!~']);
    const value = some(pick, ['x', 'a|b', '.+', 'ü', '1.*']);
    const label = /^\w+$/.test(name) ? name : quotedIn(pick, name);
    return [`${label}${kind}${quotedIn(pick, value)}`, `${name}${kind}${value}`];
  }

  /** @param range '' for none */
  #selector(range: string, rangeShape = ''): GeneratedQuery {
    const pick = this.#pick;
    const matchers = Array.from({ length: pick(3) }, () => this.#matcher());
    const name = some(pick, names);
    const way = pick(4);
    // A name as a word, in quotes, or none.
    const isWord = way < 2 && !['sum', 'on', 'offset', 'bool'].includes(name);
    if (!isWord && way < 3) matchers.unshift([quotedIn(pick, `${name}.x`), `__name__=${name}.x`]);
    else if (!isWord) matchers.unshift(['job="x"', 'job=x']);
    const braces =
      isWord && matchers.length === 0 && pick(3) > 0 ? '' : matchers.map(([text]) => text);
    const head = isWord ? name : '';
    const inner = braces === '' ? '' : `{${braces.join(some(pick, [',', ', ']))}}`;
    const shapes = matchers.map(([, shape]) => shape);
    if (isWord) shapes.push(`__name__=${name}`);
    const [modifiers, modified] = this.#modifiers();
    const isExtended = pick(12) === 0;
    const extension = isExtended ? some(pick, ['anchored', 'smoothed']) : '';
    return {
      text: `${head}${inner}${range}${isExtended ? ` ${extension}` : ''}${modifiers}`,
      shape: `{${shapes.sort().join()}${extension}}${rangeShape}${modified}`,
      level: primary,
    };
  }

  #modifiers(): readonly [text: string, shape: string] {
    const pick = this.#pick;
    const [duration, millis] = some(pick, durations);
    const isBack = pick(4) === 0;
    const parts: [text: string, shape: string][] = [];
    const [at, atShape] = some(pick, [
      ['17.5', '17500'],
      ['start()', 'start'],
      ['end()', 'end'],
      ['-3', '-3000'],
    ]);
    if (pick(8) === 0) parts.push([`${this.#space()}@ ${at}`, `@${atShape}`]);
    if (pick(6) === 0) {
      const sign = isBack ? '-' : '';
      parts.push([`${this.#space()}offset ${sign}${duration}`, `offset${sign}${millis}`]);
    }
    const texts = parts.map(([text]) => text);
    if (pick(2) === 0) texts.reverse();
    return [texts.join(''), parts.map(([, shape]) => shape).join('')];
  }

  #matrix(depth: number): GeneratedQuery {
    const pick = this.#pick;
    const [range, millis] = some(pick, durations);
    if (depth === 0 || pick(4) > 0) return this.#selector(`[${range}]`, `[${millis}]`);
    const of = inBrackets(this.query('vector', depth - 1), primary);
    const [step, stepMillis] = pick(2) === 0 ? (['', 0] as const) : some(pick, durations);
    const [modifiers, modified] = this.#modifiers();
    const shape = `${of.shape}[${millis}:${stepMillis}]${modified}`;
    return { text: `${of.text}[${range}:${step}]${modifiers}`, shape, level: primary };
  }

  #sign(type: ValueType, depth: number): GeneratedQuery {
    const of = inBrackets(this.query(type, depth - 1), signLevel);
    const sign = some(this.#pick, ['-', '-', '+']);
    if (of.number !== undefined) {
      const number = sign === '-' ? -of.number : of.number;
      return { text: `${sign}${of.text}`, shape: String(number), level: signLevel, number };
    }
    const shape = sign === '-' ? `(-${of.shape})` : of.shape;
    return { text: `${sign}${of.text}`, shape, level: signLevel };
  }

  #binary(type: ValueType, depth: number): GeneratedQuery {
    const pick = this.#pick;
    const sides =
      type === 'scalar'
        ? (['scalar', 'scalar'] as const)
        : some(pick, [
            ['vector', 'vector'],
            ['vector', 'scalar'],
            ['scalar', 'vector'],
          ] as const);
    const isOfVectors = sides[0] === 'vector' && sides[1] === 'vector';
    const all = Object.keys(levels).filter((each) => isOfVectors || !sets.has(each));
    const operator = pick(5) === 0 ? '^' : some(pick, all);
    const level = levels[operator]!;
    const isPower = level === powerLevel;
    const left = inBrackets(this.query(sides[0], depth - 1), isPower ? primary : level);
    const right = this.query(sides[1], depth - 1);
    const isSignBehind = right.level === signLevel && pick(2) === 0;
    const least = isPower ? level : level + 1;
    const made = isSignBehind ? right : inBrackets(right, least);
    const mayBool = comparisons.has(operator);
    const isBool = mayBool && (type === 'scalar' || pick(3) === 0);
    const [matching, matched] = isOfVectors
      ? this.#matching(sets.has(operator), made.text.startsWith('('))
      : ['', ''];
    const words = `${operator}${isBool ? ' bool' : ''}`;
    const text = `${left.text}${this.#space()}${words}${matching}${this.#space()}${made.text}`;
    return { text, shape: `(${left.shape} ${words}${matched} ${made.shape})`, level };
  }

  /** @param isBeforeBracket which is a list of labels then, if there is none */
  #matching(isSet: boolean, isBeforeBracket: boolean): readonly [text: string, shape: string] {
    const pick = this.#pick;
    if (pick(2) === 0) return ['', ''];
    const word = some(pick, ['on', 'ignoring']);
    const of = labels.slice(0, pick(3)).filter((label) => /^[a-z]+$/.test(label));
    const head = ` ${word}${some(pick, ['', ' '])}(${of.join(', ')})`;
    const shape = word === 'ignoring' && of.length === 0 ? '' : ` ${word}(${of.join()})`;
    if (isSet) return [head, shape];
    const group = some(pick, ['', '', 'group_left', 'group_right']);
    const include = group === '' ? [] : ['x', 'y'].slice(0, pick(3));
    const mayBeNone = include.length === 0 && !isBeforeBracket;
    const list = mayBeNone && pick(2) === 0 ? '' : `(${include.join()})`;
    const fill = some(pick, ['', '', '', ' fill (1)', ' fill_left(2)', ' fill_right (-3)']);
    const filled = { '': '', ' fill (1)': ' 1 1', ' fill_left(2)': ' 2 null' }[fill] ?? ' null -3';
    if (group === '') return [head + fill, shape + filled];
    return [
      `${head} ${group}${list}${fill}`,
      ` ${word}(${of.join()})${group}(${include.join()})${filled}`,
    ];
  }

  #aggregate(depth: number): GeneratedQuery {
    const pick = this.#pick;
    const operator = some(pick, [
      'sum',
      'avg',
      'count',
      'topk',
      'quantile',
      'count_values',
      'limitk',
      'group',
    ]);
    const parameters: Readonly<Record<string, ValueType>> = {
      topk: 'scalar',
      quantile: 'scalar',
      limitk: 'scalar',
      count_values: 'string',
    };
    const type = parameters[operator];
    const args = type === undefined ? [] : [this.query(type, depth - 1)];
    args.push(this.query('vector', depth - 1));
    const word = some(pick, ['', 'by', 'without']);
    const of = labels.slice(pick(3), 3);
    const clause = word === '' ? '' : ` ${word} (${of.join(', ')})`;
    const texts = `(${args.map(({ text }) => text).join(`,${this.#space()}`)})`;
    const isBehind = pick(2) === 0;
    const shapes = args.map(({ shape }) => shape).join();
    const grouped = word === 'without' ? `without${of.join()}` : word === 'by' ? of.join() : '';
    return {
      text: isBehind
        ? `${operator}${texts}${clause}`
        : `${operator}${clause}${clause === '' ? '' : ' '}${texts}`,
      shape: `${operator}[${grouped}](${shapes})`,
      level: primary,
    };
  }

  #call(type: ValueType, depth: number): GeneratedQuery {
    const pick = this.#pick;
    const all = [...functions].filter(([name, { result }]) => result === type && name !== 'info');
    const [name, { args, optional }] = some(pick, all);
    const count = args.length - (pick(2) === 0 ? Math.abs(optional) : 0);
    const made = args.slice(0, count).map((each) => this.query(each, depth - 1));
    const texts = made.map(({ text }) => text).join(`,${this.#space()}`);
    const shape = `${name}(${made.map((each) => each.shape).join()})`;
    return { text: `${name}(${texts})`, shape, level: primary };
  }
}

const bracketed = ({ text, shape }: GeneratedQuery): GeneratedQuery => ({
  text: `(${text})`,
  shape,
  level: primary,
});

const inBrackets = (of: GeneratedQuery, least: number): GeneratedQuery =>
  of.level < least ? bracketed(of) : of;

function quotedIn(pick: Pick, text: string): string {
  const quote = some(pick, ['"', "'", '`']);
  return quote === '`' ? `\`${text}\`` : `${quote}${text}${quote}`;
}
