import { globSync, mkdirSync, mkdtempSync, statSync } from 'node:fs';
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

/** Of all files below a folder, which may change meanwhile. */
export function bytesOf(folder: string): number {
  let bytes = 0;
  for (const path of globSync(join(folder, '**'))) {
    try {
      const found = statSync(path);
      if (found.isFile()) bytes += found.size;
    } catch {
      // It went meanwhile.
    }
  }
  return bytes;
}
