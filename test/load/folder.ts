import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * A new, empty folder for what a load tool writes; in the system's folder for such unless a parent
 * is given, which is made.
 */
export function freshFolder(tool: string, parent: string = tmpdir()): string {
  mkdirSync(parent, { recursive: true });
  return mkdtempSync(join(parent, `tsdb-${tool}-`));
}
