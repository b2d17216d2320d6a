/** Parts as far as they can be read. */
import { type ImportPart, type ImportSource, isDamage } from './source.ts';

/** The source, of which a part that is damaged ends at its damage. @param onDamage is told of it, in a line */
export function upToDamage(source: ImportSource, onDamage: (line: string) => void): ImportSource {
  const partOf = (part: ImportPart): ImportPart => ({
    ...part,
    async *series(skip) {
      try {
        yield* part.series(skip);
      } catch (error) {
        if (!isDamage(error)) throw error;
        onDamage(damageLine(part, error));
      }
    },
  });
  return {
    get notes() {
      return source.notes;
    },
    get unfinished() {
      return source.unfinished;
    },
    parts: async () => (await source.parts()).map(partOf),
  };
}

export function damageLine({ name }: ImportPart, { message }: Error): string {
  return `${name} is left from its damage on: ${message}`;
}
