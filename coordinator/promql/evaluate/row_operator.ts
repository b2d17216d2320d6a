/**
 * A binary operator over two rows: numbers first, all at once, then where a side is a native histogram, as Prometheus 3.15
 * has it (`vectorElemBinop`).
 */
import { counterHint, FloatHistogram, reconciled } from '#engine/histograms/float_histogram.ts';
import { trim } from '#engine/histograms/trim.ts';
import { absentBits, isAbsent, setAbsent } from '#engine/window_functions/row.ts';
import { comparisonOperators, trimOperators } from '../parse/ast.ts';
import type { ArithmeticOperator, ComparisonOperator } from '../parse/ast.ts';
import { arithmeticRows, compareRows, type Operand } from '../plan/operators.ts';
import type { BinaryPlan } from '../plan/plan.ts';
import type { Annotations } from '../rows/annotations.ts';
import { type Cells, setHistogram } from '../rows/cells.ts';
import { noteCollision, noteReconciled } from '../windows/window_notes.ts';

/** A row with its histograms. */
export interface CellsOperand extends Operand {
  readonly histograms: Cells['histograms'];
}

type Side = number | FloatHistogram;

/** What becomes of two values: a histogram, whether a comparison holds, or nothing. */
type Outcome = FloatHistogram | boolean | null;

export class RowOperator {
  readonly #plan: BinaryPlan;
  readonly #annotations: Annotations;

  constructor(plan: BinaryPlan, annotations: Annotations) {
    this.#plan = plan;
    this.#annotations = annotations;
  }

  /**
   * target = left operator right, absent where either is. The target may not overlap the operands.
   * @param kept of a comparison that filters: whose values pass; null = 0 and 1
   */
  apply(
    left: CellsOperand,
    right: CellsOperand,
    kept: Operand | null,
    target: Cells,
    stepCount: number,
  ): void {
    const { operator } = this.#plan;
    const isTrim = trimOperators.has(operator);
    target.histograms = null;
    if (isTrim) target.bits.fill(absentBits, 0, stepCount);
    else if (comparisonOperators.has(operator)) {
      compareRows(operator as ComparisonOperator, left, right, kept, target, stepCount);
    } else arithmeticRows(operator as ArithmeticOperator, left, right, target, stepCount);
    if (!isTrim && left.histograms === null && right.histograms === null) return;
    for (let step = 0; step < stepCount; step++) {
      const [a, b] = [sideOf(left, step), sideOf(right, step)];
      if (a === null || b === null) continue;
      if (typeof a === 'number' && typeof b === 'number' && !isTrim) continue;
      this.#put(this.#outcome(a, b), a, target, step);
    }
  }

  #put(outcome: Outcome, left: Side, target: Cells, step: number): void {
    const { returnBool } = this.#plan;
    if (outcome instanceof FloatHistogram) setHistogram(target, step, outcome);
    else if (outcome === null) setAbsent(target.words, step);
    else if (returnBool) target.values[step] = outcome ? 1 : 0;
    else if (outcome) setHistogram(target, step, left as FloatHistogram);
    else setAbsent(target.words, step);
  }

  #outcome(left: Side, right: Side): Outcome {
    const { operator } = this.#plan;
    if (typeof left === 'number') {
      if (operator === '*' && typeof right !== 'number') return right.copy().scale(left).compact();
      return this.#incompatible(left, right);
    }
    if (typeof right === 'number') {
      switch (operator) {
        case '*':
          return left.copy().scale(right).compact();
        case '/':
          return left.copy().divide(right).compact();
        case '</':
          return trim(left.copy(), right, 'below');
        case '>/':
          return trim(left.copy(), right, 'above');
        default:
          return this.#incompatible(left, right);
      }
    }
    switch (operator) {
      case '+':
      case '-':
        return this.#combined(left, right);
      case '==':
        return left.equals(right);
      case '!=':
        return !left.equals(right);
      default:
        return this.#incompatible(left, right);
    }
  }

  #combined(left: FloatHistogram, right: FloatHistogram): FloatHistogram | null {
    const { operator, span } = this.#plan;
    if (!left.isLike(right)) {
      const text = `incompatible bucket layout encountered for binary operator ${operator}`;
      this.#annotations.warn(text, span);
      return null;
    }
    const result = left.copy();
    const outcome = operator === '+' ? result.add(right) : result.subtract(right);
    const operation = operator === '+' ? 'addition' : 'subtraction';
    if (operator === '-') result.hint = counterHint.gauge;
    if ((outcome & reconciled.bounds) !== 0) noteReconciled(operation, span, this.#annotations);
    if ((outcome & reconciled.hints) === 0) return result.compact();
    // The warning takes the result away.
    noteCollision(operation, span, this.#annotations);
    return null;
  }

  #incompatible(left: Side, right: Side): null {
    const { operator, span } = this.#plan;
    const [a, b] = [left, right].map((side) => (typeof side === 'number' ? 'float' : 'histogram'));
    this.#annotations.info(
      `incompatible sample types encountered for binary operator ${JSON.stringify(operator)}: ${a} ${operator} ${b}`,
      span,
    );
    return null;
  }
}

/** Whether two sides are of kinds that an operator knows nothing of: then they are no match. */
export function areIncompatible(
  operator: BinaryPlan['operator'],
  left: CellsOperand,
  right: CellsOperand,
  step: number,
): boolean {
  const isTrim = trimOperators.has(operator);
  if (!isTrim && left.histograms === null && right.histograms === null) return false;
  const [a, b] = [sideOf(left, step), sideOf(right, step)];
  if (a === null || b === null) return false;
  if (typeof a === 'number') return typeof b === 'number' ? isTrim : operator !== '*';
  if (typeof b === 'number') return !(isTrim || operator === '*' || operator === '/');
  if (operator === '+' || operator === '-') return !a.isLike(b);
  return operator !== '==' && operator !== '!=';
}

function sideOf({ values, words, histograms, at }: CellsOperand, step: number): Side | null {
  if (words !== null && isAbsent(words, at + step)) return null;
  return histograms?.[at + step] ?? values[at + step]!;
}
