/** Plan → values. Scalars are one row, vectors are rows that are made when they are asked for. */
import { isAbsent, makeRowBuffer, type RowBuffer } from '#engine/window_functions/row.ts';
import { aggregate } from './aggregations.ts';
import { changesMetric, comparisonOperators, setOperators, trimOperators } from '../parse/ast.ts';
import type { ArithmeticOperator, ComparisonOperator } from '../parse/ast.ts';
import { evaluateSetOperator, evaluateVectorOperator } from './binary.ts';
import type { Context } from '../rows/context.ts';
import { executionError } from '../words/errors.ts';
import { evaluateCall } from './calls.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import { stitched } from '../rows/stitched.ts';
import { united } from '../rows/united.ts';
import { evaluateInfo } from './info.ts';
import { RowOperator } from './row_operator.ts';
import { withoutNames } from '../rows/names.ts';
import { textOf } from '../plan/plan.ts';
import { arithmetic, compare, greaterOf, lesserOf } from '../plan/operators.ts';
import type { BinaryPlan, Plan, SelectPlan } from '../plan/plan.ts';
import { negate, timesInSeconds } from '../rows/row_values.ts';
import {
  loadPrepared,
  MappedRows,
  materialize,
  Matrix,
  notReady,
  RepeatedRows,
} from '../rows/rows.ts';
import type { Rows } from '../rows/rows.ts';
import { startRows } from '../windows/decoded_rows.ts';
import { selectorRows, windowRequest } from '../windows/selector_rows.ts';
import { evaluateWindow } from '../windows/window_rows.ts';

/**
 * Rows of which one takes more steps are made at once, a row at a time: a chain of operators over a long subquery
 * would take them all in one go.
 */
const loadStepsMax = 6_000_000;

/** What a step with a histogram takes, in steps with a float. */
const histogramSteps = 500;

/** Evaluates plan nodes. */
export class Executor implements Evaluator {
  readonly context: Context;
  readonly #mayHaveHistograms: boolean;
  #scratchRow: RowBuffer | null = null;
  #lastConstant = { value: 0, values: new Float64Array(0) };

  constructor(context: Context) {
    this.context = context;
    this.#mayHaveHistograms = context.fetched.some(({ isTyped }) => isTyped !== null);
  }

  /** One value for each step. */
  async scalar(plan: Plan): Promise<Float64Array> {
    const { pacer } = this.context;
    const values = await this.#scalar(plan);
    if (pacer.spend(values.length)) await pacer.pause();
    return values;
  }

