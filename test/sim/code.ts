/**
 * What a campaign runs, as a short hash: of its module, of all that this imports, and of the
 * kernels, protocols and lists that these load. Runs of commits that have it in common are runs of
 * one tree, whatever else these commits changed.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { specifiersOf, targetOf } from '../import_graph.ts';

/** Versions of packages, and of Node. */
const alwaysThere = 'package-lock.json';

/** @param file from the root of the checkout */
export function codeOf(root: string, file: string): string {
  const found = new Set([file, alwaysThere]);
  const hashes: string[] = [];
  // A set has what is put into it on the way, too.
  for (const path of found) {
    const bytes = readFileSync(join(root, path));
    hashes.push(`${path} ${createHash('sha256').update(bytes).digest('hex')}`);
    if (!path.endsWith('.ts')) continue;
    const text = bytes.toString();
    for (const specifier of [...specifiersOf(text), ...loadedBy(text)]) {
      const target = targetOf(path, specifier);
      if (target !== null && existsSync(join(root, target))) found.add(target);
    }
  }
  return createHash('sha256').update(hashes.sort().join('\n')).digest('hex').slice(0, 12);
}

/** Files that a text names by where it lies itself: workers, kernels, protocols, lists. */
function loadedBy(text: string): string[] {
  const named = /(?:\bnew URL\(|\bimport\.meta\.dirname,)\s*'([^']+\.[a-z]+)'/g;
  return [...text.matchAll(named)].map((match) => `./${match[1]!}`);
}
