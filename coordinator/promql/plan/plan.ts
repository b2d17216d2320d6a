/** What a query comes to: a tree of nodes, each with the grid of times it is evaluated on, and what is read for all of them. */
import type { WindowExtension } from '#engine/histograms/windows/extended_windows.ts';
import type { WindowFunction } from '#engine/window_functions/windows.ts';
import type {
  Matcher,
  Resolution,
  Restriction,
  SelectRange,
  SelectWindows,
} from '../../select/storage.ts';
import type {
  AggregateOperator,
  BinaryOperator,
  Call,
  Grouping,
  VectorMatching,
} from '../parse/ast.ts';
import { executionError } from '../words/errors.ts';
import type { Span } from '../words/position.ts';

/** Times of evaluation: start + i * step. */
export interface Grid {
  readonly startMillis: number;
  /** 0 with a single step. */
  readonly stepMillis: number;
  readonly stepCount: number;
}

/**
 * Which rows of a series are looked at: at step i those in (reference - range, reference], reference = start + i *
 * step.
 */
export interface Reference {
  readonly referenceStartMillis: number;
  readonly referenceStepMillis: number;
  readonly rangeMillis: number;
  readonly span: Span;
}

/** Rows of a selector. */
export interface Source extends Reference {
  readonly kind: 'selector';
  /** Index into the plan's fetches. */
  readonly fetch: number;
  readonly matchers: readonly Matcher[];
  /** Rows around the windows that count, too; null where none do. */
  readonly extension: WindowExtension | null;
  /** Only counts and sums of its histograms are asked for, so that buckets are not looked at. */
  readonly isOfStats: boolean;
}

/** Rows made by evaluating an expression on a grid of its own. */
export interface SubquerySource extends Reference {
  readonly kind: 'subquery';
  readonly inner: Plan;
}

interface NodeBase {
  readonly grid: Grid;
  readonly span: Span;
}

export interface NumberPlan extends NodeBase {
  readonly kind: 'number';
  readonly value: number;
}
export interface StringPlan extends NodeBase {
  readonly kind: 'string';
  readonly value: string;
}
export type SelectOutput = 'value' | 'time' | 'start';

export interface SelectPlan extends NodeBase {
  readonly kind: 'select';
  readonly source: Source;
  /** The newest sample, its time or its start; both in seconds. */
  readonly output: SelectOutput;
}
export interface WindowPlan extends NodeBase {
  readonly kind: 'window';
  /** Name in the query, for messages. */
  readonly name: string;
  readonly function: WindowFunction;
  readonly source: Source | SubquerySource;
  readonly parameters: readonly Plan[];
}
export interface CallPlan extends NodeBase {
  readonly kind: 'call';
  readonly name: string;
  readonly args: readonly Plan[];
  /** The call as it was written, for functions that look at their arguments' form. */
  readonly call: Call;
}
/** An instant vector with labels of the info series that its series belong to. */
export interface InfoPlan extends NodeBase {
  readonly kind: 'info';
  readonly input: Plan;
  /** Of the metric names of info series. */
  readonly nameMatchers: readonly Matcher[];
  /** Of their labels, of which only those that are named here are taken; empty: all are. */
  readonly labelMatchers: readonly Matcher[];
  /** When info series are looked at. */
  readonly reference: Reference;
  /** What is read of these in the place of samples. */
  readonly of: Resolution | null;
}
export interface AggregatePlan extends NodeBase {
  readonly kind: 'aggregate';
  readonly operator: AggregateOperator;
  readonly input: Plan;
  readonly parameter: Plan | null;
  readonly grouping: Grouping;
}
export interface BinaryPlan extends NodeBase {
  readonly kind: 'binary';
  readonly operator: BinaryOperator;
  readonly left: Plan;
  readonly right: Plan;
  readonly leftIsScalar: boolean;
  readonly rightIsScalar: boolean;
  readonly returnBool: boolean;
  readonly matching: VectorMatching | null;
}
export interface NegatePlan extends NodeBase {
  readonly kind: 'negate';
  readonly input: Plan;
  readonly isScalar: boolean;
}
/** A value that is the same at every step, evaluated once. */
export interface RepeatPlan extends NodeBase {
  readonly kind: 'repeat';
  readonly input: Plan;
}
/** A range vector as the result of an instant query. */
export interface RangeVectorPlan extends NodeBase {
  readonly kind: 'rangeVector';
  readonly source: Source | SubquerySource;
}

/** A vector of which stretches of the steps, one after the other, are read from different resolutions. */
export interface StitchedPlan extends NodeBase {
  readonly kind: 'stitched';
  /** Each on its own part of the grid. */
  readonly parts: readonly Plan[];
}

/** A vector of which some series are read from one resolution, and others from another one. */
export interface UnitedPlan extends NodeBase {
  readonly kind: 'united';
  /** Each on the whole grid; no series is read for two of them. */
  readonly parts: readonly Plan[];
  /** What is told of each part that comes to any series. */
  readonly notes: readonly PlanNotes[];
}

export type Plan =
  | StitchedPlan
  | UnitedPlan
  | NumberPlan
  | StringPlan
  | SelectPlan
  | WindowPlan
  | CallPlan
  | InfoPlan
  | AggregatePlan
  | BinaryPlan
  | NegatePlan
  | RepeatPlan
  | RangeVectorPlan;

export interface Fetch {
  readonly matchers: readonly Matcher[];
  readonly range: SelectRange;
  /** In the place of samples. */
  readonly windows: SelectWindows | null;
  /** To some of the series. */
  readonly restriction: Restriction | null;
  /** Its rows are the answer: samples, and windows where these are no more. */
  readonly isThroughout: boolean;
}

/** Found without data: what the query will not do as its writer may think. Texts, each with the place that tells it last. */
export interface PlanNotes {
  readonly warnings: ReadonlyMap<string, Span>;
  readonly infos: ReadonlyMap<string, Span>;
}

/** A fetch of values, and not of rows for a function over them. */
export type ValuesRead = Pick<Source, 'fetch' | 'span'>;

export interface QueryPlan {
  readonly root: Plan;
  readonly fetches: readonly Fetch[];
  readonly notes: PlanNotes;
  /** Those of one selector have one span. */
  readonly values: readonly ValuesRead[];
}

/** A string node's text. */
export function textOf(plan: Plan): string {
  const inner = plan.kind === 'repeat' ? plan.input : plan;
  if (inner.kind !== 'string') throw executionError('a string literal is expected here');
  return inner.value;
}
