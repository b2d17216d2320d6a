/** What the operators do with two numbers, and with rows of them. */
import { isAbsent, setAbsent } from '#engine/window_functions/row.ts';
import type { RowBuffer } from '#engine/window_functions/row.ts';
import type { ArithmeticOperator, ComparisonOperator } from '../parse/ast.ts';

/** As Go's math.Pow: unlike in JavaScript, 1 to any power is 1, and so is -1 to an infinite one. */
function power(base: number, exponent: number): number {
  if (base === 1) return 1;
  if (base === -1 && (exponent === Infinity || exponent === -Infinity)) return 1;
  return base ** exponent;
}

export function arithmetic(operator: ArithmeticOperator, left: number, right: number): number {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      return left / right;
    case '%':
      return left % right;
    case '^':
      return power(left, right);
    case 'atan2':
      return Math.atan2(left, right);
  }
}

export function compare(operator: ComparisonOperator, left: number, right: number): boolean {
  switch (operator) {
    case '==':
      return left === right;
    case '!=':
      return left !== right;
    case '<':
      return left < right;
    case '<=':
      return left <= right;
    case '>':
      return left > right;
    case '>=':
      return left >= right;
  }
}

/** A row with its place in a buffer; a scalar's row has no words, for it is never absent. */
export interface Operand {
  readonly values: Float64Array;
  readonly words: Uint32Array | null;
  readonly at: number;
}

/**
 * target[i] = left[i] operator right[i], absent where either is. The target may not overlap the
 * operands.
 */
export function arithmeticRows(
  operator: ArithmeticOperator,
  left: Operand,
  right: Operand,
  target: RowBuffer,
  stepCount: number,
): void {
  const a = left.values;
  const b = right.values;
  const out = target.values;
  const leftAt = left.at;
  const rightAt = right.at;
  switch (operator) {
    case '+':
      for (let i = 0; i < stepCount; i++) out[i] = a[leftAt + i]! + b[rightAt + i]!;
      break;
    case '-':
      for (let i = 0; i < stepCount; i++) out[i] = a[leftAt + i]! - b[rightAt + i]!;
      break;
    case '*':
      for (let i = 0; i < stepCount; i++) out[i] = a[leftAt + i]! * b[rightAt + i]!;
      break;
    case '/':
      for (let i = 0; i < stepCount; i++) out[i] = a[leftAt + i]! / b[rightAt + i]!;
      break;
    case '%':
    case '^':
    case 'atan2':
      for (let i = 0; i < stepCount; i++) {
        out[i] = arithmetic(operator, a[leftAt + i]!, b[rightAt + i]!);
      }
      break;
  }
  // An absent operand is a NaN, so with all operators but the power only a NaN can stand for an
  // absent result.
  for (let i = 0; i < stepCount; i++) {
    const value = out[i]!;
    if (value === value && operator !== '^') continue;
    if (isOperandAbsent(left, i) || isOperandAbsent(right, i)) setAbsent(target.words, i);
  }
}

function isOperandAbsent(operand: Operand, step: number): boolean {
  return operand.words !== null && isAbsent(operand.words, operand.at + step);
}

/**
 * Comparison as a filter (the kept operand's value where it holds) or as 0 and 1.
 * @param kept the operand whose values pass the filter; null = 0 and 1
 */
export function compareRows(
  operator: ComparisonOperator,
  left: Operand,
  right: Operand,
  kept: Operand | null,
  target: RowBuffer,
  stepCount: number,
): void {
  const { values, words } = target;
  for (let i = 0; i < stepCount; i++) {
    const a = left.values[left.at + i]!;
    const b = right.values[right.at + i]!;
    const hasNan = a !== a || b !== b;
    if (hasNan && (isOperandAbsent(left, i) || isOperandAbsent(right, i))) {
      setAbsent(words, i);
      continue;
    }
    const holds = compare(operator, a, b);
    if (kept === null) values[i] = holds ? 1 : 0;
    else if (holds) values[i] = kept.values[kept.at + i]!;
    else setAbsent(words, i);
  }
}

/** Of two, one of which may be NaN: an infinity is beyond that, as in Go. */
export function lesserOf(a: number, b: number): number {
  return a === -Infinity || b === -Infinity ? -Infinity : Math.min(a, b);
}

export function greaterOf(a: number, b: number): number {
  return a === Infinity || b === Infinity ? Infinity : Math.max(a, b);
}
