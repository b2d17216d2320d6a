/**
 * What campaigns count of themselves, so that a run shows that everything it is for really
 * happened.
 */

const inputsPrefix = 'inputs of ';
let counts = new Map<string, number>();

/** @param what is counted, in words that are printed */
export function count(what: string, by = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + by);
}

/** Inputs that a reader was given. */
export function countInputs(reader: string, by = 1): void {
  count(inputsPrefix + reader, by);
}

/** Of all readers, since the counts were taken. */
export function inputsSoFar(): number {
  let sum = 0;
  for (const [what, number] of counts) if (what.startsWith(inputsPrefix)) sum += number;
  return sum;
}

/** By what is counted, in its order; they begin anew. */
export function takeCounts(): readonly (readonly [what: string, number: number])[] {
  const taken = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  counts = new Map();
  return taken;
}
