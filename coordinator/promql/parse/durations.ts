/** Durations of ranges, steps and offsets: numbers, or what is computed when a query is run. */
import { PromqlError } from '../words/errors.ts';
import type { Span } from '../words/position.ts';

/** Milliseconds, or an expression. */
export type Duration = number | DurationExpr;

export type DurationOperator = '+' | '-' | '*' | '/' | '%' | '^';

export type DurationExpr =
  /** In seconds, written with units or as a number. */
  | {
      readonly kind: 'number';
      readonly value: number;
      readonly hasUnits: boolean;
      readonly span: Span;
    }
  /** Of the query: its step, or the time from its start to its end; both 0 of an instant query. */
  | { readonly kind: 'step' | 'range'; readonly span: Span }
  | { readonly kind: 'paren'; readonly of: DurationExpr; readonly span: Span }
  | { readonly kind: 'negative'; readonly of: DurationExpr; readonly span: Span }
  | {
      readonly kind: 'extreme';
      readonly name: 'min_of' | 'max_of';
      readonly left: DurationExpr;
      readonly right: DurationExpr;
      readonly span: Span;
    }
  | {
      readonly kind: 'binary';
      readonly operator: DurationOperator;
      readonly left: DurationExpr;
      readonly right: DurationExpr;
      readonly span: Span;
    };

/** The query that an expression is evaluated for. */
export interface DurationContext {
  readonly stepMillis: number;
  readonly rangeMillis: number;
}

/** Longest one either way, in seconds: signed 64-bit nanoseconds. */
const secondsMax = 2 ** 63 / 1e9;

/**
 * Whole milliseconds, rounded towards zero.
 * @throws {PromqlError} bad_data
 */
export function millisOfDuration(
  duration: Duration,
  context: DurationContext,
  mayBeNegative: boolean,
): number {
  if (typeof duration === 'number') return duration;
  const seconds = evaluate(duration, context);
  if (!Number.isFinite(seconds)) throw failed(duration, 'duration is NaN or infinite');
  if (seconds <= 0 && !mayBeNegative) throw failed(duration, 'duration must be greater than 0');
  if (Math.abs(seconds) > secondsMax) throw failed(duration, 'duration is out of range');
  return Math.trunc(seconds * 1000);
}

/** With the place in bytes, as Prometheus says it. */
function failed({ span }: DurationExpr, reason: string): PromqlError {
  return new PromqlError('bad_data', `${span.start}:${span.end}: ${reason}`);
}

function evaluate(expr: DurationExpr, context: DurationContext): number {
  switch (expr.kind) {
    case 'number':
      return expr.value;
    case 'step':
      return context.stepMillis / 1000;
    case 'range':
      return context.rangeMillis / 1000;
    case 'paren':
      return evaluate(expr.of, context);
    case 'negative':
      return -evaluate(expr.of, context);
    case 'extreme': {
      const [left, right] = [evaluate(expr.left, context), evaluate(expr.right, context)];
      return expr.name === 'min_of' ? Math.min(left, right) : Math.max(left, right);
    }
    case 'binary':
      return combined(expr, evaluate(expr.left, context), evaluate(expr.right, context));
  }
}

function combined(
  expr: Extract<DurationExpr, { kind: 'binary' }>,
  left: number,
  right: number,
): number {
  switch (expr.operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      if (right === 0) throw failed(expr, 'division by zero');
      return left / right;
    case '%':
      if (right === 0) throw failed(expr, 'modulo by zero');
      return left % right;
    case '^':
      return left === 1 ? 1 : left ** right;
  }
}
