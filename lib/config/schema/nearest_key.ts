/** The key that somebody may have meant: the nearest one of those that a mapping has. */
import * as z from 'zod';
import { unwrap } from './keys.ts';

/** So many letters may be wrong, missing or too many, and no more than a third of them. */
const editsMax = 2;

/**
 * @param path of the mapping
 * @returns null when none is near, or when there is no such mapping
 */
export function nearestKey(root: z.ZodType, path: readonly string[], key: string): string | null {
  let best: string | null = null;
  let least = Math.min(editsMax, Math.floor(key.length / 3)) + 1;
  for (const known of keysAt(root, path)) {
    const edits = editsBetween(key.toLowerCase(), known.toLowerCase());
    if (edits >= least) continue;
    least = edits;
    best = known;
  }
  return best;
}

function keysAt(root: z.ZodType, path: readonly string[]): readonly string[] {
  let { schema } = unwrap(root);
  for (const step of path) {
    let next: z.ZodType | undefined;
    if (schema instanceof z.ZodObject) {
      const shape = schema.shape as Readonly<Record<string, z.ZodType>>;
      next = Object.hasOwn(shape, step) ? shape[step] : undefined;
    } else if (schema instanceof z.ZodArray) next = schema.element as z.ZodType;
    else if (schema instanceof z.ZodRecord) next = schema.valueType as z.ZodType;
    if (next === undefined) return [];
    ({ schema } = unwrap(next));
  }
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

/** Letters that are put in, taken away or exchanged to make one text of the other. */
function editsBetween(one: string, other: string): number {
  let above = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const exchanged = above[j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1);
      row.push(Math.min(above[j]! + 1, row[j - 1]! + 1, exchanged));
    }
    above = row;
  }
  return above[other.length]!;
}
