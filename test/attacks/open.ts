/** What is known to hurt and not mended yet, as `open.txt` has it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** By the name of the attack what it finds. */
export function openAttacks(): ReadonlyMap<string, string> {
  const text = readFileSync(join(import.meta.dirname, 'open.txt'), 'utf8');
  const lines = text.split('\n').filter((line) => line !== '');
  return new Map(
    lines.map((line) => {
      const end = line.indexOf(': ');
      return [line.slice(0, end), line.slice(end + 2)];
    }),
  );
}
