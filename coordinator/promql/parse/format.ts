/**
 * A query in its usual form: one space where one belongs, and broken over lines where it is long.
 */
import type { Turning } from '#engine/aside/aside.ts';
import { formatGeneral, formatNumber } from '#engine/window_functions/number_format.ts';
import { compareTexts } from '#lib/text_order.ts';
import {
  type Aggregate,
  type AtModifier,
  type Binary,
  type Expr,
  setOperators,
  type VectorMatching,
  type VectorSelector,
} from './ast.ts';
import type { PromqlFeatures } from './features.ts';
import type { Duration } from './durations.ts';
import { parseQuery } from './parser.ts';
import { quoted } from '../words/literals.ts';

/** Expressions that are longer stand on several lines. */
const lineLengthMax = 100;

/** Deeper ones stay on one line, so that the text does not grow with the square of the depth. */
const indentLengthMax = 60;

/**
 * The query as `format_query` answers it, in Prometheus' form: comments are lost, labels are sorted, texts stand in double
 * quotes, numbers have no exponent.
 * @throws as `parseQuery`
 */
export async function formatQuery(
  query: string,
  features: PromqlFeatures,
  turning: Turning,
): Promise<string> {
  const expr = await parseQuery(query, features, turning);
  return new Formatter().lines(expr, '');
}

class Formatter {
  /** On one line: what stands inside of others is asked for with each of them. */
  readonly #flatTexts = new Map<Expr, string>();

  /** The expression with every line behind `indent`. */
  lines(expr: Expr, indent: string): string {
    const flat = this.#flat(expr);
    if (isShort(flat) || indent.length >= indentLengthMax) {
      // Prometheus indents what is in a subquery only where it breaks it.
      return expr.kind === 'subquery' ? flat : indent + flat;
    }
    const inner = `${indent}  `;
    switch (expr.kind) {
      case 'binary': {
        const left = this.lines(expr.left, inner);
        return `${left}\n${indent}${operatorText(expr)}\n${this.lines(expr.right, inner)}`;
      }
      case 'paren':
        return `${indent}(\n${this.lines(expr.expr, inner)}\n${indent})`;
      case 'aggregate': {
        const args = [...(expr.parameter === null ? [] : [expr.parameter]), expr.expr];
        return `${indent}${aggregateHead(expr)}${this.#argumentLines(args, indent)}`;
      }
      case 'call':
        return expr.args.length === 0
          ? indent + flat
          : `${indent}${expr.name}${this.#argumentLines(expr.args, indent)}`;
      case 'subquery':
        return `${this.lines(expr.expr, indent)}${rangeText(expr)}${modifiers(expr)}`;
      case 'unary':
        return `${indent}${expr.operator}${this.lines(expr.expr, indent).trimStart()}`;
      case 'number':
      case 'string':
      case 'vectorSelector':
      case 'matrixSelector':
        return indent + flat;
    }
  }

  #argumentLines(args: readonly Expr[], indent: string): string {
    const each = args.map((arg) => this.lines(arg, `${indent}  `));
    return `(\n${each.join(',\n')}\n${indent})`;
  }

  #flat(expr: Expr): string {
    let text = this.#flatTexts.get(expr);
    if (text === undefined) {
      text = this.#flatOf(expr);
      this.#flatTexts.set(expr, text);
    }
    return text;
  }

  #flatOf(expr: Expr): string {
    switch (expr.kind) {
      case 'number':
        return numberText(expr);
      case 'string':
        return quoted(expr.value);
      case 'vectorSelector':
        return selectorText(expr) + timeText(expr) + extensionText(expr) + offsetText(expr);
      case 'matrixSelector': {
        const { selector, range } = expr;
        const head = `${selectorText(selector)}[${durationText(range)}]`;
        return head + extensionText(selector) + modifiers(selector);
      }
      case 'subquery':
        return `${this.#flat(expr.expr)}${rangeText(expr)}${modifiers(expr)}`;
      case 'call':
        return `${expr.name}(${expr.args.map((arg) => this.#flat(arg)).join(', ')})`;
      case 'aggregate': {
        const parameter = expr.parameter === null ? '' : `${this.#flat(expr.parameter)}, `;
        return `${aggregateHead(expr)}(${parameter}${this.#flat(expr.expr)})`;
      }
      case 'binary':
        return `${this.#flat(expr.left)} ${operatorText(expr)} ${this.#flat(expr.right)}`;
      case 'unary':
        return `${expr.operator}${this.#flat(expr.expr)}`;
      case 'paren':
        return `(${this.#flat(expr.expr)})`;
    }
  }
}

/** Bytes are counted of what may be short alone: long texts are never put together where they stand in others. */
function isShort(text: string): boolean {
  return text.length <= lineLengthMax && Buffer.byteLength(text) <= lineLengthMax;
}

