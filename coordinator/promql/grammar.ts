/** The one place that meets the PromQL grammar of the Prometheus project (a lezer parser). */
import { parser } from '@prometheus-io/lezer-promql';
import type { SyntaxNode } from '@lezer/common';

export type { SyntaxNode } from '@lezer/common';

/** Syntax tree of the text; errors are nodes of the tree (`type.isError`), nothing is thrown. */
export function parseTree(query: string): SyntaxNode {
  return parser.parse(query).topNode;
}

/** Children that are neither skipped nor errors. */
export function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (child.name !== 'LineComment' && !child.type.isError) children.push(child);
  }
  return children;
}

/** Offset of the first error in the tree, or -1. */
export function firstErrorOffset(root: SyntaxNode): number {
  const cursor = root.cursor();
  do {
    if (cursor.type.isError) return cursor.from;
  } while (cursor.next());
  return -1;
}
