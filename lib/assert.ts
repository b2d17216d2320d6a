/** A broken invariant: a defect of ours, never a user's mistake. It stops the process. */
export class BrokenInvariant extends Error {
  override readonly name = 'BrokenInvariant';
}

/**
 * Stops at once when something that must always hold does not.
 *
 * @param statement the invariant in words: 'row range is inside the batch'
 * @throws {BrokenInvariant} never caught by request handlers; `main.ts` logs it and exits
 */
export function assert(condition: boolean, statement: string): asserts condition {
  if (!condition) throw new BrokenInvariant(`invariant broken: ${statement}`);
}
