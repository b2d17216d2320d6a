/**
 * Syntax tree → plan, without any data: every node gets the grid of times it is evaluated on, `@`
 * and `offset` become plain reference times, constants are folded, and all selectors are collected
 * with the time ranges they need, so that one round of reads serves the whole query; but for `info`,
 * whose own reads depend on values.
 */
import type { WindowExtension } from '#engine/histograms/windows/extended_windows.ts';
import type { WindowFunction } from '#engine/window_functions/windows.ts';
import {
  type Matcher,
  type Resolution,
  type Restriction,
  type SeriesPart,
  type Timeline,
  windowsOf,
} from '../../select/storage.ts';
import { trimOperators, typeOf, unwrapParens } from '../parse/ast.ts';
import type {
  Binary,
  BinaryOperator,
  Call,
  Expr,
  MatrixSelector,
  Subquery,
  VectorSelector,
} from '../parse/ast.ts';
import { type Duration, millisOfDuration } from '../parse/durations.ts';
import { executionError } from '../words/errors.ts';
import type { Span } from '../words/position.ts';
import { functions } from '../functions/table.ts';
import { Fetches, referenceOf, selectRangeOf } from './fetches.ts';
import { type Look, Looks } from './looks.ts';
import { arithmetic, compare } from './operators.ts';
import { isOfEdges, planOverWindows, type WindowsRead } from './over_windows.ts';
import type {
  Fetch,
  Grid,
  InfoPlan,
  Plan,
  PlanNotes,
  QueryPlan,
  Reference,
  SelectOutput,
  SelectPlan,
  Source,
  SubquerySource,
  ValuesRead,
  WindowPlan,
} from './plan.ts';
import { StepInvariance, worthRepeating } from './step_invariance.ts';
import { lookbackOverWindows, rangeOverWindows, stretchesOf } from './stretches.ts';

export interface PlanOptions {
  /** Of what there is to read; null when that is samples alone. */
  readonly timeline: Timeline | null;
  readonly query: string;
  readonly grid: Grid;
  /** Of the query, which need not be one of the steps. */
  readonly endMillis: number;
  readonly lookbackMillis: number;
  readonly isRangeQuery: boolean;
  /** Longest grid of a subquery; `subqueryStepsMax` if that is less. */
  readonly stepsMax: number;
}

/** Longest grid of a subquery, whatever the sample limit: its steps are evaluated in parts, but all of their values are held. */
export const subqueryStepsMax = 10_000_000;

/** Step of subqueries that name none. */
export const subqueryStepMillisDefault = 60_000;

export function planQuery(expr: Expr, options: PlanOptions): QueryPlan {
  const planner = new Planner(options);
  const root = planner.plan(expr, options.grid);
  const { fetches, notes, values } = planner;
  return { root, fetches, notes, values };
}

/** Functions that know what to make of rows around their windows, in the order of the alphabet. */
const functionsOfExtension: Readonly<Record<WindowExtension['kind'], readonly string[]>> = {
  anchored: ['changes', 'delta', 'increase', 'rate', 'resets'],
  smoothed: ['delta', 'increase', 'rate'],
};

/** @throws {PromqlError} when a function does not take the selector */
function checkExtension(functionName: string, { selector }: MatrixSelector): void {
  if (selector.extension === null) return;
  const allowed = functionsOfExtension[selector.extension];
  if (allowed.includes(functionName)) return;
  throw executionError(
    `${selector.extension} modifier can only be used with: ${allowed.join(', ')} - not with ${functionName}`,
  );
}

type AskedOfHistograms = 'stats' | 'buckets';

/** What functions ask of all histograms in their arguments; who asks for buckets decides. */
const askedOfHistograms: ReadonlyMap<string, AskedOfHistograms> = new Map([
  ['histogram_avg', 'stats'],
  ['histogram_count', 'stats'],
  ['histogram_sum', 'stats'],
  ['histogram_fraction', 'buckets'],
  ['histogram_quantile', 'buckets'],
  ['histogram_quantiles', 'buckets'],
  ['histogram_stddev', 'buckets'],
  ['histogram_stdvar', 'buckets'],
]);

const ineffectiveSort =
  'sort is ineffective for range queries since results are always ordered by labels';

const allOfSamples: SeriesPart = { of: null, restriction: null };

const newNotes = (): Record<keyof PlanNotes, Map<string, Span>> => ({
  warnings: new Map(),
  infos: new Map(),
});

