/** The typed syntax tree of a query, as the parser checks it and the planner takes it. */
import type { Matcher } from '../../select/storage.ts';
import type { ValueType } from '../functions/table.ts';
import type { Duration } from './durations.ts';
import type { Span } from '../words/position.ts';

/** As Prometheus names the types in its messages. */
export const documentedType: Readonly<Record<ValueType, string>> = {
  scalar: 'scalar',
  string: 'string',
  vector: 'instant vector',
  matrix: 'range vector',
};

export type AtModifier =
  | { readonly kind: 'time'; readonly millis: number }
  | { readonly kind: 'start' }
  | { readonly kind: 'end' };

export interface NumberLiteral {
  readonly kind: 'number';
  readonly value: number;
  /** Whether it was written as a duration, in seconds: `1h30m`. */
  readonly hasUnits: boolean;
  readonly span: Span;
}

export interface StringLiteral {
  readonly kind: 'string';
  readonly value: string;
  readonly span: Span;
}

export interface VectorSelector {
  readonly kind: 'vectorSelector';
  /** All of them, as they stand in the text; a metric name in front of the braces is the first one. */
  readonly matchers: readonly Matcher[];
  /** Whether the first matcher is a metric name in front of the braces. */
  readonly isNamed: boolean;
  /** Whether a series without labels would match: only the second argument of `info` may be so. */
  readonly matchesEmpty: boolean;
  /** 0 for none. */
  readonly offset: Duration;
  readonly at: AtModifier | null;
  /** Whether the edges of its range are samples: the last one before, or what lies between two. */
  readonly extension: 'anchored' | 'smoothed' | null;
  readonly span: Span;
}

export interface MatrixSelector {
  readonly kind: 'matrixSelector';
  readonly selector: VectorSelector;
  readonly range: Duration;
  readonly span: Span;
}

export interface Subquery {
  readonly kind: 'subquery';
  readonly expr: Expr;
  readonly range: Duration;
  /** 0 = the engine's default. */
  readonly step: Duration;
  /** 0 for none. */
  readonly offset: Duration;
  readonly at: AtModifier | null;
  readonly span: Span;
}

export interface Call {
  readonly kind: 'call';
  readonly name: string;
  readonly args: readonly Expr[];
  readonly type: ValueType;
  readonly span: Span;
}

export type AggregateOperator =
  | 'avg'
  | 'bottomk'
  | 'count'
  | 'count_values'
  | 'group'
  | 'limitk'
  | 'limit_ratio'
  | 'max'
  | 'min'
  | 'quantile'
  | 'stddev'
  | 'stdvar'
  | 'sum'
  | 'topk';

export interface Grouping {
  readonly without: boolean;
  readonly labels: readonly string[];
}

export interface Aggregate {
  readonly kind: 'aggregate';
  readonly operator: AggregateOperator;
  readonly expr: Expr;
  /** Of topk, bottomk, quantile, limitk, limit_ratio (scalar) and count_values (string). */
  readonly parameter: Expr | null;
  readonly grouping: Grouping;
  readonly span: Span;
}

export type ArithmeticOperator = '+' | '-' | '*' | '/' | '%' | '^' | 'atan2';
export type ComparisonOperator = '==' | '!=' | '>' | '<' | '>=' | '<=';
/** Of a histogram and a number: the observations up to it, or from it on. */
export type TrimOperator = '</' | '>/';
export type SetOperator = 'and' | 'or' | 'unless';
export type BinaryOperator = ArithmeticOperator | ComparisonOperator | TrimOperator | SetOperator;

export const setOperators: ReadonlySet<string> = new Set<SetOperator>(['and', 'or', 'unless']);
export const comparisonOperators: ReadonlySet<string> = new Set<ComparisonOperator>([
  '==',
  '!=',
  '>',
  '<',
  '>=',
  '<=',
]);

export const trimOperators: ReadonlySet<string> = new Set<TrimOperator>(['</', '>/']);

/** Whether what it gives is another metric, so that names do not stay. */
export function changesMetric(operator: BinaryOperator): boolean {
  return (
    !comparisonOperators.has(operator) &&
    !trimOperators.has(operator) &&
    !setOperators.has(operator)
  );
}

export interface VectorMatching {
  readonly cardinality: 'one-to-one' | 'many-to-one' | 'one-to-many' | 'many-to-many';
  /** True: match on `labels` alone; false: on all labels but `labels` and the metric name. */
  readonly on: boolean;
  readonly labels: readonly string[];
  /** Labels taken over from the "one" side. */
  readonly include: readonly string[];
  /** What a row without a partner on the left (or right) is matched with; null: it is left out. */
  readonly fillLeft: number | null;
  readonly fillRight: number | null;
}

export interface Binary {
  readonly kind: 'binary';
  readonly operator: BinaryOperator;
  readonly type: 'scalar' | 'vector';
  readonly left: Expr;
  readonly right: Expr;
  readonly returnBool: boolean;
  /** Of two vectors; null otherwise. */
  readonly matching: VectorMatching | null;
  readonly span: Span;
}

export interface Unary {
  readonly kind: 'unary';
  readonly operator: '+' | '-';
  readonly expr: Expr;
  readonly span: Span;
}

export interface Paren {
  readonly kind: 'paren';
  readonly expr: Expr;
  readonly span: Span;
}

export type Expr =
  | NumberLiteral
  | StringLiteral
  | VectorSelector
  | MatrixSelector
  | Subquery
  | Call
  | Aggregate
  | Binary
  | Unary
  | Paren;

export function typeOf(expr: Expr): ValueType {
  switch (expr.kind) {
    case 'number':
      return 'scalar';
    case 'string':
      return 'string';
    case 'vectorSelector':
    case 'aggregate':
      return 'vector';
    case 'matrixSelector':
    case 'subquery':
      return 'matrix';
    case 'call':
    case 'binary':
      return expr.type;
    case 'unary':
    case 'paren':
      return typeOf(expr.expr);
  }
}

export function unwrapParens(expr: Expr): Expr {
  let inner = expr;
  while (inner.kind === 'paren') inner = inner.expr;
  return inner;
}
