/** What an evaluation is given: its window, its limits, and the one way to data. */
import type { Work } from '#lib/turns/turns.ts';
import type { Window } from '../calls/window.ts';
import type { FunctionRow } from '../calls/row.ts';
import type { TagExpression } from '../parse/tag_expression.ts';
import type { Node, Selection } from '../parse/tree.ts';
import type { TemplateValues } from '../parse/template.ts';
import type { ConsolidationName } from '../series/consolidation_name.ts';
import type { Columns } from '../series/series.ts';
import type { TimeContext } from '../time/attime.ts';

export interface FetchRequest extends Window {
  /** A path with globs; the text of the call when it is `seriesByTag`. */
  readonly pathExpression: string;
  /** Of `seriesByTag`; else null. */
  readonly tagExpressions: readonly TagExpression[] | null;
  /** In the place of both, for a language that has its own conditions. */
  readonly selections?: readonly Selection[];
}

/** A series as storage has it: a row for each step behind `fromSeconds` up to `untilSeconds`. */
export interface FetchedSeries extends Columns {
  readonly name: string;
  readonly tags: ReadonlyMap<string, string>;
  readonly startSeconds: number;
  readonly stepSeconds: number;
  readonly consolidation: ConsolidationName;
}

/**
 * Reads all requests at once.
 * @returns a list for each, in their order; series in the order of their names
 */
export type Fetch = (
  requests: readonly FetchRequest[],
  signal: AbortSignal,
) => Promise<readonly (readonly FetchedSeries[])[]>;

/** Unix seconds of events with all of these tags, of all events when null. */
export type FindEvents = (
  tags: readonly string[] | null,
  window: Window,
  signal: AbortSignal,
) => Promise<readonly number[]>;

export interface EvaluationLimits {
  /** Series that are read for all targets together. */
  readonly seriesMax: number;
  /** Rows that are read for all targets together, and rows of any result on the way. */
  readonly rowsMax: number;
}

/** What another language has made of its text. */
export interface Tree {
  readonly root: Node;
  /** Nodes that stand in several places: each is evaluated once for a window. */
  readonly shared: ReadonlySet<Node>;
}

/** What trees may call, where this is not Graphite's own language. */
export interface Language {
  /** By the names that calls have. */
  readonly functions: ReadonlyMap<string, FunctionRow>;
  /** Series keep the tags of the data (`Series.areTagsFixed`). */
  readonly areTagsFixed: boolean;
}

/** Of rows that results take on the way to the last one. */
export interface RowMemory {
  /** Waits for memory that others have. @throws {TsdbError} when there is not so much */
  take(rows: number): Promise<void>;
  give(rows: number): void;
}

export interface EvaluationContext extends Window {
  readonly time: TimeContext;
  readonly limits: EvaluationLimits;
  /** Its signal ends the evaluation. */
  readonly work: Work;
  /** At least 0 and below 1, for `randomWalk`. */
  readonly random: () => number;
  readonly fetch: Fetch;
  /** Without one there is no bound but the limits. */
  readonly memory?: RowMemory;
  /** Null where there are none. */
  readonly findEvents: FindEvents | null;
  /** Of all targets, unless they say something else; null for 0. */
  readonly xFilesFactor?: number | null;
  /** Of the request's `template[name]`. */
  readonly variables: TemplateValues;
}