/** A name in the braces stays there: in front of them it would be none that `info` takes. */
function selectorText({ matchers, isNamed }: VectorSelector): string {
  const name = isNamed ? matchers[0]! : null;
  const others = matchers
    .slice(isNamed ? 1 : 0)
    .map(({ name: label, kind, value }) => `${labelText(label)}${kind}${quoted(value)}`)
    .sort(compareTexts);
  const braces = others.length === 0 && name !== null ? '' : `{${others.join(',')}}`;
  return `${name?.value ?? ''}${braces}`;
}

function labelText(label: string): string {
  return /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(label) ? label : quoted(label);
}

function labelList(labels: readonly string[]): string {
  return `(${labels.map(labelText).join(', ')})`;
}

function aggregateHead({ operator, grouping }: Aggregate): string {
  if (grouping.without) return `${operator} without ${labelList(grouping.labels)} `;
  return grouping.labels.length === 0 ? operator : `${operator} by ${labelList(grouping.labels)} `;
}

function operatorText({ operator, returnBool, matching }: Binary): string {
  const words: string[] = [operator];
  if (returnBool) words.push('bool');
  if (matching !== null) words.push(...matchingWords(matching, setOperators.has(operator)));
  return words.join(' ');
}

function matchingWords(matching: VectorMatching, isSet: boolean): string[] {
  const { on, labels, include, cardinality } = matching;
  const isGrouped = cardinality === 'many-to-one' || cardinality === 'one-to-many';
  const words: string[] = [];
  if (on || labels.length > 0 || isGrouped) {
    words.push(`${on ? 'on' : 'ignoring'} ${labelList(labels)}`);
  }
  if (isSet) return words;
  if (isGrouped) {
    words.push(`group_${cardinality === 'many-to-one' ? 'left' : 'right'} ${labelList(include)}`);
  }
  return [...words, ...fillWords(matching)];
}

function fillWords({ fillLeft, fillRight }: VectorMatching): string[] {
  if (fillLeft !== null && fillLeft === fillRight) return [`fill (${formatGeneral(fillLeft)})`];
  return [
    ...(fillLeft === null ? [] : [`fill_left (${formatGeneral(fillLeft)})`]),
    ...(fillRight === null ? [] : [`fill_right (${formatGeneral(fillRight)})`]),
  ];
}

/** Numbers in Prometheus' form, durations as durations. */
function numberText({ value, hasUnits }: { value: number; hasUnits: boolean }): string {
  return hasUnits ? millisText(Math.round(value * 1000)) : formatNumber(value);
}

function rangeText({ range, step }: { readonly range: Duration; readonly step: Duration }): string {
  return `[${durationText(range)}:${step === 0 ? '' : durationText(step)}]`;
}

function extensionText({ extension }: VectorSelector): string {
  return extension === null ? '' : ` ${extension}`;
}

interface Modifiers {
  readonly offset: Duration;
  readonly at: AtModifier | null;
}

const modifiers = (of: Modifiers): string => timeText(of) + offsetText(of);

function timeText({ at }: Modifiers): string {
  if (at === null) return '';
  return at.kind === 'time' ? ` @ ${(at.millis / 1000).toFixed(3)}` : ` @ ${at.kind}()`;
}

function offsetText({ offset }: Modifiers): string {
  return offset === 0 ? '' : ` offset ${durationText(offset)}`;
}

function durationText(duration: Duration): string {
  if (typeof duration === 'number') return millisText(duration);
  switch (duration.kind) {
    case 'number':
      return numberText(duration);
    case 'step':
    case 'range':
      return `${duration.kind}()`;
    case 'paren':
      return `(${durationText(duration.of)})`;
    case 'negative':
      return `-${durationText(duration.of)}`;
    case 'extreme':
      return `${duration.name}(${durationText(duration.left)}, ${durationText(duration.right)})`;
    case 'binary':
      return `${durationText(duration.left)} ${duration.operator} ${durationText(duration.right)}`;
  }
}

const durationUnits = [
  ['y', 365 * 86_400_000],
  ['w', 7 * 86_400_000],
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const;

/** As Prometheus prints durations, "1h30m"; years and weeks only where they are the whole of it. */
export function millisText(millis: number): string {
  if (millis === 0) return '0s';
  if (millis < 0) return `-${millisText(-millis)}`;
  let rest = millis;
  let text = '';
  for (const [unit, unitMillis] of durationUnits) {
    const exact = unit === 'y' || unit === 'w';
    if (exact && rest % unitMillis !== 0) continue;
    const count = Math.floor(rest / unitMillis);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * unitMillis;
  }
  return text;
}
