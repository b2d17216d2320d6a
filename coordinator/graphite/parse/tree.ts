/** Targets of Graphite's query language as trees. Nodes are never changed once they are built. */
import type { Matcher } from '../../select/storage.ts';

/** A path, with globs and maybe tags, as it was written; escapes are gone. */
export interface PathNode {
  readonly kind: 'path';
  readonly path: string;
}

/** Series of storage, all of whose conditions hold. */
export interface Selection {
  readonly matchers: readonly Matcher[];
  /** Whether one that the matchers took is among them: by its name, whether that is a path of Carbon, and its tags. */
  readonly takes: (series: {
    readonly name: string;
    readonly isPath: boolean;
    readonly tags: ReadonlyMap<string, string>;
  }) => boolean;
  /**
   * About what that takes for a name of so many characters, in units of work (lib/turns/turns.ts); without it next to nothing.
   * @throws {TsdbError} BAD_REQUEST when it may hold up others
   */
  readonly takesUnits?: (length: number) => number;
}

/** What another language reads: no target of Graphite's has it. */
export interface SelectNode {
  readonly kind: 'select';
  /** As it was written; the same text reads the same. */
  readonly text: string;
  /** No series is in two of them. */
  readonly selections: readonly Selection[];
}

export interface NumberNode {
  readonly kind: 'number';
  readonly value: number;
  /** Written without a fraction and without an exponent. */
  readonly isInteger: boolean;
}

export interface StringNode {
  readonly kind: 'string';
  readonly value: string;
}

export interface BooleanNode {
  readonly kind: 'boolean';
  readonly value: boolean;
}

export interface NoneNode {
  readonly kind: 'none';
}

export interface CallNode {
  readonly kind: 'call';
  readonly name: string;
  /** As it was written, without what is piped into it. */
  readonly text: string;
  readonly positional: readonly Node[];
  readonly named: readonly NamedArgument[];
}

export interface NamedArgument {
  readonly name: string;
  readonly value: Node;
}

export type LiteralNode = NumberNode | StringNode | BooleanNode | NoneNode;
export type Node = PathNode | SelectNode | CallNode | LiteralNode;
