/**
 * Tree of tokens → typed syntax tree. The grammar lets `@`, `offset` and `[...]` swallow a whole
 * binary expression, so operators are associated anew here; literals are read, and what needs a
 * feature flag is refused.
 */
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { AnchoredRegexp } from '#lib/regexp/regexp.ts';
import type { QueryRegexps } from '#lib/regexp/regexps.ts';
import type { Matcher } from '../../select/storage.ts';
import type {
  Aggregate,
  AggregateOperator,
  AtModifier,
  BinaryOperator,
  Expr,
  Grouping,
  VectorMatching,
  VectorSelector,
} from './ast.ts';
import { comparisonOperators, typeOf } from './ast.ts';
import type { Duration, DurationExpr, DurationOperator } from './durations.ts';
import type { PromqlFeatures } from './features.ts';
import { parseError } from '../words/errors.ts';
import { functions } from '../functions/table.ts';
import {
  durationMillisMax,
  durationMillisOf,
  numberOf,
  quoted,
  unquote,
} from '../words/literals.ts';
import type { Span } from '../words/position.ts';
import { explainSyntaxError } from '../words/syntax_error.ts';
import { childrenOf } from './tree.ts';
import type { SyntaxNode } from './tree.ts';

/** Higher binds tighter. Unary signs stand with multiplication, as in `-a * b` = `(-a) * b`. */
const precedences: Record<BinaryOperator, number> = {
  or: 1,
  and: 2,
  unless: 2,
  '==': 3,
  '!=': 3,
  '<': 3,
  '<=': 3,
  '>': 3,
  '>=': 3,
  '</': 3,
  '>/': 3,
  '+': 4,
  '-': 4,
  '*': 5,
  '/': 5,
  '%': 5,
  atan2: 5,
  '^': 6,
};
const powerPrecedence = 6;

interface OperatorToken {
  readonly operator: BinaryOperator;
  readonly returnBool: boolean;
  readonly boolSpan: Span | null;
  readonly clause: SyntaxNode | null;
  readonly fill: SyntaxNode | null;
  readonly start: number;
}

/** The in-order pieces of nested operator expressions, to be associated anew. */
type Piece =
  | { readonly kind: 'operand'; readonly node: SyntaxNode }
  | { readonly kind: 'sign'; readonly operator: '+' | '-'; readonly start: number }
  | { readonly kind: 'number'; readonly text: string; readonly start: number; readonly end: number }
  | { readonly kind: 'operator'; readonly token: OperatorToken }
  | { readonly kind: 'postfix'; readonly node: SyntaxNode; readonly operandEnd: number };

const postfixNodes = new Set([
  'OffsetExpr',
  'StepInvariantExpr',
  'MatrixSelector',
  'SubqueryExpr',
  'AnchoredExpr',
  'SmoothedExpr',
]);

/** Words that the grammar takes for labels, and Prometheus does not. */
const noLabels: ReadonlySet<string> = new Set(['inf', 'nan', 'without']);

export class Builder {
  readonly #query: string;
  readonly #features: PromqlFeatures;
  readonly #regexps: QueryRegexps;

  /** @param regexps when some are not found, what is built is not checked for them */
  constructor(query: string, features: PromqlFeatures, regexps: QueryRegexps) {
    this.#query = query;
    this.#features = features;
    this.#regexps = regexps;
  }

  expression(node: SyntaxNode): Expr {
    const pieces: Piece[] = [];
    this.#linearize(node, pieces);
    const cursor = { at: 0 };
    const expr = this.#binary(pieces, cursor, 0);
    if (cursor.at !== pieces.length) throw explainSyntaxError(this.#query, node.to);
    return expr;
  }

  #text(node: SyntaxNode): string {
    return this.#query.slice(node.from, node.to);
  }

  #fail(offset: number, message: string): never {
    throw parseError(this.#query, offset, message);
  }

