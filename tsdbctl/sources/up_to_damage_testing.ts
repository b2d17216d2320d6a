/** Sources as far as they can be read, for their tests. */
import type { ImportSource } from './source.ts';
import { upToDamage } from './up_to_damage.ts';

export function sourceUpToDamage(
  source: ImportSource,
  onDamage: (line: string) => void,
): ImportSource {
  return {
    get notes() {
      return source.notes;
    },
    get unfinished() {
      return source.unfinished;
    },
    parts: async () => (await source.parts()).map((part) => upToDamage(part, onDamage)),
  };
}