  async #scalar(plan: Plan): Promise<Float64Array> {
    const { stepCount } = plan.grid;
    switch (plan.kind) {
      case 'number':
        return this.#constant(plan.value, stepCount);
      case 'repeat':
        return new Float64Array(stepCount).fill((await this.scalar(plan.input))[0]!);
      case 'negate': {
        const values = await this.scalar(plan.input);
        return values.map((value) => -value);
      }
      case 'binary':
        return this.#scalarBinary(plan);
      case 'call':
        if (plan.name === 'time') return timesInSeconds(plan.grid);
        if (plan.name === 'max_of' || plan.name === 'min_of') {
          const [left, right] = [
            await this.scalar(plan.args[0]!),
            await this.scalar(plan.args[1]!),
          ];
          const choose = plan.name === 'max_of' ? greaterOf : lesserOf;
          return left.map((value, step) => choose(value, right[step]!));
        }
        return this.#scalarOfVector(await this.vector(plan.args[0]!), stepCount);
      case 'string':
      case 'select':
      case 'window':
      case 'stitched':
      case 'united':
      case 'info':
      case 'aggregate':
      case 'rangeVector':
        throw executionError(`a scalar is expected here, not a ${plan.kind}`);
    }
  }

  /** A number over a grid; the operators of a long chain share it. */
  #constant(value: number, stepCount: number): Float64Array {
    const { values } = this.#lastConstant;
    if (values.length === stepCount && Object.is(this.#lastConstant.value, value)) return values;
    this.#lastConstant = { value, values: new Float64Array(stepCount).fill(value) };
    return this.#lastConstant.values;
  }

  async #scalarBinary(plan: BinaryPlan): Promise<Float64Array> {
    const left = await this.scalar(plan.left);
    const right = await this.scalar(plan.right);
    const { operator } = plan;
    if (trimOperators.has(operator)) {
      throw executionError(
        `operator ${JSON.stringify(operator)} not allowed for Scalar operations`,
      );
    }
    if (comparisonOperators.has(operator)) {
      return left.map((value, step) =>
        compare(operator as ComparisonOperator, value, right[step]!) ? 1 : 0,
      );
    }
    return left.map((value, step) =>
      arithmetic(operator as ArithmeticOperator, value, right[step]!),
    );
  }

  /** `scalar(v)`: the value where exactly one series has one, else NaN. */
  async #scalarOfVector(rows: Rows, stepCount: number): Promise<Float64Array> {
    const counts = new Uint32Array(stepCount);
    const result = new Float64Array(stepCount).fill(NaN);
    for (let index = 0; index < rows.count; index++) {
      let at = rows.load(index);
      if (at === notReady) at = await loadPrepared(rows, index);
      for (let step = 0; step < stepCount; step++) {
        if (isAbsent(rows.buffer.words, at + step)) continue;
        if (rows.buffer.histograms?.[at + step] !== undefined) continue;
        counts[step] = counts[step]! + 1;
        result[step] = counts[step] === 1 ? rows.buffer.values[at + step]! : NaN;
      }
      if (this.context.pacer.spend(stepCount)) await this.context.pacer.pause();
    }
    return result;
  }

  /** For what a function needs beside its row while it changes that; whoever comes next may use it. */
  #scratch(stepCount: number): RowBuffer {
    if (this.#scratchRow === null || this.#scratchRow.values.length !== stepCount) {
      this.#scratchRow = makeRowBuffer(stepCount);
    }
    return this.#scratchRow;
  }

  async vector(plan: Plan): Promise<Rows> {
    const rows = await this.#vector(plan);
    const { pacer } = this.context;
    // Its buffer takes about as long as one of its rows.
    if (pacer.spend(rows.stepCount)) await pacer.pause();
    const stepFactor = this.#mayHaveHistograms ? histogramSteps : 1;
    return rows.loadSteps * stepFactor > loadStepsMax ? materialize(rows, pacer) : rows;
  }

  async #vector(plan: Plan): Promise<Rows> {
    switch (plan.kind) {
      case 'select':
        return this.#select(plan);
      case 'window':
        return evaluateWindow(plan, this);
      case 'stitched':
        return stitched(plan, this);
      case 'united':
        return united(plan, this);
      case 'repeat':
        return new RepeatedRows(await this.vector(plan.input), plan.grid.stepCount);
      case 'negate': {
        const rows = await this.vector(plan.input);
        return withoutNames(new MappedRows(rows, rows.labels, negate), plan.input, this.context);
      }
      case 'aggregate': {
        const parameter = plan.parameter;
        const isText = plan.operator === 'count_values';
        return aggregate(
          plan,
          await this.vector(plan.input),
          parameter === null || isText ? null : await this.scalar(parameter),
          parameter === null || !isText ? null : textOf(parameter),
          this.context,
        );
      }
      case 'binary':
        return this.#binary(plan);
      case 'call':
        return evaluateCall(plan, this);
      case 'info':
        return evaluateInfo(plan, this);
      case 'number':
      case 'string':
      case 'rangeVector':
        throw executionError(`an instant vector is expected here, not a ${plan.kind}`);
    }
  }

  async #select(plan: SelectPlan): Promise<Rows> {
    if (plan.output === 'start') return this.#starts(plan);
    const rows = selectorRows(
      plan.output === 'time' ? 'instantTime' : 'instant',
      plan.source,
      plan.grid,
      [],
      this.context,
    );
    return plan.output === 'time' ? withoutNames(rows, plan, this.context) : rows;
  }

  async #starts(plan: SelectPlan): Promise<Rows> {
    const { source, grid } = plan;
    if (!this.context.features.startTimestamps) return Matrix.make([], grid.stepCount);
    const request = windowRequest('instant', source, grid, []);
    return withoutNames(startRows(request, source, this.context), plan, this.context);
  }

  async #binary(plan: BinaryPlan): Promise<Rows> {
    const { operator, returnBool } = plan;
    if (!plan.leftIsScalar && !plan.rightIsScalar) {
      const left = await this.vector(plan.left);
      const right = await this.vector(plan.right);
      if (setOperators.has(operator)) {
        return evaluateSetOperator(plan, left, right, this.context);
      }
      return evaluateVectorOperator(plan, left, right, this.context);
    }
    const scalar = await this.scalar(plan.leftIsScalar ? plan.left : plan.right);
    const vectorPlan = plan.leftIsScalar ? plan.right : plan.left;
    const rows = await this.vector(vectorPlan);
    const constant = { values: scalar, words: null, histograms: null, at: 0 };
    const source = this.#scratch(rows.stepCount);
    const operators = new RowOperator(plan, this.context.annotations);
    const result = new MappedRows(rows, rows.labels, (row) => {
      source.bits.set(row.bits);
      const { histograms } = row;
      const vector = { values: source.values, words: source.words, histograms, at: 0 };
      const [a, b] = plan.leftIsScalar ? [constant, vector] : [vector, constant];
      operators.apply(a, b, returnBool ? null : vector, row, rows.stepCount);
    });
    return changesMetric(operator) || returnBool
      ? withoutNames(result, vectorPlan, this.context)
      : result;
  }
}
