/** Work that is parted into steps by who does it, as a generator, and done by others. */

/** All steps one after the other, for where nobody waits. */
export function inOneGo<T>(steps: Generator<unknown, T>): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/** @param rest called after each step but the last one: others get their turn */
export async function withRests<T>(
  steps: Generator<unknown, T>,
  rest: () => Promise<void>,
): Promise<T> {
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) await rest();
  return step.value;
}