  #linearize(node: SyntaxNode, pieces: Piece[]): void {
    const children = childrenOf(node);
    if (node.name === 'BinaryExpr') {
      this.#linearize(children[0]!, pieces);
      const operatorNode = children[1]!;
      let boolNode: SyntaxNode | null = null;
      let clause: SyntaxNode | null = null;
      let fill: SyntaxNode | null = null;
      for (const child of children.slice(2, -1)) {
        if (child.name === 'BoolModifier') boolNode = child;
        else if (child.name === 'MatchingModifierClause') clause = child;
        else if (child.name === 'FillModifier') {
          if (!this.#features.fillModifiers) {
            this.#fail(node.from, 'binop fill modifiers are experimental and not enabled');
          }
          fill = child;
        }
      }
      const operator = this.#text(operatorNode).toLowerCase();
      if (!(operator in precedences)) {
        this.#fail(operatorNode.from, `unexpected <op:${operator}>`);
      }
      pieces.push({
        kind: 'operator',
        token: {
          operator: operator as BinaryOperator,
          returnBool: boolNode !== null,
          boolSpan: boolNode === null ? null : { start: operatorNode.from, end: boolNode.to },
          clause,
          fill,
          start: operatorNode.from,
        },
      });
      this.#linearize(children.at(-1)!, pieces);
    } else if (node.name === 'UnaryExpr') {
      const sign = children[0]!;
      pieces.push({
        kind: 'sign',
        operator: this.#text(sign) === '-' ? '-' : '+',
        start: sign.from,
      });
      this.#linearize(children[1]!, pieces);
    } else if (postfixNodes.has(node.name)) {
      this.#linearize(children[0]!, pieces);
      pieces.push({ kind: 'postfix', node, operandEnd: children[0]!.to });
    } else if (node.name === 'NumberDurationLiteral') {
      const text = this.#text(node);
      const sign = /^([+-])\s*/.exec(text);
      if (sign !== null) {
        pieces.push({ kind: 'sign', operator: sign[1] as '+' | '-', start: node.from });
      }
      const start = node.from + (sign?.[0].length ?? 0);
      pieces.push({
        kind: 'number',
        text: this.#query.slice(start, node.to),
        start,
        end: node.to,
      });
    } else {
      pieces.push({ kind: 'operand', node });
    }
  }

  /** Precedence climbing over the pieces. */
  #binary(pieces: readonly Piece[], cursor: { at: number }, precedenceMin: number): Expr {
    let left = this.#unary(pieces, cursor);
    for (;;) {
      const piece = pieces[cursor.at];
      if (piece === undefined || piece.kind !== 'operator') return left;
      const { token } = piece;
      const precedence = precedences[token.operator];
      if (precedence < precedenceMin) return left;
      cursor.at++;
      const rightMin = token.operator === '^' ? precedence : precedence + 1;
      const right = this.#binary(pieces, cursor, rightMin);
      if (token.returnBool && !comparisonOperators.has(token.operator)) {
        this.#fail(token.start, 'bool modifier can only be used on comparison operators');
      }
      left = {
        kind: 'binary',
        operator: token.operator,
        type: typeOf(left) === 'scalar' && typeOf(right) === 'scalar' ? 'scalar' : 'vector',
        left,
        right,
        returnBool: token.returnBool,
        matching: this.#matching(token),
        span: { start: left.span.start, end: right.span.end },
      };
    }
  }

  #unary(pieces: readonly Piece[], cursor: { at: number }): Expr {
    const piece = pieces[cursor.at]!;
    if (piece.kind !== 'sign') return this.#postfix(pieces, cursor);
    cursor.at++;
    const inner = this.#binary(pieces, cursor, powerPrecedence);
    const span = { start: piece.start, end: inner.span.end };
    if (inner.kind === 'number') {
      return { ...inner, value: piece.operator === '-' ? -inner.value : inner.value, span };
    }
    return { kind: 'unary', operator: piece.operator, expr: inner, span };
  }

  #postfix(pieces: readonly Piece[], cursor: { at: number }): Expr {
    const piece = pieces[cursor.at]!;
    cursor.at++;
    let expr: Expr;
    if (piece.kind === 'number') {
      expr = {
        kind: 'number',
        value: this.#number(piece.text, piece.start),
        hasUnits: durationMillisOf(piece.text) !== null,
        span: { start: piece.start, end: piece.end },
      };
    } else if (piece.kind === 'operand') {
      expr = this.#operand(piece.node);
    } else {
      throw explainSyntaxError(this.#query, this.#query.length);
    }
    for (;;) {
      const next = pieces[cursor.at];
      if (next === undefined || next.kind !== 'postfix') return expr;
      cursor.at++;
      expr = this.#applyPostfix(expr, next.node, next.operandEnd);
    }
  }

  #number(text: string, offset: number): number {
    const value = numberOf(text);
    if (value === Infinity && text.toLowerCase() !== 'inf') {
      this.#fail(offset, `error parsing number: value out of range: ${JSON.stringify(text)}`);
    }
    if (Number.isNaN(value) && text.toLowerCase() !== 'nan') {
      this.#fail(offset, `bad number or duration syntax: ${JSON.stringify(text)}`);
    }
    return value;
  }

  #matching(token: OperatorToken): VectorMatching | null {
    const isSet = ['and', 'or', 'unless'].includes(token.operator);
    const fill = this.#fillValues(token.fill);
    if (token.clause === null) {
      return {
        cardinality: isSet ? 'many-to-many' : 'one-to-one',
        on: false,
        labels: [],
        include: [],
        ...fill,
      };
    }
    let on = false;
    let cardinality: VectorMatching['cardinality'] = isSet ? 'many-to-many' : 'one-to-one';
    let labels: string[] | null = null;
    let include: string[] = [];
    for (const child of childrenOf(token.clause)) {
      if (child.name === 'On') on = true;
      else if (child.name === 'GroupLeft') cardinality = 'many-to-one';
      else if (child.name === 'GroupRight') cardinality = 'one-to-many';
      else if (child.name === 'GroupingLabels') {
        if (labels === null) labels = this.#groupingLabels(child);
        else include = this.#groupingLabels(child);
      }
    }
    const included = new Set(include);
    for (const label of on ? (labels ?? []) : []) {
      if (included.has(label)) {
        this.#fail(token.start, `label "${label}" must not occur in ON and GROUP clause at once`);
      }
    }
    return { cardinality, on, labels: labels ?? [], include, ...fill };
  }

  /** Numbers that stand for the missing partner of a row on the other side. */
  #fillValues(node: SyntaxNode | null): Pick<VectorMatching, 'fillLeft' | 'fillRight'> {
    let fillLeft: number | null = null;
    let fillRight: number | null = null;
    for (const clause of node === null ? [] : childrenOf(node)) {
      const children = childrenOf(clause);
      const number = children.at(-1)!;
      const size = /^([+-]?)\s*(.*)$/s.exec(this.#text(number))!;
      const sign = this.#text(children[1]!).startsWith('-') || size[1] === '-' ? -1 : 1;
      const value = sign * this.#number(size[2]!, number.from);
      if (clause.name !== 'FillRightClause') fillLeft = value;
      if (clause.name !== 'FillLeftClause') fillRight = value;
    }
    return { fillLeft, fillRight };
  }

  #groupingLabels(node: SyntaxNode): string[] {
    return childrenOf(node).map((child) => {
      if (child.name === 'QuotedLabelName') {
        const name = this.#string(child);
        if (name !== '' && name.isWellFormed()) return name;
        return this.#fail(child.from, `invalid label name for grouping: ${quoted(name)}`);
      }
      const text = this.#text(child);
      if (noLabels.has(text.toLowerCase())) throw explainSyntaxError(this.#query, child.from);
      return text;
    });
  }

  #string(node: SyntaxNode): string {
    return unquote(this.#text(node), (reason) => this.#fail(node.from, reason));
  }

  #operand(node: SyntaxNode): Expr {
    const span = { start: node.from, end: node.to };
    switch (node.name) {
      case 'ParenExpr':
        return { kind: 'paren', expr: this.expression(childrenOf(node)[0]!), span };
      case 'StringLiteral':
        return { kind: 'string', value: this.#string(node), span };
      case 'VectorSelector':
        return this.#vectorSelector(node);
      case 'FunctionCall':
        return this.#call(node);
      case 'AggregateExpr':
        return this.#aggregate(node);
      default:
        throw explainSyntaxError(this.#query, node.from);
    }
  }

  #vectorSelector(node: SyntaxNode): VectorSelector {
    const matchers: Matcher[] = [];
    let name: string | null = null;
    let matchesEmpty = true;
    for (const child of childrenOf(node)) {
      if (child.name === 'Identifier') {
        name = this.#text(child);
        if (name.toLowerCase() === 'atan2') throw explainSyntaxError(this.#query, child.from);
        continue;
      }
      for (const each of childrenOf(child)) {
        const matcher = this.#matcher(each);
        if (!this.#matchesEmpty(matcher, each.from)) matchesEmpty = false;
        matchers.push(matcher);
      }
    }
    if (name !== null) {
      const another = matchers.find((matcher) => matcher.name === '__name__');
      if (another !== undefined) {
        this.#fail(
          node.from,
          `metric name must not be set twice: ${quoted(name)} or ${quoted(another.value)}`,
        );
      }
      matchers.unshift({ name: '__name__', kind: '=', value: name });
    }
    return {
      kind: 'vectorSelector',
      matchers,
      isNamed: name !== null,
      matchesEmpty: matchesEmpty && name === null,
      offset: 0,
      at: null,
      extension: null,
      span: { start: node.from, end: node.to },
    };
  }

  /** A text alone is a metric name. */
  #matcher(node: SyntaxNode): Matcher {
    if (node.name === 'QuotedLabelName') {
      return { name: '__name__', kind: '=', value: this.#string(node) };
    }
    const [label, operator, value] = childrenOf(node);
    return {
      name: label!.name === 'QuotedLabelName' ? this.#string(label!) : this.#text(label!),
      kind: this.#text(operator!) as Matcher['kind'],
      value: this.#string(value!),
    };
  }

  /** Also that its regexp is a right one. */
  #matchesEmpty({ kind, value }: Matcher, offset: number): boolean {
    switch (kind) {
      case '=':
        return value === '';
      case '!=':
        return value !== '';
      case '=~':
        return this.#regexp(value, offset)?.matchesEmpty ?? false;
      case '!~':
        return !(this.#regexp(value, offset)?.matchesEmpty ?? true);
      default:
        return kind satisfies never;
    }
  }

  #regexp(pattern: string, offset: number): AnchoredRegexp | null {
    try {
      return this.#regexps.find(pattern);
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      return this.#fail(offset, messageOf(error));
    }
  }

  #call(node: SyntaxNode): Expr {
    const [nameNode, body] = childrenOf(node);
    const name = this.#text(nameNode!);
    const row = functions.get(name);
    if (row === undefined) {
      this.#fail(node.from, `unknown function with name ${quote(name)}`);
    }
    if (row.experimental && !this.#features.experimentalFunctions) {
      this.#fail(node.from, `function ${quote(name)} is not enabled`);
    }
    return {
      kind: 'call',
      name,
      args: childrenOf(body!).map((argument) => this.expression(argument)),
      type: row.result,
      span: { start: node.from, end: node.to },
    };
  }

  #aggregate(node: SyntaxNode): Aggregate {
    let operator: AggregateOperator = 'sum';
    let grouping: Grouping = { without: false, labels: [] };
    let args: Expr[] = [];
    for (const child of childrenOf(node)) {
      if (child.name === 'AggregateOp') {
        operator = this.#text(child).toLowerCase() as AggregateOperator;
      } else if (child.name === 'AggregateModifier') {
        const [kind, labels] = childrenOf(child);
        grouping = { without: kind!.name === 'Without', labels: this.#groupingLabels(labels!) };
      } else {
        args = childrenOf(child).map((argument) => this.expression(argument));
      }
    }
    const isExperimental = operator === 'limitk' || operator === 'limit_ratio';
    if (isExperimental && !this.#features.experimentalFunctions) {
      this.#fail(
        node.from,
        `${operator}() is experimental and must be enabled with --enable-feature=promql-experimental-functions`,
      );
    }
    const wanted = parameterOperators.has(operator) ? 2 : 1;
    if (args.length === 0) this.#fail(node.from, 'no arguments for aggregate expression provided');
    if (args.length !== wanted) {
      this.#fail(
        node.from,
        `wrong number of arguments for aggregate expression provided, expected ${wanted}, got ${args.length}`,
      );
    }
    return {
      kind: 'aggregate',
      operator,
      expr: args.at(-1)!,
      parameter: wanted === 2 ? args[0]! : null,
      grouping,
      span: { start: node.from, end: node.to },
    };
  }

  #applyPostfix(expr: Expr, node: SyntaxNode, operandEnd: number): Expr {
    const span = { start: expr.span.start, end: node.to };
    const children = childrenOf(node);
    switch (node.name) {
      case 'MatrixSelector': {
        const bracket = this.#query.indexOf('[', operandEnd);
        if (expr.kind !== 'vectorSelector') {
          this.#fail(bracket, 'ranges only allowed for vector selectors');
        }
        if (expr.offset !== 0) {
          this.#fail(bracket, 'no offset modifiers allowed before range');
        }
        if (expr.at !== null) this.#fail(bracket, 'no @ modifiers allowed before range');
        return {
          kind: 'matrixSelector',
          selector: expr,
          range: this.#positiveDuration(children[1]!),
          span,
        };
      }
      case 'SubqueryExpr':
        return {
          kind: 'subquery',
          expr,
          range: this.#positiveDuration(children[1]!),
          step: children[2] === undefined ? 0 : this.#positiveDuration(children[2]),
          offset: 0,
          at: null,
          span,
        };
      case 'OffsetExpr':
        return this.#withOffset(expr, this.#duration(children.at(-1)!), span);
      case 'StepInvariantExpr':
        return this.#withAt(expr, node, span);
      default:
        return this.#extended(expr, node.name === 'AnchoredExpr' ? 'anchored' : 'smoothed', span);
    }
  }

  #extended(expr: Expr, extension: 'anchored' | 'smoothed', span: Span): Expr {
    const { start } = expr.span;
    if (!this.#features.extendedRangeSelectors) {
      this.#fail(start, `${extension} modifier is experimental and not enabled`);
    }
    if (expr.kind === 'subquery') {
      this.#fail(start, `${extension} modifier is not supported for subqueries`);
    }
    if (expr.kind !== 'vectorSelector' && expr.kind !== 'matrixSelector') {
      // Prometheus' words for what has no rows of its own, such as a sum: nothing is missing here.
      this.#fail(start, `${extension} modifier not implemented`);
    }
    const selector = expr.kind === 'vectorSelector' ? expr : expr.selector;
    if (selector.extension !== null && selector.extension !== extension) {
      this.#fail(start, 'anchored and smoothed modifiers cannot be used together');
    }
    if (expr.kind === 'vectorSelector') return { ...expr, extension, span };
    return { ...expr, selector: { ...selector, extension }, span };
  }

  #withOffset(expr: Expr, offset: Duration, span: Span): Expr {
    const target = expr.kind === 'matrixSelector' ? expr.selector : expr;
    if (target.kind !== 'vectorSelector' && target.kind !== 'subquery') {
      this.#fail(
        expr.span.start,
        'offset modifier must be preceded by an instant vector selector or range vector selector or a subquery',
      );
    }
    if (target.offset !== 0) {
      this.#fail(expr.span.start, 'offset may not be set multiple times');
    }
    if (expr.kind === 'matrixSelector') {
      return { ...expr, selector: { ...expr.selector, offset }, span };
    }
    return { ...target, offset, span };
  }

  #withAt(expr: Expr, node: SyntaxNode, span: Span): Expr {
    const target = expr.kind === 'matrixSelector' ? expr.selector : expr;
    if (target.kind !== 'vectorSelector' && target.kind !== 'subquery') {
      this.#fail(
        expr.span.start,
        '@ modifier must be preceded by an instant vector selector or range vector selector or a subquery',
      );
    }
    if (target.at !== null)
      this.#fail(expr.span.start, '@ <timestamp> may not be set multiple times');
    const value = childrenOf(node).at(-1)!;
    let at: AtModifier;
    if (value.name === 'AtModifierPreprocessors') {
      at = { kind: this.#text(value).toLowerCase().startsWith('start') ? 'start' : 'end' };
    } else {
      const text = this.#text(value);
      const sign = /^([+-])\s*/.exec(text);
      const size = this.#number(text.slice(sign?.[0].length ?? 0), value.from);
      const seconds = sign?.[1] === '-' ? -size : size;
      if (!(Math.abs(seconds) * 1000 < 2 ** 63)) {
        this.#fail(
          expr.span.start,
          `timestamp out of bounds for @ modifier: ${formatAtTimestamp(seconds)}`,
        );
      }
      at = { kind: 'time', millis: Math.round(seconds * 1000) };
    }
    if (expr.kind === 'matrixSelector') {
      return { ...expr, selector: { ...expr.selector, at }, span };
    }
    return { ...target, at, span };
  }

  #positiveDuration(node: SyntaxNode): Duration {
    const duration = this.#duration(node);
    if (typeof duration === 'number' && duration <= 0) {
      this.#fail(node.from, 'duration must be greater than 0');
    }
    return duration;
  }

  #duration(node: SyntaxNode): Duration {
    const expr = this.#durationExpr(node);
    return expr.kind === 'number' ? Math.round(expr.value * 1000) : expr;
  }

  #durationExpr(node: SyntaxNode): DurationExpr {
    const span = { start: node.from, end: node.to };
    const children = childrenOf(node);
    const [first, second, third] = children;
    if (first === undefined) throw explainSyntaxError(this.#query, node.from);
    switch (first.name) {
      case 'NumberDurationLiteralInDurationContext':
        if (second === undefined) return this.#durationNumber(first);
        break;
      case 'DurationStep':
        return { kind: 'step', span };
      case 'DurationRange':
        return { kind: 'range', span };
      case 'DurationMinOf':
      case 'DurationMaxOf':
        return {
          kind: 'extreme',
          name: first.name === 'DurationMinOf' ? 'min_of' : 'max_of',
          left: this.#durationExpr(second!),
          right: this.#durationExpr(third!),
          span,
        };
      case 'UnaryOp': {
        const of = this.#durationExpr(second!);
        if (this.#text(first) !== '-') return of.kind === 'number' ? { ...of, span } : of;
        return of.kind === 'number'
          ? { ...of, value: -of.value, span }
          : { kind: 'negative', of, span };
      }
      default:
    }
    if (second === undefined) {
      return { kind: 'paren', of: this.#durationExpr(first), span };
    }
    const operator = this.#text(second) as DurationOperator;
    const [left, right] = [this.#durationExpr(first), this.#durationExpr(third!)];
    if (right.kind === 'number' && right.value === 0 && (operator === '/' || operator === '%')) {
      this.#fail(second.from, operator === '/' ? 'division by zero' : 'modulo by zero');
    }
    return { kind: 'binary', operator, left, right, span };
  }

  #durationNumber(literal: SyntaxNode): DurationExpr & { kind: 'number' } {
    const text = this.#text(literal);
    const value = this.#number(text, literal.from);
    if (!(Math.abs(value) * 1000 <= durationMillisMax)) {
      this.#fail(literal.from, 'duration out of range');
    }
    const span = { start: literal.from, end: literal.to };
    return { kind: 'number', value, hasUnits: durationMillisOf(text) !== null, span };
  }
}

const parameterOperators: ReadonlySet<string> = new Set([
  'topk',
  'bottomk',
  'quantile',
  'count_values',
  'limitk',
  'limit_ratio',
]);

function quote(text: string): string {
  return JSON.stringify(text);
}

/** As Go's %f prints it. */
function formatAtTimestamp(seconds: number): string {
  if (Number.isNaN(seconds)) return 'NaN';
  if (!Number.isFinite(seconds)) return seconds < 0 ? '-Inf' : '+Inf';
  return `${BigInt(Math.trunc(seconds))}.000000`;
}
