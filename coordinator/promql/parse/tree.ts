/** Helpers over the grammar's syntax trees. */
import type { SyntaxNode } from '@lezer/common';

export type { SyntaxNode } from '@lezer/common';

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