class Planner {
  readonly #options: PlanOptions;
  /** Of the part that is being planned. */
  notes = newNotes();
  readonly values: ValuesRead[] = [];
  readonly #looks = new Looks((of) => this.#lookOf(of));
  readonly #invariance = new StepInvariance(this.#looks);
  readonly #fetches = new Fetches();
  /** Of the histograms of what is being planned. */
  #asked: AskedOfHistograms | null = null;
  /** What is being planned is of the time from a start to another end, be it at one step. */
  #isOfSpan: boolean;

  constructor(options: PlanOptions) {
    this.#options = options;
    this.#isOfSpan = options.grid.startMillis !== options.endMillis;
  }

  get fetches(): readonly Fetch[] {
    return this.#fetches.all;
  }

  plan(expr: Expr, grid: Grid): Plan {
    const inner = unwrapParens(expr);
    if (grid.stepCount > 1 && worthRepeating(inner) && this.#invariance.isOf(inner)) {
      const once = { startMillis: grid.startMillis, stepMillis: 0, stepCount: 1 };
      return { kind: 'repeat', grid, span: inner.span, input: this.plan(inner, once) };
    }
    const { span } = inner;
    switch (inner.kind) {
      case 'number':
        return { kind: 'number', grid, span, value: inner.value };
      case 'string':
        return { kind: 'string', grid, span, value: inner.value };
      case 'vectorSelector':
        return this.#select(inner, grid, 'value');
      case 'matrixSelector':
      case 'subquery':
        return { kind: 'rangeVector', grid, span, source: this.#answerSource(inner, grid) };
      case 'unary': {
        const input = this.plan(inner.expr, grid);
        if (inner.operator === '+') return input;
        if (input.kind === 'number') return { ...input, span, value: -input.value };
        return { kind: 'negate', grid, span, input, isScalar: typeOf(inner.expr) === 'scalar' };
      }
      case 'aggregate':
        return {
          kind: 'aggregate',
          grid,
          span,
          operator: inner.operator,
          input: this.plan(inner.expr, grid),
          parameter: inner.parameter === null ? null : this.plan(inner.parameter, grid),
          grouping: inner.grouping,
        };
      case 'binary':
        return this.#within(trimOperators.has(inner.operator) ? 'buckets' : null, () =>
          this.#binary(inner, grid),
        );
      case 'call':
        return this.#within(askedOfHistograms.get(inner.name) ?? null, () =>
          this.#call(inner, grid),
        );
      case 'paren':
        return this.plan(inner.expr, grid);
    }
  }

  /** @param asked of the histograms of all selectors in what is planned; null for what is asked of them around it */
  #within(asked: AskedOfHistograms | null, plan: () => Plan): Plan {
    const before = this.#asked;
    if (before !== 'buckets') this.#asked = asked ?? before;
    const made = plan();
    this.#asked = before;
    return made;
  }

  get #isOfStats(): boolean {
    return this.#asked === 'stats';
  }

  #binary(expr: Binary, grid: Grid): Plan {
    const left = this.plan(expr.left, grid);
    const right = this.plan(expr.right, grid);
    if (left.kind === 'number' && right.kind === 'number') {
      const value = foldConstants(expr.operator, left.value, right.value);
      if (value !== null) return { kind: 'number', grid, span: expr.span, value };
    }
    return {
      kind: 'binary',
      grid,
      span: expr.span,
      operator: expr.operator,
      left,
      right,
      leftIsScalar: typeOf(expr.left) === 'scalar',
      rightIsScalar: typeOf(expr.right) === 'scalar',
      returnBool: expr.returnBool,
      matching: expr.matching,
    };
  }

  #call(expr: Call, grid: Grid): Plan {
    const { span } = expr;
    const windowFunction = functions.get(expr.name)!.window;
    if (windowFunction !== null) {
      const window = this.#window(expr, windowFunction, grid);
      if (expr.name !== 'absent_over_time') return window;
      return { kind: 'call', grid, span, name: expr.name, args: [window], call: expr };
    }
    if (expr.name === 'info') return this.#info(expr, grid);
    const ofQuery = this.#numberOfQuery(expr.name);
    if (ofQuery !== null) return { kind: 'number', grid, span, value: ofQuery };
    const [first] = expr.args;
    const selector = first === undefined ? null : unwrapParens(first);
    if (expr.name === 'timestamp' && selector?.kind === 'vectorSelector') {
      return this.#select(selector, grid, 'time');
    }
    if (expr.name === 'start_timestamp' && selector?.kind === 'vectorSelector') {
      return this.#select(selector, grid, 'start');
    }
    const args = expr.args.map((argument) => this.plan(argument, grid));
    // What is the same at all steps is evaluated at one.
    if (expr.name.startsWith('sort') && this.#isOfSpan && !this.#invariance.isOf(expr)) {
      this.notes.warnings.set(ineffectiveSort, span);
    }
    return {
      kind: 'call',
      grid,
      span,
      name: expr.name,
      args,
      call: expr,
    };
  }

  #window(expr: Call, windowFunction: WindowFunction, grid: Grid): Plan {
    const selectors = expr.args
      .map(unwrapParens)
      .filter((inner) => inner.kind === 'matrixSelector');
    const [inner] = selectors;
    if (inner === undefined) return this.#windowOf(expr, windowFunction, grid, null, null);
    checkExtension(expr.name, inner);
    const rangeMillis = this.#millis(inner.range, false);
    const { lookbackMillis } = this.#options;
    const looksBefore = (of: Resolution | null): boolean =>
      inner.selector.extension !== null || (of !== null && isOfEdges(expr.name));
    return this.#stitched(
      this.#lookOf(inner.selector),
      expr.span,
      grid,
      (of) =>
        rangeOverWindows(rangeMillis, of) +
        (looksBefore(of) ? lookbackOverWindows(lookbackMillis, of) : 0),
      (part, { of, restriction }) => {
        if (of === null) return this.#windowOf(expr, windowFunction, part, null, restriction);
        return planOverWindows(
          { call: expr, windowFunction, rangeMillis, grid: part, of },
          {
            lookbackMillis,
            ...this.notes,
            over: (function_, windows) =>
              this.#windowOf(expr, function_, part, windows, restriction),
          },
        );
      },
      inner.selector.matchers,
    );
  }

  /** @param windows in the place of samples, with the range that is looked at then */
  #windowOf(
    expr: Call,
    windowFunction: WindowFunction,
    grid: Grid,
    windows: WindowsRead | null,
    restriction: Restriction | null,
  ): WindowPlan {
    const { span } = expr;
    let source: Source | SubquerySource | null = null;
    const parameters: Plan[] = [];
    for (const argument of expr.args) {
      const inner = unwrapParens(argument);
      if (inner.kind === 'matrixSelector' || inner.kind === 'subquery') {
        // It is told of at the place of the first argument, whichever that is.
        const place = unwrapParens(expr.args[0]!).span;
        source = { ...this.#rangeSource(inner, grid, windows, restriction), span: place };
      } else parameters.push(this.plan(inner, grid));
    }
    return {
      kind: 'window',
      grid,
      span,
      name: expr.name,
      function: windowFunction,
      source: source!,
      parameters,
    };
  }

  /**
   * A plan of each stretch of steps, and in it of each part of the series, that one resolution is read for.
   * @param rangeOf how far back a step looks
   * @param matchers of the series; null where all are read from one resolution
   */
  #stitched(
    look: Look,
    span: Span,
    grid: Grid,
    rangeOf: (of: Resolution | null) => number,
    planOf: (grid: Grid, part: SeriesPart) => Plan,
    matchers: readonly Matcher[] | null,
  ): Plan {
    const { timeline } = this.#options;
    if (timeline === null) return planOf(grid, allOfSamples);
    const looking = { ...referenceOf(look, grid), stepCount: grid.stepCount };
    const stretches =
      matchers === null
        ? stretchesOf({ ...timeline, places: null }, looking, rangeOf, [])
        : stretchesOf(timeline, looking, rangeOf, matchers);
    const united = (grid: Grid, parts: readonly SeriesPart[]): Plan => {
      if (parts.length === 1) return planOf(grid, parts[0]!);
      const notes = parts.map(newNotes);
      const whole = this.notes;
      const plans = parts.map((part, at) => {
        this.notes = notes[at]!;
        return planOf(grid, part);
      });
      this.notes = whole;
      return { kind: 'united', grid, span, parts: plans, notes };
    };
    if (stretches.length === 1) return united(grid, stretches[0]!.parts);
    const { startMillis, stepMillis } = grid;
    const plans = stretches.map(({ from, count, parts }) =>
      united({ startMillis: startMillis + from * stepMillis, stepMillis, stepCount: count }, parts),
    );
    return { kind: 'stitched', grid, span, parts: plans };
  }

  #info(call: Call, grid: Grid): Plan {
    // They are looked at when the input's series are, and without one such time when it is evaluated.
    const look = this.#looks.commonOf(call.args[0]!) ?? { pinnedMillis: null, offsetMillis: 0 };
    const { lookbackMillis } = this.#options;
    return this.#stitched(
      look,
      call.span,
      grid,
      (of) => lookbackOverWindows(lookbackMillis, of),
      (part, { of }) => this.#infoOf(call, look, part, of),
      null,
    );
  }

  #infoOf({ args, span }: Call, look: Look, grid: Grid, of: Resolution | null): InfoPlan {
    const [input, labelSelector] = args as [Expr, VectorSelector?];
    const isOfName = ({ name }: Matcher): boolean => name === '__name__';
    const matchers = labelSelector?.matchers ?? [];
    const reference = referenceOf(look, grid);
    return {
      kind: 'info',
      grid,
      span,
      input: this.plan(input, grid),
      nameMatchers: infoNameMatchers(matchers.filter(isOfName)),
      labelMatchers: matchers.filter((matcher) => !isOfName(matcher)),
      reference: {
        referenceStartMillis: reference.startMillis,
        referenceStepMillis: reference.stepMillis,
        rangeMillis: lookbackOverWindows(this.#options.lookbackMillis, of),
        span,
      },
      of,
    };
  }

  /** Of functions whose value the query says; null for others. */
  #numberOfQuery(name: string): number | null {
    const { startMillis } = this.#options.grid;
    const { endMillis } = this.#options;
    switch (name) {
      case 'pi':
        return Math.PI;
      case 'start':
        return startMillis / 1000;
      case 'end':
        return endMillis / 1000;
      case 'range':
        return (endMillis - startMillis) / 1000;
      case 'step':
        return endMillis === startMillis ? 0 : this.#options.grid.stepMillis / 1000;
      default:
        return null;
    }
  }

  #select(selector: VectorSelector, grid: Grid, output: SelectOutput): Plan {
    const { lookbackMillis } = this.#options;
    return this.#stitched(
      this.#lookOf(selector),
      selector.span,
      grid,
      (of) => lookbackOverWindows(lookbackMillis, of),
      (part, of) => this.#selectOf(selector, part, output, of),
      selector.matchers,
    );
  }

  #selectOf(
    selector: VectorSelector,
    grid: Grid,
    output: SelectOutput,
    { of, restriction }: SeriesPart,
  ): SelectPlan {
    const lookbackMillis = lookbackOverWindows(this.#options.lookbackMillis, of);
    const windows = of === null ? null : windowsOf(of, 'value');
    const { span } = selector;
    // What is anchored is an edge of a range; times are those of rows.
    const extension: WindowExtension | null =
      selector.extension === 'smoothed' && output === 'value'
        ? { kind: 'smoothed', beforeMillis: 0, afterMillis: lookbackMillis }
        : null;
    const rows = { windows, restriction, isThroughout: false };
    const source = this.#source(selector, grid, lookbackMillis, extension, span, rows);
    if (output === 'value') this.values.push(source);
    return { kind: 'select', grid, span, source, output };
  }

  #extensionOfRange(
    { extension: kind }: VectorSelector,
    lookbackMillis: number,
  ): WindowExtension | null {
    if (kind === null) return null;
    const afterMillis = kind === 'smoothed' ? lookbackMillis : 0;
    return { kind, beforeMillis: lookbackMillis, afterMillis };
  }

  /** Of a range that is the answer. */
  #answerSource(expr: MatrixSelector | Subquery, grid: Grid): Source | SubquerySource {
    if (expr.kind === 'subquery') return this.#rangeSource(expr, grid);
    const { selector, span } = expr;
    const rangeMillis = this.#millis(expr.range, false);
    const extension = this.#extensionOfRange(selector, this.#options.lookbackMillis);
    const rows = { windows: null, restriction: null, isThroughout: true };
    const source = this.#source(selector, grid, rangeMillis, extension, span, rows);
    this.values.push(source);
    return source;
  }

  #rangeSource(
    expr: MatrixSelector | Subquery,
    grid: Grid,
    windows: WindowsRead | null = null,
    restriction: Restriction | null = null,
  ): Source | SubquerySource {
    if (expr.kind === 'matrixSelector') {
      const { selector, span } = expr;
      const lookbackMillis = windows?.lookbackMillis ?? this.#options.lookbackMillis;
      const extension =
        this.#extensionOfRange(selector, lookbackMillis) ?? windows?.extension ?? null;
      const rangeMillis = windows?.rangeMillis ?? this.#millis(expr.range, false);
      const rows = { windows, restriction, isThroughout: false };
      return this.#source(selector, grid, rangeMillis, extension, span, rows);
    }
    const { startMillis, stepMillis } = referenceOf(this.#lookOf(expr), grid);
    const endMillis = startMillis + stepMillis * Math.max(0, grid.stepCount - 1);
    const rangeMillis = this.#millis(expr.range, false);
    // One that comes to less than a millisecond is none.
    const asked = this.#millis(expr.step, false);
    const innerStep = asked === 0 ? subqueryStepMillisDefault : asked;
    const opening = startMillis - rangeMillis;
    // Times of a subquery are multiples of its step, whatever the outer times are.
    let innerStart = innerStep * Math.trunc(opening / innerStep);
    if (innerStart <= opening) innerStart += innerStep;
    const stepCount = Math.max(0, Math.floor((endMillis - innerStart) / innerStep) + 1);
    if (stepCount > Math.min(this.#options.stepsMax, subqueryStepsMax)) {
      throw executionError(
        `query processing would load too many samples into memory in query execution: a subquery has ${stepCount} steps`,
      );
    }
    const innerGrid = { startMillis: innerStart, stepMillis: innerStep, stepCount };
    const isOuterOfSpan = this.#isOfSpan;
    this.#isOfSpan = innerStart !== endMillis;
    const inner = this.#within('buckets', () => this.plan(expr.expr, innerGrid));
    this.#isOfSpan = isOuterOfSpan;
    return {
      kind: 'subquery',
      inner,
      referenceStartMillis: startMillis,
      referenceStepMillis: stepMillis,
      rangeMillis,
      span: expr.span,
    };
  }

  #millis(duration: Duration, mayBeNegative: boolean): number {
    const { stepMillis, stepCount } = this.#options.grid;
    const rangeMillis = this.#options.endMillis - this.#options.grid.startMillis;
    return millisOfDuration(
      duration,
      { stepMillis: stepCount === 1 && !this.#options.isRangeQuery ? 0 : stepMillis, rangeMillis },
      mayBeNegative,
    );
  }

  #lookOf({ at, offset }: VectorSelector | Subquery): Look {
    const offsetMillis = this.#millis(offset, true);
    if (at === null) return { pinnedMillis: null, offsetMillis };
    const { startMillis } = this.#options.grid;
    const { endMillis } = this.#options;
    const pinnedMillis =
      at.kind === 'time' ? at.millis : at.kind === 'start' ? startMillis : endMillis;
    return { pinnedMillis, offsetMillis };
  }

  #source(
    selector: VectorSelector,
    grid: Grid,
    rangeMillis: number,
    extension: WindowExtension | null,
    span: Span,
    rows: Pick<Fetch, 'windows' | 'restriction' | 'isThroughout'>,
  ): Source {
    const { windows: of, restriction, isThroughout } = rows;
    const windows = of === null ? null : windowsOf(of, of.column);
    const { matchers } = selector;
    const { startMillis, stepMillis } = referenceOf(this.#lookOf(selector), grid);
    const reference: Reference = {
      referenceStartMillis: startMillis,
      referenceStepMillis: stepMillis,
      rangeMillis,
      span,
    };
    const range = selectRangeOf(reference, grid.stepCount, extension);
    return {
      kind: 'selector',
      fetch: this.#fetches.add(matchers, range, windows, restriction, isThroughout),
      matchers,
      extension,
      isOfStats: this.#isOfStats,
      ...reference,
    };
  }
}

/** Who says only which info metrics are not meant means all others; who says nothing means `target_info`. */
function infoNameMatchers(matchers: readonly Matcher[]): readonly Matcher[] {
  if (matchers.some(({ kind }) => kind === '=' || kind === '=~')) return matchers;
  if (matchers.length === 0) return [{ name: '__name__', kind: '=', value: 'target_info' }];
  return [{ name: '__name__', kind: '=~', value: '.+_info' }, ...matchers];
}

function foldConstants(operator: BinaryOperator, left: number, right: number): number | null {
  switch (operator) {
    case 'and':
    case 'or':
    case 'unless':
    case '</':
    case '>/':
      return null;
    case '==':
    case '!=':
    case '<':
    case '<=':
    case '>':
    case '>=':
      return compare(operator, left, right) ? 1 : 0;
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
    case '^':
    case 'atan2':
      return arithmetic(operator, left, right);
  }
}
