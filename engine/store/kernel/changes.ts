// How threads that only read see a store at rest. Whoever changes what a reader looks at (records
// of series, nodes, heads, sealed chunks, late rows) does so between `beginChange` and `endChange`;
// one thread does. A reader copies a series and keeps the copy when the count of changes was even
// and stayed the same. So a reader costs the writer two stores a call and no wait, and nothing must
// be kept for it: what it has copied from memory that was freed meanwhile it throws away.
import { stateAt } from './pages';

/** Alone in its line of memory. Odd while something is being changed. */
export const changesAt: usize = stateAt + 512;

@inline
export function beginChange(): void {
  atomic.add<u32>(changesAt, 1);
}

@inline
export function endChange(): void {
  atomic.add<u32>(changesAt, 1);
}

/** The count of changes; odd when this is no time to copy. */
@inline
export function changes(): u32 {
  return atomic.load<u32>(changesAt);
}

/**
 * Whether nothing has changed since. It writes the count that it finds, so that this and the begin
 * of a change have an order: what was loaded before this is loaded before any change that comes
 * after it, on processors too that would let loads wait.
 */
@inline
export function isUnchanged(count: u32): bool {
  return atomic.cmpxchg<u32>(changesAt, count, count) == count;
}
