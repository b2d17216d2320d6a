/** A query as M3 shows it to who asks how it is computed: functions in each other's arguments, without what these are about. */
import type { Expr } from '../promql/parse/ast.ts';

export interface DagNode {
  readonly name: string;
  readonly children?: readonly DagNode[];
}

/** A comparison with a number, which stands right of it. */
export interface Threshold {
  readonly comparator: string;
  readonly value: number;
}

/** Queries are nested at most `nestingMax` deep. */
export function dagOf(expr: Expr): DagNode {
  switch (expr.kind) {
    case 'number':
      return { name: 'scalar' };
    case 'string':
      return { name: 'string' };
    case 'vectorSelector':
    case 'matrixSelector':
      return { name: 'fetch' };
    case 'paren':
      return dagOf(expr.expr);
    case 'unary':
      return node(expr.operator, [expr.expr]);
    case 'subquery':
      return node('subquery', [expr.expr]);
    case 'binary':
      return node(expr.operator, [expr.left, expr.right]);
    case 'aggregate':
      return node(expr.operator, [expr.expr]);
    case 'call':
      return node(expr.name, expr.args.filter(isComputed));
    default:
      return expr satisfies never;
  }
}

function node(name: string, children: readonly Expr[]): DagNode {
  return children.length === 0 ? { name } : { name, children: children.map(dagOf) };
}

/** Numbers and texts are parameters of a function. */
function isComputed(expr: Expr): boolean {
  const plain = withoutBrackets(expr);
  return plain.kind !== 'string' && numberOf(plain) === null;
}

/** What the same comparison is with its sides in each other's place. */
const mirrored: Readonly<Record<string, string>> = {
  '>': '<',
  '>=': '<=',
  '<': '>',
  '<=': '>=',
  '==': '==',
  '!=': '!=',
};

/** The rest of a query, and what it is compared with; without that the whole of it. */
export function thresholdOf(expr: Expr): {
  readonly query: DagNode;
  readonly threshold?: Threshold;
} {
  const plain = withoutBrackets(expr);
  if (plain.kind !== 'binary' || mirrored[plain.operator] === undefined) {
    return { query: dagOf(plain) };
  }
  const [left, right] = [numberOf(plain.left), numberOf(plain.right)];
  if ((left === null) === (right === null)) return { query: dagOf(plain) };
  return left === null
    ? { query: dagOf(plain.left), threshold: { comparator: plain.operator, value: right! } }
    : {
        query: dagOf(plain.right),
        threshold: { comparator: mirrored[plain.operator]!, value: left },
      };
}

function withoutBrackets(expr: Expr): Expr {
  return expr.kind === 'paren' ? withoutBrackets(expr.expr) : expr;
}

/** Of a number with its sign; null for anything else. */
function numberOf(expr: Expr): number | null {
  const plain = withoutBrackets(expr);
  if (plain.kind === 'number') return plain.value;
  if (plain.kind !== 'unary') return null;
  const value = numberOf(plain.expr);
  return value === null ? null : plain.operator === '-' ? -value : value;
}
