/** Scripts of M3QL as trees. Nodes are never changed once they are built. */

/** Where a node stands in its script: from `start` to before `end`, as `slice` of a text counts. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Script extends Span {
  readonly kind: 'script';
  /** In the order in which they stand; one name may stand twice. */
  readonly macros: readonly Macro[];
  readonly pipeline: Pipeline;
}

export interface Macro extends Span {
  readonly kind: 'macro';
  readonly name: string;
  readonly pipeline: Pipeline;
}

/** Expressions, at least one, of which each takes what the one before it gives. Its span has the parentheses of a nested one. */
export interface Pipeline extends Span {
  readonly kind: 'pipeline';
  readonly expressions: readonly Expression[];
}

/** A function, a macro or a comparison, which of them evaluation knows. Its span begins with its name. */
export interface Call extends Span {
  readonly kind: 'call';
  readonly name: string;
  readonly arguments: readonly Argument[];
}

export interface Argument extends Span {
  readonly kind: 'argument';
  /** Null of a positional one. */
  readonly keyword: string | null;
  readonly value: Value;
}

/** `text` is as it was written: a tag's value may look like a boolean. */
export interface BooleanValue extends Span {
  readonly kind: 'boolean';
  readonly value: boolean;
  readonly text: string;
}

export interface NumberValue extends Span {
  readonly kind: 'number';
  /** The nearest float, an infinity where the text has some 309 digits. */
  readonly value: number;
  /** As it was written: a tag's value may look like a number, and `1.10` is not `1.1` then. */
  readonly text: string;
}

/** A word as it was written, with what may be globs. */
export interface PatternValue extends Span {
  readonly kind: 'pattern';
  readonly text: string;
}

export interface StringValue extends Span {
  readonly kind: 'string';
  /** What stands between the quotes. */
  readonly text: string;
}

export type WordValue = BooleanValue | NumberValue | PatternValue;
export type Value = WordValue | StringValue | Pipeline;
export type Expression = Call | Pipeline;
