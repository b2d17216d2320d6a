/**
 * A key-value store that is looked at before each change: who does not know yet that it has gone back
 * (lineage.ts) would change an older state of it, as by making a namespace anew that is there.
 */
import type { Kv } from './kv.ts';

/** @param look finds a break, and gives the store a lineage of its own then; rejects without the store */
export function lookingFirst(kv: Kv, look: (signal: AbortSignal) => Promise<unknown>): Kv {
  return {
    get: (key, signal) => kv.get(key, signal),
    list: (prefix, signal) => kv.list(prefix, signal),
    watch: (prefix, fromRevision, signal) => kv.watch(prefix, fromRevision, signal),
    lease: (ttlSeconds, signal) => kv.lease(ttlSeconds, signal),
    async transact(compares, operations, signal) {
      await look(signal);
      return kv.transact(compares, operations, signal);
    },
    [Symbol.asyncDispose]: () => kv[Symbol.asyncDispose](),
  };
}
