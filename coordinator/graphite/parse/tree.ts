/** Targets of Graphite's query language as trees. Nodes are never changed once they are built. */

/** A path, with globs and maybe tags, as it was written; escapes are gone. */
export interface PathNode {
  readonly kind: 'path';
  readonly path: string;
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
export type Node = PathNode | CallNode | LiteralNode;
