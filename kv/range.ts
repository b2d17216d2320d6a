/** Ranges in turns with other work of the process: one of all keys may be of hundreds of thousands. */
import { sortPaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import { kvLimits } from './core/limits.ts';
import { isInBounds, orderOf, rangeAnswerOf } from './core/mvcc.ts';
import { KvError, type LiveChange, type RangeAnswer, type RangeRequest } from './core/requests.ts';
import type { Store } from './store.ts';

/** Of a key that is looked at: lib/turns/turns.ts. */
const keyUnits = 40;

/** @throws as `Mvcc.range`; the reason of the work's signal */
export async function rangeInTurns(
  store: Store,
  request: RangeRequest,
  work: Work,
): Promise<RangeAnswer> {
  for (;;) {
    const first = await work.outside(store.perform((core) => firstOf(core, request)));
    if (!('revision' in first)) return first.answer;
    try {
      return await restOf(store, request, first.revision, work);
    } catch (error) {
      // Its revision was the newest one, and is compacted by now: the next attempt is about a later one.
      const isCompacted = error instanceof KvError && error.kind === 'compacted';
      if (!isCompacted || request.revision > 0) throw error;
    }
  }
}

type Core = Parameters<Parameters<Store['perform']>[0]>[0];

function firstOf(
  core: Core,
  request: RangeRequest,
): { readonly answer: RangeAnswer } | { readonly revision: number } {
  if (core.keysIn(request) <= kvLimits.rangeKeysAtOnce) return { answer: core.range(request) };
  // What it refuses it refuses here.
  core.range({ ...request, rangeEnd: '' });
  return { revision: core.revision };
}

async function restOf(
  store: Store,
  request: RangeRequest,
  newestRevision: number,
  work: Work,
): Promise<RangeAnswer> {
  const revision = request.revision > 0 ? request.revision : newestRevision;
  const items: LiveChange[] = [];
  let count = 0;
  let next: string | null = request.key;
  while (next !== null) {
    const part = store.reader.rangePart(request, revision, next, kvLimits.rangeKeysAtOnce);
    count += part.items.length;
    if (!request.countOnly) {
      for (const item of part.items) if (isInBounds(item, request)) items.push(item);
    }
    next = part.next;
    if (work.spend(kvLimits.rangeKeysAtOnce * keyUnits)) await work.pause();
  }
  const order = orderOf(request);
  const sorted = order === null ? items : await sortPaced(items, order, work);
  return rangeAnswerOf(request, newestRevision, count, sorted);
}
