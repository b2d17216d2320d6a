/** Parts as far as they can be read. */
import { type ImportPart, isDamage } from './source.ts';

/** The part, which ends at its damage. @param onDamage is told of it, in a line */
export function upToDamage(part: ImportPart, onDamage: (line: string) => void): ImportPart {
  return {
    ...part,
    async *series(skip) {
      try {
        yield* part.series(skip);
      } catch (error) {
        if (!isDamage(error)) throw error;
        onDamage(damageLine(part, error));
      }
    },
  };
}

export function damageLine({ name }: ImportPart, { message }: Error): string {
  return `${name} is left from its damage on: ${message}`;
}
